package preempt

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/berth-dev/berth/engine/internal/place"
)

// The search for victims. It looks for the cheapest set of units that lets the claimant start. A set that breaks
// fewer disruption budgets is cheaper than any set that breaks more; among sets that break as many, disruption cost
// decides.
//
// There is one search, a branch and bound:
//
//   - It begins with a set that is found greedily (greedy.go). The cost of that set is the limit: whatever cannot
//     become cheaper is left alone.
//   - It goes from node to node of one region, a domain that all members must share. On each node it branches over
//     the smallest sets of units that make room for so many more pods, those first that could be cheapest.
//   - It knows the least that the nodes ahead cost (lowerbound.go), and the least that a shut gate costs (relief.go).
//     A branch is cut when its cost so far plus that bound reaches the limit.
//   - A set that makes room by counting is proposed to the model (trial.go), which knows what counting does not:
//     devices, unlike members, promises, GPU models. If the model agrees, the set becomes the new limit.
//   - Where there are few units, a set that the model refused is extended by one more unit, then by two, and so on.
//     Any set that will do contains one that makes room by counting, so with few units the result is the cheapest set
//     there is.
//
// For example, a claimant needs 72 GPUs, and gangs of 64, 24 and 72 GPUs may be evicted at costs of 41, 43 and 45 for
// each GPU:
//
//	first set, greedily          64 + 24 GPUs   64*41 + 24*43 = 3,656   the limit
//	bound before the first step  64 +  8 GPUs   64*41 +  8*43 = 2,968   below the limit: there may be better
//	branch without the first     72 GPUs        72*45         = 3,240   the model agrees: the new limit
//	branch with the first        64 + 24 GPUs   3,656                   cut
//
// The greedy pass pays for all of the second gang to use 8 of its 24 GPUs; the bound counts only what is used, which
// is why it is a bound and not the answer. The search finds the third gang alone.
//
// Why pruning is safe: a branch is cut only if its bound says that every set in it costs at least as much as a set
// that is known to work. Units only add to the cost of a set, and lowerbound.go says why the bound does not exceed
// it. Even a bound that is too high costs no more than a dearer set: each set was tried on the model before it is
// returned.
//
// Why the answer is deterministic: every list that is searched has an order that ends in a name, the limit only falls
// when a set is strictly cheaper, and the budget is counted in steps and trials, never in time. Equal states give
// equal plans on every machine.
//
// What it costs: at most searchSteps sets of one node's units, each a lookup and a few additions, and searchTests
// trials, each of which places the claimant on the model. The search ends at that budget, and the best set so far
// stands.

// worth is the price of a set of victims, as the greedy pass compares sets: less is better. The search puts the same
// order into one number (search.penalty).
type worth struct {
	// broken is how many evictions exceed what disruption budgets allow.
	broken int
	// cost is the disruption cost, in thousandths of GPU-seconds.
	cost int64
	// pods is how many pods are evicted.
	pods int
}

// less compares the three one after the other and never adds them up: no saving of work makes up for a broken budget,
// and the number of pods only decides between sets that lose the same work.
func (a worth) less(b worth) bool {
	return cmp.Or(cmp.Compare(a.broken, b.broken), cmp.Compare(a.cost, b.cost), cmp.Compare(a.pods, b.pods)) < 0
}

// choose lifts a set of victims that lets the gang start, and returns it; nil: there is none.
//
// When it returns a set, exactly its units are lifted, so that the caller can place the gang and write the evictions
// down without trying the set again. Without a set nothing is promised about what is lifted: the caller rolls the
// model back.
func (c *claim) choose() []*unit {
	// Without hope there is no region in which all units together would make room. Counting only leaves restrictions
	// out, so the model would refuse every set as well, and the search need not begin.
	found, hope := c.firstSet()
	if !hope {
		return nil
	}
	// The search may find a set where the greedy pass found none. That pass takes one bundle after the other and
	// never goes back, so it can run into a budget that another choice would have kept.
	//mutate: victims-search
	if c.improve(found) {
		found = true
	}
	if !found {
		return nil
	}
	return c.taken()
}

