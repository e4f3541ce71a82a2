package scheduler

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"sync/atomic"
	"time"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/answer"
	"github.com/berth-dev/berth/kube/cluster"
)

// snapshot is what answers are made from: one moment of the loop, copied out of it.
type snapshot struct {
	at       time.Time
	plan     engine.Plan // not written to
	tallies  []engine.Tally
	queues   []engine.QueueUse
	places   map[string]int    // index in plan.Waiting, by workload
	inQueue  []int             // place among those of its queue, from 1, by that index; 0 without a queue
	invalid  map[string]string // why a pod or a gang was rejected, by key
	etas     map[string]answer.ETA
	promises map[string]answer.Promise
	debts    map[string]int64 // GPUs that a queue, or one above it, has beyond its quota
}

// public is what of the loop others may look at.
type public struct {
	questions      chan func()   // taken between cycles
	turn           chan struct{} // capacity 1: a question is being answered, or was just now
	plan           engine.Plan   // the last one; the loop's
	latest         atomic.Pointer[snapshot]
	began          atomic.Int64 // when the cycle that is being run began, in Unix nanoseconds; 0: none is
	cycles, starts atomic.Int64
	// estimates are when workloads that wait were first said to start. The loop's.
	estimates map[string]time.Time
}

func newPublic() public {
	return public{questions: make(chan func()), turn: make(chan struct{}, 1), estimates: make(map[string]time.Time)}
}

// note takes note of a plan that was made.
func (p *public) note(plan engine.Plan) {
	p.plan = plan
	p.cycles.Add(1)
	p.starts.Add(int64(len(plan.Starts)))
}

const (
	// snapshotFor is how long a snapshot serves all questions, so that they do not keep the loop from its work.
	snapshotFor = 250 * time.Millisecond
	// askFor is how long a question may wait for the end of a cycle.
	askFor = 3 * time.Second
	// stuckAfter is how long a cycle may take before the scheduler counts as broken.
	stuckAfter = 30 * time.Second
)

// ask has the loop do something between two cycles: it alone may touch the state. Questions come one at a time and
// take at most a tenth of the loop's time, however many there are. Before the first plan there is nothing to tell.
func (s *scheduler) ask(ctx context.Context, question func()) error {
	if s.cycles.Load() == 0 {
		return answer.ErrBusy
	}
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return answer.ErrBusy
	}
	done, took := make(chan struct{}), time.Duration(0)
	defer func() { time.AfterFunc(9*took, func() { <-s.turn }) }()
	select {
	case s.questions <- func() { defer close(done); question() }:
		began := time.Now()
		<-done
		took = time.Since(began)
		return nil
	case <-ctx.Done():
		return answer.ErrBusy
	}
}

// snapshot returns one that is recent.
func (s *scheduler) snapshot(ctx context.Context) (*snapshot, error) {
	if b := s.latest.Load(); b != nil && time.Since(b.at) < snapshotFor {
		return b, nil
	}
	b := &snapshot{
		places: make(map[string]int), invalid: make(map[string]string),
		etas: make(map[string]answer.ETA), promises: make(map[string]answer.Promise), debts: make(map[string]int64),
	}
	err := s.ask(ctx, func() {
		b.at, b.plan, b.tallies, b.queues = time.Now(), s.plan, s.state.Tallies(""), s.state.QueueUses()
		for _, r := range s.state.Rejected() {
			b.invalid[r.Key] = r.Reason
		}
		b.expect(s.state)
		s.estimate(b)
	})
	if err != nil {
		return nil, err
	}
	b.lineUp()
	b.owe(cmp.Or(s.opts.Engine.GPU, cluster.DefaultGPU))
	s.latest.Store(b)
	return b, nil
}

// maxExpected is how many workloads, first in line, are told when they are expected to start.
const maxExpected = 200

// expect notes when those that wait will start, as far as that can be told.
func (b *snapshot) expect(s *engine.State) {
	for _, e := range s.Forecast(b.at, maxExpected) {
		b.etas[e.Gang] = answer.ETA{Earliest: e.Earliest, Likely: e.Likely, Because: e.Because, Cause: e.Cause}
	}
	for _, p := range b.plan.Promises {
		b.promises[p.Gang] = answer.Promise{Start: p.Start, Since: p.Since}
	}
}

// estimate keeps when workloads that wait were first said to start, for as long as they wait.
func (p *public) estimate(b *snapshot) {
	waits := make(map[string]bool, len(b.plan.Waiting))
	for i := range b.plan.Waiting {
		waits[b.plan.Waiting[i].Gang] = true
	}
	maps.DeleteFunc(p.estimates, func(gang string, _ time.Time) bool { return !waits[gang] })
	for gang, eta := range b.etas {
		if _, told := p.estimates[gang]; !told && waits[gang] && !eta.Likely.IsZero() {
			p.estimates[gang] = eta.Likely
		}
	}
}

// owe works out what queues have that is not theirs. Queues come after those above them.
func (b *snapshot) owe(gpu string) {
	for i := range b.queues {
		q := &b.queues[i]
		b.debts[q.Name] = max(q.Borrowed.Get(gpu), b.debts[q.Parent])
	}
}

// lineUp works out the place of each workload in line.
func (b *snapshot) lineUp() {
	for i := range b.plan.Waiting {
		b.places[b.plan.Waiting[i].Gang] = i
	}
	queues := make(map[string]string) // by workload
	for i := range b.tallies {
		if t := &b.tallies[i]; t.Queue != "" {
			queues[t.Key] = t.Queue
		}
	}
	before := make(map[string]int) // by queue
	b.inQueue = make([]int, len(b.plan.Waiting))
	for i := range b.plan.Waiting {
		if q := queues[b.plan.Waiting[i].Gang]; q != "" {
			before[q]++
			b.inQueue[i] = before[q]
		}
	}
}

// Ready says whether plans are made, and cycles come to an end.
func (s *scheduler) Ready() error {
	if s.cycles.Load() == 0 {
		return errors.New("no plan was made yet")
	}
	if began := s.began.Load(); began != 0 && time.Since(time.Unix(0, began)) > stuckAfter {
		return errors.New("a cycle has not ended for " + stuckAfter.String())
	}
	return nil
}
