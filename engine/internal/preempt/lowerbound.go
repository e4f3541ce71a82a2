package preempt

import (
	"cmp"
	"math/bits"
	"slices"
	"strings"

	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/place"
	"github.com/berth-dev/berth/engine/internal/quantity"
)

// The lower bound of the search: the least that it costs to make the lacking room on the nodes that the search has
// not decided yet.
//
// The idea has two steps. Each node by itself is a small knapsack: which of the units on it free enough of one
// resource for k more pods, and at what cost (boundNode)? The answers of the nodes are then combined from the last
// node to the first, for every number of pods: ahead[i][k] is the least that room for k pods costs on the nodes i,
// i+1 and so on (boundRegion). Both tables are made once for each region, and the search then reads one entry at each
// step.
//
// For example, the claimant lacks room for two pods of 8 GPUs. Node A has room for one pod at a cost of 3 and for two
// at 7; node B has room for one pod at 4. The search decides A first:
//
//	          k=0  k=1        k=2
//	ahead[2]   0   infinite   infinite           behind the last node
//	ahead[1]   0   4          infinite           B
//	ahead[0]   0   min(4, 3)  min(7, 3+4) = 7    A and B
//
// If the set at hand costs 7 or less, the search ends before its first step. If the search leaves A alone,
// ahead[1][2] is infinite: B alone cannot hold two pods, and the branch is cut at once.
//
// The table is a bound because everything that it leaves out can only make a set dearer: other resources, devices,
// limits of queues, rules between pods. Three cases need care, since a plain sum would exceed the true cost:
//
//   - A unit with pods on several nodes counts on each of them with a part of its cost, in proportion to the resource
//     that it frees there (share). The parts never add up to more than the cost of the unit.
//   - A unit that the search has chosen already is paid for in full, and its parts on the nodes ahead are subtracted
//     again (paid).
//   - A disruption budget allows some evictions for nothing. The bound counts all of them, and subtracts once what
//     the budget still allows (slack).
//
// Where every unit is on one node, frees some of the resource there, and nothing of the above is in the way, the
// bound is exact; then the first set that the search completes is the cheapest one. Two classes of pods are counted
// together, because what they need on a node adds up. More classes would need a table with one more dimension each,
// so the model alone checks the others.
//
// Units. A cost is in thousandths of GPU-seconds (cost.go), plus the penalty for each eviction beyond a budget. Room
// is a number of pods. Amounts are in the unit of the one resource that nodes are compared by (regionSearch.dim):
// GPUs, MiB for parts of GPUs, or the resource's own unit for a claimant without GPUs.

// Disruption budgets. An eviction beyond a budget costs the penalty, which exceeds the cost of all units together. A
// set that breaks fewer budgets is therefore always the cheaper one, and a single number compares sets. For example,
// with three units that cost 40, 50 and 60 the penalty is 151: one broken budget costs more than evicting all three.

// tightBudget is a budget that the set at hand uses up or exceeds, while it allows at least one eviction. Other sets
// are likely to exceed it as well, and a bound that ignores it is so weak that the search ends at its budget of
// steps.
//
// How many evictions of a set exceed the budget depends on the whole set, which is not known in the middle of the
// search. So the bound counts every eviction that the budget covers as one beyond it, and subtracts what the budget
// still allows once (slack). For example, a budget allows 2 evictions, and a set has 3 pods under it. The bound
// counts 3 penalties and subtracts 2; the set really breaks the budget once. A set with 1 such pod counts 1, less 2:
// the bound is too low by one penalty, which is safe.
type tightBudget struct {
	// budget is the name of the budget.
	budget string
	// allowed is how many evictions the budget allows before anybody is evicted for this claim; it is above 0.
	// Budgets that allow none are counted unit by unit (overBudget).
	allowed int
}

// priceOf returns the cost of the units, with a penalty for each eviction beyond a budget. The units must be lifted,
// and no others: the disruption that is counted follows lift and restore, so it would otherwise be that of another
// set.
func (w *search) priceOf(units []*unit) int64 {
	broken, _ := w.y.broken(&w.disruption)
	sum := w.penalty * int64(broken)
	for _, u := range units {
		sum += u.cost
	}
	return sum
}

