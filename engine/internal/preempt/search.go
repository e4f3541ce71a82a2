package preempt

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/berth-dev/berth/engine/internal/place"
)

// The search for victims. It looks for the cheapest set of units that lets the claimant start, where a set that breaks fewer
// disruption budgets is cheaper than any that breaks more, and then disruption cost decides.
//
// There is one search, a branch and bound.
//
//   - It begins with a set that is found greedily (greedy.go). What that costs is the limit: whatever cannot become
//     cheaper is left alone.
//   - It goes from node to node of one region, a domain that all members must share. On each node it branches over the
//     smallest sets of units that make room for so many more pods, those first that could be cheapest.
//   - What the nodes ahead cost at the least is known (lowerbound.go), and what a gate lacks too (relief.go). A branch whose
//     cost so far plus that bound reaches the limit is cut.
//   - A set that makes room by counting is proposed to the model (trial.go), which knows what counting does not: devices,
//     unlike members, promises, GPU models. If it agrees, the set is the new limit.
//   - Where there are few units, sets that the model refused are then extended by one more unit, by two, and so on. Any set
//     that will do contains one that makes room by counting, so that with few units the result is the cheapest there is.
//
// The search ends at its budget of steps and trials; the best set so far stands. An example: a claimant needs 72 GPUs, and
// gangs of 64, 24 and 72 GPUs may be evicted at costs of 41, 43 and 45 for each. Greedily it is the first two, for 3,656. The
// bound says that 72 GPUs cost at least 64*41 + 8*43 = 2,968, so that there may be better, and the third gang alone, for
// 3,240, is.

// worth is what a set of victims costs: less is better.
type worth struct {
	broken int // evictions beyond what disruption budgets allow
	cost   int64
	pods   int
}

// The three are compared one after the other and never added up: no disruption cost makes up for a broken budget, and the number
// of pods only decides between sets that lose the same work.
func (a worth) less(b worth) bool {
	return cmp.Or(cmp.Compare(a.broken, b.broken), cmp.Compare(a.cost, b.cost), cmp.Compare(a.pods, b.pods)) < 0
}

// choose lifts a set of victims that lets the gang start, and returns it; nil: there is none.
// When it returns, exactly the units of the set are lifted, so that the caller can place the gang and write the evictions down
// without trying the set again. Without a set nothing is promised about what is lifted: the caller rolls the model back.
func (c *claim) choose() []*unit {
	// Without hope there is no region in which all units together would make room. Counting leaves only restrictions out, so the
	// model would refuse every set, and the search need not begin.
	found, hope := c.firstSet()
	if !hope {
		return nil
	}
	// The search may find a set where the greedy pass found none: that pass commits itself to one bundle after the other and does
	// not go back, so it can run into a budget that another choice would have kept.
	//mutate: victims-search
	if c.improve(found) {
		found = true
	}
	if !found {
		return nil
	}
	return c.taken()
}

// The budget of a search. It is counted and not timed, so that the same state gives the same plan.
const (
	searchSteps = 20_000 // so many sets of one node's units are looked at for a claim
	searchTests = 400    // so often a set is tried out on the model
	searchPods  = 64     // a claim of more pods is left as it is
	searchNodes = 32     // so many nodes of a region are looked at, the cheapest first
	searchUnits = 16     // so many units of a node, the cheapest first
	secondPods  = 7      // so many pods of a second class, at the most
	fewUnits    = 14     // so few units can be gone through set by set
	fewTests    = 4000   // so often a set is tried out then
)

// infinite is more than any set costs.
const infinite = math.MaxInt64 / 4

// search is the search for a cheaper set.
type search struct {
	*claim
	pool    []*unit       // that alone cost less than the set at hand: no other can be in a cheaper one
	penalty int64         // what an eviction beyond a budget counts: more than all units cost
	limit   int64         // what the set at hand costs
	tight   []tightBudget // the budgets that it uses up or breaks
	best    []*unit
	steps   int
	asked   int

	refused   bool // the model refused a set that makes room by counting
	extending bool // sets that the model refused are extended
	few       bool // there are so few units that all sets can be gone through
	tests     int  // how often the model may be asked
}

