package engine

import (
	"slices"
	"strings"
	"time"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/quantity"
	"github.com/berth-dev/berth/engine/why"
)

// making is what a cycle knows of room that is being made.
type making struct {
	quiet     bool                       // nothing is to be proved: it is only tried out
	freeing   map[string]bool            // workloads that others are on their way out for; nil: not looked at yet
	looked    bool                       // leavers were looked for
	leavers   []*pod                     // pods that will be gone before long
	bespoke   []*pod                     // those of them on nodes where all GPUs are spoken for
	spoken    map[*node][]*pod           // the same, by node
	returning quantity.Vector            // in a trial: what those taken off their seats took, who will be made again
	refusing  bool                       // some pods could not be evicted a short time ago
	disrupted map[string]int             // by disruption budget: evictions that have not begun
	hopeless  map[despair]bool           // claims that no eviction helps
	fallow    map[ground]quantity.Vector // the last that was asked for where nobody is to be evicted
	fallowAt  [2]int                     // moment of fallow
	freed     *gang                      // that has a place now: one that was held for another
}

// despair tells claims apart that no eviction helps: what fails for one fails for all alike, as room and victims only get
// fewer in the course of a cycle.
type despair struct {
	class    *class
	need     int
	level    int
	queue    *queue
	priority int32
}

// makeRoom looks for work that may be evicted for the gang, which is blocked by the gates. If there is some, the plan
// evicts it and holds the place, and the gates that the gang then waits at are returned; nil: nobody is evicted.
func (y *cycle) makeRoom(g *gang, t turn, gates []why.Gate) []why.Gate {
	if y.s.cfg.Policy == api.FIFO || !y.curable(gates) {
		return nil
	}
	y.lookAround()
	waits := func() []why.Gate {
		if len(y.freeing) > 0 && y.freeing[g.key] {
			return makingRoom(g)
		}
		return nil
	}
	if y.barren(g, t) {
		return waits()
	}
	if !y.mayClaim(g) {
		return nil
	}
	c := y.newClaim(g, t)
	key, alike := c.despair()
	if c.beyondAll() {
		y.despair(key)
		return waits()
	}
	c.find()
	if len(c.units)+len(c.theirs) == 0 && !c.entitled() {
		y.noteBarren(c)
		return waits()
	}
	if alike && y.hopeless[key] {
		return waits()
	}
	return y.pursue(c, key, waits)
}

// ground is where claims look for victims: what of them is legal depends on what else is asked for only in that a
// queue is sooner beyond its quota with more.
type ground struct {
	queue    *queue
	priority int32
}

// barren says whether a claim of the same queue and priority that asked for no more found nobody to evict, and nothing
// has started or been evicted since.
func (y *cycle) barren(g *gang, t turn) bool {
	if !g.plain.ok || len(y.fallow) == 0 || y.fallowAt != y.moment() || y.standing(g) != nil {
		return false
	}
	asked, ok := y.fallow[ground{g.payer, t.priority}]
	if !ok {
		return false
	}
	for _, d := range g.plain.class.demands {
		if least := asked.At(d.Dim); least == 0 || d.Amount*int64(g.plain.need) < least {
			return false
		}
	}
	return true
}

// noteBarren notes that the claim found nobody to evict.
func (y *cycle) noteBarren(c *claim) {
	if !c.g.plain.ok || y.standing(c.g) != nil {
		return
	}
	if at := y.moment(); y.fallowAt != at || y.fallow == nil {
		y.fallow, y.fallowAt = make(map[ground]quantity.Vector), at
	}
	var asked quantity.Vector
	for _, d := range c.g.plain.class.demands {
		asked.Add(d.Dim, d.Amount*int64(c.g.plain.need))
	}
	y.fallow[ground{c.g.payer, c.t.priority}] = asked
}

// entitled says whether the claimant would have been allowed to evict some of those on their way out already: what they
// leave over is for it, before they come back.
func (c *claim) entitled() bool {
	c.y.findLeavers()
	if len(c.y.leavers) == 0 {
		return false
	}
	return c.owed || slices.ContainsFunc(c.y.leavers, func(p *pod) bool {
		if p.payer != c.q {
			return false
		}
		if p.gang != nil && p.gang.spec != nil {
			return p.gang.spec.Priority < c.t.priority
		}
		return p.Priority < c.t.priority
	})
}

