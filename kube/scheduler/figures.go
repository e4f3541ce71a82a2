package scheduler

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/cluster"
	"github.com/berth-dev/berth/kube/metrics"
)

// fleetFor is how long a count of the fleet serves all who scrape: it looks at every node.
const fleetFor = 5 * time.Second

// fleetCount is the fleet as last counted.
type fleetCount struct {
	mu     sync.Mutex
	at     time.Time
	report engine.Report
}

var errNoFigures = errors.New("this scheduler does not lead")

// figures are those of the scheduler that leads in this process.
func (v *serving) figures() (metrics.Figures, error) {
	s := v.leads.Load()
	if s == nil {
		return metrics.Figures{}, errNoFigures
	}
	ctx, cancel := context.WithTimeout(context.Background(), askFor)
	defer cancel()
	b, err := s.snapshot(ctx)
	if err != nil {
		return metrics.Figures{}, err
	}
	fleet, err := s.countFleet(ctx)
	return metrics.Figures{GPU: cmp.Or(s.opts.Engine.GPU, cluster.DefaultGPU), Queues: b.queues, Fleet: fleet, Plan: b.plan}, err
}

func (s *scheduler) countFleet(ctx context.Context) (engine.Report, error) {
	c := &s.fleet
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.at.IsZero() && time.Since(c.at) < fleetFor {
		return c.report, nil
	}
	err := s.ask(ctx, func() { c.report = s.state.Report() })
	if err == nil {
		c.at = time.Now()
	}
	return c.report, err
}

// count notes a cycle that began then, and how long workloads waited that begin with it.
func (s *scheduler) count(changes []engine.Change, plan *engine.Plan, began time.Time) {
	m := s.opts.metrics
	if m == nil {
		return
	}
	m.Cycle(changes, plan, time.Since(began))
	for i := range plan.Starts {
		start := &plan.Starts[i]
		if start.Kind != engine.Begin {
			continue
		}
		var first time.Time
		pods := s.feed.PodsOf(start.Gang)
		for _, p := range pods {
			if at := p.CreationTimestamp.Time; first.IsZero() || at.Before(first) {
				first = at
			}
		}
		if !first.IsZero() {
			m.Started(len(pods), began.Sub(first))
		}
	}
}
