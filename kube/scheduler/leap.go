package scheduler

import (
	"time"

	"github.com/berth-dev/berth/engine"
)

// leastLeap is how far the clock is set ahead before anything is done about it. Less is within what it is waited for anyway.
const leastLeap = 5 * time.Second

// leap is how far the wall clock was set ahead between two of its readings: by a person, by NTP, or because the machine slept.
func leap(before, now time.Time) time.Duration {
	if before.IsZero() {
		return 0
	}
	return now.Round(0).Sub(before.Round(0)) - now.Sub(before)
}

// leapt looks for a leap since the last cycle.
func (s *scheduler) leapt(now time.Time) []engine.Change {
	last := s.last
	s.last = now
	skipped := leap(last, now)
	if skipped < leastLeap {
		return nil
	}
	s.log.Warn("the clock was set ahead", "by", skipped.Round(time.Second))
	return outlast(s.state, last, skipped)
}

// outlast gives what is on its way as much time as the clock has skipped since it was read last: bindings that were sent are answered as
// soon as ever, whatever the clock says, and those that places are held for come as soon. Until then the room is given to no other. What was over
// before the leap stays over. It costs a dump of the state.
func outlast(s *engine.State, before time.Time, skipped time.Duration) (out []engine.Change) {
	snap := s.Dump()
	later := func(until *time.Time) bool {
		going := until.After(before)
		*until = until.Add(skipped)
		return going
	}
	for i := range snap.Assumptions {
		if a := &snap.Assumptions[i]; later(&a.Until) {
			a.Version = 0
			out = append(out, engine.Change{Assumption: a})
		}
	}
	for i := range snap.Holds {
		if h := &snap.Holds[i]; later(&h.Until) {
			h.Version = 0
			out = append(out, engine.Change{Hold: h})
		}
	}
	return out
}
