package quota

import (
	"slices"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/quantity"
)

// Owed is how far up the tree the gang could take what it asks for back from its borrowers: of its queue and
// those above it, how many have quota for it, or under policy timeshare a share, without a gap. Borrowers are
// scheduled after those, whatever their priority: they would be evicted for them at once.
//
// For example, team has a quota of 4 GPUs below a department with 8, and nothing runs. A gang of 4 GPUs is owed 2
// levels: by its team and by its department. With a department of 3 it is owed 1, with a team of 3 it is owed 0,
// whatever the department has.
//
// It costs the depth of the queue for each resource. It is asked for every gang in line, so like members take a
// shorter way (owedPlainly) with the same answer.
func (l *Limits) Owed(g *cluster.Gang) int {
	q := g.Payer
	if q == nil || len(l.m.Tree.Promised) == 0 && l.m.Config.Policy != api.TimeShare || !l.m.Valid(q) {
		return 0
	}
	if g.Done {
		return len(l.m.Queues) // its turn is to grow, once all have had theirs
	}
	own := l.m.OwnHeld(g)
	if demands, need, ok := l.ask.Plain(g); ok && !l.m.GangVaries(g) && l.m.Config.Policy != api.TimeShare {
		return l.owedPlainly(q, demands, int64(need), own)
	}
	a := &asking{Limits: l, g: g, q: q, own: own}
	reach := a.reach(l.m.Quota, l.m.Tree.PromisedDims)
	if l.m.Config.Policy == api.TimeShare {
		reach = max(reach, a.reach(func(q *cluster.Queue, dim int) int64 { return q.Fair.At(dim) }, l.m.Tree.Shared))
	}
	return reach
}

// OwesNothing says whether Owed is 0 for every workload of the queue that is not done, whatever it asks for: the queue has nothing left of its
// quota, nor under policy timeshare of its share, of any resource. Where places are held at its cost it is not said, because what is
// held for a workload counts in the queue and not against that workload. Most queues with a long line are such, and
// then none of the line is asked about.
func (l *Limits) OwesNothing(q *cluster.Queue) bool {
	left := func(dims []int, part func(*cluster.Queue, int) int64) bool {
		return slices.ContainsFunc(dims, func(dim int) bool { return q.Committed(dim) < part(q, dim) })
	}
	//mutate: owes-nothing-held
	if slices.ContainsFunc(q.Pledged, func(amount int64) bool { return amount != 0 }) {
		return false
	}
	return !left(l.m.Tree.PromisedDims, l.m.Quota) && (l.m.Config.Policy != api.TimeShare || !left(l.m.Tree.Shared, func(q *cluster.Queue, dim int) int64 { return q.Fair.At(dim) }))
}

// owedPlainly is Owed for like members, of which models do not matter. need is how many of them start together.
func (l *Limits) owedPlainly(q *cluster.Queue, demands []quantity.Demand, need int64, own quantity.Vector) int {
	reach, asks := len(l.m.Queues), false
	for _, d := range demands {
		if l.m.Tree.Promised.At(d.Dim) == 0 {
			continue
		}
		asks = true
		n := 0
		d.Amount *= l.m.Unit(d.Dim)
		// Each resource can only shorten the reach that those before it have left.
		for up := q; up != nil && n < reach && up.Committed(d.Dim)-own.At(d.Dim)+d.Amount*need <= up.Quota.At(d.Dim); up = up.Parent {
			n++
		}
		reach = n
	}
	if !asks {
		return 0
	}
	return reach
}

// reach is how far up all that the gang asks for, of the resources that count, fits into the parts of its queue and
// of those above it; 0 also if it asks for none of them, since then nothing can be taken back.
func (a *asking) reach(part func(*cluster.Queue, int) int64, counts []int) int {
	reach, asks := len(a.m.Queues), false
	for _, dim := range counts {
		need := a.need(a.m.Dims.Names[dim])
		if need == 0 {
			continue
		}
		asks = true
		n := 0
		for up := a.q; up != nil && n < reach && up.Committed(dim)-a.own.At(dim)+need <= part(up, dim); up = up.Parent {
			n++
		}
		reach = n
	}
	if !asks {
		return 0
	}
	return reach
}
