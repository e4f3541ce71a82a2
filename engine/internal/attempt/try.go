package attempt

import (
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/why"
)

// Affords lists what of its queues the gang breaks: with the pods, which have been placed, or with the least that it asks for.
func (a *Attempts) Affords(g *cluster.Gang, placed []*cluster.Pod) []why.Gate {
	if len(placed) == 0 {
		return a.limits.Gates(g, "", nil)
	}
	return a.limits.Overdrawn(g, placed)
}

// Try lets something be tried out with the gang in possession of what is held for it. Nothing is proved, and the
// model is as before afterwards. do must keep by value what it wants to know later.
func (a *Attempts) Try(g *cluster.Gang, do func(own []*cluster.Hold)) {
	m := a.m.Mark()
	quiet := a.Quiet
	a.Quiet = true
	a.Claim(g)
	do(a.claimed)
	a.m.Rollback(m)
	a.Quiet, a.claimed, a.nominated, a.kept = quiet, nil, nil, nil
}

// StartsBeside places the gang's minimum beside what is promised to others, and says whether it could.
func (a *Attempts) StartsBeside(g *cluster.Gang, t cluster.Turn) bool {
	m := a.m.Mark()
	found := a.Place(g, t)
	return found.OK && len(a.Delays(g, t, m, &found)) == 0
}
