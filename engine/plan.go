package engine

import (
	"slices"
	"time"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/calendar"
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/draft"
	"github.com/berth-dev/berth/engine/internal/index"
	"github.com/berth-dev/berth/engine/internal/order"
	"github.com/berth-dev/berth/engine/internal/preempt"
	"github.com/berth-dev/berth/engine/internal/quota"
	"github.com/berth-dev/berth/engine/why"
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
	s.last, s.lastAt = y.Plan, s.m.Edits+1
	return y.Plan
}

// holdsStill says whether the last plan is also the answer for now: nothing started or is evicted in it, and no time that
// matters has come since.
func (s *State) holdsStill(now time.Time) bool {
	p := &s.last
	return len(p.Starts) == 0 && !slices.ContainsFunc(p.Changes, (api.Change).Dated) && !now.Before(p.Now) && (p.WakeAt.IsZero() || now.Before(p.WakeAt))
}

// cycle is one plan in the making.
type cycle struct {
	draft.Draft
	s      *State
	budget int           // of search steps, per gang
	until  *cluster.Gang // stop after this one has its minimum; nil: consider all
	trial  bool          // until is alone in line and grows, and features are not looked at

	turns   *order.Selection      // who goes next
	rank    int32                 // of the gang whose turn it is
	starts  map[*cluster.Gang]int // by gang: index, plus one, of its Start in the plan
	dirty   []*cluster.Gang       // gangs whose tally the cycle changed
	every   []string              // GPU models that nodes have, once asked for
	proofs  map[index.Question]proof
	ahead   int             // gangs considered before until
	steps   int             // search steps that until took
	kept    []*cluster.Node // whose room is held for the gang that is being placed, in order
	claimed []*cluster.Hold // the holds themselves
	times   *calendar.Calendar
	limits  *quota.Limits
	short   []*cluster.Gang // that run under their minimum, and could not be repaired
	quiet   bool            // nothing is to be proved: it is only tried out
	freed   *cluster.Gang   // that has a place now: one that was held for another
	going   map[string]int  // by workload: pods that are on their way out for it; nil: not counted yet
	counted int             // of the plan's evictions, those in going
	preempt *preempt.Cycle
}

// newCycle makes a cycle in which nothing is decided yet.
func (s *State) newCycle(now time.Time) *cycle {
	y := &cycle{Draft: draft.New(now.UTC().Round(0), s.m.Latest), s: s, budget: s.m.Config.SearchBudget}
	y.preempt = y.newPreemption()
	y.limits = quota.New(s.m, &y.Draft, quota.Questions{Models: y.models, AllModels: y.allModels, Plain: y.plainDemands}, y.preempt)
	y.times = calendar.New(s.m, &y.Draft, calendar.Questions{
		Claim:  y.claim,
		Gates:  func(g *cluster.Gang) []why.Gate { gates, _ := y.gates(g); return gates },
		Fits:   y.wouldFit,
		Begins: func(g *cluster.Gang, on []*cluster.Node) time.Time { return y.preempt.Begins(g, on...) },
		Place:  y.placeFirst,
	})
	return y
}

// undone does something on the state, and undoes all that it did there.
func (y *cycle) undone(do func()) {
	s := y.s
	m, end := s.m.Mark(), s.m.Log.End()
	do()
	//mutate: rollback-plan
	s.m.Rollback(m)
	s.ix.Rewind(end)
	for _, g := range y.dirty {
		s.m.Tally(g)
	}
}

func (y *cycle) run() {
	y.undone(func() {
		y.expire()
		y.endOverdue()
		y.keepBookings()
		grow := y.minimums()
		y.growth(grow)
		y.releaseBroken()
		if y.until == nil {
			y.preempt.Tidy()
		}
		for g := range y.s.line.Short {
			y.Plan.Short = append(y.Plan.Short, g.Key)
		}
		slices.Sort(y.Plan.Short)
		y.remember()
	})
	y.accrueUsage()
}

