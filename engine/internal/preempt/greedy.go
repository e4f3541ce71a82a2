package preempt

import (
	"cmp"
	"container/heap"
	"slices"
	"strings"

	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/quantity"
)

// The first set of victims. It is found greedily and need not be cheap: it shows that there is a set at all, and the search
// has something to beat.
//
//  1. Where limits of its own queue keep the claimant out, units of that queue are lifted, the cheapest first, until they do
//     not (relieve).
//  2. In each region, bundles of units that make room are taken by cost for each pod that gets room, as in a knapsack, on
//     counts alone. The regions' sets are proposed to the model, the cheapest first (pickRegion).
//  3. If the model agrees with none of them, because members are unlike or devices are in the way, ever more units are
//     lifted until it agrees (takeMore).
//  4. What is not needed is put back, the dearest first (putBack). Nothing of the set can then be spared.

// firstSet lifts a first set of victims. found says that there is one; hope is false where counting shows that no set of units
// makes room, so that a search would be in vain.
// Where it returns found, the units of the set are lifted; the search begins from there.
func (c *claim) firstSet() (found, hope bool) {
	open := false
	if c.gated {
		c.relieve()
		open = c.opens()
	}
	if !open {
		if open, hope = c.pickRegion(); !hope {
			return false, false
		}
	}
	// Units that are moved each need a new place, and a set that grows by doubling would soon need more places than there are:
	// where no region's bid can be moved, nothing is.
	if !open && (c.moving || !c.takeMore()) {
		return false, true
	}
	c.putBack()
	_, never := c.y.broken(&c.disruption)
	return !never, true
}

// relieve lifts units of the claimant's own queue, the cheapest first, until its limits let it start.
func (c *claim) relieve() {
	own := slices.DeleteFunc(slices.Clone(c.units), func(u *unit) bool { return u.of.payer != c.q })
	// The order puts first what is rather left alone, so the loop goes through it from the end.
	slices.SortFunc(own, compareUnits)
	for i := len(own) - 1; i >= 0; i-- {
		if gates := c.y.Gates(c.g); len(gates) == 0 {
			return
		}
		c.liftWith(own[i])
	}
}

// liftWith lifts the unit and what goes before it.
func (c *claim) liftWith(u *unit) {
	// Members above the minimum go before the rest of their gang, always: a gang is not left below its minimum with spare members
	// running.
	for _, o := range u.spare {
		if !o.taken {
			c.lift(o)
		}
	}
	if !u.taken {
		c.lift(u)
	}
}

// liftWithin lifts the unit and what goes before it, unless that violates a budget that must be kept.
func (c *claim) liftWithin(u *unit) {
	lifted := []*unit{u}
	for _, o := range u.spare {
		if !o.taken {
			lifted = append(lifted, o)
		}
	}
	c.liftWith(u)
	if _, never := c.y.broken(&c.disruption); never {
		for _, o := range lifted {
			c.restore(o)
		}
	}
}

// takeMore lifts more units, the cheapest first, until the gang has a place. It lifts twice as many each time, since each
// time costs a trial on the model; putBack returns what was too much.
func (c *claim) takeMore() bool {
	order := slices.Clone(c.units)
	slices.SortStableFunc(order, func(a, b *unit) int {
		return cmp.Or(cmp.Compare(c.breaks(a), c.breaks(b)), cmp.Compare(a.whole(), b.whole()), -compareUnits(a, b))
	})
	// With n units that takes log n trials to find enough of them and at most n more to put back what was too much. The result is
	// no minimum, only a set of which nothing can be spared.
	batch := 1
	for len(order) > 0 {
		n := min(batch, len(order))
		for _, u := range order[:n] {
			if !u.taken {
				c.liftWithin(u)
			}
		}
		order = order[n:]
		if c.opens() {
			return true
		}
		batch *= 2
	}
	return false
}

// breaks says whether lifting the unit violates disruption budgets: 1, or 0.
func (c *claim) breaks(u *unit) int {
	for _, p := range u.pods {
		for _, b := range p.Budgets {
			if c.y.allowed(b)-c.disruption.of[b] <= 0 {
				return 1
			}
		}
	}
	return 0
}

