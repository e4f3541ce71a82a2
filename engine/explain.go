package engine

import (
	"slices"
	"time"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/calendar"
	"github.com/berth-dev/berth/engine/internal/census"
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

// PerNode counts for every node, as a domain of its own, how many pods like this one would fit there now if it were
// alone in line and in its gang, and what keeps it out. Of several GPU models the first counts. Features that the
// engine does not decide are not looked at. It is false for a pod that is not to be placed. The state is the same
// before and after; the certificate shares memory with later ones: do not write to it.
func (s *State) PerNode(key string, now time.Time) (cert why.Certificate, ok bool) {
	s.freshen()
	p := s.m.Pods[key]
	if p == nil || p.In == nil {
		return cert, false
	}
	y := s.newCycle(now)
	y.undone(func() {
		y.begin()
		if ok = p.Waits(); ok {
			y.attempts.Claim(p.In)
			cert = y.attempts.PerNode(p.In, p)
		}
	})
	return cert, ok
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
	if matches := y.attempts.Matches(g); matches != nil {
		e.Releasing, e.ReleasedBy = census.Releasing(s.m, matches)
	}
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

// Holders lists who else has the resource on nodes that the workload's first waiting member matches, whatever is free
// there: most first, then by key. It is empty for a workload that has nothing to place.
func (s *State) Holders(key, resource string, now time.Time) []Held {
	s.freshen()
	if g := s.m.WorkloadNamed(key); g != nil {
		if matches := s.newCycle(now).attempts.Matches(g); matches != nil {
			return census.Holders(s.m, key, resource, matches)
		}
	}
	return nil
}

// Forecast tells of the first workloads in line when they will start, in the order of the line. It gives each the first
// place that is left in its turn and time, from what is known of how long work runs; what is evicted for others, comes
// later or fails is not foreseen. The state is the same before and after.
func (s *State) Forecast(now time.Time, most int) []Estimate {
	return s.forecast(now, func(line []calendar.Entry) []calendar.Entry { return line[:min(len(line), max(0, most))] })
}

// Estimate tells when the workload of the key will start; false: it does not wait for its minimum.
func (s *State) Estimate(key string, now time.Time) (Estimate, bool) {
	all := s.forecast(now, func(line []calendar.Entry) []calendar.Entry {
		for i := range line {
			if line[i].Gang.Key == key {
				return line[:i+1]
			}
		}
		return nil
	})
	if len(all) == 0 {
		return Estimate{}, false
	}
	return all[len(all)-1], true
}

// forecast estimates the part of the line that is cut.
func (s *State) forecast(now time.Time, cut func([]calendar.Entry) []calendar.Entry) []Estimate {
	s.freshen()
	planned := s.newCycle(now)
	planned.run()
	return calendar.Forecast(planned.times, func(by calendar.Guess, do func(*calendar.Calendar, []calendar.Entry)) {
		y := s.newCycle(now)
		y.times.Foretell(by)
		y.undone(func() {
			y.begin()
			y.dismissals.Overdue()
			y.dismissals.Bookings()
			do(y.times, cut(y.hopeful()))
		})
	})
}

// hopeful lists the gangs that wait for more than room to grow, in the order of the line as it stands.
func (y *cycle) hopeful() []calendar.Entry {
	var out []calendar.Entry
	for {
		q, ok := y.turns.Next()
		if !ok {
			return out
		}
		if !q.Gang.Done || !q.Gang.Known() {
			out = append(out, calendar.Entry{Gang: q.Gang, Turn: q.Turn, Rank: q.Rank})
		}
		y.turns.Done(false)
	}
}
