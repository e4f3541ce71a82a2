package preempt

import (
	"cmp"
	"container/heap"
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
type candidateNode struct {
	pass   uint64          // the scan that the rest is of
	node   *cluster.Node   // nil: the class may not be there
	free   quantity.Vector // with what is freed so far
	slots  int64           // pods of the class that go there then, by resources
	spoils int             // pods, and places held, that keep the class off the node whatever is free
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
func (r *region) fits(s *Candidates, c *index.Class) int64 {
	switch {
	case r.node != nil:
		return s.ix.Fits(c, index.Scope{Node: r.node})
	case r.domain != nil:
		return c.Sums[r.domain.ID]
	}
	return c.Total
}

// scan is one class of a claim on the land that its units could free.
type scan struct {
	*claim
	class *index.Class
	need  int64
	pass  uint64
	nodes []*candidateNode
}

func (c *claim) survey(o place.Order) *scan {
	c.y.scans++
	return &scan{claim: c, class: o.Class, need: int64(len(o.Pods)), pass: c.y.scans}
}

// candidate returns the node's, nil where the class may not be.
func (v *scan) candidate(n *cluster.Node) *candidateNode {
	s := v.y.Candidates
	if n.Bucket == nil {
		return nil
	}
	if len(s.nodes) < len(s.m.Log.Touches) {
		s.nodes = append(s.nodes, make([]candidateNode, len(s.m.Log.Touches)-len(s.nodes))...)
	}
	t := &s.nodes[n.Index]
	if t.pass == v.pass {
		if t.node == nil {
			return nil
		}
		return t
	}
	t.pass, t.node, t.units = v.pass, nil, t.units[:0]
	if !v.admits(v.class, n) {
		return nil
	}
	t.node, t.spoils = n, 0
	t.free = append(t.free[:0], n.Free...)
	for _, p := range v.y.leavers.on[n] {
		if p.Host == n {
			for _, d := range p.Demands {
				t.free.Add(d.Dim, d.Amount)
			}
		}
	}
	for _, p := range n.Nominated {
		if p.Priority >= v.class.Priority {
			for _, d := range p.Demands {
				t.free.Add(d.Dim, -d.Amount)
			}
		}
	}
	if v.class.Shape.GPUs > 0 && (s.m.WholeNodeGangs > 0 || v.class.Whole != "") {
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

// spoils says whether the pod keeps the class off its node.
func (v *scan) spoils(p *cluster.Pod) bool {
	if p.Amount(quantity.DimGPU) == 0 || v.class.Whole != "" && p.Gang == v.class.Whole {
		return false
	}
	return v.class.Whole != "" || p.In != nil && p.In.Whole
}

func (v *scan) slots(t *candidateNode) int64 {
	if t.spoils > 0 {
		return 0
	}
	k := index.Quotient(t.free, v.class.Demands)
	if len(v.class.Shape.Spec.Ports) > 0 {
		k = min(k, 1)
	}
	return k
}

// free counts the unit's pods as gone, or with by = -1 as there again, and returns how many more pods of the class go
// to the nodes of the land.
func (v *scan) free(u *unit, by int64) int64 {
	var gain int64
	whole := v.class.Shape.GPUs > 0 && (v.y.m.WholeNodeGangs > 0 || v.class.Whole != "")
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
		if whole && v.spoils(p) {
			t.spoils -= int(by)
		}
		was := t.slots
		t.slots = v.slots(t)
		gain += t.slots - was
	}
	return gain
}

// freeAll counts all units as gone, or with by = -1 as there again.
func (v *scan) freeAll(by int64) {
	whole := v.class.Shape.GPUs > 0 && (v.y.m.WholeNodeGangs > 0 || v.class.Whole != "")
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
			if whole && v.spoils(p) {
				t.spoils -= int(by)
			}
		}
	}
	for _, t := range v.nodes {
		t.slots = v.slots(t)
	}
}

// hopeful says whether the gang could have a place, by resources alone, if all units were gone.
func (c *claim) hopeful() bool {
	for i := range c.kins {
		o := c.orderOf(i)
		if _, ok := c.y.placer.ChooseScope(o); ok {
			return true // there is room, but for its queue's limits
		}
		v := c.survey(o)
		v.freeAll(1)
		if len(v.regions(o)) > 0 {
			return true
		}
	}
	return false
}

// regions lists where there is room for all pods of the order with what is freed by now, by name. lacks is what the
// state itself lacks there.
func (v *scan) regions(o place.Order) []*region {
	s := v.y.Candidates
	level := s.m.Level(o.Layout.Required)
	home := s.placer.Home(level, o.Running)
	if level == cluster.AnyLevel {
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
	out = slices.DeleteFunc(out, func(r *region) bool { return v.room(r) < r.lacks })
	slices.SortFunc(out, func(a, b *region) int { return strings.Compare(a.name, b.name) })
	return out
}

// room is how many more pods go to the region with what is freed by now than the state says.
func (v *scan) room(r *region) int64 {
	var sum int64
	for _, t := range r.nodes {
		has := int64(v.class.ByBucket[t.node.Bucket.ID].Cells[t.node.Slot].Fits)
		sum += max(0, t.slots-has)
	}
	return sum
}

// bid is units that make room in one region.
type bid struct {
	units []*unit
	worth worth
	name  string
}

// gather lifts units that make room in one region by resources: the cheapest that the state agrees with, which is open
// then. Without hope no eviction helps.
func (c *claim) gather() (open, hope bool) {
	var bids []bid
	for i := range c.kins {
		wants := c.wants(i)
		if len(wants) == 0 {
			hope = true
			continue
		}
		o := wants[0]
		v := c.survey(o)
		if v.need-v.class.Total == 1 && o.Layout.Required == "" {
			if b, ok := v.one(); ok {
				bids = append(bids, b)
				continue
			}
			v = c.survey(o)
		}
		v.freeAll(1)
		regions := v.regions(o)
		v.freeAll(-1)
		if len(regions) == 0 {
			continue
		}
		hope = true
		for _, u := range c.units {
			v.enter(u)
		}
		for _, r := range regions {
			if units, w := v.pick(r); units != nil {
				bids = append(bids, bid{units, w, r.name})
			}
		}
	}
	slices.SortStableFunc(bids, func(a, b bid) int {
		if a.worth != b.worth {
			return cluster.Before(a.worth.less(b.worth))
		}
		return strings.Compare(a.name, b.name)
	})
	for i, b := range bids {
		if i == maxBids {
			break
		}
		var lifted []*unit
		for _, u := range b.units {
			if !u.taken {
				c.lift(u)
				lifted = append(lifted, u)
			}
		}
		if c.opens() {
			return true, true
		}
		for _, u := range lifted {
			if c.alike || i > 0 { // for unlike members the first is a beginning
				c.restore(u)
			}
		}
	}
	return false, hope || len(bids) > 0
}

// maxBids is how many regions the state is asked about.
const maxBids = 8

// one finds the cheapest units that make room for one pod: one alone, or several of one node.
func (v *scan) one() (bid, bool) {
	v.y.scans++
	p := &picking{scan: v, turn: v.y.scans, whole: true, lacks: 1}
	var best *bundle
	consider := func(b *bundle) {
		if b != nil && (best == nil || b.better(best)) {
			best = b
		}
	}
	var small []*candidateNode
	for _, u := range v.units {
		if u.taken || best != nil && best.worth.broken == 0 && u.whole() > best.worth.cost {
			continue
		}
		if b := p.weigh(&bundle{units: []*unit{u}}); b != nil {
			consider(b)
			continue
		}
		for _, q := range u.pods {
			t := v.candidate(q.Host)
			if t == nil || len(t.units) > 0 && t.units[len(t.units)-1] == u {
				continue
			}
			if t.units = append(t.units, u); len(t.units) == 2 {
				small = append(small, t)
			}
		}
	}
	for _, t := range small {
		consider(p.weigh(&bundle{node: t}))
	}
	if best == nil {
		return bid{}, false
	}
	return bid{units: best.units, worth: best.worth}, true
}

// enter notes which candidate nodes the unit is on.
func (v *scan) enter(u *unit) {
	for _, p := range u.pods {
		if u.taken {
			return
		}
		if t := v.candidate(p.Host); t != nil && (len(t.units) == 0 || t.units[len(t.units)-1] != u) {
			t.units = append(t.units, u)
		}
	}
}

// bundle is units that are worth lifting together.
type bundle struct {
	units []*unit
	node  *candidateNode // whose pods they are; nil: it is one unit
	gain  int64
	worth worth
}

// bundles is a heap: those first that break no budget and cost least for each pod that they make room for.
type bundles []*bundle

func (h bundles) Len() int           { return len(h) }
func (h bundles) Less(i, j int) bool { return h[i].better(h[j]) }
func (h bundles) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *bundles) Push(x any)        { *h = append(*h, x.(*bundle)) }
func (h *bundles) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	*h = (*h)[:last]
	return x
}