// The budget of a search. It is counted and not timed, so that the same state gives the same plan. The first two
// bound what a search costs; the others keep its tables small and each of its steps cheap.
const (
	// searchSteps is how many sets of one node's units are looked at for a claim.
	searchSteps = 20_000
	// searchTests is how often a set is tried out on the model for a claim. A claim of unlike members pays tenfold.
	searchTests = 400
	// searchPods is the largest claim, in pods, that is searched: the tables grow with the square of it.
	searchPods = 64
	// searchNodes is how many nodes of a region are looked at, those with the cheapest room.
	searchNodes = 32
	// searchUnits is how many units of a node are looked at, those that cost least for what they free.
	searchUnits = 16
	// secondPods is how many pods of a second class there may be: roomBeside has an entry for each.
	secondPods = 7
	// fewUnits is how few units can be gone through set by set: there are 2^14 = 16,384 sets, which is below
	// searchSteps.
	fewUnits = 14
	// fewTests replaces searchTests where units are few. It is for a whole cycle: what is left of it is the budget of
	// the next such claim, and never less than searchTests. Claims whose every set would delay a promise use it up, and
	// a cycle may have many of them.
	fewTests = 4000
)

// infinite is more than any set costs. It is a quarter of the largest number, so that adding two of them does not
// overflow.
const infinite = math.MaxInt64 / 4

// search is the search for a set of victims that is cheaper than the one at hand. It is made for one claim and one
// attempt. Below it is one regionSearch for each region; the limit and the budget are shared by all of them.
type search struct {
	*claim
	// pool is the units that each cost less than the limit by themselves: no other unit can be in a cheaper set.
	// While a region is searched all of them are on their nodes, except for those that are chosen.
	pool []*unit
	// penalty is what one eviction beyond a budget costs: one more than the cost of all units together.
	penalty int64
	// limit is the cost of the set at hand, penalties included; infinite: there is no set yet. It only ever falls.
	limit int64
	// tight lists the budgets that the set at hand uses up or breaks, in no order: each is only counted.
	tight []tightBudget
	// best is the cheapest set that the search itself has found; nil: the greedy set, if there is one, still stands.
	best []*unit
	// steps is how many sets of one node's units were looked at so far.
	steps int
	// asked is how many trials were spent so far.
	asked int

	// refused says that the model refused a set that makes room by counting.
	refused bool
	// extending says that this is the second pass, in which sets that the model refused are extended.
	extending bool
	// few says that there are so few units that all sets can be gone through.
	few bool
	// tests is the budget of trials: searchTests, or fewTests.
	tests int
}

