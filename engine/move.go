package engine

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/quantity"
	"github.com/berth-dev/berth/engine/internal/queue"
	"github.com/berth-dev/berth/engine/why"
)

// Moves. Running work is moved so that a place becomes whole: for a gang that has room enough in all and none in one
// piece, or in the background. A move is an eviction whose workload has its next place held before it ends; it is
// only made when all that is moved has one, when no disruption budget is broken, and when less work is lost than is
// gained. Where it can the next pod runs before the one that is moved ends: surge.go.

// tryMoves looks for running work that can be moved elsewhere so that the gang, which is blocked by the gates, has a
// place. It returns the gates that the gang then waits at; nil: nothing is moved. One gang at a time has work moved.
func (y *cycle) tryMoves(g *cluster.Gang, t cluster.Turn, gates []why.Gate) []why.Gate {
	if y.s.m.Config.Moves.Off || y.s.m.Config.Policy == api.FIFO || y.trial || y.tidied || !y.scattered(gates) || !y.mayClaim(g) || y.moving() {
		return nil
	}
	y.tidied = true
	c := y.newClaim(g, t)
	c.moving, c.disruption.hard = true, true
	c.findMovers()
	if len(c.units) == 0 {
		return nil
	}
	s := y.s
	m := s.m.Mark()
	y.claim(g)
	old := y.claimed
	y.quiet = true
	defer func() { y.quiet = false }()
	c.prepare()
	var places []*cluster.Hold
	victims := c.choose()
	ok := len(victims) > 0 && c.worthIt(victims)
	if ok {
		places, ok = c.settle()
	}
	s.m.Rollback(m)
	for _, u := range c.units { // those that were tried and stay, too
		if u.of.Gang != nil {
			s.m.Tally(u.of.Gang)
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
	for _, e := range y.s.m.Evictions {
		if e.Cause == api.Moved && !e.Refused && cluster.Live(e.Until, y.Now) {
			return true
		}
	}
	return slices.ContainsFunc(y.Plan.Evictions, func(e api.Eviction) bool { return e.Cause == api.Moved })
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
	seen := make(map[*cluster.Gang]bool)
	for _, sh := range s.m.Topology.Buckets {
		for _, n := range sh.Nodes {
			if n.Free.At(quantity.DimGPU) <= 0 {
				continue
			}
			for _, p := range n.Pods {
				if p.Payer == nil || p.Owner == "" || p.Amount(quantity.DimGPU) == 0 || !bare(p) || p.Gang != "" && (p.In == nil || seen[p.In]) {
					continue
				}
				if p.Gang != "" {
					seen[p.In] = true
				}
				if t := s.runningWith(p); movable(t) {
					c.takeMover(t)
				}
			}
		}
	}
}

// ownsAny says whether there is work that may be evicted and somebody makes again.
func (s *State) ownsAny() bool {
	for _, q := range s.m.Queues {
		if q.Owned > 0 {
			return true
		}
	}
	return s.m.Unqueued.Owned > 0
}

// runningWith is the running workload that the pod, which has an allocation, is of.
func (s *State) runningWith(p *cluster.Pod) *running {
	t := &running{payer: p.Payer, pods: []*cluster.Pod{p}}
	if p.Gang != "" {
		t.Gang, t.pods = p.In, nil
		for _, o := range p.In.Members {
			if o.Host != nil && !o.Leaving() {
				t.pods = append(t.pods, o)
			}
		}
	}
	s.appraise(t)
	return t
}

// movable says whether the running workload is one piece that somebody makes again when it ends.
func movable(t *running) bool {
	return len(t.units) == 1 && len(t.units[0].pods) == len(t.pods) && !slices.ContainsFunc(t.pods, func(p *cluster.Pod) bool { return p.Owner == "" })
}

// worthIt says whether what the gang gains is more than what the moves lose: it would wait until its promised start, or
// for an hour where there is none.
func (c *claim) worthIt(victims []*unit) bool {
	wait := longest
	if p := c.y.s.m.Promises[c.g.Key]; p != nil {
		wait = min(wait, max(0, p.Start.Sub(c.y.Now)))
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

// rehomed says whether, with the gang placed, all that is lifted has a place too. With keep the allocations stay.
func (c *claim) rehomed(keep bool) bool {
	y, s := c.y, c.y.s
	m := s.m.Mark()
	ok := keep || y.place(c.g, c.t).ok
	movers := c.taken()
	slices.SortStableFunc(movers, func(a, b *unit) int {
		return cmp.Or(-cmp.Compare(a.gpus(), b.gpus()), strings.Compare(a.of.key, b.of.key))
	})
	for _, u := range movers {
		ok = ok && y.rehome(u)
	}
	if !ok || !keep {
		s.m.Rollback(m)
	}
	return ok
}

func (u *unit) gpus() int64 {
	var sum int64
	for _, p := range u.pods {
		sum += p.Amount(quantity.DimGPU)
	}
	return sum
}

// rehome finds a place for a workload that has been lifted.
func (y *cycle) rehome(u *unit) bool {
	g := u.of.Gang
	if g == nil {
		g = &cluster.Gang{Key: u.of.key, Lone: u.pods[0]}
		g.Single.Pods[0] = u.pods[0]
	} else {
		y.dirty = append(y.dirty, g)
	}
	y.s.m.Tally(g)
	if !g.Tree.Complete() {
		return false // members that it needs are on their way out
	}
	for _, p := range g.All() {
		y.s.m.ShapeOf(p) // what runs had no need of one
	}
	m := y.s.m.Mark()
	if !y.place(g, g.TurnNow()).ok || len(y.breaks(g, y.allocatedSince(m))) > 0 {
		return false
	}
	// Of a gang that runs with more groups than it must, only those that it must have are placed: it stays.
	return !slices.ContainsFunc(u.pods, func(p *cluster.Pod) bool { return p.Host == nil })
}

// heir is the key under which a place is held for what is moved.
func (u *unit) heir() string {
	if u.of.Gang == nil && u.pods[0].Owner != "" {
		return u.pods[0].Owner
	}
	return u.of.key
}

// tidy empties a node that is little used, where its work has room on others that are in use, so that larger places
// come before somebody waits for them. What is lost that way in an hour is bounded.
func (y *cycle) tidy() {
	s := y.s
	if s.m.Config.Moves.Background <= 0 || s.m.Config.Policy == api.FIFO || y.until != nil || y.moving() {
		return
	}
	if last := s.m.Spendings[queue.BackgroundMoves]; last != nil {
		next := last.At.Add(time.Duration(last.Decayed) * time.Hour / time.Duration(s.m.Config.Moves.Background))
		//mutate: move-budget
		if y.Now.Before(next) {
			y.Wake(next)
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
func (y *cycle) sparse() []*cluster.Node {
	type candidate struct {
		*cluster.Node
		around, used int64
	}
	var all []candidate
	level := len(y.s.m.Config.Levels) - 1
	around := make(map[*cluster.Domain]int64)
	for _, sh := range y.s.m.Topology.Buckets {
		for _, n := range sh.Nodes {
			used := n.GPUsInUse()
			if level >= 0 && sh.Domains[level] != nil {
				around[sh.Domains[level]] += used
			}
			if used > 0 && n.Free.At(quantity.DimGPU) > 0 && !n.Spec.Cordoned {
				all = append(all, candidate{Node: n, used: used})
			}
		}
	}
	for i := range all {
		if level >= 0 {
			all[i].around = around[all[i].Bucket.Domains[level]]
		}
	}
	slices.SortFunc(all, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.around, b.around), cmp.Compare(a.used, b.used), cluster.ComparePlaces(a.Node, b.Node))
	})
	out := make([]*cluster.Node, 0, tries)
	for _, c := range all[:min(len(all), tries)] {
		out = append(out, c.Node)
	}
	return out
}

// empty plans to move everything with GPUs off the node, and says whether it did.
func (y *cycle) empty(n *cluster.Node) bool {
	s := y.s
	c := &claim{y: y, g: &cluster.Gang{}, q: &s.m.Unqueued, moving: true, disruption: disruption{hard: true}}
	gain := 1000 * n.Free.At(quantity.DimGPU) * int64(longest/time.Second)
	loss, ok := c.findOn(n)
	if !ok || loss >= gain || loss/1000 > s.m.Config.Moves.Background {
		return false
	}
	m := s.m.Mark()
	for _, u := range c.units {
		c.lift(u)
	}
	_, never := y.broken(&c.disruption)
	rest := &cluster.Hold{Hold: &api.Hold{Node: n.Name}}
	for dim, free := range n.Free {
		if free > 0 {
			rest.Requests = append(rest.Requests, api.Amount{Resource: s.m.Dims.Names[dim], Value: free})
		}
	}
	s.m.PutHold(rest, n)
	y.quiet = true
	ok = !never && c.rehomed(true) && c.onUsed()
	y.quiet = false
	var places []*cluster.Hold
	if ok {
		places = c.newPlaces()
	}
	s.m.Rollback(m)
	for _, u := range c.units {
		if u.of.Gang != nil {
			s.m.Tally(u.of.Gang)
		}
	}
	if !ok || !c.overlap(c.units, places) {
		return false
	}
	if loss = c.loss(c.units); loss >= gain || loss/1000 > s.m.Config.Moves.Background {
		return false
	}
	y.evict(c, c.units, joinHolds(places), nil)
	y.Remember(api.Change{Spending: &api.Spending{Queue: queue.BackgroundMoves, Version: y.NextVersion(), At: y.Now, Decayed: max(1, loss/1000)}})
	return true
}

// findOn lists the workloads with GPUs on the node, if all of them may be moved and are on no other, and what that loses.
func (c *claim) findOn(n *cluster.Node) (loss int64, ok bool) {
	s := c.y.s
	s.hunts++
	c.id = s.hunts
	var all []*cluster.Pod
	for _, p := range n.Pods {
		if p.Amount(quantity.DimGPU) == 0 {
			continue
		}
		if p.Payer == nil || p.Gang != "" && p.In == nil || !bare(p) {
			return 0, false
		}
		all = append(all, p)
	}
	for _, p := range all {
		if t := s.runningWith(p); !slices.ContainsFunc(c.units, func(u *unit) bool { return u.of.Gang != nil && u.of.Gang == t.Gang }) && movable(t) {
			c.takeMover(t)
		}
	}
	pods := 0
	for _, u := range c.units {
		loss += u.cost
		for _, p := range u.pods {
			if p.Host != n {
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
	mine := make(map[*cluster.Pod]bool)
	for _, u := range c.units {
		for _, p := range u.pods {
			mine[p] = true
		}
	}
	for p := range mine {
		if !slices.ContainsFunc(p.Host.Pods, func(o *cluster.Pod) bool { return !mine[o] && o.Amount(quantity.DimGPU) > 0 }) {
			return false
		}
	}
	return true
}
