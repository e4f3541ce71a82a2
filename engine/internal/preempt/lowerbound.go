package preempt

import (
	"cmp"
	"slices"
	"strings"

	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/place"
	"github.com/berth-dev/berth/engine/internal/quantity"
)

// The lower bound of the search: what it costs at the least to make so much room on the nodes that are still ahead.
//
// Each node by itself is a small knapsack: which units, of all that are on it, free enough of one resource for k more pods,
// and what do they cost at the least? A unit with pods on several nodes counts on each with the part of its cost that is
// the part of its resource there, so that the sum over nodes never counts more than its cost. The nodes are then added up
// from the last to the first, for every number of pods: ahead[i][k] is the least that k pods cost on nodes i, i+1, and so on.
//
// For example, with nodes A (one pod for 3, two for 7) and B (one pod for 4), two pods cost min(7, 3+4) = 7.
//
// It is a bound because whatever it leaves out only makes sets dearer: other resources, devices, limits, budgets. Where each
// unit is on one node and none of these is in the way it is exact, and the first set that the search finds is the cheapest.
// Two classes of pods are counted together, since what they need on a node adds up; others are left to the model.

// Disruption budgets. An eviction beyond a budget costs the penalty, which is more than all units together: so a set that
// breaks fewer budgets is always the cheaper one, and one number compares sets.

// tightBudget is a budget that the set at hand exceeds, or uses up: other sets are likely to exceed it, and a bound that does not
// see that has the search end at its budget of steps. How many evictions of a set are beyond it depends on the whole set, which is
// not known in the middle of the search. So the bound counts every eviction that the budget covers as one beyond
// it, and takes what the budget still allows off again once (slack). No set costs less than that says.
type tightBudget struct {
	budget  string
	allowed int
}

// priceOf is what the units cost, which are lifted and nobody else.
// The disruption that is counted must be theirs and nobody else's, so it is asked for while they are lifted.
func (w *search) priceOf(units []*unit) int64 {
	broken, _ := w.y.broken(&w.disruption)
	sum := w.penalty * int64(broken)
	for _, u := range units {
		sum += u.cost
	}
	return sum
}

// overBudget is how many evictions beyond budgets the unit is whatever else is evicted: its pods are covered by budgets that
// allow nothing.
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

// budgetLoad is how many evictions beyond budgets the bound counts for the unit.
// Of a tight budget every pod of the unit counts, although the budget may still allow some of them: slack gives that back, once
// for the whole set and not once for each unit. The sum is then never more than what the set breaks.
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

// slack is what tight budgets allow beyond what is taken of them.
func (w *search) slack() (sum int64) {
	for _, t := range w.tight {
		sum += int64(max(0, t.allowed-w.disruption.of[t.budget]))
	}
	return sum
}

// costSoFar is what the units cost that are chosen so far.
func (x *regionSearch) costSoFar() int64 {
	if len(x.disruption.of) == 0 {
		return x.cost
	}
	// Some budgets are kept whatever the gain: a queue can ask for that (KeepBudgets). A set that breaks one is worth nothing,
	// and neither is any that contains it.
	broken, never := x.y.broken(&x.disruption)
	if never {
		return infinite
	}
	return x.cost + x.penalty*int64(broken)
}

// lowerBound is the least that any set can cost that contains the units chosen so far and makes the room that is lacking from
// the i-th node on. It costs a sum over the nodes ahead.
func (x *regionSearch) lowerBound(i int, lacks room) int64 {
	// Three parts add up to the bound: what is chosen (so), what the nodes ahead cost at the least (more), and what gates lack,
	// which is a bound of its own and is not added: one unit may serve both.
	more := x.ahead[i][x.code(lacks)]
	if more >= infinite {
		return infinite
	}
	// Units that are chosen already may be on nodes ahead, where the table counts a part of their cost again.
	// For example, a gang of two nodes is chosen for the first of them, at its full cost. The table for the second node still
	// asks for the half of the gang's cost that is counted there, though the room is free by now. Without this the bound would
	// exceed the truth.
	for _, paid := range x.paid[i:] {
		more -= paid
	}
	so := x.costSoFar()
	// Slack is taken off because the table counted evictions that budgets still allow; what is chosen is a bound without it.
	least := max(so, so-x.penalty*x.slack()+max(0, more))
	if x.relief != nil {
		least = max(least, so+x.relief.ahead[0][max(0, x.short)])
	}
	return min(infinite, least)
}

// room is for so many pods of the first class that is wanted, and of the second. Claims of like members have one class, and
// the second number is 0.
type room [2]int64

// less is what is left to make of the room once the other room is there.
func (r room) less(o room) room { return room{max(0, r[0]-o[0]), max(0, r[1]-o[1])} }