func (b *bundle) better(o *bundle) bool {
	if (b.worth.broken > 0) != (o.worth.broken > 0) {
		return b.worth.broken == 0
	}
	x, y := b.worth.cost*o.gain, o.worth.cost*b.gain
	if x != y {
		return x < y
	}
	if b.worth.pods != o.worth.pods {
		return b.worth.pods < o.worth.pods
	}
	if b.gain != o.gain {
		return b.gain > o.gain
	}
	return compareUnits(b.units[0], o.units[0]) > 0
}

// pick chooses units that make the room which the region lacks. Nothing is lifted, and the candidate nodes are as before.
func (v *scan) pick(r *region) ([]*unit, worth) {
	v.y.scans++
	p := &picking{scan: v, turn: v.y.scans, whole: len(r.nodes) == len(v.nodes), lacks: r.lacks}
	if !p.whole {
		p.inside = make(map[*candidateNode]bool, len(r.nodes))
		for _, t := range r.nodes {
			p.inside[t] = true
		}
	}
	p.fill(r)
	for p.lacks > 0 && len(p.heap) > 0 {
		b := heap.Pop(&p.heap).(*bundle)
		again := p.weigh(b)
		if again == nil {
			continue
		}
		if len(p.heap) > 0 && p.heap[0].better(again) {
			heap.Push(&p.heap, again)
			continue
		}
		p.take(again)
	}
	for _, u := range p.picked {
		v.free(u, -1)
	}
	for _, u := range p.picked {
		p.disruption.count(u, -1)
	}
	if p.lacks > 0 {
		return nil, worth{}
	}
	return p.picked, p.worth
}