// improve puts a cheaper set in the place of the one that is lifted, if it finds one.
func (c *claim) improve(found bool) bool {
	// With 14 units there are 16,384 sets at the most, of which the limit leaves few to look at: then the result is the cheapest
	// set there is, which the brute-force oracle holds it to.
	few := len(c.units) <= fewUnits
	// To move many costs a trial for each that looks for a new place, and the tables of a large claim do not pay: what was
	// found greedily stands.
	if !few && (c.moving || c.alike && len(c.orderOf(0).Pods) > searchPods) {
		return false
	}
	// The penalty is one more than the sum of all costs. A set with one broken budget more is then dearer than any with one less,
	// and worth becomes a single number that can be added up and bounded.
	w := &search{claim: c, limit: infinite, penalty: 1, few: few, tests: searchTests}
	if few {
		w.tests = fewTests
	}
	var at []*unit
	for _, u := range c.units {
		w.penalty += u.cost
		if u.taken {
			at = append(at, u)
		}
	}
	if found {
		// A set that costs as much as the one at hand is no improvement. So the limit is exclusive throughout: a branch is cut
		// when its bound reaches the limit, not when it exceeds it.
		w.limit = w.priceOf(at) // as long as they are lifted: the disruption is theirs
		//archtest:any-order budgets are added up, and each is looked at for itself
		for b, n := range c.disruption.of {
			if allowed := c.y.allowed(b); allowed > 0 && n >= allowed {
				w.tight = append(w.tight, tightBudget{b, allowed})
			}
		}
	}
	for _, u := range c.units {
		// A unit that costs the limit by itself is in no cheaper set. This shrinks the pool before any table is made, and often
		// to nothing: a single victim that is the cheapest of all ends the search here.
		if u.whole()+w.penalty*w.overBudget(u) < w.limit {
			w.pool = append(w.pool, u)
		}
	}
	if len(w.pool) == 0 {
		return false
	}
	if few { // sets are extended in this order: by what is rather evicted
		slices.SortFunc(w.pool, func(a, b *unit) int { return compareUnits(b, a) })
	}
	// The tables of the search begin with nobody evicted, so the set at hand goes back onto its nodes first.
	for _, u := range at {
		c.restore(u)
	}
	// Two passes. The first proposes only sets of which no unit can be spared by counting. Where the model refused one of them, a
	// set that contains it may still do, because the model counts devices, rules and promises that the tables do not know; the
	// second pass goes through those.
	// Without a refusal the search was complete, by its bound. With one, a larger set may do.
	if w.run(); w.refused && few && !w.spent() {
		w.extending = true
		w.run()
	}
	if w.best != nil {
		at = w.best
	}
	for _, u := range at {
		c.lift(u)
	}
	if w.best != nil {
		c.putBack()
	}
	return w.best != nil
}

// spent says whether the search has been long enough.
func (x *search) spent() bool { return x.steps > searchSteps || x.asked > x.tests }

