package scheduler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/convert"
)

// Run schedules until ctx ends. It returns once what was on its way has been sent or given up. Losing the
// leadership is an error: the caller starts anew.
func Run(ctx context.Context, o Options) error {
	o = o.normal()
	client, err := connect(o.Config)
	if err != nil {
		return err
	}
	if o.Identity == "" {
		return schedule(ctx, client, o)
	}
	return lead(ctx, client, o, func(ctx context.Context) error { return schedule(ctx, client, o) })
}

// connect makes a client without limits of its own that speaks protobuf.
func connect(c *rest.Config) (kubernetes.Interface, error) {
	if c == nil {
		return nil, errors.New("scheduler: no connection given")
	}
	c = rest.CopyConfig(c)
	c.QPS, c.Burst = -1, -1
	c.ContentType = "application/vnd.kubernetes.protobuf"
	c.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	client, err := kubernetes.NewForConfig(c)
	if err != nil {
		return nil, fmt.Errorf("scheduler: %w", err)
	}
	return client, nil
}

// scheduler is one run as the leader. The goroutine of loop owns state.
type scheduler struct {
	opts   Options
	client kubernetes.Interface
	log    *slog.Logger

	inbox *inbox
	feed  *feed
	binds *binder
	says  *sayer

	state   *engine.State
	version uint64 // highest version seen or given
}

func schedule(ctx context.Context, client kubernetes.Interface, o Options) error {
	in := newInbox()
	s := &scheduler{
		opts: o, client: client, log: o.Log, inbox: in,
		feed:  newFeed(convert.Options{SchedulerName: o.Name, GPU: o.Engine.GPU}, in),
		state: engine.Load(engine.Snapshot{}, o.Engine),
	}
	for _, r := range s.state.Rejected() {
		return fmt.Errorf("scheduler: %s %s: %s", r.Kind, r.Key, r.Reason)
	}
	s.binds = newBinder(s)
	s.says = newSayer(s)
	if err := s.watch(ctx); err != nil {
		return err
	}
	var workers sync.WaitGroup
	if !o.Shadow {
		workers.Go(func() { s.binds.run(ctx) })
		workers.Go(func() { s.says.run(ctx) })
	}
	s.loop(ctx)
	workers.Wait()
	return nil
}

// watch starts the informers and returns when each has given its first list to the inbox.
func (s *scheduler) watch(ctx context.Context) error {
	strip := informers.WithTransform(func(o any) (any, error) {
		if m, ok := o.(metav1.Object); ok {
			m.SetManagedFields(nil)
		}
		return o, nil
	})
	all := informers.NewSharedInformerFactoryWithOptions(s.client, 0, strip)
	// A pod that is over holds nothing: it is a deletion to us.
	live := informers.NewSharedInformerFactoryWithOptions(s.client, 0, strip, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.FieldSelector = fields.AndSelectors(fields.OneTermNotEqualSelector("status.phase", "Succeeded"), fields.OneTermNotEqualSelector("status.phase", "Failed")).String()
	}))
	regs := []cache.ResourceEventHandlerRegistration{}
	add := func(i cache.SharedIndexInformer, h cache.ResourceEventHandlerFuncs) error {
		r, err := i.AddEventHandler(h)
		regs = append(regs, r)
		return err
	}
	err := errors.Join(
		add(all.Core().V1().Nodes().Informer(), handler(s.feed.setNode, s.feed.removeNode)),
		add(live.Core().V1().Pods().Informer(), handler(s.feed.setPod, s.feed.removePod)),
	)
	if s.serves("scheduling.k8s.io/v1beta1", "PodGroup") {
		err = errors.Join(err, add(all.Scheduling().V1beta1().PodGroups().Informer(), handler(s.feed.setGroup, s.feed.removeGroup)))
	}
	if err != nil {
		return fmt.Errorf("scheduler: watch: %w", err)
	}
	all.Start(ctx.Done())
	live.Start(ctx.Done())
	for _, r := range regs {
		if !cache.WaitForCacheSync(ctx.Done(), r.HasSynced) {
			return nil
		}
	}
	return nil
}

// serves says whether the API server has the kind.
func (s *scheduler) serves(groupVersion, kind string) bool {
	list, err := s.client.Discovery().ServerResourcesForGroupVersion(groupVersion)
	if err != nil {
		return false
	}
	for _, r := range list.APIResources {
		if r.Kind == kind {
			return true
		}
	}
	return false
}

// loop plans when something changed, and when the last plan said that time alone would change it.
func (s *scheduler) loop(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.inbox.signal:
			time.Sleep(batch)
		case <-timer.C:
		}
		wake := s.cycle(time.Now())
		if wake.IsZero() {
			timer.Stop()
			continue
		}
		timer.Reset(max(time.Until(wake), batch))
	}
}

// cycle takes in what happened, decides, and hands the decision on. It returns when to look again.
func (s *scheduler) cycle(now time.Time) (wake time.Time) {
	changes := s.inbox.take()
	s.number(changes)
	for _, r := range s.state.Apply(changes...) {
		s.log.Warn("rejected", "kind", r.Kind, "key", r.Key, "reason", r.Reason)
	}
	plan := s.state.Plan(now)
	s.number(plan.Changes)
	s.state.Apply(plan.Changes...)
	wake = plan.WakeAt
	for i := range plan.Starts {
		s.log.Info("start", "workload", plan.Starts[i].Gang, "kind", plan.Starts[i].Kind, "pods", len(plan.Starts[i].Placements))
		s.binds.add(&plan.Starts[i], now)
	}
	s.says.tell(plan)
	if until := now.Add(s.opts.Engine.AssumeFor); len(plan.Starts) > 0 && (wake.IsZero() || until.Before(wake)) {
		wake = until
	}
	return wake
}

// number gives edits of memory that come from us a version, and keeps count of all others.
func (s *scheduler) number(changes []engine.Change) {
	for i := range changes {
		c := &changes[i]
		switch {
		case c.Pod != nil:
			s.version = max(s.version, c.Pod.Version)
		case c.Node != nil:
			s.version = max(s.version, c.Node.Version)
		case c.Gang != nil:
			s.version = max(s.version, c.Gang.Version)
		case c.Assumption != nil:
			s.version = max(s.version, c.Assumption.Version)
		case c.Gone != nil && c.Gone.Version > 0:
			s.version = max(s.version, c.Gone.Version)
		}
	}
	for i := range changes {
		c := &changes[i]
		switch {
		case c.Refusal != nil:
			s.version++
			c.Refusal.Version = s.version
		case c.Gone != nil && c.Gone.Version == 0:
			s.version++
			c.Gone.Version = s.version
		}
	}
}
