package engine

import "time"

// Estimate is when a waiting workload is expected to start. A time that nobody can tell is zero.
type Estimate struct {
	Gang     string    `json:"gang"`
	Earliest time.Time `json:"earliest,omitzero"` // if it were first in line and what runs ended soon
	Likely   time.Time `json:"likely,omitzero"`   // in its turn, if all runs as long as half of its like do
	Latest   time.Time `json:"latest,omitzero"`   // in its turn, if all runs as long as nine in ten of its like do
	Because  string    `json:"because"`           // what it waits for
}

// forecastLifts bounds the work of a forecast: how many ends of pods may be tried out in each of its three passes.
const forecastLifts = 500_000

// Forecast tells of the first workloads in line when they will start, in the order of the line. It gives each the first
// place that is left in its turn and time, from what is known of how long work runs; what is evicted for others, comes
// later or fails is not foreseen. The state is the same before and after.
func (s *State) Forecast(now time.Time, most int) []Estimate {
	return s.forecast(now, func(line []queued) []queued { return line[:min(len(line), max(0, most))] })
}

// Estimate tells when the workload of the key will start; false: it does not wait for its minimum.
func (s *State) Estimate(key string, now time.Time) (Estimate, bool) {
	all := s.forecast(now, func(line []queued) []queued {
		for i := range line {
			if line[i].gang.key == key {
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
func (s *State) forecast(now time.Time, cut func([]queued) []queued) []Estimate {
	now = now.UTC().Round(0)
	s.freshen()
	var out []Estimate
	s.imagine(now, likely, cut, func(y *cycle, line []queued) {
		for _, q := range line {
			e := Estimate{Gang: q.gang.key}
			e.Likely, e.Because = y.expect(q.gang, q.turn)
			out = append(out, e)
		}
	})
	s.imagine(now, safely, cut, func(y *cycle, line []queued) {
		for i, q := range line {
			out[i].Latest, _ = y.expect(q.gang, q.turn)
		}
	})
	s.imagine(now, soonest, cut, func(y *cycle, line []queued) {
		bookings := len(y.times.reserves)
		for i, q := range line {
			out[i].Earliest, _ = y.expect(q.gang, q.turn)
			y.unreserve(bookings)
		}
	})
	for i := range out {
		out[i].order()
	}
	return out
}

// order makes sure that an earlier estimate is not after a later one: places are taken in turn, and so what runs for
// longer may by chance leave a better one.
func (e *Estimate) order() {
	if !e.Latest.IsZero() && e.Latest.Before(e.Likely) {
		e.Latest = e.Likely
	}
	if !e.Likely.IsZero() && e.Likely.Before(e.Earliest) {
		e.Earliest = e.Likely
	}
}

// imagine makes a cycle whose run times are guessed so, in which nothing is decided.
func (s *State) imagine(now time.Time, by guess, cut func([]queued) []queued, do func(*cycle, []queued)) {
	y := &cycle{s: s, now: now, plan: Plan{Now: now}, budget: s.cfg.SearchBudget}
	y.times.by, y.times.most = by, forecastLifts
	m, end := s.mark(), s.log.end()
	y.version = s.latest
	y.expire()
	y.endOverdue()
	y.keepBookings()
	do(y, cut(y.hopeful()))
	s.rollback(m)
	s.rewind(end)
	for _, g := range y.dirty {
		g.start = 0
		s.tally(g)
	}
}

// hopeful lists the gangs that wait for their minimum, in the order of the line as it stands.
func (y *cycle) hopeful() []queued {
	var out []queued
	for {
		q, at, ok := y.line.next()
		if !ok {
			return out
		}
		if !q.gang.tree.satisfied() || !y.known(q.gang) {
			out = append(out, *q)
		}
		y.line.moved(at, false)
	}
}

// expect foresees the start of a gang, keeps its place from those after it, and says what it waits for.
func (y *cycle) expect(g *gang, t turn) (time.Time, string) {
	m := y.s.mark()
	y.claim(g)
	defer y.s.rollback(m)
	gates, decided := y.gates(g)
	if decided || len(gates) > 0 && !passing(gates) {
		return time.Time{}, gates[0].Sentence(nil)
	}
	r := y.foresee(g, t, y.releases(), nil)
	switch {
	case y.times.spentAll():
		return time.Time{}, "too much is before it in line to be worked out"
	case r == nil && len(y.releases()) == 0:
		return time.Time{}, "nothing that runs says when it ends"
	case r == nil:
		return time.Time{}, "there is no place for it when all that says when it ends has ended"
	}
	y.reserve(r)
	switch {
	case !r.start.After(y.now):
		return r.start, "there is room for it"
	case len(gates) > 0 && r.after != "":
		return r.start, "its queue may not use more until " + r.after + " ends"
	case r.after != "":
		return r.start, "waits for " + r.after + " to end"
	}
	return r.start, "waits for room that is kept for others"
}

// unreserve forgets all that is kept but the first few.
func (y *cycle) unreserve(first int) {
	k := &y.times
	for _, r := range k.reserves[first:] {
		for n := range r.needs {
			list := k.reserved[n]
			if k.reserved[n] = list[:len(list)-1]; len(list) == 1 {
				delete(k.reserved, n)
			}
		}
	}
	k.reserves = k.reserves[:first]
}