// run searches the regions, those first that could be cheapest.
func (w *search) run() {
	// Each kin is one way to serve the claimant: a GPU model and a flavor. They share the limit, so that a cheap set of one way
	// cuts the search of all others.
	for i := range w.kins {
		wants := w.wants(i)
		// Rules between pods, and devices that several nodes reach, are not counted: evicting a pod in one rack can open another.
		// Where all sets can be gone through, the model is asked about each instead.
		if len(wants) == 0 || len(wants[0].Pods) > searchPods || w.few && wants[0].Class.Elsewhere() {
			w.uncounted()
			continue
		}
		// All units of the pool count as gone while regions are looked for and their tables are made: a region that lacks room
		// even then is no region, and what is free with everybody gone is where the knapsack of each node begins.
		v := w.newScan(wants[0])
		for _, u := range w.pool {
			v.enter(u)
		}
		for _, u := range w.pool {
			v.free(u, 1)
		}
		regions := v.regions(wants[0])
		// The nodes have room already. Then a region without nodes stands for all of them, and the search is for what opens the
		// gate alone.
		if _, ok := w.y.placer.ChooseScope(wants[0]); ok && w.alike {
			regions = []*region{{}} // only limits are in the way
		}
		var regional []*regionSearch
		for _, r := range regions {
			if x := w.prepare(v, r, wants); x.lowerBound(0, x.lacks) < w.limit {
				regional = append(regional, x)
			}
		}
		for _, u := range w.pool {
			v.free(u, -1)
		}
		// The region with the least bound goes first: its set is likely to cut the others. Ties are decided by whom one would
		// rather evict and then by name, never by the order of a map, so that equal states give equal plans.
		slices.SortStableFunc(regional, func(a, b *regionSearch) int {
			return cmp.Or(cmp.Compare(a.lowerBound(0, a.lacks), b.lowerBound(0, b.lacks)), compareSets(a.cheapest(), b.cheapest()), strings.Compare(a.name, b.name))
		})
		for _, x := range regional {
			x.run()
		}
	}
}

// uncounted searches where nothing can be counted: a claim of too many pods, or of unlike ones of which none is certain to
// start. Only few units can be gone through then, and the model is asked about every set that costs little enough.
func (w *search) uncounted() {
	if !w.few {
		return
	}
	w.y.scans++
	x := &regionSearch{search: w, turn: w.y.scans}
	x.ahead = [][]int64{{0}} // no nodes, and no room that is lacking
	x.run()
}

// wants lists what must have room with the i-th GPU model: of like members all of them; of unlike ones the class that
// lacks most, and one more that must be in the same domain.
func (c *claim) wants(i int) []place.Order {
	if c.alike {
		return []place.Order{c.orderOf(i)}
	}
	all := place.Certain(c.g, c.kins[i])
	if len(all) == 0 {
		return nil
	}
	size := func(o place.Order) int64 { return int64(len(o.Pods)) * max(1, o.Class.Shape.GPUs) }
	// The lead is the class whose lack explains that the gang does not start: of the classes without room the largest, in GPUs.
	// Where all have room one by one, they are in each other's way, and the largest of all leads.
	lead, lacks := all[0], false // lacks: of the lead, some have no room now
	for _, o := range all {
		_, ok := c.y.placer.ChooseScope(o)
		if !ok && !lacks || ok == !lacks && size(o) > size(lead) {
			lead, lacks = o, !ok
		}
	}
	out := []place.Order{lead}
	// A second class is counted with the first only where both must be in the same domain: else room for the one may lie in
	// another region than room for the other, and one table would not say which.
	if lead.Layout.Required != c.g.Layout().Required {
		return out
	}
	for _, o := range all {
		n := len(o.Pods)
		if o.Class == lead.Class || o.Layout.Required != lead.Layout.Required || n > secondPods || n*len(lead.Pods) > searchPods {
			continue
		}
		if len(out) == 1 || size(o) > size(out[1]) {
			out = append(out[:1], o)
		}
	}
	return out
}

// regionSearch is the search in one region.
type regionSearch struct {
	*search
	v     *scan
	name  string
	wants []place.Order
	most  room // that is wanted
	lacks room // of that, what the nodes must have
	dim   int  // the resource that its nodes are compared by
	turn  uint64
	nodes []*searchNode
	ahead [][]int64            // by node and room: what it costs at the least from that node on
	parts map[*unit]int64      // of a unit: how much it gives in all of the region
	on    map[*unit][]partCost // where it counts
	paid  []int64              // by node: what counts there of the units that are chosen

	relief *relief // what could open a gate that is shut; nil: none is
	short  int64   // what that gate lacks

	chosen  []*unit
	cost    int64
	choices []choice // a stack
}

// choice is some of the units of a node, by position, and the room that it then has.
type choice struct {
	set   uint32
	room  room
	least int64
}

