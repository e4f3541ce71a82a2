package preempt

import (
	"cmp"
	"slices"

	"github.com/berth-dev/berth/engine/why"
)

// Gates. Where limits of queues keep the claimant out, room on nodes is not enough: victims must also give back what the
// limit lacks. That is a second lower bound, a knapsack over the units that are charged to the queue.

// relief is what could open a gate that is shut.
type relief struct {
	short   int64 // what it lacks
	gives   map[*unit]int64
	helpers []helper
	ahead   [][]int64 // by helper and amount: what that costs at the least from that helper on
}

// helper is a unit that gives at most so much of what a gate lacks.
type helper struct {
	*unit
	gives, cost int64
}

// reliefParts is how finely it is counted what a gate lacks.
const reliefParts = 128

// findRelief finds what could open the gate.
func (x *regionSearch) findRelief(g why.Gate) *relief {
	r := &relief{short: g.Have + g.Need - g.Limit, gives: make(map[*unit]int64)}
	switch {
	case g.Cause == why.NotLent:
		r.short = g.Need - g.Have
	case g.Resource == "": // a number of workloads
		r.short++
	}
	part := 1 + max(0, r.short-1)/reliefParts
	r.short = max(0, r.short) / part
	for _, u := range x.pool {
		h := helper{u, 1, u.cost + x.penalty*x.overBudget(u)}
		if g.Resource != "" {
			h.gives = (u.charged(x.y.m.Dims.ID(g.Resource)) + part - 1) / part
		}
		if h.gives > 0 && (g.Cause == why.NotLent || u.of.payer.Top() == x.q.Top()) {
			r.helpers = append(r.helpers, h)
			r.gives[u] = h.gives
		}
	}
	slices.SortFunc(r.helpers, func(a, b helper) int {
		each := cmp.Compare(float64(a.cost)*float64(b.gives), float64(b.cost)*float64(a.gives))
		return cmp.Or(each, compareUnits(b.unit, a.unit))
	})
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

// openGates proposes what is chosen, with the smallest sets of helpers from the i-th on that open the gates.
func (x *regionSearch) openGates(i int) {
	if x.spent() || x.costSoFar() >= x.limit {
		return
	}
	if x.short <= 0 && x.extending {
		x.extend() // and so with all helpers
		return
	}
	if x.short <= 0 && x.propose() || x.relief == nil {
		return
	}
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
