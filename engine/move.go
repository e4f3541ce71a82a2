package engine

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/quantity"
	"github.com/berth-dev/berth/engine/why"
)

// Moves. Running work is moved so that a place becomes whole: for a gang that has room enough in all and none in one
// piece, or in the background. A move is an eviction whose workload has its next place held before it ends; it is
// only made when all that is moved has one, when no disruption budget is broken, and when less work is lost than is
// gained. Where it can the next pod runs before the one that is moved ends: surge.go.

// tryMoves looks for running work that can be moved elsewhere so that the gang, which is blocked by the gates, has a
// place. It returns the gates that the gang then waits at; nil: nothing is moved. One gang at a time has work moved.
func (y *cycle) tryMoves(g *gang, t turn, gates []why.Gate) []why.Gate {
	if y.s.cfg.Moves.Off || y.s.cfg.Policy == api.FIFO || y.trial || y.tidied || !y.scattered(gates) || !y.mayClaim(g) || y.moving() {
		return nil
	}
	y.tidied = true
	c := y.newClaim(g, t)
	c.moving, c.toll.hard = true, true
	c.findMovers()
	if len(c.units) == 0 {
		return nil
	}
	s := y.s
	m := s.mark()
	y.claim(g)
	old := y.claimed
	y.quiet = true
	defer func() { y.quiet = false }()
	c.prepare()
	var places []*hold
	victims := c.choose()
	ok := len(victims) > 0 && c.worthIt(victims)
	if ok {
		places, ok = c.settle()
	}
	s.rollback(m)
	for _, u := range c.units { // those that were tried and stay, too
		if u.of.gang != nil {
			s.tally(u.of.gang)
		}
	}
	y.claimed, y.kept = nil, nil
	if !ok || !c.overlap(victims, places) || !c.worthIt(victims) {
		return nil
	}
	y.evict(c, victims, places, old)
	return makingRoom(g)
}

// scattered says whether the gates are of a gang that has room in all, but none in one piece.
func (y *cycle) scattered(gates []why.Gate) bool {
	for _, g := range gates {
		if g.Cause != why.Fragmented && g.Cause != why.TopologyFragmented {
			return false
		}
	}
	return len(gates) > 0
}

// moving says whether work is being moved already.
func (y *cycle) moving() bool {
	for _, e := range y.s.evictions {
		if e.Cause == api.Moved && !e.Refused && live(e.Until, y.now) {
			return true
		}
	}
	return slices.ContainsFunc(y.plan.Evictions, func(e api.Eviction) bool { return e.Cause == api.Moved })
}

// findMovers lists what may be moved: pods by themselves, and gangs of which all members are needed, that are on nodes
// where something is free.
func (c *claim) findMovers() {
	s := c.y.s
	s.hunts++
	c.id = s.hunts
	if !s.ownsAny() {
		return
	}
	seen := make(map[*gang]bool)
	for _, sh := range s.topology.shelves {
		for _, n := range sh.nodes {
			if n.free.At(quantity.DimGPU) <= 0 {
				continue
			}
			for _, p := range n.occ {
				if p.payer == nil || p.Owner == "" || p.amount(quantity.DimGPU) == 0 || !bare(p) || p.Gang != "" && (p.gang == nil || seen[p.gang]) {
					continue
				}
				if p.Gang != "" {
					seen[p.gang] = true
				}
				if t := s.lodger(p); movable(t) {
					c.takeMover(t)
				}
			}
		}
	}
}

// ownsAny says whether there is work that may be evicted and somebody makes again.
func (s *State) ownsAny() bool {
	for _, q := range s.queues {
		if q.owned > 0 {
			return true
		}
	}
	return s.nobody.owned > 0
}

// lodger is the tenant that the pod, which has a seat, is of.
func (s *State) lodger(p *pod) *tenant {
	t := &tenant{payer: p.payer, pods: []*pod{p}}
	if p.Gang != "" {
		t.gang, t.pods = p.gang, nil
		for _, o := range p.gang.members {
			if o.seat != nil && !o.leaving() {
				t.pods = append(t.pods, o)
			}
		}
	}
	s.appraise(t)
	return t
}

