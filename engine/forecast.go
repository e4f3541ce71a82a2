package engine

import (
	"time"

	"github.com/berth-dev/berth/engine/internal/calendar"
)

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

// hopeful lists the gangs that wait for their minimum, in the order of the line as it stands.
func (y *cycle) hopeful() []calendar.Entry {
	var out []calendar.Entry
	for {
		q, ok := y.turns.Next()
		if !ok {
			return out
		}
		if !q.Gang.Tree.Satisfied() || !q.Gang.Known() {
			out = append(out, calendar.Entry{Gang: q.Gang, Turn: q.Turn, Rank: q.Rank})
		}
		y.turns.Done(false)
	}
}
