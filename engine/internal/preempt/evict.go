package preempt

import (
	"slices"
	"strings"
	"time"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/quantity"
	"github.com/berth-dev/berth/engine/why"
)

// A claim. A gang that has found no place goes through these steps, in the order of their cost. Each is a proof that
// the steps after it would find nothing, so most claims end at one of the first:
//
//  1. Others that asked the same have failed, and nothing has changed since (memo.go): nothing. A few comparisons.
//  2. All that could be evicted for it would free too little, by sums (bound.go): nothing. An addition for each
//     queue.
//  3. The units that the rules allow to be evicted for it are listed (legal.go), and the places held for others that
//     it may have (holds.go). A look at each candidate.
//  4. On the model, pods that are on their way out are taken off their nodes. If that is enough, the place is held
//     for it. One trial.
//  5. Otherwise victims are searched for (search.go): first with what is held for others left as it is, then without
//     it, and last with lower priorities of its own queue among the units, where these were spared before. Hundreds
//     of trials.
//  6. The victims are evicted, and the place that the gang found is held for it until they are gone.
//
// For example, queue a is owed 8 GPUs, and every node of the cluster is full. Nodes n1 and n2 run a pod of 8 GPUs
// each of borrower b, and the pod on n1 is being deleted. Step 4 finds that n1 will do once that pod is gone: nobody
// is evicted, and n1 is held for a. Were the pod on n1 not being deleted, step 5 would find both, and evict the one
// that loses less work. Until it is gone the gang is told that room is being made for it.

// Outcome is what has been done for a gang without a place.
type Outcome uint8

const (
	Nothing  Outcome = iota // nobody is evicted for it
	Evicting                // somebody is on the way out for it, and it waits for that
	Freed                   // it has a place that was held for another, and can start at once
)

// MakeRoom looks for work that may be evicted for the gang, which has no place because of the gates. If there is some, the plan
// evicts it and holds the place. Under policy fifo nobody is evicted for others. The model is changed only if the outcome is Evicting or Freed: then victims count as leaving,
// and the holds as made.
func (y *Cycle) MakeRoom(g *cluster.Gang, t cluster.Turn, gates []why.Gate) Outcome {
	if y.m.Config.Policy == api.FIFO || !y.curable(gates) {
		return Nothing
	}
	y.findFreeing()
	// Where nobody more is evicted the outcome is mostly that of awaits and not Nothing: others may be on their way out for
	// the gang since an earlier cycle.
	if y.isAlone(g, t) {
		return y.awaits(g)
	}
	if !y.mayClaim(g) {
		return Nothing
	}
	c := y.newClaim(g, t)
	// kind is what the memo knows the claim by. A claim that is like no other (alike is false) leaves no note there.
	kind, alike := c.kind()
	if c.beyondAll() {
		y.noteHelpless(kind, g)
		return y.awaits(g)
	}
	c.find()
	// Nobody may be evicted, no place of others may be had, and nothing that leaves is the claimant's by right.
	if len(c.units)+len(c.theirs) == 0 && !c.entitled() {
		y.noteAlone(c)
		return y.awaits(g)
	}
	if alike && y.isHelpless(kind, g) {
		y.noteSameShare(kind, g)
		return y.awaits(g)
	}
	return y.pursue(c, kind)
}

// awaits is the outcome for a gang for which nobody more is evicted: it still waits for those that are on their way
// out for it.
func (y *Cycle) awaits(g *cluster.Gang) Outcome {
	if y.freeing[g.Key] {
		return Evicting
	}
	return Nothing
}

// entitled says whether the claimant would have been allowed to evict some of those that are on their way out
// already. What they leave over is for it, then, before they come back.
//
// For example, queue a is owed 8 GPUs, and the only borrower, with 8, is being drained off its node. There is nobody left to
// evict. Without a hold the borrower's next pod might be placed there first, and would have to be evicted again.
func (c *claim) entitled() bool {
	c.y.findLeavers()
	if len(c.y.leavers.free) == 0 {
		return false
	}
	return c.owed || slices.ContainsFunc(c.y.leavers.free, func(p *cluster.Pod) bool {
		if p.Payer != c.q {
			return false
		}
		if p.In != nil && p.In.Spec != nil {
			return p.In.Spec.Priority < c.t.Priority
		}
		return p.Priority < c.t.Priority
	})
}

