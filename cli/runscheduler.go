package cli

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/fleet"
	"github.com/berth-dev/berth/kube/dialect/all"
	"github.com/berth-dev/berth/kube/provision"
	"github.com/berth-dev/berth/kube/scheduler"
	"github.com/berth-dev/berth/record"
)

// runningScheduler is Berth's scheduler in this process.
type runningScheduler struct {
	*kept
	retire func() // tells the API server that there will be no more answers
}

// inProcess is who leads when it is the scheduler of the cluster's own process. Its name is the same after a
// restart, so that it need not wait for its own lease to run out; there is one such process at a time.
const inProcess = "berth-up"

// startScheduler gives the scheduler its rights and sets it going, for pods with schedulerName berth and, where
// it is the default, for those that name none.
func (s *session) startScheduler(ctx context.Context) error {
	admin, err := s.cp.Config("admin")
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(s.log, nil)).With("component", "scheduler")
	if err := scheduler.Install(ctx, admin, log); err != nil {
		return err
	}
	for _, name := range s.dialects {
		if err := scheduler.InstallDialect(ctx, admin, all.Find(name)); err != nil {
			return err
		}
	}
	cfg, err := s.cp.Config("berth-scheduler")
	if err != nil {
		return err
	}
	config, err := s.policy.config(engine.Config{Levels: scheduler.DefaultLevels()})
	if err != nil {
		return err
	}
	pods := append([]string{scheduler.DefaultName}, fleet.SchedulersOf(s.pools)...)
	if s.defaultScheduler == berthScheduler {
		pods = append(pods, corev1.DefaultSchedulerName)
	}
	seen := &scheduler.Observer{}
	var asked func(*corev1.Pod) bool
	if class, err := parseRequests(s.requests); err != nil {
		return err
	} else if class != "" {
		asked = provision.Asked
	}
	run := func(ctx context.Context) error {
		answers, err := s.offerAnswers(ctx, admin) // anew each time: the one before closed its port
		if err != nil {
			return err
		}
		page, err := sharedPage(cfg, fmt.Sprintf("cluster %q", s.name), s.dir.Decisions(), log)
		if err != nil {
			return err
		}
		defer page.Close()
		return scheduler.Run(ctx, scheduler.Options{
			Config: cfg, Engine: config, For: pods, Dialects: s.dialects, Identity: inProcess, GangGrace: s.gangGrace, DeviceBindingTimeout: s.deviceTimeout, Log: log,
			GPUMetrics: scheduler.GPUMetrics{Fleet: true},
			Answers:    answers, Page: page, Decisions: record.Options{Dir: s.dir.Decisions(), Berth: Version}, Observer: seen, Asked: asked,
		})
	}
	s.sched = &runningScheduler{kept: keep("the scheduler", run, s.report.say, log), retire: func() { retireAnswers(admin, log) }}
	for _, name := range s.dialects {
		pods = append(slices.Clone(pods), all.Find(name).SchedulerNames()...)
	}
	s.report.did("scheduling pods with schedulerName " + strings.Join(pods, ", "))
	return s.startProvision(seen)
}

// waitPolicies waits until the API server enforces Berth's policies: what is created before is nobody's work.
func (s *session) waitPolicies(ctx context.Context) error {
	s.report.doing("waiting until admission policies are in force")
	admin, err := s.cp.Config("admin")
	if err != nil {
		return err
	}
	soon, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	err = scheduler.InForce(soon, admin)
	if ctx.Err() != nil {
		return errInterrupted
	}
	return err
}

func (r *runningScheduler) stop() {
	r.retire()
	r.kept.stop()
}