// putBack puts back every unit that is not needed: those first that break budgets, then the dearest.
func (c *claim) putBack() {
	// taken lists those first that are rather left alone, which is the order in which they are put back: where one of two victims
	// is enough, the one that loses less work stays evicted.
	order := c.taken()
	if len(c.disruption.of) > 0 {
		slices.SortStableFunc(order, func(a, b *unit) int {
			// The rest of a gang stays ahead of its own spare members: these cannot be put back while it is lifted.
			if (len(a.spare) > 0) != (len(b.spare) > 0) {
				return 0
			}
			return -cmp.Compare(c.overdraws(a), c.overdraws(b))
		})
	}
	for _, u := range order {
		// The rest of its gang is lifted, so its spare members must stay lifted too.
		if u.rest != nil && u.rest.taken && u.rest.claim == c.id {
			continue
		}
		c.restore(u)
		if !c.opens() {
			c.lift(u)
		}
	}
}

// overdraws says whether the unit, which is lifted, is one of more than a budget allows: 1, or 0.
func (c *claim) overdraws(u *unit) int {
	for _, p := range u.pods {
		for _, b := range p.Budgets {
			if c.disruption.of[b] > c.y.allowed(b) {
				return 1
			}
		}
	}
	return 0
}

// bid is what a region offers: units that make room in it by counting.
type bid struct {
	units []*unit
	worth worth
	name  string
}

// pickRegion lifts the units of the cheapest bid that the model agrees with, and says whether there is one (open). hope is false
// where no region could have room with all units gone. Of unlike members only one class was counted: if the model agrees with
// no bid, the units of the first one stay lifted, as a beginning for takeMore.
func (c *claim) pickRegion() (open, hope bool) {
	var bids []bid
	for i := range c.kins {
		wants := c.wants(i)
		if len(wants) == 0 {
			hope = true
			continue
		}
		o := wants[0]
		// What is on another node than the pods of the class may be, counting does not look for.
		//mutate: victims-elsewhere
		hope = hope || o.Class.Elsewhere()
		v := c.newScan(o)
		// Most claims are for one pod. Then the cheapest single unit that makes room for it, or the cheapest few of one node, is
		// all that counts, and it is found in one walk over the units.
		if v.need-v.class.Total == 1 && o.Layout.Required == "" { // one pod, anywhere: no need to count all units as gone
			if b, ok := v.one(); ok {
				bids = append(bids, b)
				continue
			}
			v = c.newScan(o)
		}
		// All units are counted as gone for the question which regions could have room at all, and as there again before the bids
		// are made.
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
				slices.SortFunc(units, compareUnits)
				bids = append(bids, bid{units, w, r.name})
			}
		}
	}
	slices.SortStableFunc(bids, func(a, b bid) int {
		if a.worth != b.worth {
			return cluster.Before(a.worth.less(b.worth))
		}
		return cmp.Or(compareSets(a.units, b.units), strings.Compare(a.name, b.name))
	})
	// The bids are tried out on the model, the cheapest first. Counting does not know devices or rules, so the first bid may be
	// refused where the second is not.
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
			// Of unlike members the first bid stays lifted although it was refused: it made room for the class that lacks most,
			// and takeMore needs only find the rest.
			if c.alike || i > 0 {
				c.restore(u)
			}
		}
	}
	return false, hope || len(bids) > 0
}

// maxBids is how many regions are tried out on the model.
const maxBids = 8

