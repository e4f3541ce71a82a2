package preempt

import (
	"cmp"
	"slices"
	"strings"

	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/quantity"
)

// Places held for others. A place is held for the workload that it was freed for, until its victims are gone. A claimant
// that could evict that workload as soon as it ran there takes the place before it starts; otherwise the workload would
// start only to be evicted at once (scenario outbid). A workload that was promised the start keeps its place (scenario
// outbid-not-promised).
//
// For example, b borrows 8 GPUs, and 8 GPUs on n1 are held for b until their last user is gone. Now queue a, within
// its quota, asks for 8. It could reclaim them from b as soon as b runs. So it is given the place, b loses no work,
// and b looks for another place in its own turn.
//
// A claim goes through two steps. outbid lists the places to which the claimant has a right, each judged by itself and
// with the rules of legal.go. An attempt (claim.attempt) then ignores all of them at once, because it is not known which
// one is in the way, and lose finds out which of them the claimant's place really costs: the others are put back.
//
// The list follows from the holds and accounts of the model at the moment of the claim. What is kept for a cycle is only which
// places there are, by queue and priority (heldPlaces).

// outbid lists the places held for workloads that the claimant could evict if they ran there, by key, and notes the right
// to each (c.rights). In the claimant's own queue it costs a look at each place that is held for a lower priority. Places of
// other queues are looked at only where the claimant's queue is within a part of its own, and each costs what covering it
// costs (coversComer).
func (c *claim) outbid() []*cluster.Hold {
	c.rights = nil
	var out []*cluster.Hold
	for _, held := range c.y.heldPlaces() {
		own := held.payer == c.q
		if !own && !c.hasPart() {
			continue
		}
		for _, h := range held.places {
			if own && h.priority >= c.t.Priority {
				break
			}
			// A hold without a node keeps nothing.
			if h.On == nil || h.IsFor(c.g) {
				continue
			}
			if r, ok := c.outbids(h.Hold); ok {
				if c.rights == nil {
					c.rights = make(map[*cluster.Hold]right)
				}
				c.rights[h.Hold] = r
				out = append(out, h.Hold)
			}
		}
	}
	slices.SortFunc(out, func(a, b *cluster.Hold) int { return strings.Compare(a.Ref().Key, b.Ref().Key) })
	return out
}

// held is places that are held at the cost of one queue, those for the lowest priorities first.
type held struct {
	payer  *cluster.Queue
	places []heldPlace
}

// heldPlace is a place with the priority of the workload that it is held for.
type heldPlace struct {
	*cluster.Hold
	priority int32
}

// heldPlaces groups the places that anybody could outbid, once in a cycle: which there are, for whom, and at which priority does not
// change while a plan is made. A place for a pod that is moved (Coming) is not outbid, since its workload was evicted on the
// promise of it; nor is one for a workload without a queue. The order of the groups does not count.
func (y *Cycle) heldPlaces() []held {
	if y.knowsHeld {
		return y.held
	}
	y.knowsHeld = true
	of := make(map[*cluster.Queue]int)
	//archtest:any-order outbid sorts what it finds
	for _, h := range y.m.Holds {
		g := y.m.Awaiting(h.Gang)
		if h.Coming || g == nil || g.Payer == nil {
			continue
		}
		i, ok := of[g.Payer]
		if !ok {
			i = len(y.held)
			of[g.Payer], y.held = i, append(y.held, held{payer: g.Payer})
		}
		y.held[i].places = append(y.held[i].places, heldPlace{h, g.TurnNow().Priority})
	}
	for _, x := range y.held {
		slices.SortFunc(x.places, func(a, b heldPlace) int { return cmp.Compare(a.priority, b.priority) })
	}
	return y.held
}