// pursue tries the claim out on the model and carries out what comes of it. There are up to three attempts, from the
// strongest right to the weakest: with everything that find listed; without what could be reclaimed, by the fair
// share; and with lower priorities of the claimant's own queue, where find had spared them. The second lists its
// units anew, because a set must not rest on quota and share at once: the queue would have to be within the one for
// some victims and within the other for the rest.
//
// A later attempt is only made where the one before failed. So a claimant that is owed quota evicts nobody of its own
// queue while others will do.
func (y *Cycle) pursue(c *claim, kind claimKind) Outcome {
	y.findLeavers()
	found, ok := c.attempt()
	if !ok && c.owed && len(c.sharedDims()) > 0 {
		found, ok = c.attemptByShare()
	}
	if !ok && !c.preempts {
		c.preempt()
		found, ok = c.attempt()
	}
	switch {
	case !ok:
		// All claims of the kind would fail in the same way, until the model is another: 10,000 pending pods of one
		// size cost one search.
		y.noteHelpless(kind, c.g)
		y.noteShare(kind, c)
		return y.awaits(c.g)
	// The place that was found is the one that is held for it already: it waits for those that are leaving it.
	case len(found.victims)+len(found.lost) == 0 && len(found.old) > 0:
		return y.awaits(c.g)
	}
	// Places that were held for others are given to the claimant. Those others look for a place again in their own
	// turn.
	for _, h := range found.lost {
		y.m.IgnoreHold(h)
		delete(y.freeing, h.Gang)
		y.Forget(api.KindHold, h.Ref().Key, h.Version)
	}
	// The place of another may be free already, and only have been kept for it. Then the gang need not wait for anybody,
	// and starting it in this cycle saves a round of holding the place and finding it again.
	if len(found.lost) > 0 && len(found.victims) == 0 && !y.emptying(found.places) && y.startsAtOnce(c) {
		return Freed
	}
	// Without victims, what is on its way out already will do. It is held, since otherwise those who were evicted
	// before would take it.
	y.evict(c, found.victims, found.places, found.old)
	return Evicting
}

// attempt tries the claim out: first with what is held for others left as it is, then without it. A place that is
// held for another was made by evicting somebody, so it is taken only where nothing else helps.
//
// For example, n1 is held for b, whose place the claimant could take, and a borrower runs on n2. The first try evicts the
// borrower and leaves n1 to b. Only if n2 is of no use to the claimant does the second one take n1.
func (c *claim) attempt() (found way, ok bool) {
	if !c.enough() {
		return found, false
	}
	if found, ok = c.try(nil); !ok && len(c.theirs) > 0 {
		found, ok = c.try(c.theirs)
	}
	return found, ok
}

// attemptByShare tries the claim out with nothing that could be reclaimed. A gang that names no GPU model may find
// its queue to have no quota of the model that reclaiming leaves it, and still be owed its fair share. If that fails
// too, the units are listed again as they were.
func (c *claim) attemptByShare() (found way, ok bool) {
	//mutate: share-without-quota
	c.renounced = true
	if c.find(); len(c.units)+len(c.theirs) > 0 {
		found, ok = c.attempt()
	}
	if !ok {
		c.renounced = false
		c.find()
	}
	return found, ok
}

// way is how a claim is met: who is evicted, and what is held where.
type way struct {
	// victims is nil where what leaves anyway is enough.
	victims []*unit
	// places is what is held for the claimant from now on, and for what is moved for it; not in the model yet.
	places []*cluster.Hold
	// old is what was held for the claimant before, and is replaced by places.
	old []*cluster.Hold
	// lost is what was held for others and is given up.
	lost []*cluster.Hold
}

