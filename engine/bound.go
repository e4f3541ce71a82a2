package engine

import (
	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/quantity"
)

// What a claim could ever get, from sums alone. Most claims that fail ask for more than all that may be evicted for them
// would free, in all or in any one domain: those are turned down before any unit is looked at.

// beyondAll says whether the claim asks for more GPUs than there would be if all that may be evicted for it were gone:
// in all, or in each of the domains that its members must share. It only knows of what is reclaimed; where other work may
// be evicted too it says no.
func (c *claim) beyondAll() bool {
	y, s := c.y, c.y.s
	if c.gpus == 0 || len(c.dims) == 0 || c.q == &s.nobody || s.cfg.Policy == api.TimeShare || len(s.forest.idle) > 0 ||
		s.promises[c.g.key] != nil || c.q.outranks(c.t.priority) {
		return false
	}
	cuts := c.cuts()
	free, units := s.capacity.At(quantity.DimGPU)-s.taken.At(quantity.DimGPU), 0
	for _, x := range cuts {
		free += x.gpus
		units += len(x.units)
	}
	if units == 0 {
		return false // that is known in another way
	}
	for _, x := range cuts {
		if y.now.Before(x.ripe) {
			c.awaitRipe(x)
		}
	}
	y.findLeavers()
	for _, list := range [][]*pod{y.leavers, y.bespoke} {
		for _, p := range list {
			free += p.amount(quantity.DimGPU)
		}
	}
	if free < c.gpus {
		return true
	}
	p := y.plain(c.g, c.t)
	return p.ok && p.level >= 0 && !y.hasHeld(c.g) && c.beyondDomains(p.level, cuts)
}

// cuts lists what other queues hold above their quota, as far up as the claimant's own is within its.
func (c *claim) cuts() []*cut {
	s := c.y.s
	var out []*cut
	for x := c.q; x != nil && c.fitsIn(x, s.quota); x = x.parent {
		for _, z := range s.siblings(x) {
			if z == x {
				continue
			}
			if x := s.cutOf(z, c.dims, s.quota); x != nil {
				out = append(out, x)
			}
		}
	}
	return out
}

// awaitRipe notes when units of the cut that are too young may be evicted.
func (c *claim) awaitRipe(x *cut) {
	for _, u := range x.units {
		least := c.y.s.minRun(u.of.payer)
		for _, p := range u.pods {
			if at := p.Started.Add(least); !p.Started.IsZero() && c.y.now.Before(at) {
				c.y.wake(at)
				break
			}
		}
	}
}

// beyondDomains says whether no domain of the level would have GPUs enough.
func (c *claim) beyondDomains(level int, cuts []*cut) bool {
	y, s := c.y, c.y.s
	sums := make([]int64, s.topology.made)
	for _, x := range cuts {
		for _, f := range x.shelves {
			sums[f.shelf.id] += f.gpus
		}
	}
	for _, list := range [][]*pod{y.leavers, y.bespoke} {
		for _, p := range list {
			if p.seat.shelf != nil {
				sums[p.seat.shelf.id] += p.amount(quantity.DimGPU)
			}
		}
	}
	held := func(h *hold) { // it may be given
		if h.on != nil && h.on.shelf != nil {
			sums[h.on.shelf.id] += h.Requests.Get(s.cfg.GPU)
		}
	}
	for _, h := range s.holds {
		held(h)
	}
	for _, e := range s.journal {
		if e.hold != nil {
			held(e.hold)
		}
	}
	for _, d := range s.topology.sorted(level) {
		var sum int64
		for _, sh := range d.shelves {
			sum += sums[sh.id] + sh.freeGPUs()
		}
		if sum >= c.gpus {
			return false
		}
	}
	return true
}

// vacancy is how many GPUs are free on the nodes of a shelf, as of when it was last looked at.
type vacancy struct {
	epoch, touched uint64
	gpus           int64
}

// freeGPUs is how many GPUs are free on the nodes of the shelf; where more is promised on a node than there is, none.
func (sh *shelf) freeGPUs() int64 {
	v := &sh.vacancy
	if v.epoch != sh.epoch || v.touched != sh.touched {
		*v = vacancy{epoch: sh.epoch, touched: sh.touched}
		for _, n := range sh.nodes {
			v.gpus += max(0, n.free.At(quantity.DimGPU))
		}
	}
	return v.gpus
}