// picking is a pick in the making.
type picking struct {
	*scan
	turn   uint64 // stamps units
	inside map[*candidateNode]bool
	whole  bool // the region is all of the land
	lacks  int64
	heap   bundles
	picked []*unit
	worth  worth
}

// fill makes the heap: each unit by itself, and for each node the units on it that would not do alone.
func (p *picking) fill(r *region) {
	for _, t := range r.nodes {
		small := 0
		for _, u := range t.units {
			if u.pass != p.turn {
				u.pass = p.turn
				if b := p.weigh(&bundle{units: []*unit{u}}); b != nil {
					p.heap = append(p.heap, b)
				}
			}
			if len(u.pods) == 1 && p.idleAlone(t, u) {
				small++
			}
		}
		if small < len(t.units) && small == 0 || len(t.units) < 2 {
			continue
		}
		if b := p.weigh(&bundle{node: t}); b != nil {
			p.heap = append(p.heap, b)
		}
	}
	heap.Init(&p.heap)
}

// idleAlone says whether the unit alone makes no room on the candidate node.
func (p *picking) idleAlone(t *candidateNode, u *unit) bool {
	was := t.slots
	p.free(u, 1)
	is := t.slots
	p.free(u, -1)
	return is == was
}

// weigh works out what the bundle gains and costs as things are; nil: nothing.
func (p *picking) weigh(b *bundle) *bundle {
	if b.node != nil {
		b = p.bundleOn(b.node)
		if b == nil {
			return nil
		}
	}
	out := &bundle{node: b.node}
	for _, u := range b.units {
		for _, o := range u.spare {
			out.add(p, o)
		}
		out.add(p, u)
	}
	if len(out.units) == 0 {
		return nil
	}
	for _, u := range out.units {
		out.gain += p.gainOf(u, 1)
		p.disruption.count(u, 1)
	}
	broken, never := p.y.broken(&p.disruption)
	out.worth.broken = broken - p.worth.broken
	for _, u := range out.units {
		p.gainOf(u, -1)
		p.disruption.count(u, -1)
	}
	out.gain = min(out.gain, p.lacks)
	if out.gain <= 0 || never {
		return nil
	}
	return out
}