// overBudget counts the evictions beyond budgets that the unit causes whatever else is evicted: those of its pods
// that a budget covers which allows nothing. A pod under two such budgets counts twice, as in broken.
func (w *search) overBudget(u *unit) (sum int64) {
	if !u.budgeted {
		return 0
	}
	for _, p := range u.pods {
		for _, b := range p.Budgets {
			if w.y.allowed(b) == 0 {
				sum++
			}
		}
	}
	return sum
}

// budgetLoad counts the evictions beyond budgets that the bound charges to the unit: those that are certain
// (overBudget), and every pod under a tight budget. A tight budget may still allow some of the latter. What it allows
// is subtracted for the set as a whole (slack) and not for each unit, because two units cannot both use the same
// allowance.
func (w *search) budgetLoad(u *unit) int64 {
	sum := w.overBudget(u)
	for _, t := range w.tight {
		for _, p := range u.pods {
			if slices.Contains(p.Budgets, t.budget) {
				sum++
			}
		}
	}
	return sum
}

// slack counts the evictions that tight budgets still allow beside the units that are chosen. A budget that is
// exceeded already has no slack: for it each further eviction counts in full.
func (w *search) slack() (sum int64) {
	for _, t := range w.tight {
		sum += int64(max(0, t.allowed-w.disruption.of[t.budget]))
	}
	return sum
}

// costSoFar returns the cost of the units that are chosen so far; infinite where they break a budget that must be
// kept. It never decreases as units are added, so a branch may be cut by it at any time.
func (x *regionSearch) costSoFar() int64 {
	if len(x.disruption.of) == 0 {
		return x.cost
	}
	// A queue can ask that its budgets are never broken (KeepBudgets). A set that breaks one of them is of no use,
	// and neither is any set that contains it: more victims do not mend a broken budget.
	broken, never := x.y.broken(&x.disruption)
	if never {
		return infinite
	}
	return x.cost + x.penalty*int64(broken)
}

// lowerBound returns the least that any set can cost which contains the units chosen so far and makes the lacking
// room on the nodes from the i-th on. infinite means that there is no such set among the units that the search looks
// at.
//
// It costs one lookup and a sum over the nodes ahead, at most searchNodes of them where units are many.
func (x *regionSearch) lowerBound(i int, lacks room) int64 {
	// The bound has three parts. so is the cost of what is chosen; more is the least that the nodes ahead cost; what
	// a shut gate lacks is a bound of its own. The last two are compared and not added, because one unit may serve
	// both.
	more := x.ahead[i][x.code(lacks)]
	if more >= infinite {
		return infinite
	}
	// A unit that is chosen already may also be on nodes ahead, where the table counts a part of its cost again. For
	// example, a gang on two nodes is chosen for the first of them at its full cost. The table still asks for the
	// half that is counted on the second node, although the room there is free by now. Without the subtraction the
	// bound would exceed the true cost.
	for _, paid := range x.paid[i:] {
		more -= paid
	}
	so := x.costSoFar()
	// The table charges evictions that tight budgets still allow, so slack is subtracted from it. What is chosen is a
	// bound without the table, whatever is subtracted: hence the outer maximum.
	least := max(so, so-x.penalty*x.slack()+max(0, more))
	if x.relief != nil {
		least = max(least, so+x.relief.ahead[0][max(0, x.short)])
	}
	return min(infinite, least)
}

// room is a number of pods of the first class that is wanted, and one of the second. A claim of like members has one
// class, and the second number is 0.
type room [2]int64

// less returns the room that is still lacking once the other room is there; more than enough counts as enough.
func (r room) less(o room) room { return room{max(0, r[0]-o[0]), max(0, r[1]-o[1])} }

// code numbers the rooms from nothing up to what is wanted, row by row: the position of a room in a table of costs.
// With 3 pods of the first class and 2 of the second wanted there are 4*3 = 12 rooms, and room{1, 2} has the number
// 1*3+2 = 5.
func (x *regionSearch) code(r room) int { return int(r[0]*(x.most[1]+1) + r[1]) }

// roomBeside is indexed by a number of pods of the second class, and says how many pods of the first class have room
// on a node beside so many of the second; -1: so many of the second have no room themselves, and neither have more.
// For example, on a node with 8 free GPUs, for pods of 2 and of 4 GPUs, it is {4, 2, 0, -1, ...}. The entries never
// increase with the index, because both classes draw on the same resources.
type roomBeside [secondPods + 1]int64

