package preempt

import (
	"cmp"
	"container/heap"
	"math/bits"
	"slices"
	"strings"

	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/quantity"
)

// The first set of victims. It is found greedily and need not be cheap: it shows that there is a set at all, and it gives
// the search (search.go) a limit to beat. For claims that are too large to be searched it is the answer.
//
//  1. Where limits of its own queue keep the claimant out, units of that queue are lifted, the cheapest first, until
//     the limits let it start (relieve).
//  2. In each region, bundles of units that make room are taken by cost for each pod that gets room, as in a
//     knapsack, on counts alone. The sets of the regions are proposed to the model, the cheapest first (pickRegion).
//  3. If the model agrees with none of them, because members are unlike or devices are in the way, ever more units
//     are lifted until it agrees (takeMore).
//  4. What is not needed is put back, the dearest first (putBack). No unit of the set can then be spared.
//
// For example, a claimant wants two pods of 8 GPUs in one rack. Rack r1 runs a gang of 16 GPUs that costs 60; rack r2
// runs four pods of 4 GPUs, two on each node, that cost 10, 11, 20 and 21:
//
//	r1   one bundle, the gang, makes room for 2 pods:    60/2 = 30 for each pod; the bid is 60
//	r2   a bundle of two pods on the first node:         (10+11)/1 = 21, and
//	     one on the second node:                         (20+21)/1 = 41; the bid is 62
//
// The bid of r1 is proposed first, since 60 is less than 62. If the model refuses it, because the free GPUs of r1 are
// of another model, say, the bid of r2 is next.
//
// The pass is deterministic: bids, bundles and units are each compared down to a name (compareSets, better,
// compareUnits). It costs a look at each unit for each region that it is in, a heap operation for each bundle, at
// most maxBids trials for bids, log n trials to take more of n units, and one trial for each unit that might be put
// back.

// firstSet lifts a first set of victims. found says that there is one; exactly its units are lifted then. hope is false
// where counting shows that no set of units makes room, so that a search would be in vain. With hope and nothing found, what
// is lifted is of no meaning, and the search begins by putting it back.
func (c *claim) firstSet() (found, hope bool) {
	// open says that the gang would start with the units that are lifted at this point.
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
	// Workloads that are moved each need a new place, and a set that grows by doubling would soon need more places
	// than there are. So where no bid of a region can be moved, nothing is.
	if !open && (c.moving || !c.takeMore()) {
		return false, true
	}
	c.putBack()
	// relieve and pickRegion lift without regard to budgets that must be kept; a set that breaks one is none.
	_, never := c.y.broken(&c.disruption)
	return !never, true
}

// relieve lifts units of the claimant's own queue, the cheapest first, until its limits let it start. Limits of
// queues further up may need victims of other queues; those are left to takeMore and to the search. It costs a look
// at the gates for each unit, and putBack returns what it lifted too much.
func (c *claim) relieve() {
	own := slices.DeleteFunc(slices.Clone(c.units), func(u *unit) bool { return u.of.payer != c.q })
	slices.SortFunc(own, compareUnits)
	// compareUnits puts first what is rather left alone, so the loop begins at the end.
	for i := len(own) - 1; i >= 0; i-- {
		if gates := c.y.Gates(c.g); len(gates) == 0 {
			return
		}
		c.liftWith(own[i])
	}
}

// liftWith lifts the unit and the units that must go before it, as far as they are not lifted yet.
func (c *claim) liftWith(u *unit) {
	for _, o := range u.spare {
		if !o.taken {
			c.lift(o)
		}
	}
	if !u.taken {
		c.lift(u)
	}
}

// liftWithin lifts the unit and what goes before it, unless that breaks a budget that must be kept. In that case it
// restores exactly what it lifted: spare members that were lifted before stay lifted.
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

