package engine

import (
	"time"

	"github.com/berth-dev/berth/engine/internal/calendar"
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/draft"
	"github.com/berth-dev/berth/engine/internal/index"
	"github.com/berth-dev/berth/engine/internal/order"
	"github.com/berth-dev/berth/engine/internal/preempt"
	"github.com/berth-dev/berth/engine/internal/quota"
	"github.com/berth-dev/berth/engine/why"
)

// cycle is one plan in the making: the parts that decide, and what they share.
type cycle struct {
	draft.Draft
	s       *State
	turns   *order.Selection   // who goes next
	limits  *quota.Limits      // what queues allow
	times   *calendar.Calendar // what is promised, and when work ends
	preempt *preempt.Cycle     // who is evicted for whom

	until *cluster.Gang // stop after this one has its minimum; nil: consider all
	trial bool          // until is alone in line and grows, and features are not looked at
	ahead int           // gangs considered before until
	steps int           // search steps that until took

	rank    int32           // of the gang whose turn it is
	kept    []*cluster.Node // whose room is held for the gang that is being placed, in order
	claimed []*cluster.Hold // the holds themselves
	freed   *cluster.Gang   // that has a place now: one that was held for another

	budget int  // of search steps, per gang
	quiet  bool // nothing is to be proved: it is only tried out
	sketch bool // little is proved in all of the cycle: see State.Sketch
	proofs map[index.Question]proof
	every  []string // GPU models that nodes have, once asked for

	starts  map[*cluster.Gang]int // by gang: index, plus one, of its Start in the plan
	short   []*cluster.Gang       // that run under their minimum, and could not be repaired
	dirty   []*cluster.Gang       // gangs whose tally the cycle changed
	going   map[string]int        // by workload: pods that are on their way out for it; nil: not counted yet
	counted int                   // of the plan's evictions, those in going
}

// newCycle makes a cycle in which nothing is decided yet.
func (s *State) newCycle(now time.Time) *cycle {
	y := &cycle{Draft: draft.New(now.UTC().Round(0), s.m.Latest), s: s, budget: s.m.Config.SearchBudget}
	y.preempt = y.newPreemption()
	y.limits = quota.New(s.m, &y.Draft, quota.Questions{Models: y.models, AllModels: y.allModels, Plain: y.plainDemands}, y.preempt)
	y.times = calendar.New(s.m, &y.Draft, calendar.Questions{
		Claim: y.claim,
		Gates: func(g *cluster.Gang) []why.Gate { gates, _ := y.gates(g); return gates },
		Fits:  y.wouldFit,
		Begins: func(g *cluster.Gang, on []*cluster.Node) (time.Time, time.Duration) {
			return y.preempt.Begins(g, on...)
		},
		Place: y.placeFirst,
	})
	return y
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