// movable says whether the tenant is one piece that somebody makes again when it ends.
func movable(t *tenant) bool {
	return len(t.units) == 1 && len(t.units[0].pods) == len(t.pods) && !slices.ContainsFunc(t.pods, func(p *pod) bool { return p.Owner == "" })
}

// worthIt says whether what the gang gains is more than what the moves lose: it would wait until its promised start, or
// for an hour where there is none.
func (c *claim) worthIt(victims []*unit) bool {
	wait := longest
	if p := c.y.s.promises[c.g.key]; p != nil {
		wait = min(wait, max(0, p.Start.Sub(c.y.now)))
	}
	return 1000*max(1, c.needs.At(quantity.DimGPU))*int64(wait/time.Second) > c.loss(victims)
}

// loss is what the moves lose.
func (c *claim) loss(victims []*unit) int64 {
	var sum int64
	for _, u := range victims {
		sum += u.cost
	}
	return sum
}

// rehomed says whether, with the gang placed, all that is lifted has a place too. With keep the seats stay.
func (c *claim) rehomed(keep bool) bool {
	y, s := c.y, c.y.s
	m := s.mark()
	ok := keep || y.place(c.g, c.t).ok
	movers := c.taken()
	slices.SortStableFunc(movers, func(a, b *unit) int {
		return cmp.Or(-cmp.Compare(a.gpus(), b.gpus()), strings.Compare(a.of.key, b.of.key))
	})
	for _, u := range movers {
		ok = ok && y.rehome(u)
	}
	if !ok || !keep {
		s.rollback(m)
	}
	return ok
}

func (u *unit) gpus() int64 {
	var sum int64
	for _, p := range u.pods {
		sum += p.amount(quantity.DimGPU)
	}
	return sum
}

// rehome finds a place for a workload that has been lifted.
func (y *cycle) rehome(u *unit) bool {
	g := u.of.gang
	if g == nil {
		g = &gang{key: u.of.key, lone: u.pods[0]}
		g.single.pods[0] = u.pods[0]
	} else {
		y.dirty = append(y.dirty, g)
	}
	y.s.tally(g)
	if !g.tree.complete() {
		return false // members that it needs are on their way out
	}
	for _, p := range g.all() {
		y.s.shapeOf(p) // what runs had no need of one
	}
	m := y.s.mark()
	if !y.place(g, g.turnNow()).ok || len(y.breaks(g, y.seatedSince(m))) > 0 {
		return false
	}
	// Of a gang that runs with more groups than it must, only those that it must have are placed: it stays.
	return !slices.ContainsFunc(u.pods, func(p *pod) bool { return p.seat == nil })
}

// heir is the key under which a place is held for what is moved.
func (u *unit) heir() string {
	if u.of.gang == nil && u.pods[0].Owner != "" {
		return u.pods[0].Owner
	}
	return u.of.key
}

// backgroundMoves is the key under which it is remembered what the last move in the background cost: no queue has such
// a name.
const backgroundMoves = "/moves"

// tidy empties a node that is little used, where its work has room on others that are in use, so that larger places
// come before somebody waits for them. What is lost that way in an hour is bounded.
func (y *cycle) tidy() {
	s := y.s
	if s.cfg.Moves.Background <= 0 || s.cfg.Policy == api.FIFO || y.until != nil || y.moving() {
		return
	}
	if last := s.spendings[backgroundMoves]; last != nil {
		next := last.At.Add(time.Duration(last.Decayed) * time.Hour / time.Duration(s.cfg.Moves.Background))
		//mutate: move-budget
		if y.now.Before(next) {
			y.wake(next)
			return
		}
	}
	for _, n := range y.sparse() {
		if y.empty(n) {
			return
		}
	}
}

// tries is how many nodes are looked at in one cycle.
const tries = 8