// accrueUsage adds up what queues used until now.
func (y *cycle) accrueUsage() {
	if y.until != nil {
		return
	}
	for _, c := range y.s.ledger.Accrue(y.Now) {
		if c.Usage != nil {
			c.Usage.Version = y.NextVersion()
		}
		y.Remember(c)
	}
	if at := y.s.ledger.AccruesAt(y.Now); !at.IsZero() {
		y.Wake(at)
	}
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
		if g != y.until && y.sameAnswer(q) {
			y.turns.Done(false)
			y.ahead++
			continue
		}
		if g.Done && len(y.orphans(g)) == 0 && g.Known() {
			grow = append(grow, g)
			y.turns.Done(false)
			continue
		}
		y.rank = q.Rank
		evicted := len(y.Plan.Evictions)
		t := q.Turn
		//mutate: plan-turn-of-now
		if t.Repair {
			t.Repair = g.TurnNow().Repair // all that ran of it may have been ended since the line was made
		}
		started := y.start(g, t)
		if started && g.Tree.Waiting() > 0 {
			grow = append(grow, g)
		}
		y.turns.Done(started || len(y.Plan.Evictions) > evicted)
		if g == y.until {
			if y.trial {
				return grow
			}
			return nil
		}
		y.ahead++
	}
}

// sameAnswer tells the gang what another of its queue was told that asks the same, and says whether there was one. What
// is done for some and not for others is over by then: promises are given to the first few.
func (y *cycle) sameAnswer(q *order.Queued) bool {
	a := y.turns.Given()
	if a == nil || a.Passing && !y.times.PastHeads() || !a.Aged && y.times.Aged(q.Turn) && !y.times.Led(q.Gang.Queue(), q.Rank) {
		return false
	}
	if a.Passing {
		y.times.Blocked()
		y.times.WakeAged(q.Turn)
	}
	a.Waiting.Gang = q.Key
	y.Plan.Waiting = append(y.Plan.Waiting, a.Waiting)
	return true
}

// keepAnswer keeps what the gang, whose question is a plain one, was last told, if nothing changed since the standing.
func (y *cycle) keepAnswer(g *cluster.Gang, t cluster.Turn, gates []why.Gate, standing uint64) {
	y.turns.Keep(g, standing, func() order.Answer {
		return order.Answer{Waiting: y.Plan.Waiting[len(y.Plan.Waiting)-1], Passing: calendar.Passing(gates), Aged: y.times.Aged(t)}
	})
}

// start places the gang's minimum and reports whether it could; else it notes why not.
func (y *cycle) start(g *cluster.Gang, t cluster.Turn) bool {
	if y.stuck(g, t) {
		return y.again(g, t)
	}
	m, behind := y.s.m.Mark(), y.times.Behind(g, y.rank)
	y.claim(g)
	gates, decided := y.gates(g)
	if decided {
		y.s.m.Rollback(m)
		y.wait(g, gates)
		return false
	}
	if y.isEnding(g) {
		y.s.m.Rollback(m)
		y.wait(g, makingRoom(g))
		return false
	}
	if len(behind) > 0 && y.s.m.Config.Policy == api.Strict {
		y.s.m.Rollback(m)
		y.wait(g, append(behind, gates...))
		return false
	}
	seats := y.s.m.Mark()
	found := y.place(g, t)
	if found.ok && len(gates) == 0 {
		if gates = y.delays(g, t, seats, &found); len(gates) == 0 {
			gates = behind
		}
		if len(gates) == 0 {
			y.started(g, t, found.model, m)
			y.times.Started(g, m)
			return true
		}
		found.ok = true // but for the promise, or for who is before it
		y.times.WakeWhenLate(g)
	}
	//mutate: gate-all-or-nothing
	y.s.m.Rollback(m)
	if !found.ok {
		for _, gate := range y.unplaced(g, found.gates) {
			if !slices.Contains(gates, gate) { // what holds for every GPU model was said
				gates = append(gates, gate)
			}
		}
	}
	y.block(g, t, gates)
	return y.again(g, t)
}

// again starts the gang where a place that was held for another has been given to it.
func (y *cycle) again(g *cluster.Gang, t cluster.Turn) bool {
	if y.freed != g {
		return false
	}
	y.freed = nil
	return y.start(g, t)
}

// block does what can be done for a gang that has no place: others end for it, or it is promised a start.
func (y *cycle) block(g *cluster.Gang, t cluster.Turn, gates []why.Gate) {
	if !y.queues(g, gates) && !y.hasRoomMade(g, t, gates) {
		y.hope(g, t, gates)
	}
}

// hasRoomMade says whether others end for the gang, which then waits for that, or give a place up that was held for them.
func (y *cycle) hasRoomMade(g *cluster.Gang, t cluster.Turn, gates []why.Gate) bool {
	if y.s.m.Config.Policy == api.FIFO || !y.curable(gates) {
		return false
	}
	switch y.preempt.MakeRoom(g, t) {
	case preempt.Evicting:
		y.wait(g, makingRoom(g))
		return true
	case preempt.Freed:
		y.freed = g
		return true
	}
	return false
}

