package preempt

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/quantity"
	"github.com/berth-dev/berth/engine/internal/queue"
)

// Moves. Running work is moved so that a place becomes whole: for a gang that has room enough in all and none in one
// piece, or in the background. A move is an eviction whose workload has its next place held before it ends; it is
// only made when all that is moved has one, when no disruption budget is broken, and when less work is lost than is
// gained. Where it can the next pod runs before the one that is moved ends: surge.go.

// MoveFor looks for running work that can be moved elsewhere so that the gang, which has room enough in all and none in one
// piece, has a place. It says whether work is moved for it. One gang at a time has work moved, and one in a cycle is tried.
func (y *Cycle) MoveFor(g *cluster.Gang, t cluster.Turn) bool {
	// A move is two changes, an end and a start, with time between them. One at a time keeps that bounded: whatever goes wrong
	// with it has ended before the next begins.
	if y.m.Config.Moves.Off || y.m.Config.Policy == api.FIFO || y.moved || !y.mayClaim(g) || y.moving() {
		return false
	}
	y.moved = true
	c := y.newClaim(g, t)
	// Budgets are never broken for the sake of order.
	c.moving, c.disruption.hard = true, true
	c.findMovers()
	if len(c.units) == 0 {
		return false
	}
	var victims []*unit
	var places, old []*cluster.Hold
	ok := false
	y.Trial(g, func(own []*cluster.Hold) {
		old = own
		c.prepare()
		victims = c.choose()
		if ok = len(victims) > 0 && c.worthIt(victims); ok {
			places, ok = c.settle()
		}
	})
	c.retally()
	// Asked twice, because the answer changes: what can run beside its successor for a while loses no work, so its cost is
	// another once overlap has found that out.
	if !ok || !c.overlap(victims, places) || !c.worthIt(victims) {
		return false
	}
	y.evict(c, victims, places, old)
	return true
}

// retally counts the members of all gangs that were tried out again, those that stay too.
func (c *claim) retally() {
	for _, u := range c.units {
		if u.of.Gang != nil {
			c.y.m.Tally(u.of.Gang)
		}
	}
}

// moving says whether work is being moved already.
func (y *Cycle) moving() bool {
	for _, e := range y.m.Evictions {
		if e.Cause == api.Moved && !e.Refused && cluster.Live(e.Until, y.Now) {
			return true
		}
	}
	return slices.ContainsFunc(y.Plan.Evictions, func(e api.Eviction) bool { return e.Cause == api.Moved })
}

// findMovers lists what may be moved: pods by themselves, and gangs of which all members are needed, that are on nodes
// where something is free.
func (c *claim) findMovers() {
	s := c.y.Candidates
	s.claims++
	c.id = s.claims
	if !s.ownsAny() {
		return
	}
	seen := make(map[*cluster.Gang]bool)
	for _, sh := range s.m.Topology.Buckets {
		for _, n := range sh.Nodes {
			// Moving work off a full node frees no more than it takes elsewhere; a place becomes whole where something is free
			// already.
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
				// A pod that nothing makes again would be lost, and a gang with members to spare is evicted, not moved.
				if t := s.runningWith(p); movable(t) {
					c.takeMover(t)
				}
			}
		}
	}
}

// ownsAny says whether there is work that may be evicted and somebody makes again.
func (s *Candidates) ownsAny() bool {
	for _, q := range s.m.Queues {
		if q.Owned > 0 {
			return true
		}
	}
	return s.m.Unqueued.Owned > 0
}

