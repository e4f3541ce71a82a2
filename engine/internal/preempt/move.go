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
	"github.com/berth-dev/berth/engine/why"
)

// Moves. Running work is moved so that a larger place becomes free: for a gang that has room enough in all and none in one
// piece, or in the background. A move is an eviction whose workload has its next place held before it ends. It is
// only made when everything that is moved has such a place, when no disruption budget is broken, and when less work
// is lost than is gained. Where it can, the replacement pod runs before the one that is moved ends (surge.go).
//
// For example, nodes n1 and n2 have 8 GPUs each, and each runs one pod of 4 GPUs. A gang asks for 8 GPUs on one node:
// 8 are free, but 4 and 4. Moving the pod of n1 to n2 costs 2 minutes of starting and, say, 10 minutes of unsaved
// work: 4 GPUs * 12 min = 48 GPU-minutes. The gang would otherwise wait for its promised start in 30 minutes with 8
// GPUs: 240. So the pod is moved; if the promised start were 5 minutes away (40), it would not be.
//
// The victims are found by the search of search.go, with one more question to the model: whether what is lifted has a
// place too, beside the gang (rehomed). That moves come to an end follows from the gain: each is paid for by the
// GPU-seconds of a gang that starts, or, in the background, out of a budget for each hour.
//
// The two kinds of moves share everything but who is moved and what that may cost:
//
//	               for a gang (MoveFor)                    in the background (Tidy)
//	victims        the cheapest set that lets it start     all that is on one node or one card
//	gain           its GPUs, for as long as it would wait  what is free there, for an hour
//	further bound  -                                       Config.Moves.Background, in GPU-seconds an hour
//	next places    anywhere                                on nodes, or cards, that others use too
//	tried          the first gang that could be helped     eight nodes and eight cards in a cycle
//
// In both a move is under way until its evictions are over, and no other begins before that (moving).
//
// A move needs no right against the queue of what is moved, since that loses nothing but time, and it relies on no pod that
// is on its way out. It costs a search in which each trial also places what is lifted; that is why one gang in a cycle is
// tried.

// MoveFor moves running work elsewhere so that the gang has a place, and says whether it does. The gates are what keeps the
// gang out: it is tried only where they say that there is room enough in all and none in one piece. The model is changed
// only where the answer is yes: what is moved counts as leaving, and places are held for it and for the gang.
func (y *Cycle) MoveFor(g *cluster.Gang, t cluster.Turn, gates []why.Gate) bool {
	if !y.scattered(g, t, gates) || !y.mayMoveFor(g) {
		return false
	}
	y.moved = true
	c := y.newClaim(g, t)
	// Budgets are never broken for the sake of a tidier cluster.
	c.moving, c.disruption.hard = true, true
	c.findMovers() // in place of find
	if len(c.units) == 0 {
		return false
	}
	// victims, places and old outlive the trial, which undoes all that it did to the model. Units and holds name nodes
	// and amounts, so that they mean the same afterwards.
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
	if len(victims) == 0 {
		return false
	}
	ok = ok && c.overlap(victims, places)
	// worthIt is asked twice, because costs change: a pod that can run beside its replacement for a while loses no work,
	// and overlap finds out whether it really can.
	//
	// A move that costs too much now may be worth it after the next checkpoint, which no event announces: so the next cycle
	// is due at that time. One that has no places, or breaks a budget, waits for an event like everything else.
	if !c.worthIt(victims) {
		c.wakeWhenSaved(c.units, lossOf(victims), c.gain)
		return false
	}
	if !ok {
		return false
	}
	y.evict(c, victims, places, old)
	return true
}

// mayMoveFor says whether work may be moved for the gang in this cycle: moves are on, none is under way, none was tried for
// another gang, and the gang may have others evicted by now. A move is two changes, an end and a start, with time between
// them. One at a time keeps that bounded: whatever goes wrong with it has ended before the next begins.
func (y *Cycle) mayMoveFor(g *cluster.Gang) bool {
	return !y.m.Config.Moves.Off && y.m.Config.Policy != api.FIFO && !y.moved && y.mayClaim(g) && !y.moving()
}

// retally counts the members of all gangs among the units again, also of those that stay: rehome has built their trees as
// if their members waited. Tallies are not in the journal, so that the rollback of the trial does not restore them.
func (c *claim) retally() {
	for _, u := range c.units {
		if u.of.Gang != nil {
			c.y.m.Tally(u.of.Gang)
		}
	}
}