// improve replaces the set that is lifted by a cheaper one, if it finds one, and says whether it did. found says
// whether a set is lifted at all; without one every set is an improvement. When improve returns, the units of the set
// that stands are lifted.
func (c *claim) improve(found bool) bool {
	// With so few units the result is the cheapest set there is, and a brute-force oracle in the tests holds it to
	// that.
	few := len(c.units) <= fewUnits
	// To move many workloads costs a trial for each that looks for a new place, and the tables of a large claim do
	// not pay. There the set that was found greedily stands. What has parts of one card is few.
	if !few && (c.moving && !c.onCard() || c.alike && len(c.orderOf(0).Pods) > searchPods) {
		return false
	}
	// The penalty is one more than the sum of all costs. A set with one broken budget more is then dearer than any
	// set with one less, so that worth becomes a single number which can be added up and bounded.
	w := &search{claim: c, limit: infinite, penalty: 1, few: few, tests: searchTests}
	if few {
		//mutate: search-few-in-a-cycle -> fewTests
		w.tests = max(searchTests, fewTests-c.y.asked)
	}
	var at []*unit
	for _, u := range c.units {
		w.penalty += u.cost
		if u.taken {
			at = append(at, u)
		}
	}
	if found {
		// A set that costs as much as the one at hand is no improvement. So the limit is exclusive throughout: a
		// branch is cut when its bound reaches the limit, not when it exceeds it.
		//
		// priceOf is asked now, because the units of the set are lifted and so the disruption that is counted is
		// theirs.
		w.limit = w.priceOf(at)
		//archtest:any-order budgets are added up, and each is looked at for itself
		for b, n := range c.disruption.of {
			if allowed := c.y.allowed(b); allowed > 0 && n >= allowed {
				w.tight = append(w.tight, tightBudget{b, allowed})
			}
		}
	}
	for _, u := range c.units {
		// A unit whose own cost reaches the limit is in no cheaper set. That shrinks the pool before any table is
		// made, and often to nothing: a single victim that is the cheapest of all ends the search here.
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
	// The tables of the search begin with no unit evicted, so the set at hand goes back onto its nodes first.
	for _, u := range at {
		c.restore(u)
	}
	// There are two passes. The first proposes only sets of which no unit can be spared by counting. If the model
	// refuses none of them, the search was complete, by its bound. If the model refused one, a set that contains it
	// may still do, because the model counts devices, rules and promises that the tables do not know; the second pass
	// goes through those.
	if w.run(); w.refused && few && !w.spent() {
		w.extending = true
		w.run()
	}
	if few {
		c.y.asked += w.asked
	}
	if w.best != nil {
		at = w.best
	}
	for _, u := range at {
		c.lift(u)
	}
	if w.best != nil {
		// The set may hold a unit that one which was chosen later has made superfluous.
		c.putBack()
	}
	return w.best != nil
}

// spent says whether the budget of the search is used up. It is asked at every branch, so that a search ends soon
// after.
func (x *search) spent() bool { return x.steps > searchSteps || x.asked > x.tests }

// run searches all regions of all kins, those first that could be cheapest.
func (w *search) run() {
	// Each kin is one way to serve the claimant: a GPU model and a flavor. All of them share the limit, so that a
	// cheap set of one way cuts the search of the others.
	for i := range w.kins {
		wants := w.wants(i)
		// Rules between pods, and devices that several nodes reach, are not counted: evicting a pod in one rack can
		// open another. Where all sets can be gone through, the model is asked about each instead.
		if len(wants) == 0 || len(wants[0].Pods) > searchPods || w.few && wants[0].Class.Elsewhere() {
			w.uncounted()
			continue
		}
		// All units of the pool count as gone while regions are looked for and their tables are made. A region that
		// lacks room even then is no region, and the knapsack of each node begins with what is free when everybody
		// has gone.
		v := w.newScan(wants[0])
		for _, u := range w.pool {
			v.enter(u)
		}
		for _, u := range w.pool {
			v.free(u, 1)
		}
		regions := v.regions(wants[0])
		// Where the nodes have room already, only limits of queues are in the way. Then one region without nodes
		// stands for all of them, and the search is for what opens the gate alone.
		if _, ok := w.y.placer.ChooseScope(wants[0]); ok && w.alike {
			regions = []*region{{}}
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
		// The region with the least bound goes first: its set is likely to cut the others. Ties are decided by the
		// unit that is rather evicted and then by name, never by the order of a map, so that equal states give equal
		// plans.
		slices.SortStableFunc(regional, func(a, b *regionSearch) int {
			return cmp.Or(cmp.Compare(a.lowerBound(0, a.lacks), b.lowerBound(0, b.lacks)), compareSets(a.cheapest(), b.cheapest()), strings.Compare(a.name, b.name))
		})
		for _, x := range regional {
			x.run()
		}
	}
}

// uncounted searches where nothing can be counted: a claim of too many pods, one whose pods are under rules, or one
// of unlike members of which none is certain to start. The bound is then 0, and every set that costs less than the
// limit is proposed, so that only few units can be searched this way. The first proposal is the empty set; the model
// refuses it, and the second pass extends it by one unit, two units, and so on.
func (w *search) uncounted() {
	if !w.few {
		return
	}
	w.y.scans++
	x := &regionSearch{search: w, turn: w.y.scans}
	// One row and one entry: there are no nodes, and no room is lacking.
	x.ahead = [][]int64{{0}}
	x.run()
}

// wants lists what must have room with the i-th kin. Of like members that is all of them. Of unlike members it is the
// class that lacks most, and at most one more that must be in the same domain; the model checks the rest. Leaving
// classes out only leaves restrictions out, so the bound remains one.
func (c *claim) wants(i int) []place.Order {
	if c.alike {
		return []place.Order{c.orderOf(i)}
	}
	all := place.Certain(c.g, c.kins[i])
	if len(all) == 0 {
		return nil
	}
	size := func(o place.Order) int64 { return int64(len(o.Pods)) * max(1, o.Class.Shape.GPUs) }
	// The lead is the class whose lack explains that the gang does not start: of the classes without room the
	// largest, in GPUs. Where each class has room by itself, the classes are in each other's way, and the largest of
	// all leads. lacks says that the lead has no room now.
	lead, lacks := all[0], false
	for _, o := range all {
		_, ok := c.y.placer.ChooseScope(o)
		if !ok && !lacks || ok == !lacks && size(o) > size(lead) {
			lead, lacks = o, !ok
		}
	}
	out := []place.Order{lead}
	// A second class is counted with the first only where both must be in the same domain. Otherwise room for the one
	// may lie in another region than room for the other, and one table could not say which.
	if lead.Layout.Required != c.g.Layout().Required {
		return out
	}
	for _, o := range all {
		n := len(o.Pods)
		// The two limits keep the tables small: an entry of roomBeside for each pod of the second class, and a row of
		// costs for each pair of numbers.
		if o.Class.ClassKey == lead.Class.ClassKey || o.Layout.Required != lead.Layout.Required || n > secondPods || n*len(lead.Pods) > searchPods {
			continue
		}
		if len(out) == 1 || size(o) > size(out[1]) {
			out = append(out[:1], o)
		}
	}
	return out
}

// regionSearch is the search in one region. The fields up to relief are made before it begins and hold throughout,
// but for paid; the others change with every unit that is added or undone. undo reverts whatever add does, so that
// branch leaves everything as it found it.
type regionSearch struct {
	*search
	// v counts the room on nodes; nil: nothing is counted (uncounted).
	v *scan
	// name is the name of the domain or node; "" for the whole cluster.
	name string
	// wants is what must have room here: one class, or two.
	wants []place.Order
	// most is the room that is wanted in all; it sets the size of the tables.
	most room
	// lacks is the part of most that the nodes of the search must provide. The rest has room elsewhere in the region.
	lacks room
	// dim is the resource that nodes are compared by: GPUs or, for pods without GPUs, the last of their demands.
	dim int
	// turn is the number of this search. A unit whose gone equals it is chosen.
	turn uint64
	// nodes are decided one after the other, in the order of boundRegion.
	nodes []*searchNode
	// ahead is, by node and code of a room, the least that the room costs from that node on. It has one row more than
	// nodes.
	ahead [][]int64
	// parts is how much of dim a unit gives on all nodes of the region together; share divides by it.
	parts map[*unit]int64
	// on lists where a unit counts, and with which part of its cost. A unit that is not listed on a node counts
	// nothing there.
	on map[*unit][]partCost
	// paid is, by node, the sum of the parts that count there of the units that are chosen.
	paid []int64

	// relief is what could open the first gate that is shut; nil: no gate is shut.
	relief *relief
	// short is how much that gate still lacks, in the parts of relief; at most 0: it is open as far as counting goes.
	short int64

	// chosen lists the units that count as gone, in the order in which they were added.
	chosen []*unit
	// cost is the sum of their costs, without penalties.
	cost int64
	// choices is a stack that all levels of branch share.
	choices []choice
}

// choice is one way to decide a node.
type choice struct {
	// set is the units of the node that go, as bits by position in searchNode.units.
	set uint32
	// room is what the node has then.
	room room
	// least is the lower bound of all sets that begin like this; choices are tried in its order.
	least int64
}

// cheapest returns the first unit of the region's first node that has any, for ties between regions.
func (x *regionSearch) cheapest() []*unit {
	for _, l := range x.nodes {
		if len(l.units) > 0 {
			return l.units[:1]
		}
	}
	return nil
}

// run searches the region: node by node, and then for what opens the gates. Of several gates that are shut only the
// first is counted; the others are left to the model, which looks at all of them.
func (x *regionSearch) run() {
	if x.gated {
		if gates := x.y.Gates(x.g); len(gates) > 0 {
			x.relief = x.findRelief(gates[0])
			x.short = x.relief.short
		}
	}
	x.branch(0, x.lacks)
}

// branch makes the lacking room on the nodes from the i-th on, in every way that could be cheaper than the set at
// hand. For the i-th node that means to evict none there, or one of the sets that enumerate lists. The choice with
// the least bound goes first, so that a good set is found early and cuts the others.
//
// Invariant: when branch returns, the units that are chosen, the scan and the stack of choices are as they were. Only
// limit, best and the counters of the budget differ.
func (x *regionSearch) branch(i int, lacks room) {
	// The order of these checks matters. The bound comes first because it is what makes the search short. Whether
	// anything is lacking is asked before nodes[i] is, since behind the last node the bound is infinite unless
	// nothing is lacking.
	if x.lowerBound(i, lacks) >= x.limit || x.spent() {
		return
	}
	if lacks == (room{}) {
		x.openGates(0)
		return
	}
	l := x.nodes[i]
	from := len(x.choices)
	// Units that were chosen on earlier nodes may have pods here. The node then has more room than at first without a
	// further unit, and the empty set is worth offering.
	is := x.roomBeside(l)
	x.offer(i, lacks, 0, is)
	x.enumerate(i, lacks, 0, 0, is)
	// The choices of this node lie on one stack for the whole recursion. Deeper calls append behind them and cut back
	// to where they began, so that mine stays valid, and the search allocates nothing once the stack has grown.
	mine := x.choices[from:]
	slices.SortStableFunc(mine, func(a, b choice) int { return cmp.Compare(a.least, b.least) })
	for _, o := range mine {
		// The choices are in the order of their bounds, and the limit may have come down since they were listed. The
		// first one that is too dear therefore ends the loop.
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

// enumerate lists the sets of the node's units that add some from the j-th on to the set, which is chosen, and whose
// last unit makes more room. Others cannot be part of a cheapest set by counting: without their last unit there is
// the same room for less. A set that makes all the lacking room is not extended.
//
// For example, nothing is free on a node with units a, b and c of 4 GPUs each, and one pod of 8 GPUs lacks room. {a}
// makes no room, and is extended but not offered. {a, b} makes room and is offered; {a, b, c} is never looked at.
// Then come {a, c} and {b, c}. Each set is looked at once, because units are added by increasing position.
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
		// Units only add to the cost. Where the bound with u reaches the limit, so does the bound of every set that
		// extends this one, and none of them is enumerated.
		if x.lowerBound(i, lacks) < x.limit {
			with := x.roomBeside(l)
			// A set in which u is useless is not offered. Useless by counting is not useless to the model; that is
			// what extend is for.
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

// offer lists the set, which is chosen, with each room that the node can have then: many pods of the first class and
// few of the second, or the other way round. With roomBeside {4, 2, 0} and two pods of the second class lacking, the
// rooms are {0, 2}, {2, 1} and {4, 0}, and each leaves the nodes behind something else to do.
func (x *regionSearch) offer(i int, lacks room, set uint32, is roomBeside) {
	// From the most of the second class to none, the room of the first class can only grow. Where it does not, the
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

// add counts the unit as gone. What is left of a gang goes only with its members above the minimum, since a gang is
// never evicted below its minimum while spare members run on. They are added first, and their cost counts as well.
func (x *regionSearch) add(u *unit) {
	for _, o := range u.spare {
		if o.gone != x.turn {
			x.addOne(o)
		}
	}
	x.addOne(u)
}

// addOne counts one unit as gone in everything that follows from it: the room on nodes, the disruption, the cost,
// what the gate lacks, and what is paid on nodes ahead. undo reverts the same fields.
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

// undo takes back, from the last to the first, what was chosen since there were so many.
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

// extend proposes what is chosen, which makes room by counting and yet was refused, with one more unit, then with
// two, and so on. Whatever the reason for the refusal is, one of the smallest sets that remove it is found before
// larger ones.
//
// It goes by the number of units and not by their cost, because the reason is mostly a single pod: the one that holds
// the device, or the one that a rule is about. One unit more is the likeliest remedy, and a set that works lowers the
// limit for all larger ones.
func (x *regionSearch) extend() {
	for more := 1; more <= len(x.pool) && !x.spent(); more++ {
		// If even the cheapest extensions by so many reach the limit, none by more is below it.
		if !x.extendBy(more, 0) {
			return
		}
	}
}

// extendBy proposes what is chosen with so many more units of the pool, from the i-th on. any says whether there was
// a set of so many below the limit. Units are added by increasing position, so that each set is proposed once.
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

// propose tries out on the model the units that are chosen, which cost less than the set at hand, and says whether
// the model agrees. If it does, they are the new set at hand. They are lifted only for the time of the trial.
func (x *regionSearch) propose() bool {
	// A trial places the gang on the model and costs far more than a step on counts, so the two have budgets of their
	// own. To place unlike members is a search by itself and counts as ten trials.
	x.asked++
	if !x.alike && !x.few {
		x.asked += 9
	}
	cost := x.costSoFar()
	for _, u := range x.chosen {
		x.lift(u)
	}
	// The model has the last word. Whatever the tables said, a set becomes the limit only if the gang starts with its
	// victims lifted, everything that is moved has a place, and no promise is broken.
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