// runningWith is the running workload that the pod, which has an allocation, is of.
func (s *Candidates) runningWith(p *cluster.Pod) *running {
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
	// In GPU-seconds: the GPUs that the gang would use while it waited, against the work that is lost.
	wait := longest
	if p := c.y.m.Promises[c.g.Key]; p != nil {
		wait = min(wait, max(0, p.Start.Sub(c.y.Now)))
	}
	return max(api.Whole, c.needs.At(quantity.DimGPU))*int64(wait/time.Second) > c.loss(victims)
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
	y, s := c.y, c.y.Candidates
	m := s.m.Mark()
	ok := keep || y.Place(c.g, c.t)
	movers := c.taken()
	// The largest first, as in packing: a small workload finds a place beside a large one more easily than the other way round.
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
func (y *Cycle) rehome(u *unit) bool {
	g := u.of.Gang
	if g == nil {
		g = &cluster.Gang{Key: u.of.key, Lone: u.pods[0]}
		g.Single.Pods[0] = u.pods[0]
	}
	y.m.Tally(g)
	// A gang can be placed only with all the members that it needs.
	if !g.Tree.Complete() {
		return false // members that it needs are on their way out
	}
	for _, p := range g.All() {
		y.m.ShapeOf(p) // what runs had no need of one
	}
	m := y.m.Mark()
	if !y.Place(g, g.TurnNow()) || y.Delays(g, y.m.AllocatedSince(m)) {
		return false
	}
	// Of a gang that runs with more groups than it must, only those that it must have are placed: it stays.
	return !slices.ContainsFunc(u.pods, func(p *cluster.Pod) bool { return p.Host == nil })
}

// nextKey is the key under which a place is held for what is moved.
func (u *unit) nextKey() string {
	if u.of.Gang == nil && u.pods[0].Owner != "" {
		return u.pods[0].Owner
	}
	return u.of.key
}

// Tidy empties a node that is little used, where its work has room on others that are in use, so that larger places
// come before somebody waits for them. What is lost that way in an hour is bounded.
func (y *Cycle) Tidy() {
	s := y.Candidates
	if s.m.Config.Moves.Background <= 0 || s.m.Config.Policy == api.FIFO || y.moving() {
		return
	}
	// The budget is in GPU-seconds lost per hour. After a move that lost as much as the budget is for one hour, the next may come
	// an hour later; after a cheaper one, sooner.
	if last := s.m.Usages[queue.BackgroundMoves]; last != nil {
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
func (y *Cycle) sparse() []*cluster.Node {
	type candidate struct {
		*cluster.Node
		around, used int64
	}
	var all []candidate
	level := len(y.m.Config.Levels) - 1
	around := make(map[*cluster.Domain]int64)
	for _, sh := range y.m.Topology.Buckets {
		for _, n := range sh.Nodes {
			used := n.GPUsInUse()
			if level >= 0 && sh.Domains[level] != nil {
				around[sh.Domains[level]] += used
			}
			// used above 0 and free above 0: a node that is empty needs no tidying, and a full one gives nothing.
			// Pods with parts of GPUs are not moved.
			if used > 0 && n.Free.At(quantity.DimGPU) > 0 && !n.Spec.Cordoned && n.SharedCards() == 0 {
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
func (y *Cycle) empty(n *cluster.Node) bool {
	s := y.Candidates
	c := &claim{y: y, g: &cluster.Gang{}, q: &s.m.Unqueued, moving: true, disruption: disruption{hard: true}}
	// What is free on the node now is what nobody can use in one piece, and would be usable for an hour.
	gain := 1000 * n.Free.At(quantity.DimGPU) * int64(longest/time.Second)
	loss, ok := c.findOn(n)
	if !ok || loss >= gain || loss/1000 > s.m.Config.Moves.Background {
		return false
	}
	var places []*cluster.Hold
	y.Trial(c.g, func([]*cluster.Hold) {
		for _, u := range c.units {
			c.lift(u)
		}
		_, never := y.broken(&c.disruption)
		// All that is free on the node is held while places are looked for: what is moved must not come back to where it was.
		rest := &cluster.Hold{Hold: &api.Hold{Node: n.Name}}
		for dim, free := range n.Free {
			if free > 0 {
				rest.Requests = append(rest.Requests, api.Amount{Resource: s.m.Dims.Names[dim], Value: free})
			}
		}
		s.m.PutHold(rest, n)
		if ok = !never && c.rehomed(true) && c.onUsed(); ok {
			places = c.newPlaces()
		}
	})
	c.retally()
	if !ok || !c.overlap(c.units, places) {
		return false
	}
	if loss = c.loss(c.units); loss >= gain || loss/1000 > s.m.Config.Moves.Background {
		return false
	}
	y.evict(c, c.units, joinHolds(places), nil)
	y.Remember(api.Change{Usage: &api.QueueUsage{Queue: queue.BackgroundMoves, Version: y.NextVersion(), At: y.Now, Decayed: max(1, loss/1000)}})
	return true
}

// findOn lists the workloads with GPUs on the node, if all of them may be moved and are on no other, and what that loses.
func (c *claim) findOn(n *cluster.Node) (loss int64, ok bool) {
	s := c.y.Candidates
	s.claims++
	c.id = s.claims
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