func (b *bundle) add(p *picking, u *unit) {
	if u.gone == p.turn || u.taken || u.claim != p.id || slices.Contains(b.units, u) {
		return
	}
	b.units = append(b.units, u)
	b.worth.cost += u.cost
	b.worth.pods += len(u.pods)
}

// gainOf is free, counting the candidate nodes of the region alone.
func (p *picking) gainOf(u *unit, by int64) int64 {
	if p.whole {
		return p.free(u, by)
	}
	var outside int64
	for _, q := range u.pods {
		if t := p.candidate(q.Host); t != nil && !p.inside[t] {
			outside -= t.slots
		}
	}
	gain := p.free(u, by)
	for _, q := range u.pods {
		if t := p.candidate(q.Host); t != nil && !p.inside[t] {
			outside += t.slots
		}
	}
	return gain - outside
}

// bundleOn makes, of the units on one node, the cheapest that it can find that makes room for one more pod there.
func (p *picking) bundleOn(t *candidateNode) *bundle {
	order := make([]*unit, 0, len(t.units))
	for _, u := range t.units {
		if u.gone != p.turn && !u.taken {
			order = append(order, u)
		}
	}
	if len(order) == 0 {
		return nil
	}
	slices.SortStableFunc(order, func(a, b *unit) int {
		x, y := a.whole()*p.helps(b, t), b.whole()*p.helps(a, t)
		return cmp.Or(cmp.Compare(x, y), -compareUnits(a, b))
	})
	was := t.slots
	var chosen []*unit
	for _, u := range order {
		if t.slots > was {
			break
		}
		for _, o := range u.spare {
			chosen = p.also(chosen, o)
		}
		chosen = p.also(chosen, u)
	}
	enough := t.slots > was
	for i := len(chosen) - 1; i >= 0 && enough; i-- {
		u := chosen[i]
		if u.rest != nil && slices.Contains(chosen, u.rest) {
			continue
		}
		p.free(u, -1)
		if t.slots > was {
			chosen = slices.Delete(chosen, i, i+1)
			continue
		}
		p.free(u, 1)
	}
	for _, u := range chosen {
		p.free(u, -1)
	}
	if !enough {
		return nil
	}
	return &bundle{node: t, units: chosen}
}

// also frees the unit too, unless it is freed already.
func (p *picking) also(chosen []*unit, u *unit) []*unit {
	if u.gone == p.turn || u.taken || slices.Contains(chosen, u) {
		return chosen
	}
	p.free(u, 1)
	return append(chosen, u)
}

// helps is how much the unit gives of what the class asks for most on the node, at least 1.
func (p *picking) helps(u *unit, t *candidateNode) int64 {
	dim := quantity.DimGPU
	if p.class.Shape.GPUs == 0 {
		dim = p.class.Demands[len(p.class.Demands)-1].Dim
	}
	var sum int64
	for _, q := range u.pods {
		if q.Host == t.node {
			sum += q.Amount(dim)
		}
	}
	return max(1, sum)
}

// take counts the bundle's units as gone.
func (p *picking) take(b *bundle) {
	for _, u := range b.units {
		u.gone = p.turn
		p.lacks -= p.gainOf(u, 1)
		p.disruption.count(u, 1)
		p.picked = append(p.picked, u)
	}
	p.worth.cost += b.worth.cost
	p.worth.pods += b.worth.pods
	p.worth.broken += b.worth.broken
	if b.node != nil {
		if next := p.weigh(&bundle{node: b.node}); next != nil {
			heap.Push(&p.heap, next)
		}
	}
}