// moving says whether work is being moved already, by an earlier plan or by this one. A move counts until its pods are gone, or its
// evictions have been refused or have expired.
func (y *Cycle) moving() bool {
	for _, e := range y.m.Evictions {
		if p := y.m.Pods[e.Pod]; p != nil && y.m.EvictionOf(p) == e && e.Cause == api.Moved && !e.Refused && cluster.Live(e.Until, y.Now) {
			return true
		}
	}
	return slices.ContainsFunc(y.Plan.Evictions, func(e api.Eviction) bool { return e.Cause == api.Moved })
}

// findMovers lists in c.units what may be moved: pods by themselves, and gangs of which all members are needed, that are on
// nodes where something is free. It costs a look at every pod on those nodes, and ends at once where no pod of the cluster
// has an owner that makes it again.
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
			// To move work off a full node frees no more than it takes elsewhere. A place becomes whole where
			// something is free already. What is free of slices and of devices for claims is no count of GPUs.
			if n.Free.At(quantity.DimGPU) <= 0 && len(n.Slices) == 0 && n.Offers == nil {
				continue
			}
			for _, p := range n.Pods {
				//mutate: move-parts -> p.Payer == nil || p.Owner == "" || p.Amount(quantity.DimGPU) == 0 || !bare(p) || p.Gang != "" && (p.In == nil || seen[p.In])
				if p.Payer == nil || p.Owner == "" || !onGPU(p) || !bare(p) || p.Gang != "" && (p.In == nil || seen[p.In]) {
					continue
				}
				if p.Gang != "" {
					seen[p.In] = true
				}
				// A pod that nothing makes again would be lost, and a gang with members to spare is evicted, not
				// moved. A gang is met on each of its nodes, and taken at the first.
				if t := s.runningWith(p); movable(t) {
					c.takeMover(t)
				}
			}
		}
	}
}

// onGPU says whether the pod, which must have a node, has GPUs, slices or parts of some.
func onGPU(p *cluster.Pod) bool { return p.Amount(quantity.DimGPU) > 0 || p.Weight() > 0 }

// ownsAny says whether any work that may be evicted has an owner that makes it again. Queues keep count of it, so that it
// costs a look at each queue.
func (s *Candidates) ownsAny() bool {
	for _, q := range s.m.Queues {
		if q.Owned > 0 {
			return true
		}
	}
	return s.m.Unqueued.Owned > 0
}

// runningWith makes the running workload that the pod, which has an allocation, belongs to, for this claim alone. Those on
// the lists of candidates have only the pods that are charged to their queue, and a move takes all pods of a gang.
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

// movable says whether the running workload is one unit with all of its pods, each of which has an owner that makes it
// again. What the replacements will ask for must be known, which it is not where a pod has devices through claims that were
// not told: a place that was found without them might not do.
func movable(t *running) bool {
	return len(t.units) == 1 && len(t.units[0].pods) == len(t.pods) && !slices.ContainsFunc(t.pods, func(p *cluster.Pod) bool {
		//mutate: move-known-claims -> p.Owner == ""
		return p.Owner == "" || p.Claims == nil && len(p.Host.OffersOf(p)) > 0
	})
}

// worthIt says whether the gang gains more now than the moves lose.
func (c *claim) worthIt(victims []*unit) bool { return c.gain(c.y.Now) > lossOf(victims) }

// gain is what the gang gains by moves at the given time, in thousandths of GPU-seconds: the GPUs that it would use while
// it waits. Without the moves it waits until its promised start, or for an hour where it has none. A gang that asks for no
// GPUs counts as one of one GPU, so that its gain is not nothing.
//
// Longer waits count as an hour, because a promise that is days away may well move up. It is the same hour at which
// cost.go stops counting unsaved work.
func (c *claim) gain(at time.Time) int64 {
	wait := longest
	if p := c.y.m.Promises[c.g.Key]; p != nil {
		wait = min(wait, max(0, p.Start.Sub(at)))
	}
	return cmp.Or(c.needs.At(quantity.DimGPU), api.Whole) * int64(wait/time.Second)
}

// lossOf is what moving the units loses, in thousandths of GPU-seconds: the work since the last checkpoint, and starting
// again.
func lossOf(units []*unit) int64 {
	var sum int64
	for _, u := range units {
		sum += u.cost
	}
	return sum
}