// try tries the claim out on the model, without the places held for others that are given. Everything that it does to
// the model is undone when it returns; what it found is in the way, by name and amount.
//
// Inside, the model is a cluster in which leavers are gone and the gang has its own holds. While it is in that state other
// packages ask about it by way of y.pursued: quotas whether the right that the victims were chosen by still holds (Rights),
// the calendar when the gang would begin (Begins). Trying says that all of it is rolled back before
// the lists of candidates are looked at, so that nothing need be noted for them.
func (c *claim) try(without []*cluster.Hold) (found way, ok bool) {
	y := c.y
	y.m.Trying, y.pursued = true, c
	defer func() { y.m.Trying, y.pursued, y.returning, y.takenOff = false, nil, nil, nil }()
	y.Trial(c.g, func(own []*cluster.Hold) {
		found.old = own
		for _, h := range without {
			y.m.IgnoreHold(h)
		}
		gates := y.Gates(c.g)
		// Leavers are taken off first, because nobody is evicted for room that is about to be there. Where a limit of
		// the queue is shut, leavers without GPUs count too: they still use up the limit. Where holds of its own or of
		// others are out of the way, leavers under them count too: what they leave is not spoken for any more.
		y.takeOffLeavers(c.gpus > 0 && len(gates) == 0 && len(own)+len(without) == 0)
		if len(gates) > 0 {
			gates = y.Gates(c.g)
		}
		c.gated = len(gates) > 0
		c.prepare()
		// If those that leave anyway make room enough, nobody else goes, and the place is held.
		if ok = c.opens(); !ok {
			found.victims = c.choose()
			ok = len(found.victims) > 0
		}
		if ok {
			// opens has asked the same, but undid the place: this is the one that is kept.
			found.places, ok = c.settle()
		}
		if ok && len(without) > 0 {
			found.lost, ok = c.lose(found.places)
		}
	})
	return found, ok
}

// startsAtOnce says whether the claimant needs nobody to be gone, now that places of others were given up for it.
// Whoever is on the way out elsewhere may count in its queue until then, or be kept apart from it. try has answered a
// different question, with all leavers gone, so that it is asked again with them there.
func (y *Cycle) startsAtOnce(c *claim) (ok bool) {
	y.Trial(c.g, func([]*cluster.Hold) {
		ok = len(y.Gates(c.g)) == 0 && y.StartsBeside(c.g, c.t)
	})
	//mutate: outbid-starts-at-once -> true
	return ok
}

// emptying says whether somebody is on the way out where the places are.
func (y *Cycle) emptying(places []*cluster.Hold) bool {
	return slices.ContainsFunc(places, func(h *cluster.Hold) bool {
		return slices.ContainsFunc(y.m.Nodes[h.Node].Pods, (*cluster.Pod).Leaving)
	})
}

// enough says whether there would be GPUs enough in all if all units were gone, and all that leaves. It is one sum
// over all nodes, wherever the GPUs are, and most hopeless claims fail it. It is a proof when it fails and says
// little when it does not.
//
// For example, a gang asks for 64 GPUs, 10 are free on all nodes together, pods on their way out have 8, and what may be
// evicted has 40: 58 are fewer than 64, whatever the search would choose. With 48 in place of 40 the sum suffices, and
// still no rack need have 64.
func (c *claim) enough() bool {
	if c.gpus == 0 {
		return true
	}
	free := c.y.untaken()
	for _, p := range c.y.leavers.free {
		free += p.Amount(quantity.DimGPU)
	}
	for _, p := range c.y.leavers.spoken {
		free += p.Amount(quantity.DimGPU)
	}
	for _, u := range c.units {
		for _, w := range u.spans {
			//mutate: enough-gpus-of-nodes -> free + w.weight/1000
			free += w.gpus
		}
	}
	return free >= c.gpus
}

// mayClaim says whether others may be evicted for the gang by now. A patient gang never evicts; one with a delay asks
// for a cycle at the time when it may.
func (y *Cycle) mayClaim(g *cluster.Gang) bool {
	terms := g.Terms()
	if terms.Patient {
		return false
	}
	if due := g.TurnNow().Created.Add(terms.Delay); terms.Delay > 0 && y.Now.Before(due) {
		y.Wake(due)
		return false
	}
	return true
}

