package preempt

import (
	"slices"
	"strings"

	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/index"
	"github.com/berth-dev/berth/engine/internal/place"
	"github.com/berth-dev/berth/engine/internal/quantity"
)

// Scans: how many more pods of a class would fit, on which nodes, with some units gone. A scan answers from resources
// alone, node by node. It shows where no eviction helps, gives the greedy pass and the branch and bound their counts, and
// costs a few additions where a trial on the model costs a placement. Whether its answer holds is asked of the model
// afterwards (trial.go).
//
// A scan is for one class of pods. It keeps, for each node that a unit is on, what is free there with the units gone
// that count as gone at the moment, and how many pods of the class that is room for (slots). To count a unit as gone,
// or as there again, changes a few numbers; nothing is allocated or copied.
//
// For example, node n1 has 2 free GPUs and two pods of 3 GPUs, a and b, and the class asks for 4 GPUs:
//
//	none gone      2 GPUs free   slots 0
//	a gone         5             slots 1   free(a, 1) returns 1
//	a and b gone   8             slots 2   free(b, 1) returns 1
//	a back         5             slots 1   free(a, -1) returns -1
//
// The search relies on one property: where counting finds no room with all units gone, there is none. It holds because
// counting leaves out which devices are free, rules between pods, and limits of queues, each of which can only keep pods
// out. The two exceptions are classes under rules, where a victim on another node can open this one, and devices that
// several nodes reach; Class.Elsewhere tells both (scenario pods-apart-evict).
//
// A scan holds for the state of the model that it was begun in: what a trial changes is restored before the scan goes on. It
// costs a look at each node that a unit is on (candidate), and from then on a division for each pod that is counted.

// candidateNode is a node, with what is free there while some of the claim's units count as gone.
//
// It belongs to the node and not to the scan: there is one for each node of the cluster, kept in Candidates and reused, so
// that a scan allocates nothing. A scan that begins takes the next number, and everything in an entry with an older one is
// void.
type candidateNode struct {
	// pass is the number of the scan that the other fields are of.
	pass uint64
	// node is nil where the class may not be.
	node *cluster.Node
	// free is what is free on the node, by dimension, in the units of nodes. It can be negative where others have
	// allocated more than there is, or where a place is held that is not free yet.
	free quantity.Vector
	// slots is how many pods of the class that is room for. It follows from free, spoils and cards, and is worked out
	// again whenever one of them changes.
	slots int64
	// spoils is how many pods, and places held, keep the class off the node whatever is free, because they or the class
	// must have the node to themselves.
	spoils int
	// cards is the GPUs one by one, on a node that gives parts of them, if the class asks for GPUs.
	cards cards
	// units is the units with pods here, in the order in which enter listed them.
	units []*unit
}

// region is a place that may hold all pods of a claim: a node, a domain of a level, or the whole cluster.
type region struct {
	// name is the name of the domain or node, by which regions are ordered; "" for the whole cluster.
	name string
	// domain is nil for a node and for the whole cluster.
	domain *cluster.Domain
	// node is nil for a domain and for the whole cluster.
	node *cluster.Node
	// nodes is those of the scan that are in the region: only nodes that units are on.
	nodes []*candidateNode
	// lacks is the number of pods of the claim for which the region has no room before any unit goes. It can be 0 or
	// less where something else than room keeps the claimant out, such as a limit of its queue.
	lacks int64
}

// fits counts the pods of the class that have room in the region as the model is now: units that are lifted are gone, those
// that only count as gone in a scan are not. The class must be up to date with the model. It is a lookup.
func (r *region) fits(s *Candidates, c *index.Class) int64 {
	switch {
	case r.node != nil:
		return s.ix.Fits(c, index.Scope{Node: r.node})
	case r.domain != nil:
		return c.Sums[r.domain.ID]
	}
	return c.Total
}

// scan counts, for one class of pods, the room that a claim's units would free. It looks at a node when a unit on it
// is counted, so that its cost goes with the nodes of the units and not with the size of the cluster.
type scan struct {
	*claim
	class *index.Class
	// need is how many pods of the class the claim must place, those included that have room already.
	need int64
	// pass is the number of the scan, by which it knows its entries in Candidates.nodes.
	pass uint64
	// nodes is the nodes that were looked at and that the class may be on, in that order.
	nodes []*candidateNode
}

// newScan makes a scan for what the order asks for, in which no unit counts as gone. All earlier scans are void from then
// on, also those of other claims, because they share the candidate nodes.
func (c *claim) newScan(o place.Order) *scan {
	c.y.scans++
	return &scan{claim: c, class: o.Class, need: int64(len(o.Pods)), pass: c.y.scans}
}