// hasPart says whether the claimant's own queue is within its quota or its fair share with the claimant: else it has no right to
// anything of another queue (exceeds).
func (c *claim) hasPart() bool {
	if c.q == &c.y.m.Unqueued {
		return false
	}
	shared := c.sharedDims()
	return len(c.dims) > 0 && c.fitsIn(c.q, c.y.m.Quota) || len(shared) > 0 && c.fitsShare(c.q, shared)
}

// right is how far up its tree the claimant's queue must be within its quota, and within its fair share, to have a place
// that is held for another: 0 its own queue, 1 the parent too; -1: it need not be. It is for a hold what unit.reach is
// for a unit.
type right struct{ quota, share int }

// outbids says whether the claimant could evict the workload that the place is held for, and by what right: the rules
// of legal.go, asked about a workload that does not run yet. Work that overran or is idle has no counterpart here, since
// what has not started does neither.
func (c *claim) outbids(h *cluster.Hold) (right, bool) {
	none := right{-1, -1}
	g := c.y.m.Awaiting(h.Gang)
	// A gang that runs already grows there, and its units are judged as candidates. Work that may not be evicted
	// keeps its place. Where the hold is charged to another queue than the gang, the gang has been moved since, and the
	// hold says nothing about its new queue.
	if g == nil || !g.Evictable || g.Runs || g.Payer == nil || g.Payer != h.Payer {
		return none, false
	}
	//mutate: outbid-not-promised
	if c.y.Promised(g) {
		return none, false // others ended for its promise
	}
	t := g.TurnNow()
	// In the claimant's own queue priority decides, unless the workload has waited for so long that it is promoted: then it
	// would not be evicted once it runs either (running.promoted).
	if g.Payer == c.q {
		spec := c.q.Spec
		//mutate: outbid-by-priority
		return right{-1, c.sharing}, t.Priority < c.t.Priority && !(spec != nil && spec.PromoteAfter > 0 && !c.y.Now.Before(t.Created.Add(spec.PromoteAfter)))
	}
	return c.outranks(comer{g.Payer, t.Priority, c.y.m.OwnHeld(g)})
}

// comer is who will run: at a place that is held for it, or at one that it claims.
type comer struct {
	payer    *cluster.Queue
	priority int32
	takes    quantity.Vector // counted in its queues already
}

// outranks says whether the claimant could evict the comer, which is of another queue, once that runs, and by what
// right.
func (c *claim) outranks(x comer) (right, bool) {
	if c.q == &c.y.m.Unqueued {
		return right{-1, -1}, false
	}
	// Other queues: by quota, and where that gives no right, by fair share.
	quota := func(x *cluster.Queue) bool { return len(c.dims) > 0 && c.fitsIn(x, c.y.m.Quota) }
	shared := c.sharedDims()
	share := func(x *cluster.Queue) bool { return len(shared) > 0 && c.fitsShare(x, shared) }
	//mutate: outbid-by-quota
	if reach, ok := c.exceeds(x, quota, c.dims, c.y.m.Quota); ok {
		return right{reach, -1}, true
	}
	reach, ok := c.exceeds(x, share, shared, shareOrQuota)
	return right{-1, reach}, ok
}

// exceeds says whether the comer exceeds with its place the part of the queue z above it that is beside a queue x above the
// claimant, while x and all queues below it are within their parts with the claimant. reach is how far above the claimant's
// queue x is, and -1 where the answer is no because the claimant's queues are not within theirs.
//
// There is at most one such pair, where the ways up from both queues meet. It costs a look at each pair of queues on the
// two ways up, and one cover.
func (c *claim) exceeds(o comer, within func(*cluster.Queue) bool, dims []int, part func(*cluster.Queue, int) int64) (reach int, ok bool) {
	for x := c.q; x != nil && within(x); x = x.Parent {
		for z := o.payer; z != nil; z = z.Parent {
			if z != x && z.Parent == x.Parent {
				return reach, !c.coversComer(newCover(c.y.Candidates, z, dims, part), o)
			}
		}
		reach++
	}
	return -1, false
}

