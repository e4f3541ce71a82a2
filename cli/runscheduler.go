package cli

import (
	"context"
	"fmt"
	"log/slog"

	v1alpha1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/scheduler"
)

// runningScheduler is Berth's scheduler in this process.
type runningScheduler struct {
	cancel context.CancelFunc
	done   chan struct{}
	err    error // once done
}

// levels are the topology that a fleet's pools describe, widest first.
func levels() []engine.Level {
	return []engine.Level{
		{Name: "region", Label: v1alpha1.LabelRegion},
		{Name: "zone", Label: v1alpha1.LabelZone},
		{Name: "block", Label: v1alpha1.LabelBlock},
		{Name: "rack", Label: v1alpha1.LabelRack},
		{Name: "clique", Label: v1alpha1.LabelClique},
	}
}

// startScheduler gives the scheduler its rights and sets it going, for pods with schedulerName berth.
func (s *session) startScheduler(ctx context.Context) error {
	admin, err := s.cp.Config("admin")
	if err != nil {
		return err
	}
	if err := scheduler.Install(ctx, admin); err != nil {
		return err
	}
	cfg, err := s.cp.Config("berth-scheduler")
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(s.log, nil)).With("component", "scheduler")
	running, cancel := context.WithCancel(context.Background())
	s.sched = &runningScheduler{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(s.sched.done)
		s.sched.err = scheduler.Run(running, scheduler.Options{Config: cfg, Engine: engine.Config{Levels: levels()}, Log: log})
		if s.sched.err != nil {
			log.Error("the scheduler stopped", "err", s.sched.err)
		}
	}()
	s.report.did(fmt.Sprintf("scheduling pods with schedulerName %s", scheduler.DefaultName))
	return nil
}

func (r *runningScheduler) stop() {
	r.cancel()
	<-r.done
}