// findFreeing finds, once in a cycle, for whom others are on their way out: those that evictions name, if something
// is held for them still, and those for whom a place is held that is free once those who are leaving its node have left. It
// costs a look at each eviction and at the pods of each node on which something is held. The result is a set, so that the
// order of the maps does not count.
func (y *Cycle) findFreeing() {
	if y.freeing != nil {
		return
	}
	s := y.Candidates
	y.freeing = make(map[string]bool)
	for key, e := range s.m.Evictions {
		if p := s.m.Pods[key]; p != nil && p.Evicting && len(s.m.HoldsOf[e.For]) > 0 {
			y.freeing[e.For] = true
		}
	}
	for _, h := range s.m.Holds {
		if h.On != nil && slices.ContainsFunc(h.On.Pods, (*cluster.Pod).Leaving) && y.comesFree(h) {
			y.freeing[h.Gang] = true
		}
	}
}

// comesFree says whether the held place is free once those who are leaving its node have left. It may not be: a victim
// could not be evicted, or the node has lost GPUs.
func (y *Cycle) comesFree(h *cluster.Hold) bool {
	for _, a := range h.Requests {
		dim := y.m.Dims.ID(a.Resource)
		free := h.On.Free.At(dim) // less what is held there
		for _, p := range h.On.Pods {
			if p.Leaving() {
				free += p.Amount(dim)
			}
		}
		//mutate: freeing-comes-free
		if a.Value > 0 && free < 0 {
			return false
		}
	}
	return true
}

// newClaim makes a claim for the gang, with the least that its minimum needs.
//
// A plain question is that of like members: what one of them needs, times how many must start, is what the gang
// needs. Of unlike members it is the least that any choice of them for the minimum would need, for each resource by
// itself; no choice need reach all of these at once, so needs is a bound from below.
//
// For example, 2 of 3 members must start; one asks for 8 GPUs and 1 CPU, one for 1 GPU and 16 CPUs, one for 4 of
// each. The needs are 5 GPUs (1 + 4) and 5 CPUs (1 + 4), which no two of them ask for together. A right that is
// denied with these needs is denied with any choice; one that is granted is looked at again once there is a place
// (withinRights).
func (y *Cycle) newClaim(g *cluster.Gang, t cluster.Turn) *claim {
	s := y.Candidates
	c := &claim{y: y, g: g, t: t, q: s.m.Queues[g.Queue()]}
	if c.q == nil {
		c.q = &s.m.Unqueued
	}
	plain, ok := y.Question(g, t)
	// The loop ends after the first member if they are alike. Otherwise each adds the resources that none before it
	// asked for.
	for _, p := range g.All() {
		if p.Host != nil || p.Terminating {
			continue
		}
		for _, d := range s.m.AllCounts(p) {
			if ok {
				c.needs.Add(d.Dim, d.Amount*int64(plain.Need))
			} else if c.needs.At(d.Dim) == 0 {
				if need := s.m.Least(g, d.Dim); need > 0 {
					c.needs.Add(d.Dim, need)
				}
			}
		}
		if ok {
			c.gpus = p.Amount(quantity.DimGPU) * int64(plain.Need)
		}
		if ok {
			break
		}
	}
	// A queue may have quota for some models or flavors only, and which of them the gang gets is not known yet. So
	// all that it could get are among the dimensions in which others may hold too much.
	for _, dim := range s.m.Tree.PromisedDims {
		if c.needs.At(dim) > 0 || c.needs.At(quantity.DimGPU) > 0 && strings.HasPrefix(s.m.Dims.Names[dim], s.m.Config.GPU+"@") || c.inFlavor(dim) > 0 {
			c.dims = append(c.dims, dim)
		}
	}
	c.own = y.m.OwnHeld(g)
	if !ok {
		c.gpus = g.Tree.Least(func(p *cluster.Pod) int64 { return p.Amount(quantity.DimGPU) })
	}
	c.unrated = c.needs.At(quantity.DimGPU)
	// Rates make GPUs of some models count more in quotas. Which model the claimant gets is not known yet, so the
	// cheapest is assumed: withinRights asks again once it has a place.
	if c.unrated > 0 && len(s.m.Config.Rates) > 0 {
		c.needs[quantity.DimGPU] = c.unrated * y.LeastRate()
	}
	return c
}

