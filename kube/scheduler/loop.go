package scheduler

import (
	"context"
	"time"

	"github.com/berth-dev/berth/engine"
)

// loop plans when something changed, and when the last plan said that time alone would change it.
func (s *scheduler) loop(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var took time.Duration // the last cycle
	for {
		select {
		case <-ctx.Done():
		case <-s.inbox.signal:
			time.Sleep(max(batch, min(9*took, longBatch)))
		case <-timer.C:
		case answer := <-s.questions:
			answer()
			continue
		}
		if ctx.Err() != nil {
			return
		}
		begin := time.Now()
		s.began.Store(begin.UnixNano())
		wake := s.cycle(begin)
		s.began.Store(0)
		took = time.Since(begin)
		if wake.IsZero() {
			timer.Stop()
			continue
		}
		timer.Reset(max(time.Until(wake), batch))
	}
}

// cycle takes in what happened, decides, and hands the decision on. It returns when to look again.
func (s *scheduler) cycle(now time.Time) (wake time.Time) {
	settled := s.settled(now)
	again := s.feed.Settle()
	changes := append(s.inbox.take(), settled...)
	changes = append(changes, s.leapt(now)...)
	s.apply(changes)
	recalled, later := s.recall(now)
	changes = append(append(s.unplanned, changes...), recalled...)
	if s.unplanned = nil; later {
		s.unplanned = changes
		return now.Add(recallEvery)
	}
	plan := s.opts.plan(s.state, now)
	s.apply(plan.Changes)
	s.memory.note(plan.Changes)
	s.record.Cycle(now, changes, plan)
	s.note(plan)
	for i := range plan.Starts {
		s.log.Info("start", "workload", plan.Starts[i].Gang, "kind", plan.Starts[i].Kind, "pods", len(plan.Starts[i].Placements))
	}
	if !s.opts.Shadow {
		for _, start := range joined(s.feed.Checked(&plan)) {
			s.binds.add(start, now)
		}
	}
	wake = sooner(sooner(plan.WakeAt, again), s.reports.tell(plan))
	wake = sooner(wake, s.evicts.take(&plan))
	if !s.opts.Shadow {
		wake = sooner(wake, s.binds.prepares.recover())
	}
	s.reportKept(&plan)
	s.auditor.look(s, now)
	s.count(changes, &plan, now)
	s.traces.started(s, plan.Starts, now)
	if len(plan.Starts) > 0 {
		wake = sooner(wake, now.Add(s.opts.Engine.AssumeFor))
	}
	return wake
}

// recallEvery is how often the loop looks whether workloads that had quota before the restart have found places.
const recallEvery = 500 * time.Millisecond

// recall gives workloads that had quota before the restart, and wait for others to agree, what they had, before anybody else has a turn. It
// returns what was applied for that, and whether some have found no place yet: until they have, or their time is over, nobody is scheduled.
func (s *scheduler) recall(now time.Time) (applied []engine.Change, again bool) {
	if s.opts.Shadow || !s.feed.Recalling() {
		return nil, false
	}
	settle := func() {
		s.feed.Settle()
		changes := s.inbox.take()
		s.apply(changes)
		applied = append(applied, changes...)
	}
	settle()
	plan := s.opts.plan(s.state, now)
	again = s.feed.Recall(&plan)
	settle()
	return applied, again
}

func (s *scheduler) apply(changes []engine.Change) {
	s.number(changes)
	for _, r := range s.state.Apply(changes...) {
		s.log.Warn("rejected", "kind", r.Kind, "key", r.Key, "reason", r.Reason)
	}
}

// number gives edits of memory that come from us a version, and keeps count of all others.
func (s *scheduler) number(changes []engine.Change) {
	for i := range changes {
		s.version = max(s.version, versionOf(&changes[i]))
	}
	for i := range changes {
		c := &changes[i]
		if v := unnumbered(c); v != nil && *v == 0 {
			s.version++
			*v = s.version
		}
	}
}

// unnumbered is the version of an edit of memory, nil of anything else.
func unnumbered(c *engine.Change) *uint64 {
	switch {
	case c.Assumption != nil:
		return &c.Assumption.Version
	case c.Refusal != nil:
		return &c.Refusal.Version
	case c.Hold != nil:
		return &c.Hold.Version
	case c.Eviction != nil:
		return &c.Eviction.Version
	case c.Promise != nil:
		return &c.Promise.Version
	case c.Usage != nil:
		return &c.Usage.Version
	case c.Gone != nil:
		return &c.Gone.Version
	}
	return nil
}

func versionOf(c *engine.Change) uint64 {
	if c.Gone != nil {
		return c.Gone.Version
	}
	ref, _ := c.Ref()
	return ref.Version
}
