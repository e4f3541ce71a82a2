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

// fleetFor is how long a count of the fleet is served to all scrapes: to count it takes a look at every node.
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
	return metrics.Figures{
		GPU: cmp.Or(s.opts.Engine.GPU, cluster.DefaultGPU), At: b.at, Queues: b.queues, Tallies: b.tallies, Fleet: fleet, Plan: b.plan, Work: s.done(),
	}, err
}

// done is what this scheduler has done since it leads.
func (s *scheduler) done() metrics.Work {
	return metrics.Work{
		Cycles: s.cycles.Load(), Starts: s.starts.Load(), Bindings: s.binds.sent.Load(), Evictions: s.evicts.sent.Load(), EvictionsRefused: s.evicts.refused.Load(),
		EventsShed: s.reports.shed.Load(), Discrepancies: s.auditor.found.Load(), Unseen: s.echoes.oldest(time.Now()),
	}
}

// process is what this process says of itself, whether or not it leads.
func (v *serving) process() metrics.Process {
	asked, refused := v.server.Questions()
	away, _ := v.outage()
	return metrics.Process{Leads: v.leads.Load() != nil, Unreachable: away, Questions: asked, Shed: refused}
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
			m.Started(s.feed.QueueOf(start.Gang), len(pods), began.Sub(first))
		}
		if likely, told := s.estimates[start.Gang]; told {
			m.Estimated(began.Sub(likely))
			delete(s.estimates, start.Gang)
		}
	}
}

// lostBy counts the work that the eviction of the pod loses. One that stays until its successor runs loses none.
func (s *scheduler) lostBy(e *eviction, p *cluster.Pod, now time.Time) {
	if s.opts.metrics == nil || e.Surge {
		return
	}
	ran := max(0, now.Sub(cmp.Or(p.Started, now)))
	if p.Checkpoint > 0 {
		ran %= p.Checkpoint
	}
	s.opts.metrics.Evicted(e.Cause, p.Requests.Get(cmp.Or(s.opts.Engine.GPU, cluster.DefaultGPU)), ran)
}