// inFlavor is what the claimant asks for at least of the resource that the dimension is a flavor of, if its queue
// counts that flavor; otherwise 0.
func (c *claim) inFlavor(dim int) int64 {
	if of, ok := c.q.FlavoredDim(dim); ok && of == quantity.DimGPU {
		return max(c.unrated, c.needs.At(of))
	} else if ok {
		return c.needs.At(of)
	}
	return 0
}

// prepare gets the claim ready for an attempt: whether counting alone decides it, and how its classes are made.
// Nobody is lifted at this point, since what an attempt before lifted has been rolled back, so the counts of victims
// begin at 0.
func (c *claim) prepare() {
	y := c.y
	for _, u := range c.units {
		u.taken = false
	}
	clear(c.disruption.of)
	clear(c.disruption.kept)
	c.first, c.alike = c.g.Alike()
	kins, apart := y.Kins(c.g, c.t)
	c.kins, c.alike = kins, c.alike && !apart
}

// settle places the gang for real, with its victims lifted, and returns what is to be held where. It is false where a
// limit is shut, where the place would break a promise, or where with its GPU model the claimant would exceed the
// quota or share that the claim rests on. The model is as before afterwards: holds are made by evict.
//
// It is the last word on a set, and asks everything again that has been asked before on less knowledge: gates with the
// victims gone, rights with the GPU model that the gang really gets, promises with the nodes that it is on.
func (c *claim) settle() ([]*cluster.Hold, bool) {
	y, s := c.y, c.y.Candidates
	m := s.m.Mark()
	c.settling = true
	defer func() { s.m.Rollback(m); c.settling = false }()
	if gates := y.Gates(c.g); len(gates) > 0 {
		return nil, false
	}
	// The gang must start beside what is promised and booked, and within the right that its victims were chosen by.
	if !y.StartsBeside(c.g, c.t) || !c.withinRights() {
		return nil, false
	}
	out := y.holdsFor(c.g.Key, y.m.AllocatedSince(m))
	if !c.moving {
		return out, true
	}
	if !c.rehomed(true) {
		return nil, false
	}
	return joinHolds(append(out, c.newPlaces()...)), true
}

// newPlaces is what keeps the places that lifted units have been given, as holds for whoever comes in their stead. It
// also notes in each unit where its pods go. The pods have their places at this moment, by rehome, and not afterwards.
//
// Coming keeps such a hold although nobody waits for it: the pod that it is for exists only once its owner has made it.
func (c *claim) newPlaces() []*cluster.Hold {
	var out []*cluster.Hold
	for _, u := range c.taken() {
		u.to = u.to[:0]
		for _, p := range u.pods {
			u.to = append(u.to, p.Host.Name)
		}
		for _, h := range c.y.holdsFor(u.nextKey(), u.pods) {
			h.Coming = true
			h.Expect(slices.DeleteFunc(slices.Clone(u.pods), func(p *cluster.Pod) bool { return p.Host.Name != h.Node }))
			out = append(out, h)
		}
	}
	return out
}

