package preempt

import (
	"cmp"
	"slices"

	"github.com/berth-dev/berth/engine/why"
)

// Gates. Where limits of queues keep the claimant out, room on nodes is not enough: victims must also give back what
// the limit lacks. That is a second knapsack, over the units that are charged to the limited queues, and a second
// lower bound.
//
// For example, a queue has a limit of 16 CPUs, holds 14 and asks for 8 more: the gate lacks 14 + 8 - 16 = 6 CPUs.
// Units of the queue give 4 CPUs for 10, 4 for 14 and 8 for 30. The least that opens the gate is 4 + 4 for 24,
// whatever nodes they are on. A branch whose cost so far plus 24 reaches the limit of the search is cut, even if it
// has made all the room.
//
// It is a bound for the same reason as the other one: it asks for less than the gate does. What a unit gives is
// rounded up and what is lacking is rounded down, only one of several gates is counted, and other rules are left out.
// It is compared with the bound for room and never added to it, since one victim may give both.

// relief is what could open a gate that is shut. It is made once for each region and does not change.
type relief struct {
	// short is what the gate lacks before anybody goes, in parts (reliefParts).
	short int64
	// gives is how many of these parts a unit gives; a unit that is not listed gives nothing.
	gives map[*unit]int64
	// helpers is the units that give something, those first that cost least for it.
	helpers []helper
	// ahead is, by helper and number of parts, the least that so many parts cost from that helper on. It has one row
	// more than helpers; infinite: those helpers do not give so much.
	ahead [][]int64
}

// helper is a unit with the most that it gives of what a gate lacks, and with the least that it costs.
type helper struct {
	*unit
	gives, cost int64
}

// reliefParts is how finely it is counted what a gate lacks. It bounds the table, since a gate may lack terabytes of
// memory: 1,000 GPUs are counted in parts of 8, up to 125 of them.
const reliefParts = 128

// findRelief finds what could open the gate. It costs a table of the helpers times at most reliefParts entries.
func (x *regionSearch) findRelief(g why.Gate) *relief {
	// Of a limit it lacks what the queue holds and needs beyond the limit. Of quota that others do not lend
	// (NotLent), Have is what may still be borrowed. Of a number of workloads Need is 0, and one of them must end for
	// the claimant to begin.
	r := &relief{short: g.Have + g.Need - g.Limit, gives: make(map[*unit]int64)}
	switch {
	case g.Cause == why.NotLent:
		r.short = g.Need - g.Have
	case g.Resource == "": // a number of workloads
		r.short++
	}
	// A gate may tell whole GPUs, where accounts count thousandths.
	if dim := x.y.m.Dims.ID(g.Resource); g.Resource != "" && !g.Milli {
		r.short *= x.y.m.Unit(dim)
	}
	// part is how much one part stands for. What is lacking is rounded down to parts and what units give is rounded
	// up, so that rounding never makes a sufficient set look insufficient.
	part := 1 + max(0, r.short-1)/reliefParts
	r.short = max(0, r.short) / part
	for _, u := range x.pool {
		h := helper{u, 1, u.cost + x.penalty*x.overBudget(u)}
		if g.Resource != "" {
			h.gives = (u.charged(x.y.m.Dims.ID(g.Resource)) + part - 1) / part
		}
		// Only units charged within the same tree of queues count in the limit of a queue of that tree. What is not
		// lent is lacking of the whole cluster, and any unit gives of it.
		if h.gives > 0 && (g.Cause == why.NotLent || u.of.payer.Top() == x.q.Top()) {
			r.helpers = append(r.helpers, h)
			r.gives[u] = h.gives
		}
	}
	slices.SortFunc(r.helpers, func(a, b helper) int {
		return cmp.Or(compareProducts(a.cost, b.gives, b.cost, a.gives), compareUnits(b.unit, a.unit))
	})
	// The knapsack is filled from the last helper to the first. A helper is left out, or gives its parts for its
	// cost: parts beyond what is lacking count as enough.
	r.ahead = make([][]int64, len(r.helpers)+1)
	r.ahead[len(r.helpers)] = slices.Repeat([]int64{infinite}, int(r.short)+1)
	r.ahead[len(r.helpers)][0] = 0
	for i := len(r.helpers) - 1; i >= 0; i-- {
		h := r.helpers[i]
		r.ahead[i] = slices.Clone(r.ahead[i+1])
		for k := range r.ahead[i] {
			r.ahead[i][k] = min(r.ahead[i][k], h.cost+r.ahead[i+1][max(0, k-int(h.gives))])
		}
	}
	return r
}

// openGates proposes what is chosen, which makes room by counting, once the gate is open by counting as well. Until
// then it adds the smallest sets of helpers from the i-th on. Helpers are added by increasing position, so that each
// set is proposed once.
func (x *regionSearch) openGates(i int) {
	if x.spent() || x.costSoFar() >= x.limit {
		return
	}
	// In the second pass the sets that the model refused are extended, with helpers or with any other unit of the
	// pool.
	if x.short <= 0 && x.extending {
		x.extend() // and so with all helpers
		return
	}
	// Where the model refuses a set that opens the gate by counting, more helpers are tried: other gates may be shut.
	if x.short <= 0 && x.propose() || x.relief == nil {
		return
	}
	// ahead[i] only grows with i, because fewer helpers are left. The first helper whose bound is too high ends the
	// loop.
	for ; i < len(x.relief.helpers) && x.costSoFar()+x.relief.ahead[i][max(0, x.short)] < x.limit; i++ {
		if h := x.relief.helpers[i]; h.gone != x.turn {
			x.steps++
			was := len(x.chosen)
			x.add(h.unit)
			x.openGates(i + 1)
			x.undo(was)
		}
	}
}