// takeMore lifts more units, the cheapest first, until the gang has a place, and says whether it has. Each step costs
// a trial on the model, so it lifts twice as many units as in the step before; putBack returns what was too much.
//
// For example, of 40 units the cheapest 11 would be enough. takeMore lifts 1, then 2, 4 and 8 more, and asks after
// each: 15 are lifted after four trials. putBack then tries 15 units one by one, the dearest first, and 4 or more of
// them go back. One by one the same would take 11 trials before putBack; with hundreds of units the difference is
// what a claim can afford.
//
// With n units that takes log n trials to find enough of them, and at most n more to put back. The result is not the
// smallest set, only one of which nothing can be spared.
func (c *claim) takeMore() bool {
	// Units that break a budget come last, then the cheapest first. breaks is asked once for the order, although what is
	// lifted changes it: liftWithin has the last word on budgets that must be kept.
	order := slices.Clone(c.units)
	slices.SortStableFunc(order, func(a, b *unit) int {
		return cmp.Or(cmp.Compare(c.breaks(a), c.breaks(b)), cmp.Compare(a.whole(), b.whole()), -compareUnits(a, b))
	})
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

// breaks is 1 if one more pod of some disruption budget of the unit would be beyond it, beside what is lifted already, and
// 0 if not; a number, so that units can be ordered by it. The unit must not be lifted.
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

// putBack puts every unit back that is not needed: those first that exceed budgets, then the dearest. Afterwards no
// single unit can be put back. Where two units together could be spared for a third one, putBack does not see it; the
// search does.
func (c *claim) putBack() {
	// taken lists first what is rather left alone, which is the order in which units are put back: where one of two
	// victims is enough, the one that loses less work stays evicted.
	order := c.taken()
	if len(c.disruption.of) > 0 {
		// The rest of a gang stays ahead of its own spare members: these cannot be put back while it is lifted. taken
		// lists all such rests first, and a stable sort that calls them equal to everything else leaves them there.
		slices.SortStableFunc(order, func(a, b *unit) int {
			if a.height != b.height {
				return 0
			}
			return -cmp.Compare(c.overdraws(a), c.overdraws(b))
		})
	}
	for _, u := range order {
		// The rest of its gang is lifted, so its spare members must stay lifted too. A rest that is not legal for this
		// claim may carry taken from another one.
		if u.rest != nil && u.rest.taken && u.rest.claim == c.id {
			continue
		}
		c.restore(u)
		if !c.opens() {
			c.lift(u)
		}
	}
}

// overdraws is 1 if more pods are lifted than some disruption budget of the unit allows, and 0 if not. The unit is lifted,
// and so among them: putting it back would help.
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

// bid is units that make room in a region by counting, and what that costs.
type bid struct {
	// units is in the order of compareUnits, and never empty.
	units []*unit
	// worth is the price of evicting them.
	worth worth
	// name is the name of the region, for ties; "" for a bid of one.
	name string
}

// pickRegion lifts the units of the cheapest bid that the model agrees with. open says whether there is one. hope is
// false where no region could have room with all units gone.
//
// Each region makes one bid for each kin, a GPU model and flavor. Regions in which all units together make too little
// room make none. With 40 racks of which 3 could have room for the gang, 3 bids are made and tried in the order of
// their cost.
//
// Of unlike members only one class is counted. If the model agrees with no bid, the units of the first one stay
// lifted, as a beginning for takeMore.
func (c *claim) pickRegion() (open, hope bool) {
	var bids []bid
	for i := range c.kins {
		more, may := c.bidsOf(i)
		bids, hope = append(bids, more...), hope || may
	}
	// Bids that cost the same are ordered by the units that should rather be evicted, then by the name of their region.
	slices.SortStableFunc(bids, func(a, b bid) int {
		if a.worth != b.worth {
			return cluster.Before(a.worth.less(b.worth))
		}
		return cmp.Or(compareSets(a.units, b.units), strings.Compare(a.name, b.name))
	})
	// The bids are tried out on the model, the cheapest first. Counting does not know devices or rules, so the model
	// may refuse the first bid and agree with the second.
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
			// Of unlike members the first bid stays lifted although it was refused: it makes room for the class that
			// lacks most, and takeMore needs only to find the rest.
			if c.alike || i > 0 {
				c.restore(u)
			}
		}
	}
	return false, hope
}

