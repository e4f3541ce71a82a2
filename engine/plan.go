package engine

import (
	"slices"
	"time"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/memory"
	"github.com/berth-dev/berth/engine/internal/order"
)

// Plan decides what starts now and says of everything else why it waits. The state is the same before and
// after; apply the plan's Changes once it is being carried out. The plan shares memory with later ones: do
// not write to it.
func (s *State) Plan(now time.Time) api.Plan {
	now = now.UTC().Round(0)
	s.freshen()
	if s.lastAt == s.m.Edits+1 && s.holdsStill(now) {
		p := s.last
		p.Now = now
		return p
	}
	y := s.newCycle(now)
	y.run()
	s.last, s.lastAt, s.lastOf, s.times = y.Plan, s.m.Edits+1, s.m.Latest, y.times.Rest()
	return y.Plan
}

// Sketch is Plan for who asks what starts and who is evicted, and not why the rest waits. Where thousands of kinds of work wait, proofs
// are most of what a plan costs, so it proves the first few questions alone. As long as no more are asked, it does what Plan does.
// Beyond them it takes gangs without a place to wait for room, whatever the cause: no work is moved for them, and one may be
// promised a start that Plan would not promise. Where nobody is passed, by policy or in one queue, the cause decides who holds others
// up, and it is Plan.
func (s *State) Sketch(now time.Time) api.Plan {
	s.freshen()
	if s.m.Config.Policy == api.Strict || s.m.Tree.Strict {
		return s.Plan(now)
	}
	y := s.newCycle(now.UTC().Round(0))
	y.attempts.Sketch = true
	y.run()
	s.times = y.times.Rest()
	return y.Plan
}

// holdsStill says whether the last plan is also the answer for now: nothing started or is evicted in it, and no time that
// matters has come since. A version that was told since is used up, also where it changed nothing, as that of an object that
// is gone and was never seen: what the plan remembers needs later ones.
func (s *State) holdsStill(now time.Time) bool {
	p := &s.last
	//mutate: plan-kept-versions
	if s.lastOf != s.m.Latest {
		return false
	}
	return len(p.Starts) == 0 && !slices.ContainsFunc(p.Changes, (api.Change).Dated) && !now.Before(p.Now) && (p.WakeAt.IsZero() || now.Before(p.WakeAt))
}

// run makes the plan. This is the order of a cycle:
//
//  1. What expired is forgotten, and the line is made: who waits, in which order (begin).
//  2. Work whose time is up ends: it ran for as long as it may, its queue is drained, or its nodes are booked for others or are
//     quarantined.
//  3. Each gang in line has its turn and gets its minimum or a reason (minimums, start). Its gates are looked at, then a place
//     is looked for. Without one, others may be evicted for it, or it is promised a start, or others are moved for it (block).
//  4. Gangs that have their minimum grow with what is left.
//  5. Gangs that run under their minimum for too long, and could not be repaired in step 3, are released.
//  6. In the background, work is moved to make large places free.
//  7. What starts is remembered until it is seen to run, and the use of queues is added up.
//
// Everything is done on the one model, so that each step sees what those before it decided, and undone at the end.
func (y *cycle) run() {
	y.undone(func() {
		y.begin()
		y.dismissals.Overdue()
		y.dismissals.Queues()
		y.dismissals.Bookings()
		y.dismissals.Quarantine()
		grow := y.minimums()
		y.growth(grow)
		for g := range y.s.line.Short { //archtest:any-order Broken sorts them
			y.short = append(y.short, g)
			y.Plan.Short = append(y.Plan.Short, g.Key)
		}
		slices.Sort(y.Plan.Short)
		y.dismissals.Broken(y.short)
		if y.until == nil {
			y.preempt.Tidy()
		}
		y.Assume(y.s.m.Config.AssumeFor)
	})
	if y.until == nil {
		y.s.ledger.Remember(&y.Draft)
		y.s.mixes.Remember(&y.Draft, y.s.m)
	}
}

