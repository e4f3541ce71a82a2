package engine

import (
	"time"

	"github.com/berth-dev/berth/engine/internal/attempt"
	"github.com/berth-dev/berth/engine/internal/calendar"
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/dismiss"
	"github.com/berth-dev/berth/engine/internal/draft"
	"github.com/berth-dev/berth/engine/internal/order"
	"github.com/berth-dev/berth/engine/internal/preempt"
	"github.com/berth-dev/berth/engine/internal/quota"
	"github.com/berth-dev/berth/engine/why"
)

// cycle is one plan in the making: the parts that decide, and what they share.
type cycle struct {
	draft.Draft
	s          *State
	turns      *order.Selection    // which gang has its turn next
	attempts   *attempt.Attempts   // what the gang whose turn it is gets, or is told
	limits     *quota.Limits       // what queues allow
	times      *calendar.Calendar  // what is promised, and when work ends
	preempt    *preempt.Cycle      // evictions for other workloads
	dismissals *dismiss.Dismissals // evictions for no other workload's sake

	until *cluster.Gang          // stop after this one has its minimum; nil: consider all. In a trial it grows too
	ahead int                    // gangs considered before until
	rank  int32                  // of the gang whose turn it is
	freed *cluster.Gang          // that has a place now: one that was held for another
	unmet map[*cluster.Gang]bool // that run, were told why not one more group that is wanted starts, and may grow

	short []*cluster.Gang // that run under their minimum, and could not be repaired
	dirty []*cluster.Gang // gangs whose tally the cycle changed
}

// newCycle makes a cycle in which nothing is decided yet.
func (s *State) newCycle(now time.Time) *cycle {
	y := &cycle{Draft: draft.New(now.UTC().Round(0), s.m.Latest), s: s}
	y.attempts = attempt.New(&y.Draft, s.m, s.ix, s.placer, s.line)
	y.preempt = y.newPreemption()
	y.limits = quota.New(s.m, &y.Draft, quota.Questions{Models: y.attempts.Models, AllModels: y.attempts.AllModels, Plain: y.attempts.PlainDemands}, y.preempt)
	y.times = calendar.New(s.m, &y.Draft, calendar.Questions{
		Claim:     y.attempts.Claim,
		Gates:     func(g *cluster.Gang) []why.Gate { gates, _ := y.attempts.Gates(g); return gates },
		Fits:      y.attempts.WouldFit,
		Could:     y.attempts.Could,
		CouldEver: y.attempts.CouldEver,
		Begins: func(g *cluster.Gang, on []*cluster.Node) (time.Time, time.Duration) {
			return y.preempt.Begins(g, on...)
		},
		Place: y.attempts.PlaceFirst,
	})
	y.attempts.Ask(y.limits, y.times)
	y.dismissals = dismiss.New(&y.Draft, s.m, y.times, s.candidates, y.preempt.Disrupt, y.retally)
	return y
}

// newPreemption gives preemption the answers that it needs of this cycle.
func (y *cycle) newPreemption() *preempt.Cycle {
	return y.s.candidates.Begin(&y.Draft, preempt.Placing{
		Gates:     func(g *cluster.Gang) []why.Gate { gates, _ := y.attempts.Gates(g); return gates },
		Afford:    y.attempts.Affords,
		Kins:      y.attempts.Kins,
		Order:     y.attempts.Order,
		Question:  y.attempts.PlainQuestion,
		Place:     func(g *cluster.Gang, t cluster.Turn) bool { return y.attempts.Place(g, t).OK },
		Trial:     y.attempts.Try,
		Retally:   y.retally,
		LeastRate: func() int64 { return y.limits.LeastRate("") },
		Waiting: func(visit func(*cluster.Gang) bool) {
			if !y.attempts.Trial { // alone in line
				y.s.line.Visit(visit)
			}
		},
	}, preempt.Promises{
		StartsBeside: y.attempts.StartsBeside,
		Delays:       func(g *cluster.Gang, pods []*cluster.Pod) bool { return len(y.times.Breaks(g, pods)) > 0 },
		Promised:     func(g *cluster.Gang) bool { return y.times.Standing(g) != nil },
		Behind:       func(g *cluster.Gang) bool { return len(y.times.Behind(g, g.TurnNow().Priority)) > 0 },
		Stay:         func(g *cluster.Gang) cluster.Stay { return y.times.Stay(g) },
	})
}

// undone does something on the state, and undoes all that it did there.
func (y *cycle) undone(do func()) {
	s := y.s
	m := s.m.Mark()
	do()
	//mutate: rollback-plan
	s.m.Rollback(m)
	for _, g := range y.dirty {
		s.m.Tally(g)
	}
}
