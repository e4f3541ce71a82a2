package preempt

import (
	"slices"

	"github.com/berth-dev/berth/engine/internal/api"
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

// mostRivals bounds how many that wait are placed beside the claimant for a set of victims, and how many are tried in its
// place. The set passes if there are more.
const mostRivals = 16

// losesTo says whether somebody who waits could have the claimant evicted, whose pods have been placed, and would have a
// place where it is. Those that wait are placed beside it as long as there is room, each beside the ones before: what one
// takes, the next has not.
//
// It costs a comparison for each queue where the claimant's queues are within their parts, and else a claim for each kind
// that waits, and what it costs to place those that have a right to the place. All that it places is taken off again.
func (c *claim) losesTo(pods []*cluster.Pod) bool {
	y := c.y
	if !c.g.Evictable || c.q.Frozen() || c.q.Spec != nil && c.q.Spec.Keeps || !slices.ContainsFunc(c.units, func(u *unit) bool { return u.taken }) {
		return false
	}
	me := comer{c.q, c.t.Priority, cluster.ChargesOf(pods)}
	if !c.borrows(me) {
		return false
	}
	m := y.m.Mark()
	defer y.m.Rollback(m)
	r := rivals{comer: me, of: c, pods: pods}
	return slices.ContainsFunc(y.inLine(), r.have)
}

// rivals is those that wait as they look at a claimant's place.
type rivals struct {
	comer
	of   *claim
	pods []*cluster.Pod // of the claimant, at its place
	// beside is how many were placed beside it so far, and tried how many were tried in its place.
	beside, tried int
}

// have says whether one of those that claim alike would have the claimant's place. Once one of them has no room beside it, no other
// has, and one that may claim by now speaks for all.
func (r *rivals) have(alike *alike) bool {
	y, room := r.of.y, true
	for _, g := range alike.gangs {
		if g.Payer == r.payer || r.beside >= mostRivals || r.tried >= mostRivals {
			return false
		}
		if g == r.of.g || y.m.HasHeld(g) || y.isStarting(g) || y.Behind(g) || !room && !y.mayClaim(g) {
			continue
		}
		x := alike.claimOf(y, g)
		right, ok := x.outranks(r.comer)
		if !ok {
			return false
		}
		if room && x.starts() {
			r.beside++
			continue
		}
		room = false
		//mutate: rivals-claim-now -> true
		if y.mayClaim(g) {
			r.tried++
			return x.startsWithout(r.pods, right)
		}
	}
	return false
}

// alike is gangs in line that claim the same, in order: of one queue, which pays for all of them.
type alike struct {
	gangs []*cluster.Gang
	// claim is that of one of them, which nothing is held for; nil: not asked for yet. A gang in line that has not started
	// asks for the same as long as the plan is being made, and so its claim is made once for all sets of victims.
	claim *claim
}

// claimOf is the claim of one of the gangs, which must be in line still.
func (a *alike) claimOf(y *Cycle, g *cluster.Gang) *claim {
	if a.claim == nil || a.claim.g != g {
		a.claim = y.newClaim(g, g.TurnNow())
	}
	return a.claim
}

// findWaiting groups those in line that have nothing yet and that nobody holds back, in the order of the first of each group. It costs
// a look at all of them. The line does not change while a plan is made, so it is done once in a cycle, for the first set of victims for which it
// matters; most cycles find none.
//
// That is in the middle of a trial, where the claimant has a place and so asks for nothing. What it asked for was noted before
// (lookAround). All others ask for the same as outside of the trial: tallies are not made anew in it, and victims are left out, since they run.
func (y *Cycle) findWaiting() {
	if y.waiting != nil {
		return
	}
	y.waiting = make([]*alike, 0, 1)
	of := make(map[claimKind]*alike)
	y.Waiting(func(g *cluster.Gang) bool {
		if g.Payer == nil || g.Runs || g.Terms().Held {
			return true
		}
		kind, plain := y.pursued.asks, y.pursued.plain
		if g != y.pursued.g {
			kind, plain = y.kindOf(g, g.TurnNow(), y.queueOf(g))
		}
		if a := of[kind]; plain && a != nil {
			a.gangs = append(a.gangs, g)
			return true
		}
		a := &alike{gangs: []*cluster.Gang{g}}
		y.waiting = append(y.waiting, a)
		if plain {
			of[kind] = a
		}
		return true
	})
}

// inLine is those groups, without those that started since at their fronts.
func (y *Cycle) inLine() []*alike {
	y.findWaiting()
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

// starts places the gang if it has a place now, and says whether it has.
func (c *claim) starts() bool {
	m := c.y.m.Mark()
	if len(c.y.Gates(c.g)) == 0 && c.y.StartsBeside(c.g, c.t) {
		return true
	}
	c.y.m.Rollback(m)
	return false
}

// startsWithout says whether the gang would have a place without the pods, and the right to it.
func (c *claim) startsWithout(pods []*cluster.Pod, r right) bool {
	m := c.y.m.Mark()
	defer c.y.m.Rollback(m)
	for _, p := range pods {
		c.y.m.Remove(p)
	}
	return c.starts() && c.within(r.quota, c.dims, c.y.m.Quota, c.charges) && c.within(r.share, c.sharedDims(), fairShare, c.charges)
}

// isLifted says whether the claim that is tried out has taken the running workload off its nodes, but for what is
// above its minimum.
func (y *Cycle) isLifted(t *running) bool {
	c := y.pursued
	return c != nil && slices.ContainsFunc(t.units, func(u *unit) bool { return u.claim == c.id && u.taken && u.size == nil })
}

// lookAround brings up to date what losesTo reads and what cannot be found in a trial: the lists of what runs in the claimant's queues, and
// what the claimant asks for. A claimant that borrows nothing once it has its place is never asked about those: in a trial a queue holds no more
// than it does now but for what the claimant takes, since victims are lifted, what leaves does not count, and holds are given
// back. To bring the list of a queue up to date costs a merge of all below it, and most queues have room for the claimant.
func (c *claim) lookAround() {
	if c.moving { // and so has no rivals
		return
	}
	might := false
	for q := c.q; q != nil; q = q.Parent {
		might = might || c.mayExceed(q)
	}
	if !might {
		return
	}
	for q := c.q; q != nil && c.q != &c.y.m.Unqueued; q = q.Parent {
		c.y.runningBelow(q)
	}
	c.asks, c.plain = c.kind()
}

// mayExceed says whether the queue, which is one of the claimant's, may hold more than its quota, or its share, of something
// that the claimant takes, with the claimant. What that takes is known before it has a place if it asks plainly, and what it counts does not depend on
// its nodes.
func (c *claim) mayExceed(q *cluster.Queue) bool {
	m := c.y.m
	if _, plain := c.y.Question(c.g, c.t); !plain || m.GangVaries(c.g) || m.Tree.ByModel || m.Tree.Flavored {
		return true
	}
	over := func(dims []int, part func(*cluster.Queue, int) int64) bool {
		return slices.ContainsFunc(dims, func(dim int) bool { return c.needs.At(dim) > 0 && q.Committed(dim)+c.needs.At(dim) > part(q, dim) })
	}
	return over(m.Tree.PromisedDims, m.Quota) || m.Config.Policy == api.TimeShare && over(m.Tree.Shared, shareOrQuota)
}
