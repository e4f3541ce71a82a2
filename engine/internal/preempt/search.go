package preempt

import (
	"cmp"
	"slices"
	"strings"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/index"
	"github.com/berth-dev/berth/engine/internal/place"
)

// The victims of a claim: a set of legal units, cheapest first by what it breaks and what it costs, from which none can
// be put back. Whether a set will do is asked of the state itself, with the victims lifted off their node.

const (
	exactUnits = 14   // so many units are decided exactly
	exactTests = 4000 // unless that takes more tests than this
)

// worth is what a set of victims costs: less is better.
type worth struct {
	broken int // evictions beyond what disruption budgets allow
	cost   int64
	pods   int
}

func (a worth) less(b worth) bool {
	return cmp.Or(cmp.Compare(a.broken, b.broken), cmp.Compare(a.cost, b.cost), cmp.Compare(a.pods, b.pods)) < 0
}

// choose lifts a set of victims that lets the gang start, and returns it; nil: there is none.
func (c *claim) choose() []*unit {
	if len(c.units) > exactUnits {
		if found, hope := c.approach(); hope {
			return c.refine(found)
		}
		return nil
	}
	slices.SortFunc(c.units, compareUnits)
	if c.alike && !c.hopeful() {
		return nil
	}
	for _, u := range c.units {
		c.lift(u)
	}
	if !c.fits() {
		return nil
	}
	x := exact{claim: c}
	x.decide(0, worth{})
	if !x.found {
		return nil
	}
	for i, u := range c.units {
		switch {
		case u.taken && !x.best[i]:
			c.restore(u)
		case !u.taken && x.best[i]:
			c.lift(u)
		}
	}
	if c.tests > exactTests {
		return c.refine(true)
	}
	return c.taken()
}

// compareUnits puts first what is rather left alone: what is left of gangs, then the dearest, then as on a list of candidates.
func compareUnits(a, b *unit) int {
	if x, y := len(a.spare) > 0, len(b.spare) > 0; x != y {
		return cluster.Before(x)
	}
	if a.cost != b.cost {
		return cluster.Before(a.cost > b.cost)
	}
	if c := compareRunning(a.of, b.of); c != 0 {
		return c
	}
	return cmp.Or(strings.Compare(a.of.payer.Name, b.of.payer.Name), cluster.ComparePods(a.pods[0], b.pods[0]))
}

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

// lift takes the unit's pods off their node.
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

// exact goes through the sets that will do: beginning with all units it decides of each in turn whether it is put back.
type exact struct {
	*claim
	best  [exactUnits]bool
	worth worth
	found bool
}

// decide settles the units from the i-th on; so far is what those before it cost that stay lifted.
func (x *exact) decide(i int, so worth) {
	if x.found && !so.less(x.worth) || x.found && x.tests > exactTests {
		return
	}
	if i == len(x.units) {
		broken, never := x.y.broken(&x.disruption)
		so.broken = broken
		if !never && (!x.found || so.less(x.worth)) && (!x.moving || x.rehomed(false)) && x.settles() {
			x.found, x.worth = true, so
			for j, u := range x.units {
				x.best[j] = u.taken
			}
		}
		return
	}
	u := x.units[i]
	if u.rest == nil || !u.rest.taken || u.rest.claim != x.id {
		x.restore(u)
		if x.fits() {
			x.decide(i+1, so)
		}
		x.lift(u)
	}
	so.cost += u.cost
	so.pods += len(u.pods)
	x.decide(i+1, so)
}

// approach lifts victims found among many: greedily, and then puts back what is not needed. hope is false where no set
// of them will do.
func (c *claim) approach() (found, hope bool) {
	open := false
	if c.gated {
		c.relieve()
		open = c.opens()
	}
	if !open {
		if open, hope = c.gather(); !hope {
			return false, false
		}
	}
	if !open && (c.moving || !c.takeMore()) {
		return false, true
	}
	c.putBack()
	_, never := c.y.broken(&c.disruption)
	return !never, true
}

