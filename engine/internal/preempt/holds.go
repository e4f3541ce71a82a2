package preempt

import (
	"slices"
	"strings"

	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/quantity"
)

// A place is held for the workload that it was freed for. Whoever could evict that workload once it ran there may
// have the place before it starts, so that nobody starts only to be evicted at once. A workload that was promised the
// start keeps it.
//
// For example, b borrows 8 GPUs, and 8 GPUs on n1 are held for b until their last user is gone. Now queue a, within
// its quota, asks for 8. It could reclaim them from b as soon as b runs. So it is given the place, b loses no work,
// and b looks for another place in its own turn.

// outbid lists the places held for workloads that the claimant could evict if they ran there, by key. It costs a look
// at each hold, and for those in other queues what covering the hold costs.
func (c *claim) outbid() []*cluster.Hold {
	s := c.y.Candidates
	if len(s.m.Holds) == 0 {
		return nil
	}
	var out []*cluster.Hold
	c.rights = make(map[*cluster.Hold]right)
	//archtest:any-order the result is sorted
	for _, h := range s.m.Holds {
		if h.On == nil || h.Coming || h.IsFor(c.g) {
			continue
		}
		if r, ok := c.outbids(h); ok {
			c.rights[h] = r
			out = append(out, h)
		}
	}
	slices.SortFunc(out, func(a, b *cluster.Hold) int { return strings.Compare(a.Ref().Key, b.Ref().Key) })
	return out
}

// right is how far up its tree the claimant's queue must be within quota, or within its share, for a place of
// another; -1: not at all. It is what reach is for a unit.
type right struct{ quota, share int }

// outbids says whether the claimant could evict the workload that the place is held for, and by what right: the rules
// of legal.go, asked about a workload that does not run yet.
func (c *claim) outbids(h *cluster.Hold) (right, bool) {
	none := right{-1, -1}
	g := c.y.m.Awaiting(h.Gang)
	// A gang that runs already grows there, and its units are judged as candidates. Work that may not be evicted
	// keeps its place.
	if g == nil || !g.Evictable || g.Runs || g.Payer == nil || g.Payer != h.Payer {
		return none, false
	}
	//mutate: outbid-not-promised
	if c.y.Promised(g) {
		return none, false // others ended for its promise
	}
	t := g.TurnNow()
	// In the claimant's own queue priority decides, unless the workload has waited for so long that it is promoted.
	if g.Payer == c.q {
		spec := c.q.Spec
		//mutate: outbid-by-priority
		return right{-1, c.sharing}, t.Priority < c.t.Priority && !(spec != nil && spec.PromoteAfter > 0 && !c.y.Now.Before(t.Created.Add(spec.PromoteAfter)))
	}
	if c.q == &c.y.m.Unqueued {
		return none, false
	}
	quota := func(x *cluster.Queue) bool { return len(c.dims) > 0 && c.fitsIn(x, c.y.m.Quota) }
	shared := c.sharedDims()
	share := func(x *cluster.Queue) bool { return len(shared) > 0 && c.fitsShare(x, shared) }
	//mutate: outbid-by-quota
	if reach, ok := c.exceeds(g, t.Priority, quota, c.dims, c.y.m.Quota); ok {
		return right{reach, -1}, true
	}
	reach, ok := c.exceeds(g, t.Priority, share, shared, shareOrQuota)
	return right{-1, reach}, ok
}

// exceeds says whether the gang, for which a place is held, exceeds with it the part of its queue where its queues
// and the claimant's meet, while the claimant's are within theirs up to there. reach is how far up that is.
func (c *claim) exceeds(g *cluster.Gang, priority int32, within func(*cluster.Queue) bool, dims []int, part func(*cluster.Queue, int) int64) (reach int, ok bool) {
	for x := c.q; x != nil && within(x); x = x.Parent {
		for z := g.Payer; z != nil; z = z.Parent {
			if z != x && z.Parent == x.Parent {
				return reach, !c.coversHeld(newCover(c.y.Candidates, z, dims, part), g, priority)
			}
		}
		reach++
	}
	return -1, false
}

// coversHeld says whether the queue's part is enough for what is held for the gang beside all that goes before it:
// what can never be evicted, and what runs at no lower a priority than the gang's.
func (c *claim) coversHeld(v *cover, g *cluster.Gang, priority int32) bool {
	held := c.y.m.OwnHeld(g)
	//mutate: outbid-devices-only -> len(v.over) == 0
	if len(v.over) == 0 || !v.lacks(g.Payer, held) {
		return true
	}
	v.firm()
	for _, t := range v.all {
		if t.priority >= priority {
			v.covers(t.core, t.stays)
		}
	}
	return v.covers(held, nil)
}

// lose puts the places of others back where they still have room beside the claimant's, and its queues too, and
// returns the others. It is false where the claimant, with the places that it has found, has no right to those. The
// caller rolls all of it back.
//
// Without this a claimant that needs one place of another would take all of them: try ignores them together, because
// it is not known beforehand which one is in the way.
func (c *claim) lose(places []*cluster.Hold) (lost []*cluster.Hold, ok bool) {
	s := c.y.Candidates
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
	charged := func(dim int) bool {
		return slices.ContainsFunc(mine, func(h *cluster.Hold) bool {
			return slices.ContainsFunc(h.Charge, func(d quantity.Demand) bool { return d.Dim == dim && d.Amount > 0 })
		})
	}
	// Only the places that are really lost need a right, and each its own.
	for _, h := range lost {
		r := c.rights[h]
		if !c.within(r.quota, c.dims, s.m.Quota, charged) || !c.within(r.share, c.sharedDims(), fairShare, charged) {
			return nil, false
		}
	}
	return lost, true
}

// keptApart says whether anti-affinity keeps those that come to the place from those that come to the others. It
// compares them in pairs, and only where some pod has such rules.
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