// bidsOf lists the bids for the i-th kin, one for each region that could have room with all units gone. hope is false where
// there is none, so that no set of units makes room for this kin. No unit is lifted. It costs a count of all units for each
// scan, and a pick for each region.
func (c *claim) bidsOf(i int) (bids []bid, hope bool) {
	wants := c.wants(i)
	// Nothing can be counted, so there is no reason to give up hope.
	if len(wants) == 0 {
		return nil, true
	}
	o := wants[0]
	v := c.newScan(o)
	// Most claims are for one pod that may be anywhere. Then the cheapest single unit that makes room for it, or
	// the cheapest few on one node, is all that counts, and one walk over the units finds it: there is no need to
	// count all units as gone.
	if v.need-v.class.Total == 1 && o.Layout.Required == "" {
		if b, ok := v.one(); ok {
			return []bid{b}, true
		}
		v = c.newScan(o)
	}
	// All units are counted as gone for the question which regions could have room at all, and as there again
	// before the bids are made.
	v.freeAll(1)
	regions := v.regions(o)
	v.freeAll(-1)
	if len(regions) == 0 {
		// Counting does not look for units on other nodes than those that pods of the class may be on, and a rule
		// between pods can make such a unit the right victim.
		//mutate: victims-elsewhere
		hope = o.Class.Elsewhere()
		return nil, hope
	}
	for _, u := range c.units {
		v.enter(u)
	}
	for _, r := range regions {
		if units, w := v.pick(r); units != nil {
			slices.SortFunc(units, compareUnits)
			bids = append(bids, bid{units, w, r.name})
		}
	}
	return bids, true
}

// maxBids is how many bids are tried out on the model, since each costs a trial. takeMore and the search go on from
// there.
const maxBids = 8