// cheapest is the first unit of the region's first node: one that is rather evicted than others of its cost.
func (x *regionSearch) cheapest() []*unit {
	for _, l := range x.nodes {
		if len(l.units) > 0 {
			return l.units[:1]
		}
	}
	return nil
}

// run searches the region: node by node, and then for what opens the gates.
func (x *regionSearch) run() {
	if x.gated {
		if gates := x.y.Gates(x.g); len(gates) > 0 {
			x.relief = x.findRelief(gates[0])
			x.short = x.relief.short
		}
	}
	x.branch(0, x.lacks)
}

// branch makes the room that is lacking from the i-th node on, in every way that could be cheaper than the set at hand. On the
// i-th node that is nothing, or one of the sets that enumerate lists; the one with the least bound goes first, so that a good
// set is found early and cuts the others.
func (x *regionSearch) branch(i int, lacks room) {
	// The order of these checks matters. The bound comes first because it is what makes the search short; that nothing is lacking
	// is asked before nodes[i] is, since behind the last node the bound is infinite unless nothing is lacking.
	if x.lowerBound(i, lacks) >= x.limit || x.spent() {
		return
	}
	if lacks == (room{}) {
		x.openGates(0)
		return
	}
	l := x.nodes[i]
	from := len(x.choices)
	// Units that were chosen on earlier nodes may have pods here. Then the node has more room than at first, without another
	// unit, and the empty set is worth offering.
	is := x.roomBeside(l)
	x.offer(i, lacks, 0, is)
	x.enumerate(i, lacks, 0, 0, is)
	// The choices of this node lie on one stack for the whole recursion. Deeper calls append behind them and cut back to where
	// they began, so mine stays valid, and the search allocates nothing once the stack has grown.
	mine := x.choices[from:]
	slices.SortStableFunc(mine, func(a, b choice) int { return cmp.Compare(a.least, b.least) })
	for _, o := range mine {
		// The choices are in the order of their bounds, and the limit may have come down since they were listed. So the first
		// that is too dear ends the loop.
		if o.least >= x.limit {
			break
		}
		was := len(x.chosen)
		for j, u := range l.units {
			if o.set>>j&1 == 1 && u.gone != x.turn {
				x.add(u)
			}
		}
		x.branch(i+1, lacks.less(o.room))
		x.undo(was)
	}
	x.choices = x.choices[:from]
}

// enumerate lists the sets of the node's units that add some from the j-th on to the set, which is chosen, and whose last unit
// makes more room. Others cannot be part of a cheapest set by counting: without their last unit there is the same room. A set
// that makes all the room that is lacking is not extended.
func (x *regionSearch) enumerate(i int, lacks room, set uint32, j int, is roomBeside) {
	l := x.nodes[i]
	for ; j < len(l.units) && !x.spent(); j++ {
		u := l.units[j]
		// It is chosen already, as a part of a gang that is also on an earlier node.
		if u.gone == x.turn {
			continue
		}
		x.steps++
		was := len(x.chosen)
		x.add(u)
		// Units only add to the cost: where the bound with u reaches the limit, so does every set that extends this one, and none
		// of them is enumerated.
		if x.lowerBound(i, lacks) < x.limit {
			with := x.roomBeside(l)
			// u is kept out of sets in which it is useless. Useless by counting is not useless to the model, which is what extend
			// is for.
			if with.more(is) {
				x.offer(i, lacks, set|1<<j, with)
			}
			if !with.holds(lacks) {
				x.enumerate(i, lacks, set|1<<j, j+1, with)
			}
		}
		x.undo(was)
	}
}

