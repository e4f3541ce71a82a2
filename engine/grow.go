package engine

import "github.com/berth-dev/berth/engine/internal/cluster"

// grow places members above the minimum, one by one, and groups above the minimum of groups, each whole.
// What the gang has, it keeps.
func (y *cycle) grow(g *cluster.Gang) {
	if y.isEnding(g) {
		y.wait(g, y.preempt.MakingRoom(g))
		return
	}
	behind := y.times.Behind(g, y.rank)
	if len(behind) > 0 && y.times.Strict(g.Queue()) {
		if y.starts[g] == 0 {
			y.wait(g, behind)
		}
		return
	}
	if gates := y.limits.Gates(g, "", nil); len(gates) > 0 {
		y.wait(g, gates)
		return
	}
	t := g.TurnNow()
	m := y.s.m.Mark()
	y.attempts.Claim(g)
	model := ""
	if y.starts[g] > 0 {
		model = y.Plan.Starts[y.starts[g]-1].Model
	}
	x := y.attempts.Grow(g, t, model)
	if len(x.Placed) > 0 && len(behind) == 0 {
		y.started(g, t, x.Model(), m)
		return
	}
	if len(x.Placed) > 0 {
		y.s.m.Rollback(m)
		if y.starts[g] == 0 {
			y.wait(g, behind)
		}
		return
	}
	if y.starts[g] == 0 {
		y.wait(g, y.attempts.GrowthGates(g, x))
	}
	y.s.m.Rollback(m)
}
