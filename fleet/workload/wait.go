package workload

import (
	"context"
	"time"
)

// outcome is how a wait ended.
type outcome int

const (
	expired  outcome = iota // the time came
	stopped                 // the context ended
	happened                // the awaited channel closed
)

// sleep waits until the simulated duration d has passed since a moment on the wall. A stop
// wins over the event, and the event over the time, when they fall together.
func (p *process) sleep(ctx context.Context, since time.Time, d time.Duration, event <-chan struct{}) outcome {
	left := p.registry.clock.Wall(d) - time.Since(since)
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-event:
	}
	select {
	case <-ctx.Done():
		return stopped
	default:
	}
	select {
	case <-event:
		return happened
	default:
		return expired
	}
}

// wait waits for event as long as the collective's time-out since a moment lets it, calling
// say with the time waited at the pace of log lines.
func (p *process) wait(ctx context.Context, since time.Time, event <-chan struct{}, say func(waited time.Duration)) outcome {
	limit := p.spec.Timeout
	for next := p.pace(0); ; next += p.pace(next) {
		at := min(next, limit)
		if result := p.sleep(ctx, since, at, event); result != expired || at == limit {
			return result
		}
		say(at)
	}
}

// pace is the simulated time to the next log line of something that has gone on for d: every
// 10 s at first, every minute after two, every 10 minutes after an hour, and never more than
// one line in a second of wall time, however fast the clock. A day of steady work is 200 lines.
func (p *process) pace(d time.Duration) time.Duration {
	interval := 10 * time.Minute
	switch {
	case d < 2*time.Minute:
		interval = 10 * time.Second
	case d < time.Hour:
		interval = time.Minute
	}
	return max(interval, p.registry.clock.Simulated(time.Second))
}