// pursue tries the claim out on the state and carries out what comes of it.
func (y *cycle) pursue(c *claim, key despair, waits func() []why.Gate) []why.Gate {
	s := y.s
	y.findLeavers()
	found, ok := c.attempt()
	if !ok && !c.preempts {
		c.preempt()
		found, ok = c.attempt()
	}
	switch {
	case !ok:
		y.despair(key)
		return waits()
	case len(found.victims)+len(found.lost) == 0 && len(found.old) > 0:
		return waits()
	}
	for _, h := range found.lost {
		s.ignoreHold(h)
		delete(y.freeing, h.Gang)
		y.forget(api.KindHold, h.Ref().Key, h.Version)
	}
	if len(found.lost) > 0 && len(found.victims) == 0 && !y.emptying(found.places) {
		y.freed = c.g
		return nil
	}
	// Without victims, what is on its way out already will do: it is held, or who was evicted before would take it.
	y.evict(c, found.victims, found.places, found.old)
	return makingRoom(c.g)
}

// attempt tries the claim out: first with what is held for others left as it is.
func (c *claim) attempt() (found way, ok bool) {
	if !c.enough() {
		return found, false
	}
	if found, ok = c.try(nil); !ok && len(c.theirs) > 0 {
		found, ok = c.try(c.theirs)
	}
	return found, ok
}

// way is how a claim can be met: who is evicted, and what is held then where.
type way struct {
	victims []*unit
	places  []*hold
	old     []*hold // what was held for the claimant before
	lost    []*hold // what was held for others
}

// try tries the claim out on the state, without the places held for others that are given.
func (c *claim) try(without []*hold) (way, bool) {
	y, s := c.y, c.y.s
	var found way
	m := s.mark()
	y.quiet, s.trying = true, true
	defer func() {
		s.rollback(m)
		y.quiet, s.trying = false, false
		y.claimed, y.kept, y.returning = nil, nil, nil
	}()
	y.claim(c.g)
	found.old = y.claimed
	for _, h := range without {
		s.ignoreHold(h)
	}
	gates, _ := y.gates(c.g)
	y.takeOffLeavers(c.gpus > 0 && len(gates) == 0 && len(found.old)+len(without) == 0)
	if len(gates) > 0 {
		gates, _ = y.gates(c.g)
	}
	c.gated = len(gates) > 0
	c.prepare()
	ok := c.opens()
	if !ok {
		found.victims = c.choose()
		ok = len(found.victims) > 0
	}
	if ok {
		found.places, ok = c.settle()
	}
	if ok && len(without) > 0 {
		found.lost = c.lose(found.places)
	}
	return found, ok
}

// emptying says whether somebody is on the way out where the places are.
func (y *cycle) emptying(places []*hold) bool {
	return slices.ContainsFunc(places, func(h *hold) bool { return slices.ContainsFunc(y.s.nodes[h.Node].occ, (*pod).leaving) })
}

// enough says whether there would be GPUs enough in all if all units were gone, and all that leaves.
func (c *claim) enough() bool {
	s := c.y.s
	if c.gpus == 0 {
		return true
	}
	free := s.capacity.At(quantity.DimGPU) - s.taken.At(quantity.DimGPU)
	for _, p := range c.y.leavers {
		free += p.amount(quantity.DimGPU)
	}
	for _, p := range c.y.bespoke {
		free += p.amount(quantity.DimGPU)
	}
	for _, u := range c.units {
		for _, w := range u.stints {
			free += w.weight / 1000
		}
	}
	return free >= c.gpus
}

// makingRoom is the gate of a gang that others are on their way out for.
func makingRoom(g *gang) []why.Gate {
	return []why.Gate{{Cause: why.MakingRoom, Need: int64(g.tree.need()), Certificate: -1}}
}

// curable says whether evicting somebody could open the gates.
func (y *cycle) curable(gates []why.Gate) bool {
	placed, places := false, false
	for _, g := range gates {
		switch g.Cause {
		case why.OverQueueLimit, why.OverUserLimit, why.QueueBusy, why.OverQuota, why.NotLent:
		case why.ClusterFull, why.Fragmented, why.TopologyFragmented, why.Stranded, why.SearchBudget:
			places = true
			cert := g.Certificate
			placed = placed || cert < 0 || len(y.s.holds) > 0 || y.plan.Certificates[cert].IfEvicted >= int64(y.plan.Certificates[cert].Need)
		case why.NoMatchingNode, why.LargerThanAnyNode: // of one GPU model
			places = true
		default:
			return false
		}
	}
	return len(gates) > 0 && (placed || !places)
}

