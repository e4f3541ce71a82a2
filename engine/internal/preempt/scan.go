package preempt

import (
	"slices"
	"strings"

	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/index"
	"github.com/berth-dev/berth/engine/internal/place"
	"github.com/berth-dev/berth/engine/internal/quantity"
)

// What units would free is first worked out from resources alone, node by node: a bound that shows where nothing helps,
// and a guide for whom to lift. Whether it is true is asked of the state afterwards.

// candidateNode is a node, as a claim's units could free it.
// It belongs to the node and not to the scan: there is one for each node of the cluster, kept in Candidates and reused, so that a
// scan allocates nothing. A scan that begins takes the next number, and entries with an older one are void.
type candidateNode struct {
	pass   uint64          // the number of the scan that the rest is of; of another scan it is void
	node   *cluster.Node   // nil: the class may not be there
	free   quantity.Vector // with what is freed so far
	slots  int64           // pods of the class that go there then, by resources
	spoils int             // pods, and places held, that keep the class off the node whatever is free
	cards  cards           // of a node that gives parts, if the class asks for GPUs
	units  []*unit
}

// region is a domain in which all pods of a claim must be, or the whole cluster.
type region struct {
	name   string
	domain *cluster.Domain // nil: the whole cluster, or the node
	node   *cluster.Node
	nodes  []*candidateNode
	lacks  int64 // pods for which it has no room
}

// fits is how many pods of the class have room in the region.
// It is what the index counts now, with nobody gone beyond those that are lifted: a lookup.
func (r *region) fits(s *Candidates, c *index.Class) int64 {
	switch {
	case r.node != nil:
		return s.ix.Fits(c, index.Scope{Node: r.node})
	case r.domain != nil:
		return c.Sums[r.domain.ID]
	}
	return c.Total
}

// scan counts, for one class of pods, the room that a claim's units would free. Nodes are looked at when a unit on them is, so
// that it costs what the units are on and not the size of the cluster.
type scan struct {
	*claim
	class *index.Class
	need  int64  // pods of the class
	pass  uint64 // its number
	nodes []*candidateNode
}

// newScan makes a scan in which nothing is freed yet.
func (c *claim) newScan(o place.Order) *scan {
	c.y.scans++
	return &scan{claim: c, class: o.Class, need: int64(len(o.Pods)), pass: c.y.scans}
}