// rehomed says whether all units that are lifted have a place too, beside the gang. With keep the gang has been placed
// already, and if the answer is yes all allocations stay; without it the gang is placed first, and everything is undone.
// It costs a placement for each unit.
//
// For example, workloads of 4, 3 and 2 GPUs are lifted, and 5 and 4 GPUs are free on two other nodes. The largest goes
// first and takes the node of 4; those of 3 and 2 fill the other. With the smallest first, 2 would take the tighter node,
// that of 4, and 3 the other, and the one of 4 would have no place.
func (c *claim) rehomed(keep bool) bool {
	y, s := c.y, c.y.Candidates
	m := s.m.Mark()
	ok := keep || y.Place(c.g, c.t)
	movers := c.taken()
	// The largest goes first, as in packing: a small workload finds a place beside a large one more easily than the
	// other way round. No other order is tried, so rehomed may miss a way to place all of them; it never finds one
	// that is none.
	slices.SortStableFunc(movers, func(a, b *unit) int {
		return cmp.Or(-cmp.Compare(a.weight(), b.weight()), strings.Compare(a.of.key, b.of.key))
	})
	for _, u := range movers {
		ok = ok && y.rehome(u)
	}
	if !ok || !keep {
		s.m.Rollback(m)
	}
	return ok
}

// weight is what the unit's pods have of GPUs, in thousandths. It is as of when the unit was made, and so can be asked while
// the pods are lifted.
func (u *unit) weight() (sum int64) {
	for _, w := range u.spans {
		sum += w.weight
	}
	return sum
}

// rehome finds a place for a unit that has been lifted, and keeps it allocated there until rolled back. It is placed by the
// same function as any gang, so that its replacement will be allowed on the nodes.
//
// Place places gangs. For a pod by itself one is made here, which is never entered in the model.
func (y *Cycle) rehome(u *unit) bool {
	g := u.of.Gang
	if g == nil {
		g = &cluster.Gang{Key: u.of.key, Lone: u.pods[0]}
		g.Single.Pods[0] = u.pods[0]
	}
	y.m.Tally(g)
	// A gang of which members are on their way out may not have all that it needs, and has no place then.
	if !g.Tree.Complete() {
		return false
	}
	// Shapes are made for pods that wait. Pods that run had no need of one until now.
	for _, p := range g.All() {
		y.m.ShapeOf(p)
	}
	// What is moved starts anew at its next place, and must not be there when that place is promised to another.
	m := y.m.Mark()
	if !y.Place(g, g.TurnNow()) || y.Delays(g, y.m.AllocatedSince(m)) {
		return false
	}
	// Placing a gang places its minimum. One that runs with more groups than it must would lose the others: it is not moved.
	return !slices.ContainsFunc(u.pods, func(p *cluster.Pod) bool { return p.Host == nil })
}

// nextKey is the key under which a place is held for the replacement of the unit: that of the gang or, since a pod by itself
// comes back under another name, that of its owner.
func (u *unit) nextKey() string {
	if u.of.Gang == nil && u.pods[0].Owner != "" {
		return u.pods[0].Owner
	}
	return u.of.key
}

// Tidy empties a node that is little used, or a card of which little is given away in parts, where its work has room on
// others that are in use, so that larger places are there before a workload waits for them. What is lost that way in an
// hour is bounded (Config.Moves.Background, in GPU-seconds; 0: off). It comes to an end: after each move fewer nodes are in
// use, or as many nodes and fewer cards. The cycle calls it once, after the turns of all gangs.
//
// For example, n1 runs a pod of 2 GPUs, n2 and n3 run one of 4 GPUs each, of 8. The pod of n1 moves to n2: n1 is whole, and
// three nodes in use have become two. Nothing more is moved: n2 has 2 GPUs free now and n3 has 4, and neither holds what the
// other runs.
func (y *Cycle) Tidy() {
	s := y.Candidates
	if s.m.Config.Moves.Background <= 0 || s.m.Config.Policy == api.FIFO || y.moving() {
		return
	}
	// After a move that lost as much as the budget is for one hour, the next one may come an hour later; after one
	// that lost half of it, half an hour later. So no history is kept but the last move and what it lost. For example,
	// the budget is 3,600 GPU-seconds and the last move lost 1,800: 1,800 * 1 h / 3,600 is 30 minutes.
	if last := s.m.Usages[queue.BackgroundMoves]; last != nil {
		next := last.At.Add(time.Duration(last.Decayed) * time.Hour / time.Duration(s.m.Config.Moves.Background))
		//mutate: move-budget
		if y.Now.Before(next) {
			y.Wake(next)
			return
		}
	}
	// Nodes come before cards: a whole node serves every request that a whole card does.
	for _, all := range [][]spot{y.sparseNodes(), y.sparseCards()} {
		for _, at := range all[:min(len(all), tries)] {
			if y.empty(at) {
				return
			}
		}
	}
}

