package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"
)

// How long a part of the cluster that ended stays down: twice as long each time, until it has run for steady.
const (
	firstPause = time.Second
	lastPause  = 30 * time.Second
	steady     = time.Minute
)

// kept is a part of the cluster, its scheduler or its fleet, that runs for as long as the cluster does. One that ends by
// itself is started again, and people are told.
type kept struct {
	name   string // as in a sentence: "the scheduler"
	run    func(context.Context) error
	tell   func(line string) // people
	log    *slog.Logger
	cancel context.CancelFunc
	failed chan error // capacity 1: the first end that nobody has heard of yet
	done   chan struct{}
}

// keep starts a part.
func keep(name string, run func(context.Context) error, tell func(string), log *slog.Logger) *kept {
	ctx, cancel := context.WithCancel(context.Background())
	k := &kept{name: name, run: run, tell: tell, log: log, cancel: cancel, failed: make(chan error, 1), done: make(chan struct{})}
	go k.loop(ctx)
	return k
}

func (k *kept) loop(ctx context.Context) {
	defer close(k.done)
	for pause := firstPause; ; {
		start := time.Now()
		err := k.once(ctx)
		if ctx.Err() != nil {
			return
		}
		k.report(err)
		if time.Since(start) >= steady {
			pause = firstPause
		}
		k.tell(fmt.Sprintf("%s stopped: %v; it starts again in %s", k.name, err, pause))
		k.log.Error("stopped", "part", k.name, "err", err, "again", pause)
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		pause = min(2*pause, lastPause)
		k.tell("starting " + k.name + " again")
		k.log.Info("starting again", "part", k.name)
	}
}

// once runs the part with a context of its own, so that whatever a panic leaves behind ends too. A panic on the part's
// own goroutine is an error like others; one on another goroutine ends the process, as it must.
func (k *kept) once(ctx context.Context) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			k.log.Error("panic", "part", k.name, "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	if err := k.run(ctx); err != nil {
		return err
	}
	return errors.New("it gave no reason")
}

func (k *kept) report(err error) {
	select {
	case k.failed <- fmt.Errorf("%s stopped: %w", k.name, err):
	default:
	}
}

// stop ends the part and returns when it has ended.
func (k *kept) stop() {
	k.cancel()
	<-k.done
}
