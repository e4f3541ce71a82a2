package shell

import (
	"context"
	"sync"
	"time"
)

// What a container may compute. A step is a statement, a turn of a loop, or a few KiB read, written or searched, and
// costs 2 to 10 µs on a laptop; what takes longer counts as many. 5,000 steps a second are 1 to 5 % of a core. A container
// that has been quiet may do the burst at once. Steps are counted and not measured: on a busy machine the time that a
// command takes is mostly that of others.
const (
	stepTime = 200 * time.Microsecond // of allowance, per step
	burst    = 10 * time.Second       // 50,000 steps
	minPause = 10 * time.Millisecond  // pauses shorter than this are saved up
)

// throttle paces the work of a container. The zero value has the whole burst.
type throttle struct {
	mu    sync.Mutex
	paid  time.Time // work is paid for up to here
	quiet time.Time // likewise, of what skips the queue of all
	spare int       // steps whose turn among all has come
}

// spend accounts for n steps and waits until there is allowance for them, the container's own and that of all, or ctx
// ends.
func (t *throttle) spend(ctx context.Context, all *turns, n int) error {
	now := time.Now()
	pause, quiet := t.take(n, now)
	if turn := t.turn(all, n, quiet, now); !quiet {
		pause = max(pause, turn)
	}
	if pause < minPause {
		return ctx.Err()
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// turn is how long it is until n steps have their turn among all.
func (t *throttle) turn(all *turns, n int, quiet bool, now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.spare >= n {
		t.spare -= n
		return 0
	}
	if quiet {
		return all.take(n, now)
	}
	more := max(n, turnBatch)
	t.spare += more - n
	return all.take(more, now)
}

// take moves the account on by n steps and returns how far it is ahead of now, and whether the container does so
// little that it need not wait for others.
func (t *throttle) take(n int, now time.Time) (ahead time.Duration, quiet bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if least := now.Add(-burst); t.paid.Before(least) {
		t.paid = least
	}
	t.paid = t.paid.Add(time.Duration(n) * stepTime)
	if least := now.Add(-quietMost); t.quiet.Before(least) {
		t.quiet = least
	}
	cost := time.Duration(n) * quietStep
	if quiet = t.quiet.Add(cost).Before(now); quiet {
		t.quiet = t.quiet.Add(cost)
	}
	return t.paid.Sub(now), quiet
}
