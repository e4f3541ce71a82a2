package engine

import (
	"slices"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/calendar"
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/order"
	"github.com/berth-dev/berth/engine/why"
)

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
	for _, h := range y.attempts.Claimed {
		y.Forget(api.KindHold, h.Ref().Key, h.Version) // it has served
	}
	y.attempts.Claimed = nil
	y.retally(g)
	// Under rules between pods what is placed later may lean on what started in between: then growth comes after that.
	//mutate: grow-in-order
	if n := y.starts[g]; n > 0 && (n == len(y.Plan.Starts) || !y.s.m.HasRules()) {
		start := &y.Plan.Starts[n-1]
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

func placementsOf(pods []*cluster.Pod) []api.Placement {
	out := make([]api.Placement, len(pods))
	for i, p := range pods {
		out[i] = api.Placement{Pod: p.Key, UID: p.UID, Node: p.Host.Name, Devices: p.HostDevices}
	}
	return out
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
	y.Plan.Waiting = append(y.Plan.Waiting, api.Waiting{Gang: g.Key, Verdict: verdict(gates), Cause: gates[0].Cause, Gates: gates, Short: g.Runs && g.TurnNow().Repair})
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

// verdict is what the gates amount to: the first decides, except that nothing is proved where the search for
// one of several GPU models ended at its budget.
func verdict(gates []why.Gate) why.Verdict {
	switch gates[0].Cause {
	case why.InvalidObject:
		return why.Invalid
	case why.UnsupportedFeature:
		return why.Unsupported
	case why.GangIncomplete, why.GangMissing, why.GroupMissing, why.QueueMissing, why.QueueForbidden, why.QueueStopped, why.WorkloadHeld, why.OverQueueLimit, why.ExceedsQueueMaximum,
		why.OverUserLimit, why.QueueBusy, why.OverBudget, why.OverQuota, why.NotLent, why.MakingRoom, why.KeptForPromise, why.KeptByBooking, why.BehindTheHead:
		return why.Blocked
	}
	if slices.ContainsFunc(gates, func(g why.Gate) bool { return g.Cause == why.SearchBudget }) {
		return why.NotFound
	}
	return why.Impossible
}