// holdsFor is what keeps the places of the pods, which have been placed: one hold for each node, in the order of
// nodes, with the sum of what the pods take there and the devices that they were given. Sums alone would not do where
// devices are told apart: half of each of two GPUs is not the one GPU that a pod was placed on.
//
// For example, of a gang of three pods with 4 GPUs and 16 cores each, two are on n1 and one is on n2. There are two holds:
// n1 with 8 GPUs, 32 cores and 2 pods, and n2 with 4 GPUs, 16 cores and 1 pod.
func (y *Cycle) holdsFor(key string, pods []*cluster.Pod) []*cluster.Hold {
	// A sort by node puts the pods of a node side by side, so that the last hold is the one to add to. It is stable,
	// and so cards and devices are in the order of ranks.
	pods = slices.Clone(pods)
	slices.SortStableFunc(pods, func(a, b *cluster.Pod) int { return cluster.ComparePlaces(a.Host, b.Host) })
	var out []*cluster.Hold
	for _, p := range pods {
		if len(out) == 0 || out[len(out)-1].Node != p.Host.Name {
			out = append(out, &cluster.Hold{Hold: &api.Hold{Gang: key, Node: p.Host.Name}})
		}
		h := out[len(out)-1]
		h.Requests = h.Requests.Plus(y.takes(p))
		//mutate: hold-cards
		h.Cards = append(h.Cards, p.Host.CardsOf(p)...)
		//mutate: hold-devices
		h.Devices, h.Claimed = append(h.Devices, p.Host.OffersOf(p)...), h.Claimed+p.Claimed
	}
	return out
}

// joinHolds makes one of the holds for one workload on one node, in the order in which each first appears.
func joinHolds(all []*cluster.Hold) []*cluster.Hold {
	var out []*cluster.Hold
	at := make(map[string]*cluster.Hold)
	for _, h := range all {
		key := h.Ref().Key
		if have := at[key]; have != nil {
			have.Requests = have.Requests.Plus(h.Requests)
			have.Cards = slices.Concat(have.Cards, h.Cards)
			have.Devices, have.Claimed = slices.Concat(have.Devices, h.Devices), have.Claimed+h.Claimed
			have.Join(h)
			continue
		}
		at[key] = h
		out = append(out, h)
	}
	return out
}

// takes is everything that the pod takes of its node, its place among the pods too.
func (y *Cycle) takes(p *cluster.Pod) api.Resources {
	out := make(api.Resources, 0, len(p.Demands))
	for _, d := range p.Demands {
		out = append(out, api.Amount{Resource: y.m.Dims.Names[d.Dim], Value: d.Amount})
	}
	return out.Sorted()
}

// withinRights says whether the claimant's queues are within quota, or within their share, with the gang placed.
// Before that only the least that it could ask for was known: the model of its GPUs, and with it the rate, is known
// only now.
//
// For example, an H100 counts 2 in quotas and an A100 counts 1. A gang of 8 GPUs claims by a quota of 8, as if it got
// A100s. If its victims leave it H100s, it is charged 16, and this set is refused.
func (c *claim) withinRights() bool {
	// It is asked only as far up as the victims reach: a claim that takes from its own department need not be within
	// the quota of the division.
	quota, share := c.reaches()
	if !c.within(quota, c.dims, c.y.m.Quota, c.charges) {
		return false
	}
	q, dim := c.overdrawn(share, c.sharedDims(), fairShare, c.charges)
	if q != nil {
		c.over = OverShare{Queue: q, Dim: dim, With: q.Committed(dim), Fair: q.Fair.At(dim)}
	}
	return q == nil
}

// reaches is how far up the claimant's queues must be within quota, and within their share, for the units that are
// lifted; -1: not at all. The farthest of the victims decides.
//
// For example, in the tree of reclaim, vision evicts one unit of speech (reach 0) and one of product (reach 1). The quota
// reach is 1: vision must be within 16 GPUs with the gang and research within 32. Had it evicted the unit of speech alone,
// research would not be asked, since what moves between its own queues does not change what it holds.
func (c *claim) reaches() (quota, share int) {
	quota, share = -1, -1
	for _, u := range c.units {
		switch {
		case !u.taken:
		case u.cause == api.Shared:
			share = max(share, u.reach)
		case u.cause == api.Preempted:
			share = max(share, c.sharing)
		default:
			quota = max(quota, u.reach)
		}
	}
	return quota, share
}

// within says whether the claimant's queues, as far up as reach, hold no more than their part of the dims that are
// charged.
func (c *claim) within(reach int, dims []int, part func(*cluster.Queue, int) int64, charged func(dim int) bool) bool {
	q, _ := c.overdrawn(reach, dims, part, charged)
	return q == nil
}