// mayClaim says whether others may be stopped for the gang by now.
func (y *cycle) mayClaim(g *gang) bool {
	terms := g.terms()
	if terms.Patient {
		return false
	}
	if due := g.turnNow().created.Add(terms.Delay); terms.Delay > 0 && y.now.Before(due) {
		y.wake(due)
		return false
	}
	return true
}

// lookAround finds, once in a cycle, for whom others are on their way out.
func (y *cycle) lookAround() {
	if y.freeing != nil {
		return
	}
	s := y.s
	y.freeing = make(map[string]bool)
	for key, e := range s.evictions {
		if p := s.pods[key]; p != nil && p.evicting && len(s.holdsOf[e.For]) > 0 {
			y.freeing[e.For] = true
		}
	}
	for _, h := range s.holds {
		if h.on != nil && slices.ContainsFunc(h.on.occ, (*pod).leaving) {
			y.freeing[h.Gang] = true
		}
	}
}

// takeOffLeavers takes off their seats all who will be gone before long. For GPUs alone, those do not matter whose GPUs
// are held for others already.
func (y *cycle) takeOffLeavers(gpus bool) {
	for _, p := range y.leavers {
		y.leave(p)
	}
	for _, p := range y.bespoke {
		if !gpus {
			y.leave(p)
		}
	}
}

// leave takes the pod off its seat. Unless it ends for somebody it may be back before what it left is used.
func (y *cycle) leave(p *pod) {
	bill := p.bill
	y.s.takeOff(p)
	e := y.s.evictions[p.Key]
	//mutate: evict-leaver-returns
	if p.Owner != "" && (e == nil || e.UID != p.UID || e.For == "") {
		for _, d := range bill {
			y.returning.Add(d.Dim, d.Amount)
		}
	}
}

// noteLeaver notes a pod that will be gone before long, once what it is for is held.
func (y *cycle) noteLeaver(p *pod) {
	free := p.seat.free.At(quantity.DimGPU)
	for _, o := range p.seat.occ {
		if o.leaving() {
			free += o.amount(quantity.DimGPU)
		}
	}
	if free > 0 {
		y.leavers = append(y.leavers, p)
	} else {
		y.bespoke = append(y.bespoke, p)
		if y.spoken == nil {
			y.spoken = make(map[*node][]*pod)
		}
		y.spoken[p.seat] = append(y.spoken[p.seat], p)
	}
}

// findLeavers finds, once in a cycle, the pods that will be gone before long.
func (y *cycle) findLeavers() {
	if y.looked {
		return
	}
	y.looked = true
	for _, q := range y.s.queues {
		if q.going > 0 {
			y.noteLeavers(q)
		}
	}
	if y.s.nobody.going > 0 {
		y.noteLeavers(&y.s.nobody)
	}
}

func (y *cycle) noteLeavers(q *queue) {
	for _, p := range q.pods {
		if p.leaving() && y.leavesSoon(p) {
			y.noteLeaver(p)
		}
	}
}

// leavesSoon says whether a pod on its way out can be expected to be gone before long.
func (y *cycle) leavesSoon(p *pod) bool {
	if !p.Terminating {
		return true // an eviction whose time is over has been dropped
	}
	by := p.ReleaseAt.Add(y.s.cfg.AssumeFor)
	if p.ReleaseAt.IsZero() || !live(by, y.now) {
		return false
	}
	y.wake(by)
	return true
}

// newClaim makes a claim for the gang.
func (y *cycle) newClaim(g *gang, t turn) *claim {
	s := y.s
	c := &claim{y: y, g: g, t: t, q: s.queues[g.queue()]}
	if c.q == nil {
		c.q = &s.nobody
	}
	for _, p := range g.all() {
		if p.seat != nil || p.Terminating {
			continue
		}
		for _, d := range p.demands {
			if g.plain.ok {
				c.needs.Add(d.Dim, d.Amount*int64(g.plain.need))
			} else if c.needs.At(d.Dim) == 0 {
				if need := g.tree.least(d.Dim); need > 0 {
					c.needs.Add(d.Dim, need)
				}
			}
		}
		if g.plain.ok {
			break
		}
	}
	for dim, n := range s.forest.promised {
		if n > 0 && (c.needs.At(dim) > 0 || c.needs.At(quantity.DimGPU) > 0 && strings.HasPrefix(s.dims.Names[dim], s.cfg.GPU+"@")) {
			c.dims = append(c.dims, dim)
		}
	}
	c.own = y.ownHeld(g)
	c.gpus = c.needs.At(quantity.DimGPU)
	if c.gpus > 0 && len(s.cfg.Rates) > 0 {
		c.needs[quantity.DimGPU] = c.gpus * y.leastRate("")
	}
	return c
}