// queues says that the gang, which is blocked by the gates, waits behind another of its queue. Behind one that is only
// older it is told what it would wait for anyway.
func (y *cycle) queues(g *cluster.Gang, gates []why.Gate) bool {
	behind := y.times.Behind(g, y.rank)
	if len(behind) == 0 {
		y.times.Shut(g, y.rank, gates)
		return false
	}
	if y.s.m.Config.Policy == api.Strict {
		gates = append(behind, gates...)
	} else if calendar.Passing(gates) {
		y.times.Blocked() // as if it were not behind
	}
	y.wait(g, gates)
	return true
}

// hope promises the gang a start where it can, or has work moved for it, and notes why it waits.
func (y *cycle) hope(g *cluster.Gang, t cluster.Turn, gates []why.Gate) {
	var eldest, promised bool
	if y.trial {
		y.times.Withdraw(g)
	} else {
		var must bool
		eldest, must = y.times.Eldest(g, t, y.rank, gates, func() bool { return y.able(g) })
		promised = y.times.Promise(g, t, gates, must)
	}
	if !y.trial && scattered(gates) && y.preempt.MoveFor(g, t) {
		gates = makingRoom(g)
	} else if eldest && !promised {
		//mutate: age-shut
		y.times.Lead(g, y.rank, true)
	}
	y.wait(g, gates)
}

// claim lets the gang have what is kept for it alone: its holds, and its members' nominations.
func (y *cycle) claim(g *cluster.Gang) {
	for _, p := range g.All() {
		if p.Nominee != nil {
			y.s.m.IgnoreNomination(p)
		}
	}
	y.kept, y.claimed = nil, nil
	if len(y.s.m.Holds) == 0 {
		return
	}
	for _, h := range y.s.m.HeldFor(g) {
		if h.On == nil || h.Gang != g.Key && len(y.claimed) > 0 {
			continue
		}
		y.kept = append(y.kept, h.On)
		y.claimed = append(y.claimed, h)
		y.s.m.IgnoreHold(h)
	}
	slices.SortFunc(y.kept, cluster.ComparePlaces)
}

// started notes the allocations given since the mark.
func (y *cycle) started(g *cluster.Gang, t cluster.Turn, model string, m cluster.Mark) {
	kind := api.Begin
	switch {
	case t.Repair:
		kind = api.Repair
	case g.Tree.Running() > 0:
		kind = api.Grow
	}
	pods := y.s.m.AllocatedSince(m)
	placements := placementsOf(pods)
	borrowed := y.limits.Borrowed(y.s.m.Queues[g.Queue()], pods)
	for _, h := range y.claimed {
		y.Forget(api.KindHold, h.Ref().Key, h.Version) // it has served
	}
	y.claimed = nil
	y.retally(g)
	if y.starts[g] > 0 {
		start := &y.Plan.Starts[y.starts[g]-1]
		start.Placements = append(start.Placements, placements...)
		slices.SortFunc(start.Placements, func(a, b api.Placement) int { return cluster.ComparePods(y.s.m.Pods[a.Pod], y.s.m.Pods[b.Pod]) })
		if start.Model == "" {
			start.Model = model
		}
		start.Borrowed = start.Borrowed.Plus(borrowed)
		return
	}
	if y.starts == nil {
		y.starts = make(map[*cluster.Gang]int)
	}
	y.starts[g] = len(y.Plan.Starts) + 1
	y.Plan.Starts = append(y.Plan.Starts, api.Start{Gang: g.Key, Kind: kind, Model: model, Borrowed: borrowed, Placements: placements})
}

// retally counts the gang's members again; the count is undone with the cycle, and what it asks for meanwhile is nobody
// else's question.
func (y *cycle) retally(g *cluster.Gang) {
	y.s.m.Tally(g)
	y.s.line.SetApart(g)
	y.dirty = append(y.dirty, g)
}

func (y *cycle) wait(g *cluster.Gang, gates []why.Gate) {
	if g.Runs && g.Degraded() && g.Known() {
		y.short = append(y.short, g)
	}
	if gates[0].Cause == why.MakingRoom {
		gates[0].Need = max(1, int64(y.goingFor(g.Key)))
	}
	y.Plan.Waiting = append(y.Plan.Waiting, api.Waiting{Gang: g.Key, Verdict: verdict(gates), Cause: gates[0].Cause, Gates: gates, Short: g.Runs && g.TurnNow().Repair})
}

