package scheduler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/engine/why"
	"github.com/berth-dev/berth/kube/cluster"
	"github.com/berth-dev/berth/kube/convert"
	"github.com/berth-dev/berth/kube/devices"
	"github.com/berth-dev/berth/kube/dialect"
	"github.com/berth-dev/berth/record"
)

// Run schedules until ctx ends. It returns once what was on its way has been sent, or finishFor later. When
// another scheduler takes the lead it starts anew, as one that waits for it. An API server that cannot be reached, for
// however long, does not end it.
func Run(ctx context.Context, o Options) error {
	if o.Config == nil {
		return errors.New("scheduler: no connection given")
	}
	o.reach = newReach()
	o.Config = rest.CopyConfig(o.Config)
	o.Config.Wrap(o.reach.through)
	client, err := connect(ownSocket(o.Config)) // leases and reviews do not wait behind writes
	if err != nil {
		return err
	}
	stop, err := o.serve(client)
	if err != nil {
		return err
	}
	defer stop()
	defer o.reach.report(o.normal().Log)()
	if !o.Shadow {
		o.unfenced = client
	}
	o.Config = o.fenced()
	if o.writing, err = connect(o.Config); err != nil {
		return err
	}
	if o.binding, err = connect(ownSocket(o.Config)); err != nil {
		return err
	}
	for {
		err := run(ctx, client, o)
		switch {
		case !errors.Is(err, errLostLead):
			return err
		case ctx.Err() != nil:
			return nil
		}
		o.normal().Log.Warn("lost the lead", "err", err)
	}
}

// fenced is the connection for writes: where there are rivals, the server takes them from the leader alone.
func (o *Options) fenced() *rest.Config {
	c := rest.CopyConfig(o.Config)
	if o.Identity != "" && !o.Shadow {
		c.Wrap(func(next http.RoundTripper) http.RoundTripper { return fence{next} })
	}
	return c
}

// run schedules with client until ctx ends or the lead is lost. Where o.writing is given, client is for leases alone.
func run(ctx context.Context, client kubernetes.Interface, o Options) error {
	o = o.normal()
	lease := client
	if o.writing != nil {
		client = o.writing
	}
	s, err := newScheduler(client, o)
	if err != nil {
		return err
	}
	watched, end := s.follow(ctx)
	defer end()
	work := func(ctx context.Context) (err error) {
		defer recovered(&err, o.Log)
		select {
		case err := <-watched:
			if err != nil {
				return err
			}
		case <-ctx.Done():
			return nil
		}
		return s.work(ctx)
	}
	if o.Identity == "" || o.Shadow { // a process that writes nothing need not lead
		return work(ctx)
	}
	s.feed.Follow(true)
	return lead(ctx, lease, o, work)
}

// follow watches the cluster, so that a process that is about to lead knows it already. watched yields once, when all is
// known; end stops watching.
func (s *scheduler) follow(ctx context.Context) (watched <-chan error, end func()) {
	ctx, cancel := context.WithCancel(ctx)
	result, done := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(done)
		s.readSecret(ctx) // what pods were bound with cannot be told without
		stop, err := s.watch(ctx)
		s.opts.serving.warm(err == nil && ctx.Err() == nil)
		result <- err
		if err == nil {
			<-ctx.Done()
			s.opts.serving.warm(false)
			stop()
		}
	}()
	return result, func() { cancel(); <-done }
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

// ownSocket is the same connection over a socket of its own: client-go gives all clients of one configuration the same
// one, and a server works on the requests of a socket one frame at a time.
func ownSocket(c *rest.Config) *rest.Config {
	c = rest.CopyConfig(c)
	dial := c.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext
	}
	c.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		return dial(ctx, network, address)
	}
	return c
}

// scheduler is one run: it watches, and once it leads it works. The goroutine of loop owns state.
type scheduler struct {
	opts    Options
	client  kubernetes.Interface
	queues  queueClient       // once watched
	foreign dynamic.Interface // once watched; nil: no dialects are read
	// lastGroup is the one that writeForeign looked at last.
	lastGroup dialect.GroupRef
	log       *slog.Logger

	inbox   *inbox
	feed    *cluster.Feed
	binds   *binder
	reports *reporter
	evicts  *evictor
	meter   *meter
	health  *watchman // nil: nothing tells of the health of GPUs

	record *record.Writer // nil: nothing is recorded

	state   *engine.State
	marks   why.Marker
	version uint64    // highest version seen or given
	last    time.Time // when the last cycle began
	// unplanned was applied in cycles that made no plan: the next plan's record has it.
	unplanned []engine.Change
	settler   settler
	memory    memory
	auditor   auditor
	fleet     fleetCount
	echoes    echoes
	traces    *tracer // nil: tracing is off

	public
}

func newScheduler(client kubernetes.Interface, o Options) (*scheduler, error) {
	in := newInbox()
	s := &scheduler{
		opts: o, client: client, log: o.Log, inbox: in,
		state: engine.Load(engine.Snapshot{}, o.Engine), public: newPublic(), memory: newMemory(), traces: newTracer(o.Traces),
	}
	for _, r := range s.state.Rejected() {
		return nil, fmt.Errorf("scheduler: %s %s: %s", r.Kind, r.Key, r.Reason)
	}
	s.binds, s.reports, s.evicts = newBinder(s), newReporter(s), newEvictor(s)
	s.feed = cluster.New(cluster.Options{
		Convert: convert.Options{SchedulerNames: o.For, GPU: o.Engine.GPU}, Levels: o.Engine.Levels, Sink: in, Listener: s.reports, Selects: devices.NewMatcher(), Derives: devices.NewDeriver(), AttachFor: o.DeviceBindingTimeout, Now: time.Now,
	})
	var err error
	if s.meter, err = s.newMeter(); err != nil {
		return nil, err
	}
	s.health = newWatchman(s, s.meter.source)
	return s, nil
}

// work schedules as the leader.
func (s *scheduler) work(ctx context.Context) error {
	o := s.opts
	s.record = record.Start(o.Decisions, o.Engine)
	defer s.record.Close()
	s.feed.Follow(false)
	s.reports.open()
	s.feed.Repeat()
	now := time.Now()
	s.restore(now)
	s.restoreMemory(now)
	defer o.serving.lead(ctx, s)()
	defer o.Observer.show(s)()
	var workers sync.WaitGroup
	if !o.Shadow {
		guarded := s.seeGuard(ctx)
		workers.Go(func() { s.guardTerms(ctx, guarded) })
		s.meter.begin(ctx)
		if s.meter.source != nil {
			workers.Go(func() { s.meter.run(ctx) })
		}
		if s.health != nil {
			workers.Go(func() { s.health.run(ctx) })
		}
		workers.Go(func() { s.cordonLeaving(ctx) })
		workers.Go(func() { s.binds.run(ctx) })
		workers.Go(func() { s.reports.run(ctx) })
		workers.Go(func() { s.evicts.run(ctx) })
		workers.Go(func() { s.writeStatuses(ctx) })
		workers.Go(func() { s.writeNamespaces(ctx) })
		if s.traces != nil {
			workers.Go(func() { s.traces.run(ctx, s.feed.PodsOf) })
			workers.Go(func() { o.Traces.Run(ctx) })
		}
	}
	s.loop(ctx)
	workers.Wait()
	return nil
}