// overdrawn is the first of those queues that holds more than its part, and of which dimension; nil: none does. A
// reach of -1 asks of no queue, of 0 of the claimant's own alone. A queue that holds too much of something that the gang is
// not charged for is not overdrawn by it: charged says which dimensions those are.
func (c *claim) overdrawn(reach int, dims []int, part func(*cluster.Queue, int) int64, charged func(dim int) bool) (*cluster.Queue, int) {
	for x := c.q; x != nil && reach >= 0; x, reach = x.Parent, reach-1 {
		for _, dim := range dims {
			if x.Committed(dim) > part(x, dim) && charged(dim) {
				return x, dim
			}
		}
	}
	return nil, 0
}

// charges says whether members that have allocations are charged for the resource. It is asked with the gang placed, and so
// knows the GPU model and flavor that the charge is for.
func (c *claim) charges(dim int) bool {
	return slices.ContainsFunc(c.g.All(), func(p *cluster.Pod) bool {
		return p.Host != nil && slices.ContainsFunc(p.Charge, func(d quantity.Demand) bool { return d.Dim == dim })
	})
}

// evict plans the evictions, and holds the places until the victims can be expected to be gone. From here on victims
// count as leaving and the places as held, for every gang that comes later in the cycle. Evictions are in the order
// of their pods' keys, so that equal plans have equal versions.
//
// The order of the steps matters. underWay counts the evictions of earlier plans first, for those of this plan to be
// added to. Old holds go before the new ones come, which may be for the same nodes. Leavers are noted last, when it
// can be seen whether what they leave is held.
//
// For example, at 12:00 two pods are evicted, with grace periods of 30 seconds and of 5 minutes; their queues warn a
// minute before. They are told to end at 12:01, and expected to be gone at 12:01:30 and 12:06. With AssumeFor a minute
// their evictions count until 12:02:30 and 12:07. The places are held until 12:07, the last of these, and the plan is made
// again then at the latest.
func (y *Cycle) evict(c *claim, victims []*unit, places []*cluster.Hold, old []*cluster.Hold) {
	s := y.Candidates
	// Units are taken apart into pods here, because evictions are of pods, and their order is by key whatever unit they
	// were of.
	type victim struct {
		*cluster.Pod
		cause api.EvictionCause
		payer *cluster.Queue
		to    string
		surge bool
	}
	var all []victim
	for _, u := range victims {
		for i, p := range u.pods {
			v := victim{Pod: p, cause: u.cause, payer: u.of.payer, surge: u.surge}
			if c.moving {
				v.to = u.to[i]
			}
			all = append(all, v)
		}
	}
	slices.SortFunc(all, func(a, b victim) int { return strings.Compare(a.Key, b.Key) })
	y.underWay()
	// last is when the last of those that are in the way can be expected to be gone: the holds end then, so that a
	// victim that never goes does not keep the nodes for ever.
	last := y.goneBy(places)
	for _, v := range all {
		at, gone := y.evictionTimes(v.Pod, v.payer, v.surge)
		e := api.Eviction{
			Pod: v.Key, UID: v.UID, Version: y.NextVersion(), Cause: v.cause, For: c.g.Key, To: v.to, Surge: v.surge,
			At: at, Until: gone.Add(s.m.Config.AssumeFor),
		}
		if e.Until.After(last) {
			last = e.Until
		}
		y.Plan.Evictions = append(y.Plan.Evictions, e)
		y.Remember(api.Change{Eviction: &e})
		s.m.MarkEvicting(v.Pod)
		// What stays until the next one runs is never missing, and so counts against no disruption budget.
		if !v.surge {
			y.disrupt(v.Pod)
		}
	}
	// Members that leave do not count for the minimum of their gang any more.
	for _, u := range victims {
		if g := u.of.Gang; g != nil {
			y.Retally(g)
		}
	}
	y.Wake(last)
	for _, h := range old {
		s.m.IgnoreHold(h)
		y.Forget(api.KindHold, h.Ref().Key, h.Version)
	}
	// All places end at the same time, whenever their own leavers are gone: the gang starts whole.
	for _, h := range places {
		h.Version, h.Until = y.NextVersion(), last
		s.m.PutHold(h, s.m.Nodes[h.Node])
		y.newHolds = append(y.newHolds, h)
		y.Remember(api.Change{Hold: h.Hold})
	}
	// Who looks for leavers later in the cycle finds these among them.
	//mutate: leavers-once -> true
	if y.leavers.known {
		for _, v := range all {
			y.noteLeaver(v.Pod)
		}
	}
}

