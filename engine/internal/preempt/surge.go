package preempt

import (
	"slices"
	"time"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/cluster"
)

// Surges. Where the owner of a pod can be had to make the next one early, the next one is started in the place that
// is held, and the pod ends once that runs. It loses no work, and no disruption budget has a pod less. For a while
// both are there: the place must be free as things are, and the queues must have room for both.
//
// For example, a pod with 4 GPUs is moved from n1 to n2, where 4 GPUs are free. Without a surge it ends, and its
// owner makes another one, which starts on n2: the work since the last checkpoint is lost. With a surge the owner
// makes the other one first, and 4 GPUs of n1 and of n2 are taken for as long as that takes to start. If a pod on n2
// had to move away first, n2 would not be free for both, and there is no surge.

// startPatience is how much longer than it says a pod may take to run before its surge is given up.
const startPatience = 10 * time.Minute

// startsIn is the time that the next pod has to run before its surge is given up.
func (s *Candidates) startsIn(p *cluster.Pod) time.Duration {
	return s.restartOf(s.m.TermsOf(p)) + startPatience
}

// takeMover makes the running workload, which is one piece, legal to move. Whether it can stay until the next one
// runs is assumed here, for its cost, if its queues can pay for both; overlap decides.
func (c *claim) takeMover(t *running) {
	u := t.units[0]
	if t.Gang == nil && u.pods[0].Surges && c.y.pays(twinOf(u.pods[0]), nil) {
		u.surge, u.budgeted = true, false
	}
	c.take(t, api.Moved, -1)
}

// overlap decides which of the victims, whose next places have been found, stay until their replacements run: those whose
// next place is free already and whose own place is not the next one of another victim, if their queues have room for both.
// The others end first, at the full cost and out of the disruption budgets; overlap is false where that is more than the
// budgets allow.
//
// The twins that pays has placed stay in the model until the end of the loop, so that a queue pays for all surges
// together.
func (c *claim) overlap(victims []*unit, places []*cluster.Hold) bool {
	if !slices.ContainsFunc(victims, func(u *unit) bool { return u.surge }) {
		return true
	}
	y, s := c.y, c.y.Candidates
	m := s.m.Mark()
	for _, h := range places {
		if h.Gang == c.g.Key {
			s.m.PutHold(h, s.m.Nodes[h.Node]) // what its queue pays for
		}
	}
	for _, u := range victims {
		if !u.surge {
			continue
		}
		p, to := u.pods[0], s.m.Nodes[u.to[0]]
		// It stays only if its next place is free while all victims are still there, its own place is the next one of no
		// other, and its queues have room for both.
		//mutate: surge-place-free
		if !leaves(victims, to) && !comes(victims, p.Host) && y.pays(twinOf(p), to) {
			continue
		}
		u.surge, u.budgeted = false, len(p.Budgets) > 0
		u.cost = s.costOf(u, y.Now)
		c.disruption.count(u, 1)
	}
	s.m.Rollback(m)
	_, never := y.broken(&c.disruption)
	return !never
}

// leaves says whether pods will leave the node: victims, or pods that are on their way out already. What is free there once
// they are gone is not free yet.
func leaves(victims []*unit, n *cluster.Node) bool {
	//mutate: surge-beside-a-leaver -> false
	leaving := slices.ContainsFunc(n.Pods, (*cluster.Pod).Leaving)
	return leaving || slices.ContainsFunc(victims, func(u *unit) bool {
		return slices.ContainsFunc(u.pods, func(p *cluster.Pod) bool { return p.Host == n })
	})
}

// comes says whether some of the victims go to the node. A pod that stayed there until its replacement runs would keep them
// out for as long.
func comes(victims []*unit, n *cluster.Node) bool {
	return slices.ContainsFunc(victims, func(u *unit) bool { return slices.Contains(u.to, n.Name) })
}

// twinOf is a pod like this one that waits, as a gang of its own: the next pod, as far as it is known before its
// owner has made it. It is never entered in the model.
func twinOf(p *cluster.Pod) *cluster.Gang {
	like := *p.Pod
	like.Key, like.UID, like.Node, like.Devices = p.Key+"+", "", "", nil
	twin := &cluster.Pod{Pod: &like, Demands: p.Demands, Counted: p.Counted}
	g := &cluster.Gang{Key: like.Key, Lone: twin}
	g.Single.Pods[0] = twin
	twin.In = g
	return g
}

// pays says whether the queues of the twin let it run beside all that runs. With a node it is placed there, and stays
// if they do; nil asks about the least that it could be charged.
func (y *Cycle) pays(twin *cluster.Gang, n *cluster.Node) bool {
	s := y.Candidates
	s.m.Tally(twin)
	s.m.ShapeOf(twin.Lone)
	//mutate: surge-may-run
	if len(y.Afford(twin, nil)) > 0 {
		return false
	}
	if n == nil {
		return true
	}
	m := s.m.Mark()
	s.m.PutOn(twin.Lone, n, nil)
	//mutate: surge-within-limits
	if len(y.Afford(twin, []*cluster.Pod{twin.Lone})) > 0 {
		s.m.Rollback(m)
		return false
	}
	return true
}