// relieve lifts units of the claimant's own queue, the cheapest first, until its limits let it start.
func (c *claim) relieve() {
	own := slices.DeleteFunc(slices.Clone(c.units), func(u *unit) bool { return u.of.payer != c.q })
	slices.SortFunc(own, compareUnits)
	for i := len(own) - 1; i >= 0; i-- {
		if gates := c.y.Gates(c.g); len(gates) == 0 {
			return
		}
		c.liftWith(own[i])
	}
}

// liftWith lifts the unit and what goes before it.
func (c *claim) liftWith(u *unit) {
	for _, o := range u.spare {
		if !o.taken {
			c.lift(o)
		}
	}
	if !u.taken {
		c.lift(u)
	}
}

// liftWithin lifts the unit and what goes before it, unless that violates a budget that must be kept.
func (c *claim) liftWithin(u *unit) {
	lifted := []*unit{u}
	for _, o := range u.spare {
		if !o.taken {
			lifted = append(lifted, o)
		}
	}
	c.liftWith(u)
	if _, never := c.y.broken(&c.disruption); never {
		for _, o := range lifted {
			c.restore(o)
		}
	}
}

// takeMore lifts more units, the cheapest first, until the gang has a place.
func (c *claim) takeMore() bool {
	order := slices.Clone(c.units)
	slices.SortStableFunc(order, func(a, b *unit) int {
		return cmp.Or(cmp.Compare(c.breaks(a), c.breaks(b)), cmp.Compare(a.whole(), b.whole()), -compareUnits(a, b))
	})
	batch := 1
	for len(order) > 0 {
		n := min(batch, len(order))
		for _, u := range order[:n] {
			if !u.taken {
				c.liftWithin(u)
			}
		}
		order = order[n:]
		if c.opens() {
			return true
		}
		batch *= 2
	}
	return false
}

// breaks says whether lifting the unit violates disruption budgets: 1, or 0.
func (c *claim) breaks(u *unit) int {
	for _, p := range u.pods {
		for _, b := range p.Budgets {
			if c.y.allowed(b)-c.disruption.of[b] <= 0 {
				return 1
			}
		}
	}
	return 0
}

// whole is what the unit costs with what goes before it.
func (u *unit) whole() int64 {
	cost := u.cost
	for _, o := range u.spare {
		cost += o.cost
	}
	return cost
}

// putBack puts back every unit that is not needed: those first that break budgets, then the dearest.
func (c *claim) putBack() {
	order := c.taken()
	if len(c.disruption.of) > 0 {
		slices.SortStableFunc(order, func(a, b *unit) int {
			if (len(a.spare) > 0) != (len(b.spare) > 0) {
				return 0
			}
			return -cmp.Compare(c.overdraws(a), c.overdraws(b))
		})
	}
	for _, u := range order {
		if u.rest != nil && u.rest.taken && u.rest.claim == c.id {
			continue
		}
		c.restore(u)
		if !c.opens() {
			c.lift(u)
		}
	}
}

// overdraws says whether the unit, which is lifted, is one of more than a budget allows: 1, or 0.
func (c *claim) overdraws(u *unit) int {
	for _, p := range u.pods {
		for _, b := range p.Budgets {
			if c.disruption.of[b] > c.y.allowed(b) {
				return 1
			}
		}
	}
	return 0
}

// opens says whether the gang would start as things are now, and what is moved for it too, and the claim is settled then.
func (c *claim) opens() bool { return c.fits() && (!c.moving || c.rehomed(false)) && c.settles() }

// settles says whether the claim is settled with those that are lifted. Of two sets that make room one may break a promise,
// or be of a GPU model that the claimant has no right to: so that each is asked, and not only the cheapest.
func (c *claim) settles() bool {
	_, ok := c.settle()
	return ok
}

// fits says whether the gang would start as things are now.
func (c *claim) fits() bool {
	c.tests++
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
