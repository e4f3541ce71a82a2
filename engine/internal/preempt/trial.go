package preempt

import (
	"slices"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/index"
	"github.com/berth-dev/berth/engine/internal/place"
)

// A set of victims is tried out on the model itself: the victims are lifted off their nodes, the gang is placed as if
// it were its turn, and the journal takes all of it back. There is no second model that could disagree with the first
// one.
//
// Lifting follows the stack discipline of the journal only loosely: lift and restore append entries of their own, in
// any order, and the rollback at the end of try undoes them all. A trial so costs what was really changed: a few
// additions for each pod that is lifted, and what it costs to place the gang.

// taken lists the units that are lifted, those first that are rather left alone. The slice is a new one, so callers
// may sort it and lift or restore while they go through it.
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

// lift takes the unit's pods off their nodes, and notes where they were, for restore. It is journalled, as everything
// in a trial is, and costs a few additions for each pod.
//
// It also notes what the unit will take again by right (unit.returns): pods with an owner are made again.
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
		// The GPUs that leavers leave on this node are held for others, and the leavers still take them until they
		// are gone. Once a victim's GPUs count as free, hold and leaver together would take them as well: so the
		// leavers go now.
		for _, o := range c.y.leavers.on[n] {
			if o.Host == n {
				c.y.m.Remove(o)
			}
		}
	}
	c.disruption.count(u, 1)
}

// restore puts the unit back on its nodes, with the same devices. The pods go where they were, because whatever a trial
// places in between is rolled back first.
func (c *claim) restore(u *unit) {
	u.taken = false
	for i, p := range u.pods {
		c.y.m.PutOn(p, u.allocations[i].node, u.allocations[i].devices)
	}
	c.disruption.count(u, -1)
}

// returning is what those that are lifted will take of the dimension again by right. A pod with an owner is made
// again, and where its queues have quota for it, it need not borrow: so evicting it lends the claimant nothing.
//
// For example, the claimant would borrow 8 GPUs, and a pod of 8 GPUs in queue a, within the quota of a, is lifted.
// The pod comes back at once and is owed its place, so the GPUs that its eviction frees are not the claimant's to
// borrow.
func (c *claim) returning(dim int) (sum int64) {
	var more map[*cluster.Queue]int64
	for _, u := range c.units {
		need := u.returns.At(dim)
		if !u.taken || need == 0 || u.of.payer == &c.y.m.Unqueued {
			continue
		}
		if more == nil {
			// more is what the queues will have beside what is committed: the claimant in its own queues, then each
			// unit that is found to be owed its place. Units are looked at in the order of c.units, and each adds to
			// what the next one finds.
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

// opens says whether the claim would be met as things are now: the gang would start, all that is moved for it has a
// place too, and the rights and promises hold. The checks are in the order of their cost.
func (c *claim) opens() bool { return c.fits() && (!c.moving || c.rehomed(false)) && c.settles() }

// settles says whether the claim is settled with the units that are lifted. It is asked of each set and not only of
// the cheapest one: of two sets that make room, one may break a promise, or be of a GPU model that the claimant has
// no right to.
func (c *claim) settles() bool {
	_, ok := c.settle()
	return ok
}

// fits says whether the gang would start as things are now: by counting where members are alike, and otherwise by
// placing it. It is the cheap half of opens. By counts, more victims never make it false; they can where the gang
// must be near a pod that is a victim.
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
		// A pod that was nominated to a node is placed there if it fits, before anything else is looked at.
		if n := y.m.NominatedNode(c.first); n != nil && s.ix.Fits(o.Class, index.Scope{Node: n}) > 0 {
			return true
		}
		if _, ok := s.placer.ChooseScope(o); ok {
			return true
		}
	}
	return false
}

// orderOf is what a gang of like members asks for with the i-th kin.
func (c *claim) orderOf(i int) place.Order {
	o := c.y.Order(c.g, c.kins[i].Class(c.first))
	if c.moving && len(o.Pods) == 1 && o.Layout.Required == "" {
		// Every node is then a region of its own, and so makes a bid: a pod that work is moved for takes the node
		// that is emptied most cheaply.
		o.Layout.Required = api.NodeLevel
	}
	return o
}
