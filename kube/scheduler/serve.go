package scheduler

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/berth-dev/berth/kube/answer"
	"github.com/berth-dev/berth/kube/metrics"
)

// serving is the server of answers, which is there also while another scheduler leads. A nil one serves nothing.
type serving struct {
	server  *answer.Server
	objects dynamic.Interface
	port    int
	shy     bool // it does not announce itself to the API server
	outage  func() (time.Duration, error)

	leads atomic.Pointer[scheduler] // nil: another process does
}

// serve answers on o.Answers until the returned function is called.
func (o *Options) serve(client kubernetes.Interface) (stop func(), err error) {
	if o.Answers == nil {
		return func() {}, nil
	}
	log := o.normal().Log
	server, err := answer.New(client, log)
	if err != nil {
		return nil, fmt.Errorf("scheduler: %w", err)
	}
	server.Outage(o.reach.outage)
	server.Address(o.Address)
	server.PageWith(o.Page)
	objects, err := dynamic.NewForConfig(o.fenced())
	if err != nil {
		return nil, fmt.Errorf("scheduler: %w", err)
	}
	o.serving = &serving{server: server, objects: objects, port: portOf(o.Answers), shy: o.Shadow || o.normal().Name != DefaultName, outage: o.reach.outage}
	o.metrics = metrics.New(o.serving.process, o.serving.figures)
	o.Config.Wrap(o.metrics.Through)
	server.Exposition(o.metrics.Text)
	ctx, cancel := context.WithCancel(context.Background())
	var ended sync.WaitGroup
	ended.Go(func() {
		if err := server.Serve(ctx, o.Answers); err != nil {
			log.Error("answers", "err", err)
		}
	})
	return func() { cancel(); ended.Wait() }, nil
}

func portOf(l net.Listener) int {
	if addr, ok := l.Addr().(*net.TCPAddr); ok {
		return addr.Port
	}
	return 0
}

// lead has the scheduler give the answers until the returned function is called.
func (v *serving) lead(ctx context.Context, s *scheduler) (end func()) {
	if v == nil {
		return func() {}
	}
	v.server.Lead(s)
	v.leads.Store(s)
	ctx, cancel := context.WithCancel(ctx)
	var ended sync.WaitGroup
	if !v.shy {
		ended.Go(func() { v.server.Announce(ctx, v.objects, v.port) })
	}
	return func() {
		v.leads.Store(nil)
		v.server.Lead(nil)
		cancel()
		ended.Wait()
	}
}

// warm says whether this process knows the cluster, whether or not it leads.
func (v *serving) warm(is bool) {
	if v != nil {
		v.server.Warm(is)
	}
}

// InstallAnswers has the API server hand questions on to a scheduler that will answer on a listener of its own
// machine, once that leads. It needs administrator rights.
func InstallAnswers(ctx context.Context, admin *rest.Config, l net.Listener) error {
	client, err := kubernetes.NewForConfig(admin)
	if err != nil {
		return fmt.Errorf("scheduler: install answers: %w", err)
	}
	objects, err := dynamic.NewForConfig(admin)
	if err != nil {
		return fmt.Errorf("scheduler: install answers: %w", err)
	}
	return answer.InstallLocal(ctx, client, objects, portOf(l))
}

// RetireAnswers undoes InstallAnswers, so that the API server does not look for a scheduler that has gone.
func RetireAnswers(ctx context.Context, admin *rest.Config) error {
	objects, err := dynamic.NewForConfig(admin)
	if err != nil {
		return fmt.Errorf("scheduler: retire answers: %w", err)
	}
	return answer.Retire(ctx, objects)
}
