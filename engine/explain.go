package engine

import (
	"slices"
	"time"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/attempt"
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/index"
	"github.com/berth-dev/berth/engine/internal/quantity"
	"github.com/berth-dev/berth/engine/why"
)

// Explain says why the workload of the key waits, as of a plan made now. budget bounds the search steps for
// any one gang; 0 is Config.SearchBudget. The state is the same before and after.
func (s *State) Explain(key string, now time.Time, budget int) why.Explanation {
	y := s.newCycle(now)
	if budget > 0 {
		y.attempts.Budget = budget
	}
	return s.explain(key, y)
}

// Try says what a plan made now would do with the workload of the key if it were alone in line. placements are those
// of its members that would start, by rank: members above its minimum may be left out of them. Features that the
// engine does not decide are not looked at. The state is the same before and after.
func (s *State) Try(key string, now time.Time) (e why.Explanation, placements []api.Placement) {
	y := s.newCycle(now)
	y.attempts.Trial = true
	e = s.explain(key, y)
	for i := range y.Plan.Starts {
		placements = append(placements, y.Plan.Starts[i].Placements...)
	}
	return e, placements
}

// explain runs the cycle until the workload has had its turn.
func (s *State) explain(key string, y *cycle) why.Explanation {
	e := why.Explanation{Workload: key, Now: y.Now}
	s.freshen()
	g := s.m.WorkloadNamed(key)
	if g == nil {
		e.Verdict = s.idle(key)
		if reason := s.m.Invalid[api.Ref{Kind: api.KindPod, Key: key}]; reason != "" {
			e.Cause, e.Gates = why.InvalidObject, []why.Gate{{Cause: why.InvalidObject, Object: reason, Certificate: -1}}
		}
		return e
	}
	y.until = g
	y.run()
	e.Verdict = why.Placed
	i := slices.IndexFunc(y.Plan.Waiting, func(w api.Waiting) bool { return w.Gang == key })
	if i < 0 {
		return e
	}
	w := y.Plan.Waiting[i]
	e.Verdict, e.Cause, e.Ahead, e.Steps = w.Verdict, w.Cause, y.ahead, y.attempts.Steps
	e.Gates, e.Certificates = why.Cite(w.Gates, y.Plan.Certificates)
	e.Releasing, e.ReleasedBy = y.releasing(g)
	return e
}

// idle is the verdict on a workload with nothing to place.
func (s *State) idle(key string) why.Verdict {
	if s.m.IsRejected(api.KindPod, key) || s.m.IsRejected(api.KindGang, key) {
		return why.Invalid
	}
	if p := s.m.Pods[key]; p != nil && p.Host != nil {
		return why.Placed
	}
	return why.Absent
}

// releasing adds up what terminating pods give back on nodes that the gang's first waiting member matches.
func (y *cycle) releasing(g *cluster.Gang) (api.Resources, time.Time) {
	i := slices.IndexFunc(g.All(), (*cluster.Pod).Waits)
	if i < 0 {
		return nil, time.Time{}
	}
	s := y.s
	c := y.attempts.Kin(g, g.TurnNow(), attempt.Way{}).Class(g.All()[i])
	var by time.Time
	var sum quantity.Vector
	for _, n := range s.m.SortedNodes() {
		if n.Bucket == nil || s.ix.MaskOf(c, n).State == index.Excluded {
			continue
		}
		for _, p := range n.Pods {
			if !p.Terminating {
				continue
			}
			for _, d := range p.Demands {
				sum.Add(d.Dim, d.Amount)
			}
			if p.ReleaseAt.After(by) {
				by = p.ReleaseAt.UTC()
			}
		}
	}
	var out api.Resources
	for dim, v := range sum {
		if v > 0 && dim != quantity.DimPods {
			out = append(out, api.Amount{Resource: s.m.Dims.Names[dim], Value: v})
		}
	}
	return out.Sorted(), by
}