// tries is how many nodes, and how many cards, are looked at in one cycle. Each costs a trial with a placement for each
// workload that is there.
const tries = 8

// spot is a node that is partly used, or one of its cards.
type spot struct {
	*cluster.Node
	// card is its number on the node; wholeNode: all of them.
	card int
	// free is what of its GPUs is free, in thousandths.
	free int64
	// around is the whole GPUs in use in the node's domain of the narrowest level.
	around int64
	// used is what of the spot is in use: whole GPUs of a node, thousandths of a card.
	used int64
}

// wholeNode is the card of a spot that is a node.
const wholeNode = -1

// sparseNodes lists nodes that are partly used, those first whose domain of the narrowest level is used least, and in a
// domain those that are used least: they are nearest to being whole. Nodes with parts of GPUs are emptied card by card.
// It costs a look at each node.
//
// For example, rack r1 has nodes with 4 and 6 GPUs in use, rack r2 one with 2 and three with 8. r1 is used by 10, r2
// by 26, so the nodes of r1 are tried first, the one with 4 before the one with 6: emptying it leaves r1 one node
// away from being free.
func (y *Cycle) sparseNodes() []spot {
	// used above 0 and free above 0: a node that is empty needs no tidying, and a full one gives nothing.
	return y.sparse(func(n *cluster.Node, out []spot) []spot {
		used, free := n.GPUsInUse(), n.Free.At(quantity.DimGPU)
		if used <= 0 || free <= 0 || n.SharedCards() > 0 {
			return out
		}
		return append(out, spot{Node: n, card: wholeNode, free: cluster.GPUs(free), used: used})
	})
}

// sparseCards lists cards of which parts are given away and something is left, in the same order. How much of a card is
// used goes by its memory, in thousandths: parts always take some, while compute may be left open.
func (y *Cycle) sparseCards() []spot {
	if !y.m.GivesParts() {
		return nil
	}
	return y.sparse(func(n *cluster.Node, out []spot) []spot {
		for i := range n.Cards {
			c := &n.Cards[i]
			if used := c.UsedMemory * api.Whole / max(1, c.Memory); c.Sharers > 0 && !c.Closed && used < api.Whole {
				out = append(out, spot{Node: n, card: i, free: api.Whole - used, used: used})
			}
		}
		return out
	})
}

// sparse lists the spots that find appends for the nodes that are not cordoned, those in domains that are little used first,
// then those that are little used themselves, then by place. A cordoned node is being emptied by others, or takes no new
// work.
func (y *Cycle) sparse(find func(n *cluster.Node, out []spot) []spot) (all []spot) {
	// level is the narrowest one, such as the rack; -1: there are no levels, and around stays 0 for all. All nodes count
	// for their domain, cordoned ones too, and so the sums are complete only after the loop.
	level := len(y.m.Config.Levels) - 1
	around := make(map[*cluster.Domain]int64)
	for _, sh := range y.m.Topology.Buckets {
		for _, n := range sh.Nodes {
			if level >= 0 && sh.Domains[level] != nil {
				around[sh.Domains[level]] += n.GPUsInUse()
			}
			if !n.Spec.Cordoned {
				all = find(n, all)
			}
		}
	}
	for i := range all {
		if level >= 0 {
			all[i].around = around[all[i].Bucket.Domains[level]]
		}
	}
	slices.SortFunc(all, func(a, b spot) int {
		return cmp.Or(cmp.Compare(a.around, b.around), cmp.Compare(a.used, b.used), cluster.ComparePlaces(a.Node, b.Node), cmp.Compare(a.card, b.card))
	})
	return all
}

// rest is a hold on all that is free of the spot, for the time of a trial: what is moved must not come back to where it was.
func (at *spot) rest(m *cluster.Model) *cluster.Hold {
	h := &cluster.Hold{Hold: &api.Hold{Node: at.Name}}
	if at.card != wholeNode {
		h.Cards = []api.HeldCard{{ID: at.Spec.Devices[at.card].ID}}
		return h
	}
	for dim, free := range at.Free {
		if free > 0 {
			h.Requests = append(h.Requests, api.Amount{Resource: m.Dims.Names[dim], Value: free})
		}
	}
	return h
}