// searchNode is a node of the region with what its units would free. prepare makes it; during the search only used
// changes, and the fields that it has from candidateNode change as units are counted as gone and there again.
type searchNode struct {
	*candidateNode
	// has is how many pods of either class by itself have room before anybody is evicted, as the index counts them.
	has room
	// may says which of the classes are admitted on the node at all.
	may [2]bool
	// units is at most searchUnits of the units with pods here, those first that cost least for what they free. A bit
	// of choice.set is a position in it.
	units []*unit
	// top is the most of either class that has room with all units of the pool gone; not necessarily of both at once.
	top room
	// costs is, by code of a room up to top, the least that it costs to have it here; infinite: no set of units does.
	costs []int64
	// rate is the least that one pod of either class costs here; infinite where no units make room. Nodes are put in
	// order by it.
	rate int64
	// now is what has room with none of the units gone.
	now roomBeside
	// used is how many of the units that are chosen have pods here. At 0 the index has the say about room, above 0
	// counting.
	used int
	// bound says that costs is only a bound: some unit is on other nodes too, is covered by a budget, or goes with
	// other units of its gang.
	bound bool
}

// partCost is the part of a unit's cost that counts on one node, by position in regionSearch.nodes.
type partCost struct {
	node int
	cost int64
}

// prepare makes the search of a region ready: it finds the nodes that matter, what room costs on each of them, and
// what they cost together. All units of the pool must be counted as gone meanwhile, since the knapsack of a node
// begins with what is free then and takes back what each unit that stays would take.
//
// A region of many nodes is cut down to the searchNodes nodes with the cheapest room, unless all sets can be gone
// through. The bound is then one for sets on these nodes alone, and a cheaper set elsewhere is not found; the greedy
// set, which looked at all nodes, remains as the fallback.
func (w *search) prepare(v *scan, r *region, wants []place.Order) *regionSearch {
	w.y.scans++
	x := &regionSearch{search: w, v: v, name: r.name, wants: wants, turn: w.y.scans, dim: quantity.DimGPU,
		parts: make(map[*unit]int64), on: make(map[*unit][]partCost)}
	if v.class.Shape.GPUs == 0 {
		x.dim = v.class.Demands[len(v.class.Demands)-1].Dim
	}
	for i, o := range wants {
		x.most[i] = int64(len(o.Pods))
	}
	if len(wants) > 1 {
		x.addContested(r)
	}
	// A node matters if units of the pool change its room, or if both classes want the room that it has already.
	for _, t := range r.nodes {
		if l := x.node(t); x.roomBeside(l) != l.now || l.roomForBoth() {
			x.nodes = append(x.nodes, l)
			for _, u := range t.units {
				x.parts[u] += x.gives(u, l)
			}
		}
	}
	for _, l := range x.nodes {
		l.top = x.roomBeside(l).top()
		l.used = 0
		x.boundNode(l)
	}
	if len(x.nodes) > searchNodes && !w.few {
		slices.SortFunc(x.nodes, func(a, b *searchNode) int {
			return cmp.Or(cmp.Compare(a.rate, b.rate), strings.Compare(a.node.Name, b.node.Name))
		})
		x.nodes = x.nodes[:searchNodes]
	}
	// lacks is what the nodes of the search must provide: what is wanted, less what has room on all other nodes of
	// the region. Those keep their room whatever is evicted, so it is counted once and not searched.
	for i, o := range wants {
		if r.nodes == nil {
			break // there is room already
		}
		elsewhere := r.fits(w.y.Candidates, o.Class)
		for _, l := range x.nodes {
			elsewhere -= l.has[i]
		}
		x.lacks[i] = max(0, x.most[i]-elsewhere)
	}
	x.boundRegion()
	return x
}

// node makes a searchNode of a node whose units are counted as gone.
func (x *regionSearch) node(t *candidateNode) *searchNode {
	// Two views of the node meet here. has comes from the index, which knows devices, ports and rules between pods;
	// now and top come from counting resources, which knows what units would free. Where no unit is chosen the index
	// has the say (roomBeside).
	l := &searchNode{candidateNode: t, has: x.has(t.node)}
	for i, o := range x.wants {
		l.may[i] = x.v.admits(o.Class, t.node)
	}
	// With one class the scan's count with all units gone will do, because used is 0 and so now is capped by has.
	// With two classes it matters how many of each have room side by side before anybody goes, so the units are
	// counted as there again for a moment.
	if len(x.wants) == 1 {
		l.now = x.roomBeside(l)
	} else {
		for _, u := range t.units {
			x.v.free(u, -1)
		}
		l.now = x.roomBeside(l)
		for _, u := range t.units {
			x.v.free(u, 1)
		}
	}
	// From here on the node is counted by resources alone, as if a unit were chosen: prepare compares that count,
	// with all units gone, with now. prepare sets used to 0 again before the search begins.
	l.used = 1
	return l
}

