package cli

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/berth-dev/berth/fleet"
)

// fleetPatience is how long `up` waits for a warm fleet without seeing any change. A
// fleet may have good reasons to stay incomplete: somebody took a node down, or removed
// the device plugin, before the last stop.
const fleetPatience = 15 * time.Second

// runningFleet is a fleet in this process.
type runningFleet struct {
	*kept
	last    atomic.Pointer[fleet.Progress]
	changed chan struct{} // capacity 1: there is a newer last
}

func startFleet(o fleet.Options, tell func(string)) *runningFleet {
	f := &runningFleet{changed: make(chan struct{}, 1)}
	o.Progress = f.see
	f.kept = keep("the fleet", func(ctx context.Context) error {
		defer func() { o.Cold = false }() // machines that were up do not boot again
		return fleet.Run(ctx, o)
	}, tell, o.Log)
	return f
}

func (f *runningFleet) see(p fleet.Progress) {
	f.last.Store(&p)
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

func (f *runningFleet) progress() fleet.Progress {
	if p := f.last.Load(); p != nil {
		return *p
	}
	return fleet.Progress{}
}

// waitFleet shows the fleet come up and returns when it is complete, when it stops
// changing, or at once where its machines are to be seen booting.
func (s *session) waitFleet(ctx context.Context) error {
	s.report.doing("starting the nodes")
	patience := time.NewTimer(fleetPatience)
	defer patience.Stop()
	for {
		select {
		case <-s.fleet.changed:
			patience.Reset(fleetPatience)
			p := s.fleet.progress()
			s.report.doing(describe(p))
			if s.cold || p.Done() {
				s.report.did(describe(p))
				return nil
			}
		case <-patience.C:
			s.report.did(describe(s.fleet.progress()) + "; the rest does not come, `berth kubectl get nodes` shows what is missing")
			return nil
		case err := <-s.fleet.failed:
			return err
		case <-ctx.Done():
			return errInterrupted
		}
	}
}

func describe(p fleet.Progress) string {
	return fmt.Sprintf("%d of %s ready, %d of %s schedulable", p.Ready, plural(p.WantNodes, "node"), p.GPUs, plural(p.WantGPUs, "GPU"))
}
