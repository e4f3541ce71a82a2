package preempt

import (
	"slices"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/index"
	"github.com/berth-dev/berth/engine/internal/place"
)

// A set of victims is tried out on the model itself: the victims are lifted off their nodes, and the gang is placed as if it
// were its turn. The journal takes it back.

// taken lists the units that are lifted, those first that are rather left alone.
func (c *claim) taken() []*unit {
	var out []*unit
	for _, u := range c.units {
		if u.taken {
			out = append(out, u)
		}
	}
	slices.SortFunc(out, compareUnits)
	return out
}

// lift takes the unit's pods off their nodes, and notes where they were. It is journalled, as everything in a trial is, and so
// costs a few additions for each pod.
func (c *claim) lift(u *unit) {
	u.taken = true
	u.allocations, u.returns = u.allocations[:0], u.returns[:0]
	for _, p := range u.pods {
		if p.Owner != "" {
			for _, d := range p.Charge {
				u.returns.Add(d.Dim, d.Amount)
			}
		}
		n := p.Host
		u.allocations = append(u.allocations, allocationOf{n, p.HostDevices})
		c.y.m.Remove(p)
		for _, o := range c.y.leavers.on[n] { // what is held there is theirs, and not taken from this one
			if o.Host == n {
				c.y.m.Remove(o)
			}
		}
	}
	c.disruption.count(u, 1)
}

// restore undoes lift.
func (c *claim) restore(u *unit) {
	u.taken = false
	for i, p := range u.pods {
		c.y.m.PutOn(p, u.allocations[i].node, u.allocations[i].devices)
	}
	c.disruption.count(u, -1)
}

// returning is what those that are lifted will take of the dimension again by right: who is made again and has quota for it
// need not borrow, so that evicting it lends the claimant nothing.
func (c *claim) returning(dim int) (sum int64) {
	var more map[*cluster.Queue]int64
	for _, u := range c.units {
		need := u.returns.At(dim)
		if !u.taken || need == 0 || u.of.payer == &c.y.m.Unqueued {
			continue
		}
		if more == nil {
			more = make(map[*cluster.Queue]int64)
			for x := c.q; x != nil; x = x.Parent {
				more[x] = c.needs.At(dim)
			}
		}
		owed := true
		for x := u.of.payer; x != nil; x = x.Parent {
			owed = owed && x.Committed(dim)+more[x]+need <= c.y.m.Quota(x, dim)
		}
		if !owed {
			continue
		}
		for x := u.of.payer; x != nil; x = x.Parent {
			more[x] += need
		}
		sum += need
	}
	return sum
}

// opens says whether the gang would start as things are now, and what is moved for it too, and the claim is settled then.
func (c *claim) opens() bool { return c.fits() && (!c.moving || c.rehomed(false)) && c.settles() }

// settles says whether the claim is settled with those that are lifted. Of two sets that make room one may break a promise,
// or be of a GPU model that the claimant has no right to: so that each is asked, and not only the cheapest.
func (c *claim) settles() bool {
	_, ok := c.settle()
	return ok
}

// fits says whether the gang would start as things are now: by counting where members are alike, and else by placing it. It is
// the cheap half of opens; more victims never make it false.
func (c *claim) fits() bool {
	y, s := c.y, c.y.Candidates
	if c.gated {
		if gates := y.Gates(c.g); len(gates) > 0 {
			return false
		}
	}
	if !c.alike {
		m := s.m.Mark()
		ok := y.Place(c.g, c.t)
		s.m.Rollback(m)
		return ok
	}
	for i := range c.kins {
		o := c.orderOf(i)
		if n := y.m.NominatedNode(c.first); n != nil && s.ix.Fits(o.Class, index.Scope{Node: n}) > 0 {
			return true
		}
		if _, ok := s.placer.ChooseScope(o); ok {
			return true
		}
	}
	return false
}

// orderOf is what a gang of like members asks for with the i-th GPU model.
func (c *claim) orderOf(i int) place.Order {
	o := c.y.Order(c.g, c.kins[i].Class(c.first))
	if c.moving && len(o.Pods) == 1 && o.Layout.Required == "" {
		o.Layout.Required = api.NodeLevel // so that every node is a bid
	}
	return o
}