// has returns the room that the node has already for either class by itself, as the index counts it.
func (x *regionSearch) has(n *cluster.Node) (r room) {
	for i, o := range x.wants {
		r[i] = int64(o.Class.ByBucket[n.Bucket.ID].Cells[n.Slot].Fits)
	}
	return r
}

// roomForBoth says whether the node has room already for both classes. It may not have room for both at once, so that
// even a node without units decides which of the two must get room elsewhere. For example, 4 free GPUs hold one pod
// of 4 GPUs or two of 2.
func (l *searchNode) roomForBoth() bool { return l.has[0] > 0 && l.has[1] > 0 }

// addContested adds to the region the nodes without units that have room for either class. A copy of the list is
// extended, because the scan and other regions share the original.
func (x *regionSearch) addContested(r *region) {
	for _, sh := range x.y.m.Topology.Buckets {
		if r.domain != nil && !slices.Contains(sh.Domains, r.domain) || r.node != nil {
			continue
		}
		for _, n := range sh.Nodes {
			if has := x.has(n); has[0] == 0 || has[1] == 0 {
				continue
			}
			if t := x.v.candidate(n); t != nil && len(t.units) == 0 {
				r.nodes = append(r.nodes[:len(r.nodes):len(r.nodes)], t)
			}
		}
	}
}

// roomBeside counts what has room on the node with the units gone that are chosen so far. Where none of its own units
// is chosen, that is no more than the index says.
func (x *regionSearch) roomBeside(l *searchNode) roomBeside {
	// The loop ends at the first number of pods of the second class that has no room: more of them have none either.
	out := roomBeside{-1, -1, -1, -1, -1, -1, -1, -1}
	for b := range x.most[1] + 1 {
		if b > 0 && (!l.may[1] || l.used == 0 && b > l.has[1]) {
			break
		}
		a := x.beside(l, b)
		if a < 0 {
			break
		}
		// Before anybody goes the index has the last word: a GPU may be free by count and yet be of the wrong model.
		if l.used == 0 {
			a = min(a, l.has[0])
		}
		out[b] = min(a, x.most[0])
	}
	return out
}

// beside counts the pods of the first class that have room on the node, by resources, beside so many of the second;
// -1: so many of the second have no room.
func (x *regionSearch) beside(l *searchNode, others int64) int64 {
	if others == 0 {
		return x.v.slots(l.candidateNode)
	}
	// Pods that must have the node to themselves keep both classes off it (candidateNode.spoils).
	if l.spoils > 0 {
		return -1
	}
	for _, d := range x.wants[1].Class.Demands {
		if l.free.At(d.Dim) < others*d.Amount {
			return -1
		}
	}
	k := x.most[0]
	for _, d := range x.wants[0].Class.Demands {
		left := l.free.At(d.Dim)
		for _, o := range x.wants[1].Class.Demands {
			if o.Dim == d.Dim {
				left -= others * o.Amount
			}
		}
		k = min(k, left/d.Amount)
	}
	return k
}

// top returns the most of either class: an upper corner, which the node need not have room for at once.
func (s roomBeside) top() (r room) {
	for b, a := range s {
		if a >= 0 {
			r[0], r[1] = max(r[0], a), int64(b)
		}
	}
	return r
}

// holds says whether the room is there.
func (s roomBeside) holds(r room) bool { return s[r[1]] >= r[0] }

// more says whether there is more room than in the other for any number of pods of the second class.
func (s roomBeside) more(o roomBeside) bool {
	for b := range s {
		if s[b] > o[b] {
			return true
		}
	}
	return false
}

// frees returns how much of the resource the unit's pods free on the node; 0 for a launcher without GPUs, say.
func (x *regionSearch) frees(u *unit, l *searchNode) (sum int64) {
	if l.cards.of != nil {
		return l.cards.freed(u, x.wants[0].Class)
	}
	for _, p := range u.pods {
		if p.Host == l.node {
			sum += p.Amount(x.dim)
		}
	}
	return sum
}