// candidate returns what the scan knows of the node; nil: the class may not be there, or the node is in no bucket because
// it has no spec. For a node that is new to the scan it works out what is free as the index does, with two corrections:
// what leavers leave that is held for others counts as free, because the hold counts as taken; and what is nominated to the
// node is taken.
func (v *scan) candidate(n *cluster.Node) *candidateNode {
	s := v.y.Candidates
	if n.Bucket == nil {
		return nil
	}
	// The cluster may have grown since the last scan. Pointers into the old memory are of scans that are void.
	if len(s.nodes) < s.m.Room.Nodes {
		s.nodes = append(s.nodes, make([]candidateNode, s.m.Room.Nodes-len(s.nodes))...)
	}
	t := &s.nodes[n.Index]
	if t.pass == v.pass {
		if t.node == nil {
			return nil
		}
		return t
	}
	// A node where the class may not be is remembered as well, with node nil: many units are on such nodes, and the
	// question would be asked for each of their pods.
	t.pass, t.node, t.units = v.pass, nil, t.units[:0]
	if !v.admits(v.class, n) {
		return nil
	}
	t.node, t.spoils = n, 0
	t.free = append(t.free[:0], n.Free...)
	t.cards.read(n, v.class)
	if v.moving {
		// To look for devices with each unit costs more than a trial or two, which is all that it saves where whatever
		// is lifted is gone. What is moved is only lifted where counting says so.
		t.cards.readOffers(n, v.class)
	}
	// Leavers that stay on their nodes in this trial are those whose GPUs are all held for others. The hold takes
	// its room off what is free, and so does the leaver. What the leaver has counts as free here, so that it is not
	// subtracted twice.
	for _, p := range v.y.leavers.on[n] {
		if p.Host == n {
			t.cards.free(p, 1)
			for _, d := range p.Demands {
				t.free.Add(d.Dim, d.Amount)
			}
		}
	}
	// A nominated pod of a lower priority than the class is not in its way: the claimant goes first.
	for _, p := range n.Nominated {
		if p.Priority >= v.class.Priority {
			for _, d := range p.Demands {
				t.free.Add(d.Dim, -d.Amount)
			}
		}
	}
	// A gang that has its nodes to itself keeps all others off, however much is free. Such pods are counted once, and
	// the count goes down as they are counted as gone: at 0 the node is open.
	if v.minds() {
		for _, p := range n.Pods {
			if v.spoils(p) {
				t.spoils++
			}
		}
		for _, h := range n.Held {
			if s.ix.KeepsOff(h, v.class) {
				t.spoils++
			}
		}
	}
	t.cards.idle = t.cards.spare(v.class)
	t.slots = v.slots(t)
	v.nodes = append(v.nodes, t)
	return t
}

// admits says whether pods of the class may be on the node at all, whatever is free there: by its labels and taints, by
// name, by the GPU model that is asked for, and by whether the node gives GPUs by count. It does not ask rules between pods.
func (v *scan) admits(c *index.Class, n *cluster.Node) bool {
	if v.y.ix.MaskOf(c, n).State == index.Excluded || c.Local && c.Excludes(n) {
		return false
	}
	//mutate: victims-by-claims
	if c.Shut(n) {
		return false
	}
	return c.Wants.Model == "" || slices.Contains(n.Models, c.Wants.Model)
}

// spoils says whether the pod keeps the class off its node, because one of the two must have the node to itself. Pods
// without GPUs never do, and members of the class's own gang do not mind each other.
func (v *scan) spoils(p *cluster.Pod) bool {
	if !p.HasGPU() || v.class.Whole != "" && p.Gang == v.class.Whole {
		return false
	}
	return v.class.Whole != "" || p.In != nil && p.In.Whole
}

// slots counts the pods of the class that the node has room for with what is free in t. Of pods that ask for a port of the
// host there is room for one at most. It is called for each pod that is counted, and mostly costs one division: demands are
// the scarcest first, and cards are counted only where the quotient is above 0.
func (v *scan) slots(t *candidateNode) int64 {
	if t.spoils > 0 {
		return 0
	}
	k := index.Quotient(t.free, v.class.Demands)
	if len(v.class.Shape.Spec.Ports) > 0 {
		k = min(k, 1)
	}
	if t.cards.claims != nil {
		k = min(k, v.need) // pods with claims are counted one after the other
	}
	//mutate: victims-parts
	if (v.class.Shape.HasGPU || t.cards.claims != nil) && k > 0 {
		k = min(k, t.cards.room(v.class, k))
	}
	return k
}