// prepare finds out whether counting alone decides the claim, and how its classes are made. Nobody is lifted: what an
// attempt before lifted has been rolled back.
func (c *claim) prepare() {
	y := c.y
	for _, u := range c.units {
		u.taken = false
	}
	clear(c.toll.of)
	clear(c.toll.kept)
	c.tests = 0
	c.first, c.alike = c.g.alike()
	apart := y.modelsApart(c.g)
	c.alike = c.alike && !apart
	c.kins = c.kins[:0]
	models := []string{""}
	if apart || slices.ContainsFunc(c.g.all(), (*pod).asksModel) {
		models = y.models(c.g)
	}
	for _, m := range models {
		c.kins = append(c.kins, y.kin(c.g, c.t, m))
	}
}

// despair names the claim, if others are just like it.
func (c *claim) despair() (despair, bool) {
	p := c.y.plain(c.g, c.t)
	return despair{class: p.class, need: p.need, level: p.level, queue: c.q, priority: c.t.priority}, p.ok
}

// despair notes that no eviction helps such claims.
func (y *cycle) despair(key despair) {
	if key.class == nil {
		return
	}
	if y.hopeless == nil {
		y.hopeless = make(map[despair]bool)
	}
	y.hopeless[key] = true
}

// settle places the gang for real, with its victims lifted, and returns what is to be held where. It is false where the
// place would break a promise, or with its GPU model the quota that the claim rests on.
func (c *claim) settle() ([]*hold, bool) {
	y, s := c.y, c.y.s
	m := s.mark()
	defer s.rollback(m)
	if gates, _ := y.gates(c.g); len(gates) > 0 {
		return nil, false
	}
	if found := y.place(c.g, c.t); !found.ok || len(y.delays(c.g, c.t, m, &found)) > 0 || !c.withinQuota() {
		return nil, false
	}
	out := y.holdsFor(c.g.key, y.seatedSince(m))
	if !c.moving {
		return out, true
	}
	if !c.rehomed(true) {
		return nil, false
	}
	return joinHolds(append(out, c.newPlaces()...)), true
}

// newPlaces is what keeps the places that lifted units have been given.
func (c *claim) newPlaces() []*hold {
	var out []*hold
	for _, u := range c.taken() {
		u.to = u.to[:0]
		for _, p := range u.pods {
			u.to = append(u.to, p.seat.name)
		}
		for _, h := range c.y.holdsFor(u.heir(), u.pods) {
			h.Coming = true
			out = append(out, h)
		}
	}
	return out
}

// holdsFor is what keeps the places of the pods, which have been seated, one for each node.
func (y *cycle) holdsFor(key string, pods []*pod) []*hold {
	pods = slices.Clone(pods)
	slices.SortStableFunc(pods, func(a, b *pod) int { return compareSeats(a.seat, b.seat) })
	var out []*hold
	for _, p := range pods {
		if len(out) == 0 || out[len(out)-1].Node != p.seat.name {
			out = append(out, &hold{Hold: &api.Hold{Gang: key, Node: p.seat.name}})
		}
		h := out[len(out)-1]
		h.Requests = h.Requests.Plus(y.takes(p))
	}
	return out
}

// joinHolds makes one of the holds for one workload on one node.
func joinHolds(all []*hold) []*hold {
	var out []*hold
	at := make(map[string]*hold)
	for _, h := range all {
		key := h.Ref().Key
		if have := at[key]; have != nil {
			have.Requests = have.Requests.Plus(h.Requests)
			continue
		}
		at[key] = h
		out = append(out, h)
	}
	return out
}

// takes is everything that the pod takes of its node, its place among the pods too.
func (y *cycle) takes(p *pod) api.Resources {
	out := make(api.Resources, 0, len(p.demands))
	for _, d := range p.demands {
		out = append(out, api.Amount{Resource: y.s.dims.Names[d.Dim], Value: d.Amount})
	}
	return out.Sorted()
}

// withinQuota says whether the claimant's queues, as far up as what is reclaimed for it needs, are within quota with the
// gang, which has been placed. Where models do not matter that was seen before.
func (c *claim) withinQuota() bool {
	s := c.y.s
	if !s.forest.modelled {
		return true
	}
	reach := -1
	for _, u := range c.units {
		if u.taken {
			reach = max(reach, u.reach)
		}
	}
	for x := c.q; x != nil && reach >= 0; x, reach = x.parent, reach-1 {
		for _, dim := range c.dims {
			if x.committed(dim) > s.quota(x, dim) && c.bills(dim) {
				return false
			}
		}
	}
	return true
}