// coversComer says whether the queue's part is enough for what the comer takes, beside all that is covered before it:
// what can never be evicted, and the minimums of what runs at no lower a priority. It adds to v, which the caller made for
// this question and drops. It costs a look at each running workload of the queue and of those below.
func (c *claim) coversComer(v *cover, o comer) bool {
	// The queue holds no more than its part, or nothing of what it holds too much of is the comer's.
	//mutate: outbid-devices-only -> len(v.over) == 0
	if len(v.over) == 0 || !v.lacks(o.payer, o.takes) {
		return true
	}
	v.firm()
	for _, t := range v.all {
		if t.priority >= o.priority && !c.y.isLifted(t) {
			v.covers(t.core, t.stays)
		}
	}
	return v.covers(o.takes, nil)
}

// lose returns those places of others that cannot stay beside the places that the claimant has found; ok is false where
// the claimant, with its places, has no right to one of them. It is called in a trial in which all of c.theirs are
// ignored, and puts back those that can stay, one by one in the order of their keys. The caller rolls all of it back.
//
// Without this a claimant that needs one place of another would take all of them: try ignores them together, because
// it is not known beforehand which one is in the way.
//
// For example, n1 is held for b and n2 for c, both of a queue that borrows, and the claimant is placed on n1. The place
// of c still has its room, and is put back; that of b has none, and is lost.
func (c *claim) lose(places []*cluster.Hold) (lost []*cluster.Hold, ok bool) {
	s := c.y.Candidates
	// mine is copies of the places, since the places themselves enter the model only when they are carried out.
	var mine []*cluster.Hold
	for _, h := range places {
		mine = append(mine, h.Like())
		s.m.PutHold(mine[len(mine)-1], s.m.Nodes[h.Node])
	}
	for _, h := range c.theirs {
		n := s.m.Nodes[h.Node]
		// The place does not stand beside the claimant's: it is lost.
		if !s.m.RoomFor(h, n) || c.keptApart(h, mine) {
			lost = append(lost, h)
			continue
		}
		s.m.PutHold(h, n)
		// It stands on its node, and yet its charge shuts a limit for the claimant: it is lost too.
		if gates := c.y.Gates(c.g); len(gates) > 0 {
			s.m.IgnoreHold(h)
			lost = append(lost, h)
		}
	}
	// charged says whether the claimant's places are charged the dimension: a queue that holds too much of something else
	// is not the claimant's doing.
	charged := func(dim int) bool {
		return slices.ContainsFunc(mine, func(h *cluster.Hold) bool {
			return slices.ContainsFunc(h.Charge, func(d quantity.Demand) bool { return d.Dim == dim && d.Amount > 0 })
		})
	}
	// Only the places that are really lost need a right, and each its own. It is asked now, with the claimant's places
	// charged, since only they say which GPU model, and so which rate, it is charged by.
	for _, h := range lost {
		r := c.rights[h]
		if !c.within(r.quota, c.dims, s.m.Quota, charged) || !c.within(r.share, c.sharedDims(), fairShare, charged) {
			return nil, false
		}
	}
	return lost, true
}

// keptApart says whether anti-affinity keeps the pods that come to the place from those that come to the other places
// (scenario held-apart-outbid). Room says nothing about that: the two may be on different nodes of one domain. It compares
// the pods in pairs, and costs nothing where no pod of the cluster has such rules.
func (c *claim) keptApart(h *cluster.Hold, others []*cluster.Hold) (apart bool) {
	m := c.y.m
	if !m.HasRules() {
		return false
	}
	n := m.Nodes[h.Node]
	m.EachComing(h, func(p *cluster.Pod) {
		for _, o := range others {
			m.EachComing(o, func(q *cluster.Pod) {
				//mutate: rules-lost-places
				if cluster.KeepsApart(p, n, q, o.On) {
					apart = true
				}
			})
		}
	})
	return apart
}
