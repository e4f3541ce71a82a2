package preempt

import (
	"slices"

	"github.com/berth-dev/berth/engine/internal/cluster"
)

// Victims are evicted in vain if somebody who waits can have the claimant evicted as soon as it runs. Such a rival is
// of another queue, which is within its quota or share, and the claimant's queue is beyond its own with the place.
//
// For example, queue a has a quota of 4 GPUs and runs 4, queue b has one of 5 and runs 3, and of the 8 GPUs that there
// are 1 is free. Work of b that asks for 2 waits: it has a right to them, but a holds no more than its quota. Work of a
// that asks for 5, and goes before what runs of a, could evict that. But then a would hold 5, and have to give them back
// to b at once.
//
// Most rivals had their turn before the claimant, since workloads that are owed a place go first, and found nothing to
// take: the room was of victims that were not theirs to evict. A rival whose turn is yet to come has the room first,
// and the claimant asks again in the next cycle.

// rival is a workload that may have the claimant evicted, and by what right.
type rival struct {
	*claim
	right right
}

// mostRivals bounds how many are tried out for a set of victims: each costs what it costs to place it. The set passes
// if there are more.
const mostRivals = 16

// rivals lists, with the pods of the claimant placed, those that could have it evicted and have no place beside it. Of
// those that claim alike one is tried. It costs a comparison for each queue where the claimant's queues are within their
// parts, and else a claim for each kind that waits.
func (c *claim) rivals(pods []*cluster.Pod) (out []rival) {
	y := c.y
	if !c.g.Evictable || c.q.Frozen() || c.q.Spec != nil && c.q.Spec.Keeps || !slices.ContainsFunc(c.units, func(u *unit) bool { return u.taken }) {
		return nil
	}
	me := comer{c.q, c.t.Priority, cluster.ChargesOf(pods)}
	if !c.borrows(me) {
		return nil
	}
	for _, alike := range y.inLine() {
		i := slices.IndexFunc(alike.gangs, func(g *cluster.Gang) bool { return g != c.g && !y.m.HasHeld(g) && !y.isStarting(g) })
		if i < 0 || alike.gangs[i].Payer == c.q {
			continue
		}
		g := alike.gangs[i]
		x := y.newClaim(g, g.TurnNow())
		if r, ok := x.outranks(me); ok && y.mayClaim(g) && !y.Behind(g) && !(rival{x, r}).starts() {
			out = append(out, rival{x, r})
		}
		if len(out) == mostRivals {
			break
		}
	}
	return out
}

// alike is gangs in line that claim the same, in order.
type alike struct{ gangs []*cluster.Gang }

// inLine groups those in line that have nothing yet and that nobody holds back, in the order of the first of each group.
// The line does not change while a plan is made, so it is done once in a cycle, at the first set of victims for which it
// matters; those that start meanwhile are dropped from the front of their group.
func (y *Cycle) inLine() []*alike {
	if y.waiting == nil {
		y.waiting = make([]*alike, 0, 1)
		of := make(map[claimKind]*alike)
		y.Waiting(func(g *cluster.Gang) bool {
			// What the claim has lifted is in line too if it waits for more, and runs.
			if g.Payer == nil || g.Runs || g.Terms().Held || y.pursued.hasLifted(g) {
				return true
			}
			kind, plain := y.kindOf(g, g.TurnNow(), y.queueOf(g))
			if a := of[kind]; plain && a != nil {
				a.gangs = append(a.gangs, g)
				return true
			}
			a := &alike{[]*cluster.Gang{g}}
			y.waiting = append(y.waiting, a)
			if plain {
				of[kind] = a
			}
			return true
		})
	}
	for _, a := range y.waiting {
		for len(a.gangs) > 0 && y.isStarting(a.gangs[0]) {
			a.gangs = a.gangs[1:]
		}
	}
	return y.waiting
}

// isStarting says whether the plan starts the gang.
func (y *Cycle) isStarting(g *cluster.Gang) bool {
	_, is := y.Starts(g)
	return is
}

// hasLifted says whether the gang is among what was taken off its nodes for the claim.
func (c *claim) hasLifted(g *cluster.Gang) bool {
	return slices.ContainsFunc(c.units, func(u *unit) bool { return u.taken && u.of.Gang == g })
}

// borrows says whether one of the comer's queues is beyond its quota, or its share, of something that the comer takes.
func (c *claim) borrows(x comer) bool {
	m := c.y.m
	for z := x.payer; z != nil; z = z.Parent {
		over := func(dims []int, part func(*cluster.Queue, int) int64) bool {
			return slices.ContainsFunc(dims, func(dim int) bool { return x.takes.At(dim) > 0 && z.Committed(dim) > part(z, dim) })
		}
		if over(m.Tree.PromisedDims, m.Quota) || over(c.sharedDims(), shareOrQuota) {
			return true
		}
	}
	return false
}

// starts says whether the rival has a place as things are now.
func (r rival) starts() bool {
	m := r.y.m.Mark()
	defer r.y.m.Rollback(m)
	return len(r.y.Gates(r.g)) == 0 && r.y.StartsBeside(r.g, r.t)
}

// takes says whether the rival has a place now that the claimant has left it, and the right to it.
func (r rival) takes() bool {
	m := r.y.m.Mark()
	defer r.y.m.Rollback(m)
	return len(r.y.Gates(r.g)) == 0 && r.y.StartsBeside(r.g, r.t) &&
		r.within(r.right.quota, r.dims, r.y.m.Quota, r.charges) && r.within(r.right.share, r.sharedDims(), fairShare, r.charges)
}

// isLifted says whether the claim that is tried out has taken the running workload off its nodes, but for what is
// above its minimum.
func (y *Cycle) isLifted(t *running) bool {
	c := y.pursued
	return c != nil && slices.ContainsFunc(t.units, func(u *unit) bool { return u.claim == c.id && u.taken && u.size == nil })
}

// lookAtOwn brings the lists of what runs in the claimant's queues up to date, for rivals: in a trial they must not be.
func (c *claim) lookAtOwn() {
	for q := c.q; q != nil && c.q != &c.y.m.Unqueued; q = q.Parent {
		c.y.runningBelow(q)
	}
}
