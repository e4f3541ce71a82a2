package shell

import (
	"context"
	"sync"
	"time"
)

// What a container may compute. A step is a statement, a turn of a loop or a write of up to
// 4 KiB, and costs 2 to 10 µs on a laptop; 5,000 steps a second are 1 to 5 % of a core. A
// container that has been quiet may do the burst at once.
const (
	stepTime = 200 * time.Microsecond // of allowance, per step
	burst    = 10 * time.Second       // 50,000 steps
	minPause = 10 * time.Millisecond  // pauses shorter than this are saved up
)

// throttle paces the work of a container. The zero value has the whole burst.
type throttle struct {
	mu   sync.Mutex
	paid time.Time // work is paid for up to here
}

// spend accounts for n steps and waits until there is allowance for them, or ctx ends.
func (t *throttle) spend(ctx context.Context, n int) error {
	pause := t.take(n, time.Now())
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

// take moves the account on by n steps and returns how far it is ahead of now.
func (t *throttle) take(n int, now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if least := now.Add(-burst); t.paid.Before(least) {
		t.paid = least
	}
	t.paid = t.paid.Add(time.Duration(n) * stepTime)
	return t.paid.Sub(now)
}