// free counts the unit's pods as gone, or with by = -1 as there again, and returns by how much the slots of all nodes
// together grow. A unit that is lifted is gone in the model already, so it is passed over.
//
// It is its own inverse: the same calls with the opposite sign put everything back, in any order. The search relies
// on that and never copies a candidate node.
func (v *scan) free(u *unit, by int64) int64 {
	var gain int64
	if u.taken {
		return 0
	}
	for _, p := range u.pods {
		t := v.candidate(p.Host)
		if t == nil {
			continue
		}
		v.leave(t, p, by)
		was := t.slots
		t.slots = v.slots(t)
		gain += t.slots - was
	}
	return gain
}

// freeAll is free for all units of the claim at once. It works out the slots of each node once and not once for each pod.
// It serves the question whether there is hope, where it does not matter what a single unit gains.
func (v *scan) freeAll(by int64) {
	for _, u := range v.units {
		if u.taken {
			continue
		}
		for _, p := range u.pods {
			if t := v.candidate(p.Host); t != nil {
				v.leave(t, p, by)
			}
		}
	}
	for _, t := range v.nodes {
		t.slots = v.slots(t)
	}
}

// leave moves what is free on the candidate node by the pod: it is gone or, with by = -1, there again. The caller works
// out the slots, since several pods may leave at once.
func (v *scan) leave(t *candidateNode, p *cluster.Pod, by int64) {
	for _, d := range p.Demands {
		t.free.Add(d.Dim, by*d.Amount)
	}
	t.cards.free(p, int32(by))
	if v.minds() && v.spoils(p) {
		t.spoils -= int(by)
	}
}

// minds says whether pods can keep the class off a node whatever is free there: some gang has its nodes to itself, or the
// class's own gang wants that.
func (v *scan) minds() bool {
	return v.class.Shape.HasGPU && (v.y.m.WholeNodeGangs > 0 || v.class.Whole != "")
}

// enter lists the unit on the candidate nodes that its pods are on, each once. A unit that is lifted is on no node.
func (v *scan) enter(u *unit) {
	if u.taken {
		return
	}
	for _, p := range u.pods {
		// A unit may have several pods on the node. Units are entered one after the other, so a look at the last
		// entry is enough to list the unit once.
		if t := v.candidate(p.Host); t != nil && (len(t.units) == 0 || t.units[len(t.units)-1] != u) {
			t.units = append(t.units, u)
		}
	}
}

// regions lists, by name, the regions that have room for all pods of the order with the units gone that count as gone now.
// A region without any of these units on its nodes is not listed: no eviction can make room there. It costs a look at each node
// of the scan and a sort of the regions; with an order that may be anywhere, one sum.
func (v *scan) regions(o place.Order) []*region {
	s := v.y.Candidates
	level := s.m.Level(o.Layout.Required)
	home := s.placer.Home(level, o.Running)
	// Members that may be anywhere have one region, the whole cluster. Nodes without units count with the room that
	// they have now, which is in Total, so that lacks is what is missing beyond it.
	if level == cluster.AnyLevel {
		r := &region{nodes: v.nodes, lacks: v.need - v.class.Total}
		if v.room(r) < r.lacks {
			return nil
		}
		return []*region{r}
	}
	var out []*region
	// by finds the region of a domain by its number.
	by := make([]*region, len(s.m.Topology.Domains))
	for _, t := range v.nodes {
		if level == cluster.NodeLevel {
			if r := (&region{name: t.node.Name, node: t.node, nodes: []*candidateNode{t}, lacks: v.need - s.ix.Fits(v.class, index.Scope{Node: t.node})}); v.room(r) >= r.lacks && (home == nil || home.Node == t.node) {
				out = append(out, r)
			}
			continue
		}
		// home is where members of the gang run already: the others must join them, so no other region is of use.
		d := t.node.Bucket.Domains[level]
		if d == nil || home != nil && home.Domains[0] != d {
			continue
		}
		r := by[d.ID]
		if r == nil {
			r = &region{name: d.Name, domain: d, lacks: v.need - v.class.Sums[d.ID]}
			by[d.ID] = r
			out = append(out, r)
		}
		r.nodes = append(r.nodes, t)
	}
	// Room is compared only now, when all nodes of each region are known.
	out = slices.DeleteFunc(out, func(r *region) bool { return v.room(r) < r.lacks })
	slices.SortFunc(out, func(a, b *region) int { return strings.Compare(a.name, b.name) })
	return out
}

// room counts the pods that have room in the region with the units gone that count as gone now, beyond those that the index
// says have room anyway. region.lacks is compared with it.
func (v *scan) room(r *region) int64 {
	var sum int64
	for _, t := range r.nodes {
		has := int64(v.class.ByBucket[t.node.Bucket.ID].Cells[t.node.Slot].Fits)
		// A node adds what counting gives beyond the index, and never less than nothing: a node on which the index
		// sees more room, because it counts leavers in another way, does not take room away from its region.
		sum += max(0, t.slots-has)
	}
	return sum
}
