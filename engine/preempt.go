package engine

import "github.com/berth-dev/berth/engine/internal/cluster"

// What quotas, promises and bookings ask of preemption, and what preemption asks of them. Each question is one function.

// entitlement is how far up its tree a preemptor's queue must stay within its part of some resources, because victims are
// evicted for it by that right; a reach of -1 asks for nothing.
type entitlement struct {
	reach int
	dims  []int
	part  func(*cluster.Queue, int) int64
}

// settles says whether the cycle asks, for a set of victims, whether the gang may have the place that they leave.
func (y *cycle) settles(g *cluster.Gang) bool {
	return y.pursued != nil && y.pursued.settling && y.pursued.g == g
}

// rights lists what the victims that are tried out rest on: quota, and the fair share.
func (y *cycle) rights() []entitlement {
	c := y.pursued
	quota, share := c.reaches()
	return []entitlement{{quota, c.dims, y.s.m.Quota}, {share, c.sharedDims(), fairShare}}
}

// returnsOf is what those that are taken off their nodes in a trial will take of the dimension again.
func (y *cycle) returnsOf(dim int) int64 {
	sum := y.returning.At(dim)
	if y.pursued != nil {
		sum += y.pursued.returning(dim)
	}
	return sum
}

// eachAwaited visits the workloads that places are held for, with those places, in no order.
func (y *cycle) eachAwaited(visit func(key string, g *cluster.Gang, holds []*cluster.Hold)) {
	y.s.eachAwaited(visit)
}

// startsBeside places the gang's minimum beside what is promised to others, and says whether it could.
func (y *cycle) startsBeside(g *cluster.Gang, t cluster.Turn) bool {
	m := y.s.m.Mark()
	found := y.place(g, t)
	return found.ok && len(y.delays(g, t, m, &found)) == 0
}

// isPromised says whether the gang was promised a start.
func (y *cycle) isPromised(g *cluster.Gang) bool { return y.standing(g) != nil }