// gives is frees, and 1 where that is nothing: every unit has a ratio of cost to amount, and a part of its cost everywhere.
func (x *regionSearch) gives(u *unit, l *searchNode) int64 { return max(1, x.frees(u, l)) }

// share returns the part of the unit's cost that counts on the node: in proportion to what it gives there, of all
// that it gives on the nodes of the search. The result is rounded down, so that the parts of a unit never add up to
// more than its cost. For example, a gang that costs 100 and frees 8 GPUs on one node and 4 on another counts 66 and
// 33.
func (x *regionSearch) share(u *unit, l *searchNode) int64 {
	cost := u.cost + x.penalty*x.budgetLoad(u)
	if part := x.gives(u, l); part < x.parts[u] {
		hi, lo := bits.Mul64(uint64(cost), uint64(part))
		down, _ := bits.Div64(hi, lo, uint64(x.parts[u]))
		return int64(down)
	}
	return cost
}

// boundNode fills units, bound, costs and rate: for each number of pods up to top, the least that units of this node must
// cost so that so many have room here. It is a knapsack over the one resource that nodes are compared by: leaving out all
// others keeps the result a bound, since they can only rule out more sets.
func (x *regionSearch) boundNode(l *searchNode) {
	// idle is what is free before any unit goes, and can be negative where places are held that no pod has left room
	// for. All units are counted as gone at this point, so what they give is subtracted again.
	idle := l.free.At(x.dim)
	for _, u := range l.candidateNode.units {
		//mutate: bound-frees-nothing -> x.gives(u, l)
		idle -= x.frees(u, l)
	}
	if l.cards.of != nil {
		idle = l.cards.idle
	}
	// The units that free most for their cost come first; a tie goes to the unit that is rather evicted.
	l.units = slices.Clone(l.candidateNode.units)
	slices.SortFunc(l.units, func(a, b *unit) int {
		return cmp.Or(compareProducts(x.share(a, l), x.gives(b, l), x.share(b, l), x.gives(a, l)), compareUnits(b, a))
	})
	// Of a node with more than searchUnits units the rest is left to the greedy set: the frontier would grow with
	// them, and the sets of enumerate are bits of a 32-bit number.
	l.units = l.units[:min(len(l.units), searchUnits)]
	// single is the least cost of a single unit, whatever it frees: one that frees nothing of the resource never enters the
	// frontier, and may free another resource that is short.
	loads, single := x.frontier(l), int64(infinite)
	for _, u := range l.units {
		single = min(single, x.share(u, l))
		l.bound = l.bound || u.budgeted || x.gives(u, l) < x.parts[u] || len(u.spare) > 0 || u.rest != nil
	}
	l.costs, l.rate = slices.Repeat([]int64{infinite}, x.code(l.top)+1), infinite
	x.rooms(l.top, func(r room) {
		if r == (room{}) {
			// No room is wanted, so no unit need go, even where less than nothing is free.
			l.costs[0] = 0
			return
		}
		// need is how much of the resource units must free for these pods. A demand of the pods that is not of this
		// resource is left out.
		need := -idle
		for i, o := range x.wants {
			if l.cards.of != nil {
				need += r[i] * l.cards.each(o.Class, x.wants[0].Class)
				continue
			}
			for _, d := range o.Class.Demands {
				if d.Dim == x.dim {
					need += r[i] * d.Amount
				}
			}
		}
		least := int64(infinite)
		switch i := slices.IndexFunc(loads, func(n load) bool { return n.amount >= need }); {
		case need <= 0 && l.now.holds(r):
			least = 0
		// The resource suffices, and yet the room is not there: it is another one that is short, of which some unit must free some.
		case need <= 0:
			least = single
		// The first set that frees enough is the cheapest one that does, because loads is sorted by cost.
		case i >= 0:
			least = loads[i].cost
		}
		l.costs[x.code(r)] = least
		if 0 < least && least < infinite {
			l.rate = min(l.rate, least/(r[0]+r[1]))
		}
	})
}

// load is a set of units of one node: how much of the resource they free there, and what they cost (share).
type load struct{ amount, cost int64 }