// code numbers the rooms up to what is wanted, row by row: the position in a table of costs.
func (x *regionSearch) code(r room) int { return int(r[0]*(x.most[1]+1) + r[1]) }

// roomBeside is, by number of pods of the second class on a node, how many of the first have room beside them; -1: none, as
// those have no room themselves.
type roomBeside [secondPods + 1]int64

// searchNode is a node of the region with what its units would free.
type searchNode struct {
	*candidateNode
	has   room       // pods that go there already
	may   [2]bool    // which of the classes may be there
	units []*unit    // the cheapest first
	top   room       // with all of them gone
	costs []int64    // by room: what it costs at the least
	rate  int64      // the same for each pod
	now   roomBeside // with none of them gone
	used  int        // how many of its units are chosen
	bound bool       // some of its units are on other nodes too, are covered by budgets, or go with others: its costs are a bound only
}

// partCost is what counts of a unit's cost on a node.
type partCost struct {
	node int
	cost int64
}

// prepare gets the search in a region ready: which of its nodes matter, what each of them costs at the least, and what they
// cost together. All units of the pool are counted as gone meanwhile. Of many nodes those with the cheapest room are kept: the
// bound is one of sets on these nodes then.
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
	for _, t := range r.nodes {
		if l := x.node(t); x.roomBeside(l) != l.now || l.contested() {
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
	// Two views of the node meet here. has is what the index says, which knows devices, ports and rules; now and top come from
	// counting resources, which knows what units would free. Where no unit is chosen the index has the say (roomBeside).
	l := &searchNode{candidateNode: t, has: x.has(t.node)}
	for i, o := range x.wants {
		l.may[i] = x.v.admits(o.Class, t.node)
	}
	// Of one class the scan's own count stands with all units gone, and l.now is only compared with itself. Of two classes it
	// matters how many of each have room as things are, so the units are put back for the moment of the count.
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
	// With used above 0 the node is counted by resources alone: prepare asks for it with all units gone, and resets it.
	l.used = 1
	return l
}

// has is what has room on the node already, of either class by itself.
func (x *regionSearch) has(n *cluster.Node) (r room) {
	for i, o := range x.wants {
		r[i] = int64(o.Class.ByBucket[n.Bucket.ID].Cells[n.Slot].Fits)
	}
	return r
}

// contested says whether there is room already for either class. There may not be room for both at once, so that even
// a node without units decides which of the two must get room elsewhere.
func (l *searchNode) contested() bool { return l.has[0] > 0 && l.has[1] > 0 }

// addContested adds to the region the nodes without candidates that have room for either class: not for both at once.
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

// roomBeside counts what has room on the node as it is: where none of its units is chosen, no more than the state says.
func (x *regionSearch) roomBeside(l *searchNode) roomBeside {
	// The entry for b pods of the second class is the most of the first that have room beside them. It falls as b grows, because
	// both draw on the same resources.
	out := roomBeside{-1, -1, -1, -1, -1, -1, -1, -1}
	for b := range x.most[1] + 1 {
		if b > 0 && (!l.may[1] || l.used == 0 && b > l.has[1]) {
			break
		}
		a := x.beside(l, b)
		if a < 0 {
			break
		}
		// As things are, no more fit than the index says, whatever is free by count: a GPU may be free and of the wrong model.
		if l.used == 0 {
			a = min(a, l.has[0])
		}
		out[b] = min(a, x.most[0])
	}
	return out
}

// beside is how many pods of the first class have room on the node beside so many of the second, by resources; -1: those
// have none.
func (x *regionSearch) beside(l *searchNode, others int64) int64 {
	if others == 0 {
		return x.v.slots(l.candidateNode)
	}
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

// top is the most of either class.
func (s roomBeside) top() (r room) {
	for b, a := range s {
		if a >= 0 {
			r[0], r[1] = max(r[0], a), int64(b)
		}
	}
	return r
}

// holds says whether there is that room.
func (s roomBeside) holds(r room) bool { return s[r[1]] >= r[0] }

// more says whether there is more room anywhere than in the other.
func (s roomBeside) more(o roomBeside) bool {
	for b := range s {
		if s[b] > o[b] {
			return true
		}
	}
	return false
}

// gives is how much of the resource the unit's pods leave on the node, at least 1.
func (x *regionSearch) gives(u *unit, l *searchNode) int64 {
	if l.cards.of != nil {
		return max(1, l.cards.freed(u, x.wants[0].Class))
	}
	var sum int64
	for _, p := range u.pods {
		if p.Host == l.node {
			sum += p.Amount(x.dim)
		}
	}
	return max(1, sum)
}

// share is what of the unit's cost counts on the node.
func (x *regionSearch) share(u *unit, l *searchNode) int64 {
	cost := u.cost + x.penalty*x.budgetLoad(u)
	if part := x.gives(u, l); part < x.parts[u] {
		return int64(float64(cost) * (float64(part) / float64(x.parts[u])))
	}
	return cost
}

// boundNode decides the node by itself, by the one resource: a knapsack.
func (x *regionSearch) boundNode(l *searchNode) {
	type load struct{ amount, cost int64 }
	// One resource stands for all: GPUs or, for a class without, the last of its demands. Other resources can only rule out more
	// sets, so leaving them out keeps the result a bound.
	idle := l.free.At(x.dim) // what is free before any unit goes; all of them count as gone now
	for _, u := range l.candidateNode.units {
		idle -= x.gives(u, l)
	}
	if l.cards.of != nil {
		idle = l.cards.idle
	}
	l.units = slices.Clone(l.candidateNode.units)
	slices.SortFunc(l.units, func(a, b *unit) int {
		each := cmp.Compare(float64(x.share(a, l))*float64(x.gives(b, l)), float64(x.share(b, l))*float64(x.gives(a, l)))
		return cmp.Or(each, compareUnits(b, a))
	})
	// The units that free most for their cost come first. Of a node with more than 16 the rest is left to the greedy set: the
	// frontier below would grow with them, and the masks of enumerate have 32 bits.
	l.units = l.units[:min(len(l.units), searchUnits)]
	// loads is the sets of the units so far of which none frees more for less: a frontier, by cost and by amount. With 16 units
	// it has some hundred entries at the most, since amounts are small numbers of GPUs.
	// The first entry is the empty set: it frees nothing, for nothing.
	loads := []load{{}}
	// For each unit the frontier is doubled, by every set with it and without it, and thinned again. For example, units of 4 GPUs
	// for 3, and of 4 and 8 GPUs for 5 each: {0:0}, then {0:0, 4:3}, then {0:0, 4:3, 8:8}, then {0:0, 4:3, 8:5, 12:8, 16:13},
	// written amount:cost. Eight GPUs cost 5, by the third unit alone.
	for _, u := range l.units {
		amount, cost := x.gives(u, l), x.share(u, l)
		l.bound = l.bound || u.budgeted || amount < x.parts[u] || len(u.spare) > 0 || u.rest != nil
		for _, have := range loads[:len(loads):len(loads)] {
			loads = append(loads, load{have.amount + amount, have.cost + cost})
		}
		slices.SortFunc(loads, func(a, b load) int {
			return cmp.Or(cmp.Compare(a.cost, b.cost), -cmp.Compare(a.amount, b.amount))
		})
		kept := loads[:0]
		for _, n := range loads {
			// They are sorted by cost, so a set is worth keeping only if it frees more than all that are cheaper.
			if len(kept) == 0 || n.amount > kept[len(kept)-1].amount {
				kept = append(kept, n)
			}
		}
		loads = kept
	}
	l.costs, l.rate = slices.Repeat([]int64{infinite}, x.code(l.top)+1), infinite
	x.rooms(l.top, func(r room) {
		if r == (room{}) {
			l.costs[0] = 0 // nobody need go, also where less is free than nothing
			return
		}
		need := -idle // of the resource, that units must free
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
		for _, n := range loads {
			// The first that is enough is the cheapest that is. The empty set is enough only where the index agrees that there is
			// room now: need counts one resource, and another may be what is lacking.
			if n.amount >= need && (n.amount > 0 || l.now.holds(r)) {
				l.costs[x.code(r)] = n.cost
				if n.cost > 0 {
					l.rate = min(l.rate, n.cost/(r[0]+r[1]))
				}
				break
			}
		}
	})
}

// rooms visits all up to this one.
func (x *regionSearch) rooms(top room, visit func(room)) {
	for a := range top[0] + 1 {
		for b := range top[1] + 1 {
			visit(room{a, b})
		}
	}
}

// boundRegion puts the nodes in order and adds up what they cost from the last to the first. Nodes whose own costs are only a
// bound come first: once the search has decided these, the table for the nodes behind them is exact. It costs, for each node,
// the product of the rooms that are lacking and those that the node can have.
func (x *regionSearch) boundRegion() {
	slices.SortFunc(x.nodes, func(a, b *searchNode) int {
		if a.bound != b.bound {
			return cluster.Before(a.bound)
		}
		return cmp.Or(cmp.Compare(a.rate, b.rate), strings.Compare(a.node.Name, b.node.Name))
	})
	// One table row for each node, and one behind the last, in which only nothing costs nothing. Row i follows from row i+1, so
	// the rows are filled from the last node to the first.
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
		// For every room r that may still be lacking when the search comes to node i: the node gives some part n of it, for what
		// n costs there, and the nodes behind give the rest. A node that gives more than is asked is the same as one that gives
		// just that.
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