// evictionTimes is when a pod of the queue that is evicted now is told to end, after the warning of its queue, and
// when it is expected to be gone: after its grace period and, if it waits for the next one to run, after the time
// that takes.
func (y *Cycle) evictionTimes(p *cluster.Pod, payer *cluster.Queue, surge bool) (at, gone time.Time) {
	at = y.Now
	if payer.Spec != nil {
		at = at.Add(payer.Spec.Warning)
	}
	gone = at.Add(y.m.TermsOf(p).Grace)
	if surge {
		gone = gone.Add(y.startsIn(p))
	}
	return at, gone
}

// goneBy is when those on their way out on the nodes of the places can be expected to be gone, and in any case long
// enough for a change to be seen (Config.AssumeFor). It is about leavers of before: what this plan evicts is added by evict.
func (y *Cycle) goneBy(places []*cluster.Hold) time.Time {
	last := y.Now.Add(y.m.Config.AssumeFor)
	// All places of the gang are held equally long: a gang starts whole, so that a place that is free early is of no
	// use alone.
	for _, h := range places {
		for _, p := range y.m.Nodes[h.Node].Pods {
			if p.Leaving() {
				last = later(last, y.leaverGone(p).Add(y.m.Config.AssumeFor))
			}
		}
	}
	return last
}

// leaverGone is when a pod that is on its way out is expected to be gone: by its own deletion, or by the eviction
// that was decided in an earlier cycle or in this one.
func (y *Cycle) leaverGone(p *cluster.Pod) time.Time {
	if p.Terminating {
		return p.ReleaseAt
	}
	// Until of an eviction is AssumeFor after the expected end: see evict.
	e := y.m.Evictions[p.Key]
	if e == nil {
		e = y.evictionOf(p.Key)
	}
	return e.Until.Add(-y.m.Config.AssumeFor)
}

// evictionOf returns the plan's eviction of the pod, which must have one. The index is extended by what was added to
// the plan since it was last asked for.
func (y *Cycle) evictionOf(pod string) *api.Eviction {
	if y.evictions == nil {
		y.evictions = make(map[string]int)
	}
	for i := len(y.evictions); i < len(y.Plan.Evictions); i++ {
		y.evictions[y.Plan.Evictions[i].Pod] = i
	}
	return &y.Plan.Evictions[y.evictions[pod]]
}

// Begins is when the gang would start on the nodes: now or, while it is tried out whom to evict for it, when the
// victims are expected to be gone, and those that are on their way out from these nodes. notice is how long the
// victims take.
//
// The calendar asks, since a gang that starts later may be in the way of a promised start that it would not meet if
// it started now.
//
// For example, at 12:00 a gang of an hour would evict a pod with a grace period of 5 minutes, and on one of its nodes a pod
// is being deleted that is gone at 12:08. notice is 5 minutes, it begins at 12:08, and it is over at 13:08. If it
// started now it would be over when these nodes are promised to another at 13:00; as it is, it would be in the way.
func (y *Cycle) Begins(g *cluster.Gang, nodes ...*cluster.Node) (at time.Time, notice time.Duration) {
	if y.pursued == nil || y.pursued.g != g {
		return y.Now, 0
	}
	for _, u := range y.pursued.units {
		if !u.taken {
			continue
		}
		for _, p := range u.pods {
			_, gone := y.evictionTimes(p, u.of.payer, u.surge)
			notice = max(notice, gone.Sub(y.Now))
		}
	}
	at = y.Now.Add(notice)
	for _, l := range y.takenOff {
		if slices.Contains(nodes, l.node) {
			at = later(at, y.leaverGone(l.pod))
		}
	}
	return at, notice
}

// later is the later of the two times.
func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
