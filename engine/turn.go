package engine

import (
	"slices"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/calendar"
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/emptied"
	"github.com/berth-dev/berth/engine/internal/order"
	"github.com/berth-dev/berth/engine/internal/place"
	"github.com/berth-dev/berth/engine/internal/preempt"
	"github.com/berth-dev/berth/engine/why"
)

// The turn of one gang: it starts, or others end or are moved for it, or it is promised a start; and it is told why it waits.

// start places the gang's minimum and reports whether it could; else it notes why not. All or nothing: what it tried is rolled
// back unless the gang starts.
func (y *cycle) start(g *cluster.Gang, t cluster.Turn) bool {
	if y.stuck(g, t) { // the counts show that it has no place, and what can be done for it was done
		return y.again(g, t)
	}
	m, behind := y.s.m.Mark(), y.times.Behind(g, y.rank)
	y.attempts.Claim(g)

	// Gates: is it whole, does the engine decide all that it asks for, do its queues let it?
	gates, decided := y.attempts.Gates(g)
	if decided {
		y.s.m.Rollback(m)
		y.wait(g, gates)
		return false
	}
	if y.isEnding(g) {
		y.s.m.Rollback(m)
		y.wait(g, y.preempt.MakingRoom(g))
		return false
	}
	if len(behind) > 0 && y.times.Strict(g.Queue()) {
		y.s.m.Rollback(m)
		y.wait(g, append(behind, gates...))
		return false
	}

	// The gang has a place, which delays no promised start.
	before := y.s.m.Mark()
	found := y.attempts.Place(g, t)
	if found.OK && len(gates) == 0 {
		if gates = y.attempts.Delays(g, t, before, &found); len(gates) == 0 {
			gates = behind
		}
		if len(gates) == 0 {
			y.started(g, t, found.Model, m)
			y.times.Started(g, m)
			return true
		}
		found.OK = true // but for the promise, or for who is before it
	}

	// No place: all gates that are shut are told, and what can be done about them is done.
	//mutate: gate-all-or-nothing
	y.s.m.Rollback(m)
	if !found.OK {
		for _, gate := range y.attempts.Unplaced(g, found.Gates) {
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
		y.hope(g, t, y.limits.Spared(g, gates))
	}
}

// hasRoomMade says whether others end for the gang, which then waits for that, or give a place up that was held for them.
func (y *cycle) hasRoomMade(g *cluster.Gang, t cluster.Turn, gates []why.Gate) bool {
	switch y.preempt.MakeRoom(g, t, gates) {
	case preempt.Evicting:
		y.times.Takes()
		y.wait(g, y.preempt.MakingRoom(g))
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
	if y.times.Strict(g.Queue()) {
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
	if y.attempts.Trial {
		y.times.Withdraw(g)
	} else {
		var must bool
		eldest, must = y.times.Eldest(g, t, y.rank, gates, func() bool { return y.able(g) })
		promised = y.times.Promise(g, t, gates, must)
	}
	if !y.attempts.Trial && y.preempt.MoveFor(g, t, gates) {
		gates = y.preempt.MakingRoom(g)
	} else if eldest && !promised {
		//mutate: age-shut
		y.times.Lead(g, y.rank, true)
	}
	y.wait(g, gates)
}

// Most of a long line waits for room, and asks for it in few ways: so many pods of one class, in one domain of a
// level. Such a question is answered once for all who ask it. The answer is the one that placing would give.

// stuck deals with a gang that the counts show to have no place, and says whether that is so. Evictions are tried before the
// refusal is proved, since a gang that gets a place by them needs no proof.
func (y *cycle) stuck(g *cluster.Gang, t cluster.Turn) bool {
	s, ok := y.attempts.Stuck(g, t)
	if !ok {
		return false
	}
	gates := y.limits.Gates(g, "", nil)
	if !s.Proved && len(y.times.Behind(g, y.rank)) == 0 {
		gates := append(gates[:len(gates):len(gates)], place.NoRoom)
		if y.hasRoomMade(g, t, gates) {
			y.times.Shut(g, y.rank, gates)
			return true
		}
	}
	if shown := y.attempts.Show(s); len(gates) > 0 {
		gates = append(gates, shown...)
	} else {
		gates = shown
	}
	if !y.queues(g, gates) && !(s.Proved && y.hasRoomMade(g, t, gates)) {
		gates = y.limits.Spared(g, gates)
		y.hope(g, t, gates)
		if !y.attempts.Sketch {
			y.keepAnswer(g, t, gates, s.Standing)
		}
	}
	return true
}

// sameAnswer tells the gang what another of its queue was told that asks the same, and says whether there was one. What
// is done for some and not for others is over by then: promises are given to the first few.
func (y *cycle) sameAnswer(q *order.Queued) bool {
	a := y.turns.Given()
	if a == nil || a.Passing && !y.times.PastHeads() || !a.Aged && y.times.Aged(q.Turn) && !y.times.Led(q.Gang.Queue(), q.Rank) {
		return false
	}
	//mutate: answer-stay
	if !y.times.Stay(q.Gang).Covers(a.Stay) {
		return false
	}
	if a.Passing {
		y.times.Blocked()
		y.times.WakeOpen(q.Gang.Queue(), q.Turn, q.Rank)
	}
	a.Waiting.Gang = q.Key
	y.Plan.Waiting = append(y.Plan.Waiting, a.Waiting)
	return true
}

// keepAnswer keeps what the gang, whose question is a plain one, was last told, if nothing changed since the standing.
func (y *cycle) keepAnswer(g *cluster.Gang, t cluster.Turn, gates []why.Gate, standing uint64) {
	y.turns.Keep(g, standing, func() order.Answer {
		return order.Answer{Waiting: y.Plan.Waiting[len(y.Plan.Waiting)-1], Passing: calendar.Passing(gates), Aged: y.times.Aged(t), Stay: y.times.Stay(g)}
	})
}

// able says whether the gang could start once all is over that ends by itself.
func (y *cycle) able(g *cluster.Gang) (ok bool) {
	s := y.s
	if s.emptied == nil {
		s.emptied = emptied.Of(s.m)
		s.empty = newState(s.emptied.Model)
	}
	if known := &s.line.Entry(g).Able; known.Known && known.As == s.emptied.Edition && len(s.m.Bookings) == 0 {
		return known.OK
	}
	s.emptied.Visit(g, func(twin *cluster.Gang) {
		s.empty.follow()
		z := s.empty.newCycle(y.Now)
		z.attempts.Quiet = true
		z.undone(func() {
			z.dismissals.Bookings()
			z.times.KeepOff(twin)
			ok = z.attempts.WouldFit(twin, twin.TurnNow())
		})
	})
	s.empty.follow()
	s.line.Entry(g).Able = order.Ability{Known: true, OK: ok, As: s.emptied.Edition}
	return ok
}

// grow places members above the minimum, one by one, and groups above the minimum of groups, each whole. What the gang has, it
// keeps. A gang that starts in this plan is not told why not more of it does.
func (y *cycle) grow(g *cluster.Gang) {
	if y.isEnding(g) {
		y.wait(g, y.preempt.MakingRoom(g))
		return
	}
	model, starts := y.Starts(g)
	told := y.unmet[g]
	wait := func(gates []why.Gate) {
		if !starts && !told {
			y.wait(g, gates)
		}
	}
	behind := y.times.Behind(g, y.rank)
	if len(behind) > 0 && y.times.Strict(g.Queue()) {
		wait(behind)
		return
	}
	if gates := y.limits.Gates(g, "", nil); len(gates) > 0 {
		wait(gates)
		return
	}
	t, m := g.TurnNow(), y.s.m.Mark()
	y.attempts.Claim(g)
	switch x := y.attempts.Grow(g, t, model); {
	case len(x.Placed) == 0:
		if !starts && !told {
			y.wait(g, y.attempts.GrowthGates(g, x))
		}
	case len(behind) == 0:
		if told {
			y.Plan.Waiting = slices.DeleteFunc(y.Plan.Waiting, func(w api.Waiting) bool { return w.Gang == g.Key })
			y.times.TakeBack(g)
		}
		y.started(g, t, x.Model(), m)
		return
	default:
		wait(behind)
	}
	y.s.m.Rollback(m)
}

// isEnding says whether the gang has to go and some of it is still there, which could not be evicted: nothing joins it. One
// that is on its way out whole may begin anew, and then grow.
func (y *cycle) isEnding(g *cluster.Gang) bool {
	_, starts := y.Starts(g)
	return !starts && g.Tree.Running() > 0 && y.times.HasToEnd(g)
}

// started notes the allocations given since the mark.
func (y *cycle) started(g *cluster.Gang, t cluster.Turn, model string, m cluster.Mark) {
	y.times.Takes()
	kind := api.Begin
	switch {
	case t.Repair:
		kind = api.Repair
	case g.Tree.Running() > 0:
		kind = api.Grow
	}
	pods := y.s.m.AllocatedSince(m)
	borrowed := y.limits.Borrowed(y.s.m.Queues[g.Queue()], pods)
	y.attempts.Spend()
	y.retally(g)
	y.Start(g, kind, model, pods, borrowed, y.s.m.HasRules())
}

// retally counts the gang's members again; the count is undone with the cycle, and what it asks for meanwhile is nobody
// else's question.
func (y *cycle) retally(g *cluster.Gang) {
	y.s.m.Tally(g)
	y.s.line.SetApart(g)
	y.dirty = append(y.dirty, g)
}

// wait notes why the gang waits. One that runs under its minimum could not be repaired, then.
func (y *cycle) wait(g *cluster.Gang, gates []why.Gate) {
	if g.Runs && g.Degraded() && g.Known() {
		y.short = append(y.short, g)
	}
	y.times.Waits()
	y.Wait(g.Key, gates, g.Runs && g.TurnNow().Repair)
}
