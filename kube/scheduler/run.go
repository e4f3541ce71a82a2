package scheduler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/convert"
)

// Run schedules until ctx ends. It returns once what was on its way has been sent, or finishFor later. When
// another scheduler takes the lead it starts anew, as one that waits for it.
func Run(ctx context.Context, o Options) error {
	client, err := connect(o.Config)
	if err != nil {
		return err
	}
	for {
		err := run(ctx, client, o)
		if !errors.Is(err, errLostLead) || ctx.Err() != nil {
			return err
		}
		o.normal().Log.Warn("lost the lead", "err", err)
	}
}

func run(ctx context.Context, client kubernetes.Interface, o Options) error {
	o = o.normal()
	if o.Identity == "" || o.Shadow { // who writes nothing need not lead
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
	settler settler
}

func newScheduler(client kubernetes.Interface, o Options) (*scheduler, error) {
	in := newInbox()
	s := &scheduler{
		opts: o, client: client, log: o.Log, inbox: in,
		feed:  newFeed(convert.Options{SchedulerNames: o.For, GPU: o.Engine.GPU}, in),
		state: engine.Load(engine.Snapshot{}, o.Engine),
	}
	for _, r := range s.state.Rejected() {
		return nil, fmt.Errorf("scheduler: %s %s: %s", r.Kind, r.Key, r.Reason)
	}
	s.binds, s.says = newBinder(s), newSayer(s)
	s.feed.says = s.says
	return s, nil
}

func schedule(ctx context.Context, client kubernetes.Interface, o Options) error {
	s, err := newScheduler(client, o)
	if err != nil {
		return err
	}
	stop, err := s.watch(ctx)
	if err != nil {
		return err
	}
	defer stop()
	var workers sync.WaitGroup
	if !o.Shadow {
		workers.Go(func() { s.binds.run(ctx) })
		workers.Go(func() { s.says.run(ctx) })
	}
	s.loop(ctx)
	workers.Wait()
	return nil
}