// one returns the cheapest units that make room for one pod, as far as single units and bundles on one node go;
// false: none of these does. A unit here stands for itself and the units that go before it. The region is the whole
// cluster. The scan must be new, since its candidate nodes list the units that were passed over. It costs a count of each
// unit, and of those on a node with several.
func (v *scan) one() (bid, bool) {
	v.y.scans++
	// The walk meets three kinds of units. Those that make room alone compete at once. Those that do not are noted on
	// their nodes, for bundles of several. Those that cost more than the best so far are passed over, and with them
	// all bundles that they could be part of: a bundle costs at least as much as its dearest unit. The last is not
	// done while the best breaks a budget, since a dearer unit that breaks none is better.
	p := &picker{scan: v, turn: v.y.scans, whole: true, lacks: 1}
	var best *bundle
	consider := func(b *bundle) {
		if b != nil && (best == nil || b.better(best)) {
			best = b
		}
	}
	// small is the nodes with several units that make no room alone.
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
			// One unit that makes no room alone is no bundle; the second one makes the node worth a look, once.
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

// bundle is units that are taken together: a unit that makes room by itself, with the units that must go before it, or
// several units on one node of which none makes room alone, such as two pods of 4 GPUs for one of 8.
type bundle struct {
	// units go one after the other: spare members before the rest of their gang.
	units []*unit
	// node is the node that the units are on; nil: the bundle is one unit, wherever its pods are.
	node *candidateNode
	// gain is how many pods get room in the region, at most as many as lack it.
	gain int64
	// worth is what evicting them costs; broken counts only what they break beyond what is taken already.
	worth worth
}

// bundles is a heap. The bundle on top breaks no budget, if there is such a bundle, and costs least for each pod that
// it makes room for.
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

// better says whether the bundle is taken before the other. A bundle that breaks no budget comes before one that
// does; then the cheaper one for each pod, then the one with fewer victims, then the one that makes more room. The
// order ends in compareUnits and so in a name.
func (b *bundle) better(o *bundle) bool {
	if (b.worth.broken > 0) != (o.worth.broken > 0) {
		return b.worth.broken == 0
	}
	// cost/gain < o.cost/o.gain
	if each := compareProducts(b.worth.cost, o.gain, o.worth.cost, b.gain); each != 0 {
		return each < 0
	}
	if b.worth.pods != o.worth.pods {
		return b.worth.pods < o.worth.pods
	}
	if b.gain != o.gain {
		return b.gain > o.gain
	}
	return compareUnits(b.units[0], o.units[0]) > 0
}

// compareProducts compares a*b with c*d, none of which is negative: the quotients a/d and c/b, without division and its
// rounding. The products take 128 bits: eight GPUs for an hour are 2^25 in costs, and a terabyte is 2^40 in bytes.
func compareProducts(a, b, c, d int64) int {
	ah, al := bits.Mul64(uint64(a), uint64(b))
	ch, cl := bits.Mul64(uint64(c), uint64(d))
	return cmp.Or(cmp.Compare(ah, ch), cmp.Compare(al, cl))
}

// pick chooses units that make the room which the region lacks, and returns them with their cost; nil: there are not
// enough. Nothing is lifted, and the candidate nodes are as before afterwards.
//
// The bundles lie on a heap, each with the price that it had when it was last weighed. As bundles are taken less is
// lacking, and with that most gains shrink and prices rise. So pick is lazy: it weighs the bundle on top again, takes
// it if it is still no worse than what the next one claims, and otherwise puts it back with its new price. Each
// bundle is weighed a few times instead of all bundles at every step.
//
// For example, four pods lack room, and three bundles are on the heap:
//
//	x   60 for 3 pods, 20 each     on top, weighed again, taken: one pod is still without room
//	z   44 for 2 pods, 22 each     on top, weighed again: now 44 for 1 pod; it goes back
//	y   25 for 1 pod,  25 each     on top, weighed again, taken: done, for 85
//
// A gain can also grow, where a unit that is taken leaves half of what another one needs on a node. take weighs the
// bundle of such a node anew. What remains is an entry that is dearer than it need be, so that the result is not
// always the best one; it only has to be a set, for the search to improve on.
func (v *scan) pick(r *region) ([]*unit, worth) {
	v.y.scans++
	p := &picker{scan: v, turn: v.y.scans, whole: len(r.nodes) == len(v.nodes), lacks: r.lacks}
	if !p.whole {
		p.inside = make(map[*candidateNode]bool, len(r.nodes))
		for _, t := range r.nodes {
			p.inside[t] = true
		}
	}
	p.fill(r)
	for p.lacks > 0 && len(p.heap) > 0 {
		b := heap.Pop(&p.heap).(*bundle)
		// nil: the bundle has nothing to give any more, or would break a budget that must be kept.
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

// picker is a pick in the making, for one region. While it works, the units that it has taken count as gone in the scan.
type picker struct {
	*scan
	// turn is the number of the pick. A unit whose pass equals it was looked at; one whose gone equals it is taken.
	turn uint64
	// inside is the nodes of the region; nil where whole is true.
	inside map[*candidateNode]bool
	// whole says that the region is all nodes of the scan.
	whole bool
	// lacks is how many pods are still without room.
	lacks int64
	// heap holds the bundles that are not taken, each with the price of an earlier moment.
	heap bundles
	// picked is the units that are taken, in that order. They count as gone in the scan.
	picked []*unit
	// worth is what they cost together.
	worth worth
}

// fill makes the heap: each unit by itself and, for each node on which some unit makes no room alone, one bundle of several.
// A unit on several nodes is on the heap once.
func (p *picker) fill(r *region) {
	for _, t := range r.nodes {
		// A bundle of several units on the node is worth making only where some unit does not make room alone.
		// Otherwise all units are on the heap by themselves already, and the bundle would be one of them.
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

// idleAlone says whether the unit alone makes no room on the candidate node, beside what counts as gone already. The
// unit is there again when it returns.
func (p *picker) idleAlone(t *candidateNode, u *unit) bool {
	was := t.slots
	p.free(u, 1)
	is := t.slots
	p.free(u, -1)
	return is == was
}

// weigh works out what the bundle gains and costs beside what is taken already; nil: it gains nothing, or breaks a
// budget that is always kept. It counts the units of the bundle as gone, looks, and counts them as there again. The
// bundle itself is not changed: the heap may hold it still.
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
	// The units count as gone one after the other, so that gains are not counted twice where two of them are on one
	// node.
	for _, u := range out.units {
		out.gain += p.gainOf(u, 1)
		p.disruption.count(u, 1)
	}
	// Only what the bundle adds counts as its own: the picks before it have broken p.worth.broken budgets already.
	broken, never := p.y.broken(&p.disruption)
	out.worth.broken = broken - p.worth.broken
	for _, u := range out.units {
		p.gainOf(u, -1)
		p.disruption.count(u, -1)
	}
	// Room beyond what is lacking is worth nothing. Otherwise a gang of 64 GPUs would count as room for 64 pods to a
	// claimant that lacks room for one, and would look cheaper than a single pod.
	out.gain = min(out.gain, p.lacks)
	if out.gain <= 0 || never {
		return nil
	}
	return out
}

// add adds the unit to the bundle with what it costs, unless it is in it, goes already, or is not legal for this claim.
func (b *bundle) add(p *picker, u *unit) {
	if u.gone == p.turn || u.taken || u.claim != p.id || slices.Contains(b.units, u) {
		return
	}
	b.units = append(b.units, u)
	b.worth.cost += u.cost
	b.worth.pods += len(u.pods)
}

// gainOf counts the unit as gone, or with by = -1 as there again, and returns the pods that get room by it in the
// region. A gang with 8 GPUs in rack r1 and 8 in rack r2 makes room for one pod of 8 in the region r1, and not for
// two.
func (p *picker) gainOf(u *unit, by int64) int64 {
	if p.whole {
		return p.free(u, by)
	}
	// A unit may also have pods in other regions. What it frees there is of no use to a claimant that must be in this
	// one, so the slots there are added up before and after, and the difference is subtracted.
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

// bundleOn makes a bundle of units on one node that makes room for at least one more pod there; nil: all of them together
// do not. It adds units by cost for what each frees until that is enough, and then drops those that turn out not to be
// needed. The scan is as before when it returns. It costs a sort of the units on the node and a count of each.
//
// For example, a pod of 8 GPUs lacks room on a node with units of 2 GPUs for 2, of 2 GPUs for 3, and of 8 GPUs for
// 20. By cost for each GPU they come in this order, and all three are added. Then both small ones are dropped, since
// the large one alone is enough: the bundle costs 20.
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
	// The order is by cost for each GPU, or byte, that is freed on this node.
	slices.SortStableFunc(order, func(a, b *unit) int {
		return cmp.Or(compareProducts(a.whole(), p.helps(b, t), b.whole(), p.helps(a, t)), -compareUnits(a, b))
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
	// The first pass went by price and may have collected small units before a large one that would have been enough
	// alone. So what is not needed is dropped, from the last unit to the first.
	enough := t.slots > was
	for i := len(chosen) - 1; i >= 0 && enough; i-- {
		u := chosen[i]
		// Spare members stay while the rest of their gang goes.
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

// also counts the unit as gone and appends it, unless it is gone already: picked for this region before (gone), lifted to
// open a gate (taken), or among the chosen.
func (p *picker) also(chosen []*unit, u *unit) []*unit {
	if u.gone == p.turn || u.taken || slices.Contains(chosen, u) {
		return chosen
	}
	p.free(u, 1)
	return append(chosen, u)
}

// helps returns how much the unit frees on the node of what the class asks for most, and at least 1, because costs
// are divided by it. That is GPUs or, for a class without GPUs, the last of its demands; on a node that gives parts
// it is counted card by card.
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

// take counts the units of the bundle as gone and adds them to the pick. What is left of a node may make a second bundle,
// which goes on the heap.
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