// frontier lists the sets of the node's units of which none frees as much as another for no more, by increasing cost and so
// by increasing amount. The first is the empty set, which frees nothing at no cost.
//
// The method is the textbook one for small amounts. For each unit the frontier is doubled, every set with the unit and
// without it, and thinned again. For example, there are units of 4 GPUs for 3, of 4 GPUs for 5 and of 8 GPUs for 5. Written
// amount:cost, the frontier grows as follows. In the end 8 GPUs cost 5, by the third unit alone.
//
//	          0:0
//	+ 4:3     0:0  4:3
//	+ 4:5     0:0  4:3  8:8
//	+ 8:5     0:0  4:3  8:5  12:8  16:13
//
// It costs a sort of the frontier for each unit. With GPUs the amounts are small whole numbers, and the frontier has some
// hundred entries at the most; with MiB or bytes, where sums rarely coincide, it could double with each unit, up to 2^16
// entries.
func (x *regionSearch) frontier(l *searchNode) []load {
	loads := []load{{}}
	for _, u := range l.units {
		amount, cost := x.frees(u, l), x.share(u, l)
		for _, have := range loads[:len(loads):len(loads)] {
			loads = append(loads, load{have.amount + amount, have.cost + cost})
		}
		slices.SortFunc(loads, func(a, b load) int {
			return cmp.Or(cmp.Compare(a.cost, b.cost), -cmp.Compare(a.amount, b.amount))
		})
		kept := loads[:0]
		for _, n := range loads {
			// The list is sorted by cost, so a set is worth keeping only if it frees more than every cheaper one.
			// Dropping the others is safe: wherever one of them would be used, a cheaper set that frees as much can
			// be used instead.
			if len(kept) == 0 || n.amount > kept[len(kept)-1].amount {
				kept = append(kept, n)
			}
		}
		loads = kept
	}
	return loads
}

// rooms visits every room from nothing up to top, in the order of code.
func (x *regionSearch) rooms(top room, visit func(room)) {
	for a := range top[0] + 1 {
		for b := range top[1] + 1 {
			visit(room{a, b})
		}
	}
}

// boundRegion puts the nodes in order and combines their costs from the last node to the first.
//
// Nodes whose own costs are only a bound come first. Once the search has decided them, the table for the nodes behind
// them is exact, so that it makes no step there which a better bound would have saved. The last key is the node's
// name, so that the order, and with it the set that is found at the end of the budget, never depends on the order of
// a map.
//
// It costs, for each node, the number of rooms that are lacking times the number that the node can have: for a claim
// of 64 like pods on nodes of 8 pods, at most 65*9 additions a node.
func (x *regionSearch) boundRegion() {
	slices.SortFunc(x.nodes, func(a, b *searchNode) int {
		if a.bound != b.bound {
			return cluster.Before(a.bound)
		}
		return cmp.Or(cmp.Compare(a.rate, b.rate), strings.Compare(a.node.Name, b.node.Name))
	})
	// There is one row for each node and one behind the last, in which nothing costs nothing and all other rooms are
	// out of reach. Row i follows from row i+1 alone.
	x.paid = make([]int64, len(x.nodes))
	x.ahead = make([][]int64, len(x.nodes)+1)
	x.ahead[len(x.nodes)] = slices.Repeat([]int64{infinite}, x.code(x.most)+1)
	x.ahead[len(x.nodes)][0] = 0
	for i := len(x.nodes) - 1; i >= 0; i-- {
		l := x.nodes[i]
		for _, u := range l.units {
			x.on[u] = append(x.on[u], partCost{i, x.share(u, l)})
		}
		x.ahead[i] = slices.Clone(x.ahead[i+1])
		// For every room r that may still be lacking when the search comes to node i, the node gives some part n of
		// it, for what n costs there, and the nodes behind give the rest. A node that gives more than is lacking
		// counts as one that gives just that, so n need not go beyond r. Entries for rooms beyond x.lacks are never
		// read, since what is lacking only shrinks.
		x.rooms(x.lacks, func(r room) {
			least := x.ahead[i+1][x.code(r)]
			for a := int64(0); a <= min(r[0], l.top[0]); a++ {
				for b := int64(0); b <= min(r[1], l.top[1]); b++ {
					n := room{a, b}
					least = min(least, l.costs[x.code(n)]+x.ahead[i+1][x.code(r.less(n))])
				}
			}
			x.ahead[i][x.code(r)] = least
		})
	}
}
