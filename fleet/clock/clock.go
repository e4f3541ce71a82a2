// Package clock is the fleet's sense of time: simulated life (boots, image pulls, run
// times, sleeps inside pods) may run faster than the wall by a constant factor.
//
// It is not used for what Kubernetes itself times (leases, grace periods of the node
// lifecycle controller, object timestamps): those stay on the wall clock. Tests need no
// fake: inside a testing/synctest bubble the time package is already virtual.
package clock

import (
	"context"
	"time"
)

// Clock turns simulated durations into waits. The zero value runs at wall speed.
type Clock struct {
	// Speed is how many simulated seconds pass in one second of wall time; 0 means 1.
	Speed float64
}

// Wall is how long the simulated duration d takes on the wall.
func (c Clock) Wall(d time.Duration) time.Duration {
	if c.Speed == 0 || c.Speed == 1 {
		return d
	}
	return time.Duration(float64(d) / c.Speed)
}

// Simulated is how much simulated time passes while the wall moves by d.
func (c Clock) Simulated(d time.Duration) time.Duration {
	if c.Speed == 0 || c.Speed == 1 {
		return d
	}
	return time.Duration(float64(d) * c.Speed)
}

// Sleep waits for the simulated duration d, or until ctx ends and then returns its cause.
func (c Clock) Sleep(ctx context.Context, d time.Duration) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(c.Wall(d))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
