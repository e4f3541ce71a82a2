package engine

import (
	"slices"
	"time"

	"github.com/berth-dev/berth/engine/internal/api"
)

// Surges. Of a pod whose owner can be had to make the next one early, the next one is started in the place that is held,
// and the pod ends once that runs. It loses no work, and no disruption budget has a pod less. For a while both are there:
// the place must be free as things are, and the queues must have room for both.

// startPatience is how much longer than it says a pod may take to run before its surge is given up.
const startPatience = 10 * time.Minute

// startsIn is the time that the next pod has to run.
func (s *State) startsIn(p *pod) time.Duration {
	if t := s.termsOf(p); t.Restart > 0 {
		return t.Restart + startPatience
	}
	return s.cfg.Restart + startPatience
}

// takeMover makes the tenant, which is one piece, legal to move.
func (c *claim) takeMover(t *tenant) {
	u := t.units[0]
	if t.gang == nil && u.pods[0].Surges && c.y.pays(twinOf(u.pods[0]), nil) {
		u.surge, u.budgeted = true, false
	}
	c.take(t, api.Moved, -1)
}

// overlap decides which of the victims, whose places have been found, stay until the next one runs: those whose place
// is free already, and who leave none to another of them, where their queues pay for both. It is false where the others
// are more than disruption budgets allow.
func (c *claim) overlap(victims []*unit, places []*hold) bool {
	if !slices.ContainsFunc(victims, func(u *unit) bool { return u.surge }) {
		return true
	}
	y, s := c.y, c.y.s
	m := s.mark()
	for _, h := range places {
		if h.Gang == c.g.key {
			s.putHold(h, s.nodes[h.Node]) // what its queue pays for
		}
	}
	for _, u := range victims {
		if !u.surge {
			continue
		}
		p, to := u.pods[0], s.nodes[u.to[0]]
		//mutate: surge-place-free
		if !leaves(victims, to) && !comes(victims, p.seat) && y.pays(twinOf(p), to) {
			continue
		}
		u.surge, u.budgeted = false, len(p.Budgets) > 0
		u.cost = s.costOf(u, y.now)
		c.toll.count(u, 1)
	}
	s.rollback(m)
	_, never := y.broken(&c.toll)
	return !never
}

// leaves says whether some of the victims are on the node: what is free there once they are gone is not free yet.
func leaves(victims []*unit, n *node) bool {
	return slices.ContainsFunc(victims, func(u *unit) bool {
		return slices.ContainsFunc(u.pods, func(p *pod) bool { return p.seat == n })
	})
}

// comes says whether some of the victims go to the node: they would be without a place for as long as it takes.
func comes(victims []*unit, n *node) bool {
	return slices.ContainsFunc(victims, func(u *unit) bool { return slices.Contains(u.to, n.name) })
}

// twinOf is a pod like this one that waits, as a gang of its own.
func twinOf(p *pod) *gang {
	like := *p.Pod
	like.Key, like.UID, like.Node, like.Devices = p.Key+"+", "", "", nil
	twin := &pod{Pod: &like, demands: p.demands}
	g := &gang{key: like.Key, lone: twin}
	g.single.pods[0] = twin
	twin.gang = g
	return g
}

// pays says whether the queues of the twin let it run beside all that runs; with a node it is seated there.
func (y *cycle) pays(twin *gang, n *node) bool {
	s := y.s
	s.tally(twin)
	s.shapeOf(twin.lone)
	//mutate: surge-may-run
	if len(y.quota(twin, "")) > 0 {
		return false
	}
	if n == nil {
		return true
	}
	m := s.mark()
	s.putOn(twin.lone, n, nil)
	//mutate: surge-within-limits
	if len(y.overdrawn(twin, []*pod{twin.lone})) > 0 {
		s.rollback(m)
		return false
	}
	return true
}