// goingFor is how many pods are on their way out for the workload.
func (y *cycle) goingFor(key string) int {
	if y.going == nil {
		y.going = make(map[string]int)
		for pod, e := range y.s.m.Evictions {
			if p := y.s.m.Pods[pod]; p != nil && p.UID == e.UID && p.Host != nil && !e.Refused && cluster.Live(e.Until, y.Now) {
				y.going[e.For]++
			}
		}
	}
	for _, e := range y.Plan.Evictions[y.counted:] {
		y.going[e.For]++
	}
	y.counted = len(y.Plan.Evictions)
	return y.going[key]
}

// growth gives members above the minimum what room is left.
func (y *cycle) growth(gangs []*cluster.Gang) {
	for _, g := range gangs {
		y.rank = y.s.line.Entry(g).Turn.Priority
		if g.Tree.Satisfied() {
			y.grow(g)
		} else if y.starts[g] == 0 { // it was evicted in this cycle
			y.start(g, g.TurnNow())
		}
		if g == y.until {
			return
		}
	}
}

func placementsOf(pods []*cluster.Pod) []api.Placement {
	out := make([]api.Placement, len(pods))
	for i, p := range pods {
		out[i] = api.Placement{Pod: p.Key, UID: p.UID, Node: p.Host.Name, Devices: p.HostDevices}
	}
	return out
}

// expire lets memory whose time has come not count, drops what is stale, and makes up the line.
func (y *cycle) expire() {
	s := y.s
	var lifted []*cluster.Gang
	over, next := s.m.Over(y.Now)
	if !next.IsZero() {
		y.Wake(next)
	}
	for _, key := range over {
		a, p := s.m.Assumptions[key], s.m.Pods[key]
		if p != nil && s.m.Assumed(p) == a {
			//mutate: memory-expired-assumption
			s.m.Lift(p)
			if !slices.Contains(lifted, p.In) {
				lifted = append(lifted, p.In)
			}
		}
		y.Forget(api.KindAssumption, key, a.Version)
	}
	y.expireRefusals()
	y.expireHolds()
	lifted = y.expireEvictions(lifted)
	y.times.Expire()
	y.turns = s.line.Begin(&y.Draft, s.ledger, order.Questions{Owed: y.limits.Owed, Aged: y.times.Aged, WakeAged: y.times.WakeAged})
	var only *cluster.Gang
	if y.trial {
		only = y.until
	} else {
		y.turns.Repeat()
	}
	for _, g := range lifted {
		y.retally(g)
	}
	if !y.trial {
		s.ledger.FairShares(y.Now, lifted...)
	}
	y.turns.Fill(lifted, only)
}

func (y *cycle) expireRefusals() {
	s := y.s
	for _, key := range cluster.SortedKeys(s.m.Refusals) {
		r := s.m.Refusals[key]
		if p := s.m.Pods[r.Pod]; p == nil || r.UID != "" && p.UID != r.UID || !cluster.Live(r.Until, y.Now) {
			y.Forget(api.KindRefusal, key, r.Version)
			continue
		}
		y.Wake(r.Until)
	}
}

func (y *cycle) expireHolds() {
	s := y.s
	for _, key := range cluster.SortedKeys(s.m.Holds) {
		h := s.m.Holds[key]
		if cluster.Live(h.Until, y.Now) && h.On != nil && (h.Coming || y.awaits(h.Gang)) {
			y.Wake(h.Until)
			continue
		}
		if h.On != nil {
			//mutate: memory-expired-hold
			s.m.IgnoreHold(h)
		}
		y.Forget(api.KindHold, key, h.Version)
	}
}

// awaits says whether a workload of the key has members to place.
func (y *cycle) awaits(key string) bool {
	if g := y.s.m.Gangs[key]; g != nil && g.Wants() {
		return true
	}
	p := y.s.m.Pods[key]
	return p != nil && p.In != nil && p.In.Lone == p && p.Waits()
}

// remember makes an assumption of every placement.
func (y *cycle) remember() {
	until := y.Now.Add(y.s.m.Config.AssumeFor)
	n := 0
	for _, start := range y.Plan.Starts {
		n += len(start.Placements)
	}
	made := make([]api.Assumption, 0, n)
	y.Plan.Changes = slices.Grow(y.Plan.Changes, n)
	for _, start := range y.Plan.Starts {
		for _, p := range start.Placements {
			made = append(made, api.Assumption{Pod: p.Pod, UID: p.UID, Version: y.NextVersion(), Node: p.Node, Devices: p.Devices, Until: until})
			y.Remember(api.Change{Assumption: &made[len(made)-1]})
		}
	}
}