// one finds the cheapest units that make room for one pod: one alone, or several of one node.
func (v *scan) one() (bid, bool) {
	v.y.scans++
	// The walk has three kinds of units. Those that make room alone compete at once. Those that do not are noted on their nodes,
	// for bundles of several. And those that cost more than the best so far are passed over, with all that they could be part of:
	// a bundle costs at least what its dearest unit does.
	p := &picker{scan: v, turn: v.y.scans, whole: true, lacks: 1}
	var best *bundle
	consider := func(b *bundle) {
		if b != nil && (best == nil || b.better(best)) {
			best = b
		}
	}
	var small []*candidateNode // with several units that make no room alone
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
			// With one unit that makes no room alone there is no bundle; the second makes the node worth a look, once.
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

// bundle is units that are taken together: a unit that makes room by itself, with what must go before it, or several on one
// node of which none makes room alone, such as two pods of four GPUs for one of eight.
type bundle struct {
	units []*unit
	node  *candidateNode // whose pods they are; nil: it is one unit
	gain  int64          // pods that get room in the region
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

// better says whether the bundle is taken before the other. Fractions are compared by cross-multiplication.
func (b *bundle) better(o *bundle) bool {
	if (b.worth.broken > 0) != (o.worth.broken > 0) {
		return b.worth.broken == 0
	}
	// cost/gain < o.cost/o.gain, without division and its rounding. The products fit: unsaved work counts for an hour at the
	// most, so that 10,000 pods of eight GPUs cost less than 2^40, and nobody gains 2^20 pods.
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

// pick chooses units that make the room which the region lacks. What a bundle gains gets less as others are taken, and never
// more, so that the heap is lazy: the bundle on top is weighed again, and goes back if another is better now. Nothing is
// lifted, and the candidate nodes are as before afterwards.
func (v *scan) pick(r *region) ([]*unit, worth) {
	v.y.scans++
	p := &picker{scan: v, turn: v.y.scans, whole: len(r.nodes) == len(v.nodes), lacks: r.lacks}
	if !p.whole {
		p.inside = make(map[*candidateNode]bool, len(r.nodes))
		for _, t := range r.nodes {
			p.inside[t] = true
		}
	}
	// The heap holds each bundle with its price as of some earlier moment. As bundles are taken, what is left to gain shrinks, so
	// a bundle's true price only rises: the one on top may be stale, and all below are at least as dear as they say. So it is
	// enough to weigh the top again, and to take it if it is still no worse than what the next one claims.
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
	// The scan is left as it was found, because the next region begins with the same candidate nodes.
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

// picker is a pick in the making.
type picker struct {
	*scan
	turn   uint64                  // marks the units that it has looked at or taken
	inside map[*candidateNode]bool // the nodes of the region, unless it is all nodes
	whole  bool                    // the region is all nodes of the scan
	lacks  int64                   // pods that are still without room
	heap   bundles
	picked []*unit
	worth  worth
}

// fill makes the heap: each unit by itself, and for each node the units on it that would not do alone.
func (p *picker) fill(r *region) {
	for _, t := range r.nodes {
		// A bundle of several units on the node is worth making only where some unit does not make room alone: else the units by
		// themselves are on the heap already, and the bundle would be one of them.
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
func (p *picker) idleAlone(t *candidateNode, u *unit) bool {
	was := t.slots
	p.free(u, 1)
	is := t.slots
	p.free(u, -1)
	return is == was
}

// weigh works out what the bundle gains and costs beside what is taken already; nil: it gains nothing, or breaks a budget that
// is always kept. It counts the bundle's units as gone, looks, and counts them as there again.
func (p *picker) weigh(b *bundle) *bundle {
	// What a bundle of a node consists of depends on what is gone there by now, so it is put together anew each time.
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
	// The units count as gone one after the other, so that gains are not counted twice where two of them are on one node.
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
	// Room beyond what is lacking is worth nothing. Without this a gang of 64 GPUs would look cheap to a claimant that lacks one.
	out.gain = min(out.gain, p.lacks)
	if out.gain <= 0 || never {
		return nil
	}
	return out
}

// add adds the unit to the bundle, unless it goes already or must not.
func (b *bundle) add(p *picker, u *unit) {
	if u.gone == p.turn || u.taken || u.claim != p.id || slices.Contains(b.units, u) {
		return
	}
	b.units = append(b.units, u)
	b.worth.cost += u.cost
	b.worth.pods += len(u.pods)
}

// gainOf is free, counting the candidate nodes of the region alone.
func (p *picker) gainOf(u *unit, by int64) int64 {
	if p.whole {
		return p.free(u, by)
	}
	// A unit may also have pods in other regions. What it frees there is of no use to a claimant that must be in this one: the
	// slots there are added up before and after, and the difference is taken off.
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

// bundleOn makes a bundle of units on one node that makes room for one more pod there: by cost for what each frees until it is
// enough, and then less what turns out not to be needed.
func (p *picker) bundleOn(t *candidateNode) *bundle {
	order := make([]*unit, 0, len(t.units))
	for _, u := range t.units {
		if u.gone != p.turn && !u.taken {
			order = append(order, u)
		}
	}
	if len(order) == 0 {
		return nil
	}
	// By cost for each GPU that is freed on this node, again without division.
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
	// The first pass went by price and may have collected small units before a large one that would have been enough. So what
	// turns out not to be needed goes back, from the last to the first.
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
func (p *picker) also(chosen []*unit, u *unit) []*unit {
	// gone: it was picked for this region before. taken: it is lifted already, to open a gate.
	if u.gone == p.turn || u.taken || slices.Contains(chosen, u) {
		return chosen
	}
	p.free(u, 1)
	return append(chosen, u)
}

// helps is how much the unit frees on the node of what the class asks for most, at least 1: GPUs, or where it asks for none the
// last of its demands.
func (p *picker) helps(u *unit, t *candidateNode) int64 {
	if t.cards.of != nil {
		return max(1, t.cards.freed(u, p.class))
	}
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
func (p *picker) take(b *bundle) {
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