// begin ends what is over, and makes the line of workloads: in a trial it is the workload that is asked about, alone.
func (y *cycle) begin() {
	s := y.s
	lifted, settled := memory.Expire(&y.Draft, s.m)
	for _, g := range settled {
		y.retally(g)
	}
	y.times.Expire()
	y.turns = s.line.Begin(&y.Draft, s.ledger, order.Questions{Owed: y.limits.Owed, OwesNothing: y.limits.OwesNothing, Aged: y.times.Aged, WakeAged: y.times.WakeAged})
	var only *cluster.Gang
	if y.attempts.Trial {
		only = y.until
	} else {
		y.turns.Repeat()
	}
	for _, g := range lifted {
		y.retally(g)
	}
	//mutate: trial-shares
	if !y.attempts.Trial || s.m.Config.Policy == api.TimeShare { // alone in line, shares decide only on who may be evicted
		s.ledger.FairShares(y.Now, lifted...)
	}
	y.turns.Fill(lifted, only)
}

// minimums gives each gang in line its minimum or a reason, and returns those that may grow.
func (y *cycle) minimums() []*cluster.Gang {
	y.Plan.Waiting = make([]api.Waiting, 0, y.s.line.Len())
	var grow []*cluster.Gang
	for {
		q, ok := y.turns.Next()
		if !ok {
			return grow
		}
		g := q.Gang
		if g != y.until && !g.Terms().Held && y.sameAnswer(q) {
			y.turns.Done(false)
			y.ahead++
			continue
		}
		//mutate: plan-grow-what-can-be-read
		if g.Done && len(y.attempts.Orphans(g)) == 0 && g.Known() && y.attempts.Unreadable(g) == "" {
			grow = append(grow, g)
			y.turns.Done(false)
			continue
		}
		y.rank = q.Rank
		evicted, changed := len(y.Plan.Evictions), len(y.Plan.Changes)
		t := q.Turn
		//mutate: plan-turn-of-now
		if t.Repair {
			t.Repair = g.TurnNow().Repair // all that ran of it may have been ended since the line was made
		}
		started := y.start(g, t)
		if started && g.Tree.Waiting() > 0 {
			grow = append(grow, g)
		} else if !started && len(y.Plan.Evictions) == evicted && y.growsWithout(g) {
			if y.unmet == nil {
				y.unmet = make(map[*cluster.Gang]bool)
			}
			y.unmet[g] = true
			grow = append(grow, g)
		}
		y.turns.Done(started || len(y.Plan.Evictions) > evicted, y.gaveBack(y.Plan.Evictions[evicted:], y.Plan.Changes[changed:])...)
		if g == y.until {
			if y.attempts.Trial {
				return grow
			}
			return nil
		}
		y.ahead++
	}
}

// growsWithout says whether the gang may grow though one more of its groups is wanted and has no place: members above the minimum of a group do
// not wait for the groups beside it, unless room is being made for one.
func (y *cycle) growsWithout(g *cluster.Gang) bool {
	//mutate: plan-grow-beside-what-is-wanted
	return len(g.Tree.Children) > 0 && g.Tree.Satisfied() && g.Known() && len(y.s.m.HoldsOf[g.Key]) == 0 &&
		len(y.attempts.Orphans(g)) == 0 && y.attempts.Unreadable(g) == "" && !y.isEnding(g)
}

// gaveBack lists the queues of which work is evicted, and those for whose work nothing is held any more.
func (y *cycle) gaveBack(evicted []api.Eviction, changes []api.Change) (queues []*cluster.Queue) {
	for i := range evicted {
		if q := y.s.m.Pods[evicted[i].Pod].Payer; q != nil {
			queues = append(queues, q)
		}
	}
	for i := range changes {
		if gone := changes[i].Gone; gone != nil && gone.Kind == api.KindHold {
			if h := y.s.m.Holds[gone.Key]; h != nil && h.Payer != nil {
				queues = append(queues, h.Payer)
			}
		}
	}
	return queues
}

// growth gives members above the minimum what room is left.
func (y *cycle) growth(gangs []*cluster.Gang) {
	for _, g := range gangs {
		y.rank = y.s.line.Entry(g).Turn.Priority
		if g.Tree.Satisfied() {
			y.grow(g)
		} else if _, starts := y.Starts(g); !starts { // it was evicted in this cycle
			y.start(g, g.TurnNow())
		}
		if g == y.until {
			return
		}
	}
}