// has says whether the pod, which is on the node, has GPUs of the spot; only says that it has no others. A pod with parts of
// two cards would have to leave both, so that it keeps either from being emptied.
func (at *spot) has(p *cluster.Pod) (is, only bool) {
	if at.card == wholeNode {
		return onGPU(p), true
	}
	id := at.Spec.Devices[at.card].ID
	return slices.Contains(p.HostDevices, id), len(p.HostDevices) == 1
}

// empty plans to move everything with GPUs off the spot, and says whether it did. It notes what that loses as usage
// (queue.BackgroundMoves), which is the memory that Tidy reads.
func (y *Cycle) empty(at spot) bool {
	s := y.Candidates
	c := &claim{y: y, g: &cluster.Gang{}, q: &s.m.Unqueued, moving: true, disruption: disruption{hard: true}}
	// The gain is what is free there now, which cannot be used in one piece, for an hour; the loss must be less than
	// that and within the budget of an hour. most is the first loss that is too large, in thousandths of GPU-seconds; the
	// budget is in whole ones, and may be used up to the last, hence the 1.
	most := at.free * int64(longest/time.Second)
	if budget := s.m.Config.Moves.Background; budget < most/1000 {
		most = (budget + 1) * 1000
	}
	// dear says that the move loses too much, and has the next cycle be due when it may lose less.
	dear := func() bool {
		loss := lossOf(c.units)
		if loss >= most {
			c.wakeWhenSaved(c.units, loss, func(time.Time) int64 { return most })
		}
		return loss >= most
	}
	if !c.findOn(at) || dear() {
		return false
	}
	var places []*cluster.Hold
	ok := false
	y.Trial(c.g, func([]*cluster.Hold) {
		// All is lifted before rest is asked what is free there, so that the hold covers what the movers leave too.
		for _, u := range c.units {
			c.lift(u)
		}
		_, never := y.broken(&c.disruption)
		// Everything that is free of the spot is held while places are looked for.
		s.m.PutHold(at.rest(s.m), at.Node)
		if ok = !never && c.rehomed(true) && c.onUsed(at); ok {
			places = c.newPlaces()
		}
	})
	c.retally()
	// Asked again, since what cannot stay until the next one runs costs more than was assumed.
	if !ok || !c.overlap(c.units, places) || dear() {
		return false
	}
	y.evict(c, c.units, joinHolds(places), nil)
	y.Remember(api.Change{Usage: &api.QueueUsage{Queue: queue.BackgroundMoves, Version: y.NextVersion(), At: y.Now, Decayed: max(1, lossOf(c.units)/1000)}})
	return true
}

// findOn lists in c.units the workloads with GPUs of the spot, and says whether all of them may be moved and have no other
// GPUs. One pod that must stay makes the spot of no use: it would not become empty.
func (c *claim) findOn(at spot) bool {
	s := c.y.Candidates
	s.claims++
	c.id = s.claims
	// all is the pods that have to go. The units that may be moved must be those pods, no more and no fewer: a gang with
	// members on other nodes would lose work there for nothing, and a pod that no unit has would stay.
	var all []*cluster.Pod
	for _, p := range at.Pods {
		is, only := at.has(p)
		if !is {
			continue
		}
		if !only || p.Payer == nil || p.Gang != "" && p.In == nil || !bare(p) {
			return false
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
		for _, p := range u.pods {
			if !slices.Contains(all, p) {
				return false
			}
			pods++
		}
	}
	slices.SortFunc(c.units, compareUnits)
	return pods > 0 && pods >= len(all)
}

// onUsed says whether all that was moved off the spot is on nodes, or of a card on cards, that others use too. To fill an
// empty one would only move the gap. It is what makes Tidy end: every move takes one spot out of use and brings none into
// use. Two movers that are together on a node that was empty do not count as others for each other.
func (c *claim) onUsed(at spot) bool {
	mine := make(map[*cluster.Pod]bool)
	for _, u := range c.units {
		for _, p := range u.pods {
			mine[p] = true
		}
	}
	for p := range mine {
		if !slices.ContainsFunc(p.Host.Pods, func(o *cluster.Pod) bool {
			//mutate: tidy-cards-in-use -> !mine[o] && onGPU(o)
			return !mine[o] && onGPU(o) && (at.card == wholeNode || slices.Contains(o.HostDevices, p.HostDevices[0]))
		}) {
			return false
		}
	}
	return true
}