// candidate returns what the scan knows of the node, nil where the class may not be. Of a node that is new to it, it works out
// what is free as the index does: with what leavers leave that is spoken for, less what is nominated.
func (v *scan) candidate(n *cluster.Node) *candidateNode {
	s := v.y.Candidates
	if n.Bucket == nil {
		return nil
	}
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
	// Also a node where the class may not be is remembered, with node nil: many units are on such nodes, and the question would
	// be asked for each of their pods.
	t.pass, t.node, t.units = v.pass, nil, t.units[:0]
	if !v.admits(v.class, n) {
		return nil
	}
	t.node, t.spoils = n, 0
	t.free = append(t.free[:0], n.Free...)
	t.cards.read(n, v.class)
	// Leavers that stay on their nodes in this trial are those whose GPUs are held for somebody, all of them. A place that is held
	// takes its room off free, and so does the leaver: what they leave counts as free here, so that it is not taken off twice.
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
	// A gang that has its nodes to itself keeps all others off, however much is free. Such pods are counted, not looked for again
	// with each unit: when the count comes to 0 the node is open.
	if v.class.Shape.HasGPU && (s.m.WholeNodeGangs > 0 || v.class.Whole != "") {
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

// admits says whether pods of the class may be on the node, whatever is free there.
func (v *scan) admits(c *index.Class, n *cluster.Node) bool {
	if v.y.ix.MaskOf(c, n).State == index.Excluded || c.Local && c.Excludes(n) {
		return false
	}
	return c.Wants.Model == "" || slices.Contains(n.Models, c.Wants.Model)
}

// spoils says whether the pod keeps the class off its node: one of the two must have the node to itself.
func (v *scan) spoils(p *cluster.Pod) bool {
	if !p.HasGPU() || v.class.Whole != "" && p.Gang == v.class.Whole {
		return false
	}
	return v.class.Whole != "" || p.In != nil && p.In.Whole
}

// slots is how many pods of the class the node has room for, by resources.
func (v *scan) slots(t *candidateNode) int64 {
	if t.spoils > 0 {
		return 0
	}
	k := index.Quotient(t.free, v.class.Demands)
	if len(v.class.Shape.Spec.Ports) > 0 {
		k = min(k, 1)
	}
	//mutate: victims-parts
	if v.class.Shape.HasGPU && k > 0 {
		k = min(k, t.cards.room(v.class, k))
	}
	return k
}

// free counts the unit's pods as gone, or with by = -1 as there again, and returns how many more pods of the class go
// to the nodes of the land.
// It is its own inverse: the same call with the opposite sign puts everything back, in any order. The search relies on that and
// never copies a candidate node.
func (v *scan) free(u *unit, by int64) int64 {
	var gain int64
	whole := v.class.Shape.HasGPU && (v.y.m.WholeNodeGangs > 0 || v.class.Whole != "")
	for _, p := range u.pods {
		n := p.Host
		if u.taken {
			continue
		}
		t := v.candidate(n)
		if t == nil {
			continue
		}
		for _, d := range p.Demands {
			t.free.Add(d.Dim, by*d.Amount)
		}
		t.cards.free(p, int32(by))
		if whole && v.spoils(p) {
			t.spoils -= int(by)
		}
		was := t.slots
		t.slots = v.slots(t)
		gain += t.slots - was
	}
	return gain
}

// freeAll is free for all units at once: each node is divided once, and not once for each pod.
// It is for the question whether there is hope, where nobody asks what a single unit gains.
func (v *scan) freeAll(by int64) {
	whole := v.class.Shape.HasGPU && (v.y.m.WholeNodeGangs > 0 || v.class.Whole != "")
	for _, u := range v.units {
		if u.taken {
			continue
		}
		for _, p := range u.pods {
			t := v.candidate(p.Host)
			if t == nil {
				continue
			}
			for _, d := range p.Demands {
				t.free.Add(d.Dim, by*d.Amount)
			}
			t.cards.free(p, int32(by))
			if whole && v.spoils(p) {
				t.spoils -= int(by)
			}
		}
	}
	for _, t := range v.nodes {
		t.slots = v.slots(t)
	}
}

// enter notes which candidate nodes the unit is on.
func (v *scan) enter(u *unit) {
	for _, p := range u.pods {
		if u.taken {
			return
		}
		// A unit may have several pods on the node. They come one after the other or not at all in between, so a look at the last
		// entry is enough to list the unit once.
		if t := v.candidate(p.Host); t != nil && (len(t.units) == 0 || t.units[len(t.units)-1] != u) {
			t.units = append(t.units, u)
		}
	}
}

// regions lists where there is room for all pods of the order with what is freed by now, by name. lacks is what the
// state itself lacks there.
func (v *scan) regions(o place.Order) []*region {
	s := v.y.Candidates
	level := s.m.Level(o.Layout.Required)
	home := s.placer.Home(level, o.Running)
	if level == cluster.AnyLevel {
		// Members that may be anywhere have one region, the whole cluster, in which nodes without units count with the room that
		// they have now: lacks is what is missing beyond that.
		r := &region{nodes: v.nodes, lacks: v.need - v.class.Total}
		if v.room(r) < r.lacks {
			return nil
		}
		return []*region{r}
	}
	var out []*region
	by := make([]*region, len(s.m.Topology.Domains))
	for _, t := range v.nodes {
		if level == cluster.NodeLevel {
			if r := (&region{name: t.node.Name, node: t.node, nodes: []*candidateNode{t}, lacks: v.need - s.ix.Fits(v.class, index.Scope{Node: t.node})}); v.room(r) >= r.lacks && (home == nil || home.Node == t.node) {
				out = append(out, r)
			}
			continue
		}
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
	// Only now, when all nodes of each region are known.
	out = slices.DeleteFunc(out, func(r *region) bool { return v.room(r) < r.lacks })
	slices.SortFunc(out, func(a, b *region) int { return strings.Compare(a.name, b.name) })
	return out
}

// room is how many more pods go to the region with what is freed by now than the state says.
func (v *scan) room(r *region) int64 {
	var sum int64
	for _, t := range r.nodes {
		has := int64(v.class.ByBucket[t.node.Bucket.ID].Cells[t.node.Slot].Fits)
		// What counting gives beyond the index. It is never less than nothing: a node on which the index sees more room, because
		// leavers are counted differently there, does not take room away from its region.
		sum += max(0, t.slots-has)
	}
	return sum
}
