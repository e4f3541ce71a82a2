package engine

import (
	"slices"
	"strings"

	"github.com/berth-dev/berth/engine/internal/api"
)

// A place is held for whom it was freed. Who could evict that one once it ran there may have the place before it does:
// so nobody starts to be evicted at once. But who was promised the start has it.

// outbid lists the places held for workloads that the claimant could evict if they ran there, by key.
func (c *claim) outbid() []*hold {
	s := c.y.s
	if len(s.holds) == 0 {
		return nil
	}
	var out []*hold
	for _, h := range s.holds {
		if h.on != nil && !h.Coming && !h.isFor(c.g) && c.outbids(h) {
			out = append(out, h)
		}
	}
	slices.SortFunc(out, func(a, b *hold) int { return strings.Compare(a.Ref().Key, b.Ref().Key) })
	return out
}

// outbids says whether the claimant could evict the workload that the place is held for.
func (c *claim) outbids(h *hold) bool {
	g := c.y.s.awaiting(h.Gang)
	if g == nil || !g.soft || g.runs || g.payer == nil || g.payer != h.payer {
		return false
	}
	//mutate: outbid-not-promised
	if c.y.standing(g) != nil {
		return false // others ended for its promise
	}
	t := g.turnNow()
	if g.payer == c.q {
		spec := c.q.spec
		//mutate: outbid-by-priority
		return t.priority < c.t.priority && !(spec != nil && spec.PromoteAfter > 0 && !c.y.now.Before(t.created.Add(spec.PromoteAfter)))
	}
	if c.q == &c.y.s.nobody {
		return false
	}
	quota := func(x *queue) bool { return len(c.dims) > 0 && c.fitsIn(x, c.y.s.quota) }
	shared := c.sharedDims()
	share := func(x *queue) bool { return len(shared) > 0 && c.fitsShare(x, shared) }
	//mutate: outbid-by-quota
	return c.exceeds(g, t.priority, quota, c.dims, c.y.s.quota) || c.exceeds(g, t.priority, share, shared, shareOrQuota)
}

// exceeds says whether the gang, for which a place is held, exceeds with it the part of its queue where its queues and the
// claimant's meet, and the claimant's are within theirs up to there.
func (c *claim) exceeds(g *gang, priority int32, within func(*queue) bool, dims []int, part func(*queue, int) int64) bool {
	for x := c.q; x != nil && within(x); x = x.parent {
		for z := g.payer; z != nil; z = z.parent {
			if z != x && z.parent == x.parent {
				return !c.coversHeld(newCover(c.y.s, z, dims, part), g, priority)
			}
		}
	}
	return false
}

// coversHeld says whether the queue's part is enough for what is held for the gang beside all that goes before it.
func (c *claim) coversHeld(v *cover, g *gang, priority int32) bool {
	held := c.y.ownHeld(g)
	//mutate: outbid-devices-only -> len(v.over) == 0
	if len(v.over) == 0 || !v.lacks(g.payer, held) {
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

// lose puts the places of others back where they still have room beside the claimant's, and its queues too, and returns
// the others. All of it is rolled back.
func (c *claim) lose(places []*hold) (lost []*hold) {
	s := c.y.s
	for _, h := range places {
		s.putHold(&hold{Hold: h.Hold}, s.nodes[h.Node])
	}
	for _, h := range c.theirs {
		n := s.nodes[h.Node]
		if slices.ContainsFunc(h.Requests, func(a api.Amount) bool { return n.free.At(s.dims.ID(a.Resource)) < a.Value }) {
			lost = append(lost, h)
			continue
		}
		s.putHold(h, n)
		if gates, _ := c.y.gates(c.g); len(gates) > 0 {
			s.ignoreHold(h)
			lost = append(lost, h)
		}
	}
	return lost
}