// offer lists the set, which is chosen, with each room that the node can have then: many pods of the first class and few of
// the second, or the other way round.
func (x *regionSearch) offer(i int, lacks room, set uint32, is roomBeside) {
	// From the most of the second class to none. The room of the first class can only grow on the way, and where it does not, the
	// pair with fewer of the second is no better than the one before.
	for b := lacks[1]; b >= 0; b-- {
		if b < lacks[1] && is[b] <= is[b+1] {
			continue // more of the one at no loss of the other
		}
		if is[b] < 0 {
			continue
		}
		r := room{is[b], b}
		x.choices = append(x.choices, choice{set, r, x.lowerBound(i+1, lacks.less(r))})
	}
}

// add counts the unit as gone. What is left of a gang goes with its members above the minimum, so that these are added too.
func (x *regionSearch) add(u *unit) {
	// A gang is not evicted below its minimum and left running. So the rest of a gang always comes with its members above the
	// minimum, and their cost counts for it.
	for _, o := range u.spare {
		if o.gone != x.turn {
			x.addOne(o)
		}
	}
	x.addOne(u)
}

func (x *regionSearch) addOne(u *unit) {
	u.gone = x.turn
	if x.v != nil {
		x.v.free(u, 1)
	}
	x.disruption.count(u, 1)
	x.cost += u.cost
	x.chosen = append(x.chosen, u)
	// What the gate lacks is counted down beside the room, in the same walk: a set must satisfy both.
	if x.relief != nil {
		x.short -= x.relief.gives[u]
	}
	for _, s := range x.on[u] {
		x.paid[s.node] += s.cost
		x.nodes[s.node].used++
	}
}

// undo takes back what was chosen since there were so many.
func (x *regionSearch) undo(to int) {
	for i := len(x.chosen) - 1; i >= to; i-- {
		u := x.chosen[i]
		u.gone = 0
		if x.v != nil {
			x.v.free(u, -1)
		}
		x.disruption.count(u, -1)
		x.cost -= u.cost
		if x.relief != nil {
			x.short += x.relief.gives[u]
		}
		for _, s := range x.on[u] {
			x.paid[s.node] -= s.cost
			x.nodes[s.node].used--
		}
	}
	x.chosen = x.chosen[:to]
}

// extend proposes what is chosen, which makes room by counting and yet was refused, with one more unit, then with two, and
// so on: whatever the reason is, one of the smallest sets that have it is found before the larger ones.
func (x *regionSearch) extend() {
	// By the number of units and not by their cost: the reason for a refusal is mostly a single pod that holds the one device, or
	// is the one that a rule minds, and one unit more is the likeliest remedy.
	for more := 1; more <= len(x.pool) && !x.spent(); more++ {
		// If not even the cheapest extension by so many is below the limit, none by more is.
		if !x.extendBy(more, 0) {
			return // all others cost too much
		}
	}
}

// extendBy proposes what is chosen with so many more of the candidates from the i-th on, and says whether there was any set
// of so many that is not too dear.
func (x *regionSearch) extendBy(more, i int) (any bool) {
	for ; i < len(x.pool) && !x.spent(); i++ {
		u := x.pool[i]
		if u.gone == x.turn {
			continue
		}
		x.steps++
		was := len(x.chosen)
		x.add(u)
		if x.costSoFar() < x.limit {
			switch {
			case more == 1:
				any = true
				x.propose()
			default:
				any = x.extendBy(more-1, i+1) || any
			}
		}
		x.undo(was)
	}
	return any
}

// propose tries out on the model the units that are chosen, which cost less than what is at hand.
func (x *regionSearch) propose() bool {
	// A trial places the gang on the model and costs far more than a step on counts, so the two have budgets of their own.
	x.asked++
	if !x.alike && !x.few {
		x.asked += 9 // to place unlike members is a search by itself
	}
	cost := x.costSoFar()
	for _, u := range x.chosen {
		x.lift(u)
	}
	// The model has the last word. Whatever the tables said, a set becomes the limit only if the gang starts with its victims
	// lifted, what is moved has a place, and no promise is broken.
	open := x.opens()
	if open {
		x.limit, x.best = cost, slices.Clone(x.chosen)
	} else {
		x.refused = true
	}
	for _, u := range x.chosen {
		x.restore(u)
	}
	return open
}