// sparse lists nodes that are partly used, in domains that are little used first: those are nearest to being whole.
func (y *cycle) sparse() []*node {
	type candidate struct {
		*node
		around, used int64
	}
	var all []candidate
	level := len(y.s.cfg.Levels) - 1
	around := make(map[*domain]int64)
	for _, sh := range y.s.topology.shelves {
		for _, n := range sh.nodes {
			used := n.given()
			if level >= 0 && sh.domains[level] != nil {
				around[sh.domains[level]] += used
			}
			if used > 0 && n.free.At(quantity.DimGPU) > 0 && !n.spec.Cordoned {
				all = append(all, candidate{node: n, used: used})
			}
		}
	}
	for i := range all {
		if level >= 0 {
			all[i].around = around[all[i].shelf.domains[level]]
		}
	}
	slices.SortFunc(all, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.around, b.around), cmp.Compare(a.used, b.used), compareSeats(a.node, b.node))
	})
	out := make([]*node, 0, tries)
	for _, c := range all[:min(len(all), tries)] {
		out = append(out, c.node)
	}
	return out
}

// empty plans to move everything with GPUs off the node, and says whether it did.
func (y *cycle) empty(n *node) bool {
	s := y.s
	c := &claim{y: y, g: &gang{}, q: &s.nobody, moving: true, toll: toll{hard: true}}
	gain := 1000 * n.free.At(quantity.DimGPU) * int64(longest/time.Second)
	loss, ok := c.findOn(n)
	if !ok || loss >= gain || loss/1000 > s.cfg.Moves.Background {
		return false
	}
	m := s.mark()
	for _, u := range c.units {
		c.lift(u)
	}
	_, never := y.broken(&c.toll)
	rest := &hold{Hold: &api.Hold{Node: n.name}}
	for dim, free := range n.free {
		if free > 0 {
			rest.Requests = append(rest.Requests, api.Amount{Resource: s.dims.Names[dim], Value: free})
		}
	}
	s.putHold(rest, n)
	y.quiet = true
	ok = !never && c.rehomed(true) && c.onUsed()
	y.quiet = false
	var places []*hold
	if ok {
		places = c.newPlaces()
	}
	s.rollback(m)
	for _, u := range c.units {
		if u.of.gang != nil {
			s.tally(u.of.gang)
		}
	}
	if !ok || !c.overlap(c.units, places) {
		return false
	}
	if loss = c.loss(c.units); loss >= gain || loss/1000 > s.cfg.Moves.Background {
		return false
	}
	y.evict(c, c.units, joinHolds(places), nil)
	y.version++
	y.plan.Changes = append(y.plan.Changes, api.Change{Spending: &api.Spending{Queue: backgroundMoves, Version: y.version, At: y.now, Decayed: max(1, loss/1000)}})
	return true
}

// findOn lists the workloads with GPUs on the node, if all of them may be moved and are on no other, and what that loses.
func (c *claim) findOn(n *node) (loss int64, ok bool) {
	s := c.y.s
	s.hunts++
	c.id = s.hunts
	var all []*pod
	for _, p := range n.occ {
		if p.amount(quantity.DimGPU) == 0 {
			continue
		}
		if p.payer == nil || p.Gang != "" && p.gang == nil || !bare(p) {
			return 0, false
		}
		all = append(all, p)
	}
	for _, p := range all {
		if t := s.lodger(p); !slices.ContainsFunc(c.units, func(u *unit) bool { return u.of.gang != nil && u.of.gang == t.gang }) && movable(t) {
			c.takeMover(t)
		}
	}
	pods := 0
	for _, u := range c.units {
		loss += u.cost
		for _, p := range u.pods {
			if p.seat != n {
				return 0, false
			}
			pods++
		}
	}
	slices.SortFunc(c.units, compareUnits)
	return loss, pods > 0 && pods >= len(all)
}

// onUsed says whether all that was moved is on nodes that others use too.
func (c *claim) onUsed() bool {
	mine := make(map[*pod]bool)
	for _, u := range c.units {
		for _, p := range u.pods {
			mine[p] = true
		}
	}
	for p := range mine {
		if !slices.ContainsFunc(p.seat.occ, func(o *pod) bool { return !mine[o] && o.amount(quantity.DimGPU) > 0 }) {
			return false
		}
	}
	return true
}