// bills says whether members that have seats are charged for the resource.
func (c *claim) bills(dim int) bool {
	return slices.ContainsFunc(c.g.all(), func(p *pod) bool {
		return p.seat != nil && slices.ContainsFunc(p.bill, func(d quantity.Demand) bool { return d.Dim == dim })
	})
}

// evict plans the evictions, and holds the places until the victims can be expected to be gone.
func (y *cycle) evict(c *claim, victims []*unit, places []*hold, old []*hold) {
	s := y.s
	type victim struct {
		*pod
		cause api.EvictionCause
		payer *queue
		to    string
		surge bool
	}
	var all []victim
	for _, u := range victims {
		for i, p := range u.pods {
			v := victim{pod: p, cause: u.cause, payer: u.of.payer, surge: u.surge}
			if c.moving {
				v.to = u.to[i]
			}
			all = append(all, v)
		}
	}
	slices.SortFunc(all, func(a, b victim) int { return strings.Compare(a.Key, b.Key) })
	y.underWay()
	last := y.goneBy(places)
	for _, v := range all {
		at := y.now
		if v.payer.spec != nil {
			at = at.Add(v.payer.spec.Warning)
		}
		y.version++
		e := api.Eviction{
			Pod: v.Key, UID: v.UID, Version: y.version, Cause: v.cause, For: c.g.key, To: v.to, Surge: v.surge,
			At: at, Until: at.Add(s.termsOf(v.pod).Grace + s.cfg.AssumeFor),
		}
		if v.surge {
			e.Until = e.Until.Add(s.startsIn(v.pod))
		}
		if e.Until.After(last) {
			last = e.Until
		}
		y.plan.Evictions = append(y.plan.Evictions, e)
		y.plan.Changes = append(y.plan.Changes, api.Change{Eviction: &e})
		s.condemn(v.pod)
		if !v.surge {
			y.disrupt(v.pod)
		}
	}
	for _, u := range victims {
		if g := u.of.gang; g != nil {
			y.retally(g)
		}
	}
	y.wake(last)
	for _, h := range old {
		s.ignoreHold(h)
		y.forget(api.KindHold, h.Ref().Key, h.Version)
	}
	for _, h := range places {
		y.version++
		h.Version, h.Until = y.version, last
		s.putHold(h, s.nodes[h.Node])
		y.plan.Changes = append(y.plan.Changes, api.Change{Hold: h.Hold})
	}
	for _, v := range all {
		y.noteLeaver(v.pod)
	}
}

// goneBy is when those on their way out on the nodes of the places can be expected to be gone.
func (y *cycle) goneBy(places []*hold) time.Time {
	last := y.now.Add(y.s.cfg.AssumeFor)
	for _, h := range places {
		for _, p := range y.s.nodes[h.Node].occ {
			by := last
			switch e := y.s.evictions[p.Key]; {
			case !p.leaving():
			case p.Terminating:
				by = p.ReleaseAt.Add(y.s.cfg.AssumeFor)
			case e != nil:
				by = e.Until
			default:
				i := slices.IndexFunc(y.plan.Evictions, func(e api.Eviction) bool { return e.Pod == p.Key })
				by = y.plan.Evictions[i].Until
			}
			if by.After(last) {
				last = by
			}
		}
	}
	return last
}

// expireEvictions drops evictions of pods that are gone, and those whose time is over: their pods are as others again.
// It returns the gangs whose place in line that changes, with those given.
func (y *cycle) expireEvictions(lifted []*gang) []*gang {
	s := y.s
	for _, key := range sortedKeys(s.evictions) {
		e, p := s.evictions[key], s.pods[key]
		if p != nil && p.UID == e.UID && live(e.Until, y.now) {
			y.wake(e.Until)
			y.refusing = y.refusing || e.Refused
			continue
		}
		y.forget(api.KindEviction, key, e.Version)
		if p == nil || !p.evicting || p.seat == nil {
			continue
		}
		//mutate: memory-expired-eviction
		s.reprieve(p)
		switch g := p.gang; {
		case g == nil:
		case g.lined && !slices.Contains(lifted, g):
			lifted = append(lifted, g)
		case !g.lined:
			y.retally(g)
		}
	}
	return lifted
}
