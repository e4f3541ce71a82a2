package scheduler

import (
	"context"
	"sync/atomic"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/answer"
)

// Observer lets others in this process look at what the scheduler knows, and so ask the engine what it would do. The zero value can
// be given to Options.
type Observer struct{ of atomic.Pointer[scheduler] }

// Cycles is how many plans were made; -1: this process does not lead.
func (o *Observer) Cycles() int64 {
	if s := o.of.Load(); s != nil {
		return s.cycles.Load()
	}
	return -1
}

// Snapshot is all that the scheduler knows and remembers, and its policy. It costs the loop a copy of it.
func (o *Observer) Snapshot(ctx context.Context) (snap engine.Snapshot, policy engine.Config, err error) {
	s := o.of.Load()
	if s == nil {
		return snap, policy, answer.ErrBusy
	}
	err = s.ask(ctx, func() { snap, policy = s.state.Dump(), s.state.Config() })
	return snap, policy, err
}

// show has the observer look at s until the result is called.
func (o *Observer) show(s *scheduler) (hide func()) {
	if o == nil {
		return func() {}
	}
	o.of.Store(s)
	return func() { o.of.CompareAndSwap(s, nil) }
}
