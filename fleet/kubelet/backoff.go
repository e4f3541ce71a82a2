package kubelet

import (
	"time"

	"github.com/berth-dev/berth/fleet/clock"
)

// The kubelet's back-off, for crashing containers and for failing pulls, in simulated time.
const (
	backoffFirst = 10 * time.Second
	backoffLast  = 5 * time.Minute
)

// backoff says how long to wait before the next try. The first failure is tried again at once, the
// next after 10 s, then 20 s and so on up to 5 min; who did well for 10 min starts over.
type backoff struct {
	delay   time.Duration // simulated; 0: nothing failed yet
	updated time.Time     // wall time of the last try
}

// until is when a try is allowed after a failure at the given time; the zero time: at once.
func (b *backoff) until(failed time.Time, c clock.Clock) time.Time {
	if b.delay == 0 || b.expired(failed, c) {
		return time.Time{}
	}
	return failed.Add(c.Wall(b.delay))
}

// tried notes that a try is made now, after a failure at the given time.
func (b *backoff) tried(failed, now time.Time, c clock.Clock) {
	switch {
	case b.delay == 0, b.expired(failed, c):
		b.delay = backoffFirst
	default:
		b.delay = min(2*b.delay, backoffLast)
	}
	b.updated = now
}

func (b *backoff) expired(failed time.Time, c clock.Clock) bool {
	return c.Simulated(failed.Sub(b.updated)) > 2*backoffLast
}
