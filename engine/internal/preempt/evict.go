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

// Claims: whether work is evicted for a gang, and what is planned then. A gang that has found no place goes through these
// steps, in the order of their cost. Each of the first three can prove that the steps after it would find nothing, so that
// most claims end there:
//
//  1. Others that asked the same have failed, and nothing has changed since (memo.go): nothing is evicted. It costs a few
//     comparisons.
//  2. All that could be evicted for it would free too little, by sums (bound.go): nothing is evicted. It costs an addition
//     for each queue.
//  3. The units that the rules allow to be evicted for it are listed (legal.go), and the places held for others that it
//     may have (holds.go). If there are none of either, nothing is evicted. It costs a look at each candidate.
//  4. On the model, pods that are on their way out are taken off their nodes. If that is enough, the place is held
//     for it. One trial.
//  5. Otherwise victims are searched for (search.go): first with what is held for others left as it is, then without
//     it, and last with lower priorities of its own queue among the units, where these were spared before. Hundreds
//     of trials.
//  6. The victims are evicted, and the place that the gang found is held for it until they are gone.
//
// For example, queue a is owed 8 GPUs, and every node of the cluster is full. Nodes n1 and n2 run a pod of 8 GPUs
// each of borrower b, and the pod on n1 is being deleted. Step 4 finds that n1 will do once that pod is gone: nothing
// is evicted, and n1 is held for a. Were the pod on n1 not being deleted, step 5 would find both, and evict the one
// that loses less work. Until it is gone the gang is told that room is being made for it.
//
// A claim reads the model, the candidates and the memos, and all of its trials are rolled back. Only its result is entered:
// victims count as leaving and places as held, in the model of this cycle and in the plan, for every gang whose turn comes
// later.

// Outcome is what has been done for a gang without a place.
type Outcome uint8

const (
	Nothing  Outcome = iota // no workload is evicted for it
	Evicting                // pods are on their way out for it, by this plan or an earlier one, and it waits for them
	Freed                   // it was given a place that had been held for another, and can start in this cycle
)

// MakeRoom looks for work that may be evicted for the gang, which has no place because of the gates. If there is some, the
// plan evicts it and holds the place. Under policy fifo no workload is evicted for another. The model is changed only where
// victims were found, or places of others given up: then victims count as leaving, and the holds as made.
func (y *Cycle) MakeRoom(g *cluster.Gang, t cluster.Turn, gates []why.Gate) Outcome {
	if y.m.Config.Policy == api.FIFO || !y.curable(gates) {
		return Nothing
	}
	y.findFreeing()
	// Where no further workload is evicted the outcome is that of awaits and not Nothing: others may be on their way out for
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
	// Nothing may be evicted, no place of others may be had, and nothing that leaves is the claimant's by right.
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

// awaits is the outcome for a gang for which no further workload is evicted: Evicting while pods are on their way out for
// it since before, and otherwise Nothing. findFreeing must have been called.
func (y *Cycle) awaits(g *cluster.Gang) Outcome {
	if y.freeing[g.Key] {
		return Evicting
	}
	return Nothing
}

// entitled says whether the claimant would have been allowed to evict some of the pods that are on their way out already.
// What they leave is then held for it, before their replacements come.
//
// For example, queue a is owed 8 GPUs, and the only borrower, with 8, is being drained off its node. There is nothing left
// to evict. Without a hold the borrower's next pod might be placed there first, and would have to be evicted again.
func (c *claim) entitled() bool {
	c.y.findLeavers()
	if len(c.y.leavers.free) == 0 {
		return false
	}
	// A claimant within its quota may take from any borrower, and a leaver of its own queue it outranks by priority.
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
// A later attempt is only made where the one before failed. So a claimant that is owed quota evicts nothing of its own
// queue while others will do (scenario reclaim-before-preempting).
func (y *Cycle) pursue(c *claim, kind claimKind) Outcome {
	y.findLeavers()
	found, ok := c.attempt()
	// Asking by share is of use only where asking by quota was tried and failed: otherwise find has listed by share
	// already.
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
	// The place that was found is the one that is held for it already: it waits for the pods that are leaving it.
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
	// The place of another may be free already, and only have been kept for it. Then the gang need not wait for any pod to
	// end, and starting it in this cycle saves a round of holding the place and finding it again.
	if len(found.lost) > 0 && len(found.victims) == 0 && !y.emptying(found.places) && y.startsAtOnce(c) {
		return Freed
	}
	// Without victims, what is on its way out already will do. It is held, since otherwise the replacements of what was
	// evicted before would take it.
	y.evict(c, found.victims, found.places, found.old)
	return Evicting
}

// attempt tries the claim out: first with what is held for others left as it is, then without it. A place that is
// held for another was made by an eviction, so it is taken only where nothing else helps.
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

// way is how a claim is met: what is evicted, and what is held where. Nothing of it is entered yet.
type way struct {
	// victims is in the order of compareUnits; nil where what leaves anyway is enough.
	victims []*unit
	// places is what is held for the claimant from now on, and for what is moved for it; not in the model yet.
	places []*cluster.Hold
	// old is what was held for the claimant before, and is replaced by places.
	old []*cluster.Hold
	// lost is what was held for others and is given up.
	lost []*cluster.Hold
}

// try tries the claim out on the model, with the given places of others ignored. Everything that it does to the model is
// undone when it returns; found names units, nodes and amounts, which mean the same afterwards.
//
// Inside, the model is a cluster in which leavers are gone and the gang has its own holds. While it is in that state other
// packages ask about it by way of y.pursued: quotas whether the right that the victims were chosen by still holds (Rights),
// the calendar when the gang would begin (Begins).
//
// It costs a trial where what leaves anyway is enough, and otherwise a search.
func (c *claim) try(without []*cluster.Hold) (found way, ok bool) {
	y := c.y
	c.lookAround()
	// Trying says that all changes are rolled back before the lists of candidates are next asked for, so that the model
	// notes none of them (Queue.Changes).
	y.m.Trying, y.pursued = true, c
	defer func() { y.m.Trying, y.pursued, y.returning, y.takenOff = false, nil, nil, nil }()
	y.Trial(c.g, func(own []*cluster.Hold) {
		found.old = own
		for _, h := range without {
			y.m.IgnoreHold(h)
		}
		gates := y.Gates(c.g)
		// Leavers are taken off first, because nothing is evicted for room that is about to be there. Where a limit of
		// the queue is shut, leavers without GPUs count too: they still use up the limit. Where holds of its own or of
		// others are out of the way, leavers under them count too: what they leave is not spoken for any more.
		y.takeOffLeavers(c.gpus > 0 && len(gates) == 0 && len(own)+len(without) == 0)
		if len(gates) > 0 {
			gates = y.Gates(c.g)
		}
		c.gated = len(gates) > 0
		c.prepare()
		// If those that leave anyway make room enough, no victim is needed, and the place is held.
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

// startsAtOnce says whether the claimant can start while all leavers are still there, now that places of others were given
// up for it. A leaver on another node may still count in its queue, or be one that a rule keeps it apart from (scenario
// outbid-before-a-leaver-is-gone). try has answered a different question, with all leavers gone.
func (y *Cycle) startsAtOnce(c *claim) (ok bool) {
	y.Trial(c.g, func([]*cluster.Hold) {
		ok = len(y.Gates(c.g)) == 0 && y.StartsBeside(c.g, c.t)
	})
	//mutate: outbid-starts-at-once -> true
	return ok
}

// emptying says whether pods are on their way out on one of the nodes of the places.
func (y *Cycle) emptying(places []*cluster.Hold) bool {
	return slices.ContainsFunc(places, func(h *cluster.Hold) bool {
		return slices.ContainsFunc(y.m.Nodes[h.Node].Pods, (*cluster.Pod).Leaving)
	})
}

// enough says whether there would be GPUs enough in all if all units were gone, and all that leaves. It is one sum over all
// nodes, wherever the GPUs are, and costs an addition for each unit. Where it is false no set of units would do; where it is
// true little is known. Most hopeless claims end here. A gang that asks for no GPUs passes.
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

// mayClaim says whether others may be evicted for the gang by now. A patient gang never has others evicted; one with a
// delay may once it has waited for that long, and the next cycle is due then at the latest.
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

// findFreeing finds, once in a cycle, the workloads that others are on their way out for: those that evictions name, if
// something is held for them still, and those with a held place that is free once the leavers of its node have left. It
// costs a look at each eviction and at the pods of each node on which something is held. The result is a set, so that the
// order of the maps does not count.
func (y *Cycle) findFreeing() {
	if y.freeing != nil {
		return
	}
	s := y.Candidates
	y.freeing = make(map[string]bool)
	// Without a hold the eviction was for a place that another has been given since.
	for key, e := range s.m.Evictions {
		if p := s.m.Pods[key]; p != nil && p.Evicting && len(s.m.HoldsOf[e.For]) > 0 {
			y.freeing[e.For] = true
		}
	}
	// The pods that leave a held place need not have been evicted for it: a place may be held where pods ended anyway.
	for _, h := range s.m.Holds {
		if h.On != nil && slices.ContainsFunc(h.On.Pods, (*cluster.Pod).Leaving) && y.comesFree(h) {
			y.freeing[h.Gang] = true
		}
	}
}

// comesFree says whether the held place is free once the leavers of its node have left. It may not be: a victim could not
// be evicted (scenario held-though-a-victim-stays), or the node has lost GPUs. All holds of the node count together, so that
// the answer may be no because of another hold.
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

// newClaim makes a claim for the gang, with the least that its minimum needs. No unit is legal for it until find is called.
// It costs a look at each member that waits.
func (y *Cycle) newClaim(g *cluster.Gang, t cluster.Turn) *claim {
	s := y.Candidates
	c := &claim{y: y, g: g, t: t, q: y.queueOf(g)}
	c.findNeeds()
	c.unrated = c.needs.At(quantity.DimGPU)
	// A queue may have quota for some models or flavors only, and which of them the gang gets is not known yet. So
	// all that it could get are among the dimensions in which others may hold too much.
	for _, dim := range s.m.Tree.PromisedDims {
		if c.needs.At(dim) > 0 || c.needs.At(quantity.DimGPU) > 0 && strings.HasPrefix(s.m.Dims.Names[dim], s.m.Config.GPU+"@") || c.inFlavor(dim) > 0 {
			c.dims = append(c.dims, dim)
		}
	}
	c.own = y.m.OwnHeld(g)
	// Rates make GPUs of some models count more in quotas. Which model the claimant gets is not known yet, so the
	// cheapest is assumed: withinRights asks again once it has a place.
	if c.unrated > 0 && len(s.m.Config.Rates) > 0 {
		c.needs[quantity.DimGPU] = c.unrated * y.LeastRate()
	}
	return c
}

// queueOf is the gang's queue; those of none share one.
func (y *Cycle) queueOf(g *cluster.Gang) *cluster.Queue {
	if q := y.m.Queues[g.Queue()]; q != nil {
		return q
	}
	return &y.m.Unqueued
}

// findNeeds sets needs, as queues count them and before rates, and gpus, as nodes count them.
//
// A plain question is that of like members: what one of them needs, times how many must start, is what the gang
// needs. Of unlike members it is the least that any choice of them for the minimum would need, for each resource by
// itself; no choice need reach all of these at once, so needs is a bound from below.
//
// For example, 2 of 3 members must start; one asks for 8 GPUs and 1 CPU, one for 1 GPU and 16 CPUs, one for 4 of
// each. The needs are 5 GPUs (1 + 4) and 5 CPUs (1 + 4), which no two of them ask for together. A right that is
// denied with these needs is denied with any choice; one that is granted is looked at again once there is a place
// (withinRights).
func (c *claim) findNeeds() {
	m := c.y.m
	plain, alike := c.y.Question(c.g, c.t)
	for _, p := range c.g.All() {
		switch {
		case p.Host != nil || p.Terminating:
			continue
		case alike: // the first one says it for all
			for _, d := range m.AllCounts(p) {
				c.needs.Add(d.Dim, d.Amount*int64(plain.Need))
			}
			c.gpus = p.Amount(quantity.DimGPU) * int64(plain.Need)
			return
		}
		// Each member adds the resources that none before it asked for.
		for _, d := range m.AllCounts(p) {
			if c.needs.At(d.Dim) == 0 {
				c.needs.Add(d.Dim, max(0, m.Least(c.g, d.Dim)))
			}
		}
	}
	if !alike {
		c.gpus = c.g.Tree.Least(func(p *cluster.Pod) int64 { return p.Amount(quantity.DimGPU) })
	}
}

// inFlavor is the least that the claimant asks for of the resource that the dimension is a flavor of, if its queue counts
// that flavor; otherwise 0. Of GPUs it is what they count before rates, since a quota of a flavor counts GPUs and not what
// they are worth (scenario idle-by-flavor-and-rate).
func (c *claim) inFlavor(dim int) int64 {
	of, ok := c.q.FlavoredDim(dim)
	switch {
	case !ok:
		return 0
	case of == quantity.DimGPU:
		return c.unrated
	}
	return c.needs.At(of)
}

// prepare gets the claim ready for an attempt: whether counting alone decides it, and how its classes are made. It is
// called within the trial, with the gang's own holds given back, since classes are asked for as the model is then. No unit
// is lifted at this point, because what an attempt before lifted has been rolled back.
func (c *claim) prepare() {
	y := c.y
	// The rollback does not reach units and counts.
	for _, u := range c.units {
		u.taken = false
	}
	clear(c.disruption.of)
	clear(c.disruption.kept)
	c.first, c.alike = c.g.Alike()
	kins, apart := y.Kins(c.g, c.t)
	c.kins, c.alike = kins, c.alike && !apart
}

// settle places the gang with its victims lifted, and returns what is to be held where. It is false where a limit is shut,
// where the place would break a promise, or where with its GPU model the claimant would exceed the quota or share that the
// claim rests on. The model is as before afterwards: holds are made by evict.
//
// It is the last word on a set, and asks everything again that has been asked before on less knowledge: gates with the
// victims gone, rights with the GPU model that the gang really gets, promises with the nodes that it is on. It costs a
// placement and, for a move, one more for each unit that is lifted.
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
	pods := y.m.AllocatedSince(m)
	out := y.holdsFor(c.g.Key, pods)
	if !c.moving {
		//mutate: rivals
		if c.losesTo(pods) {
			return nil, false
		}
		return out, true
	}
	if !c.rehomed(true) {
		return nil, false
	}
	return joinHolds(append(out, c.newPlaces()...)), true
}

// newPlaces makes the holds that keep the places of lifted units for the pods that replace theirs, and notes in each unit
// where its pods go (unit.to). It must be called while the pods have those places, after rehome and before the rollback.
//
// Coming keeps such a hold although no pod waits for it: the pod that it is for exists only once its owner has made it.
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

// joinHolds joins the holds for one workload on one node, in the order in which each first appears: the model keeps one for
// each key and node. Several arise where two replicas of one owner move to the same node, since both are held for under the
// key of the owner.
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

// takes is everything that the pod takes of its node, in the units of nodes, and by name of the resource. The number of
// pods is one of the resources.
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

// within says whether the claimant's queues, as far up as reach, hold no more than their part of those dims that are
// charged. It is asked with the gang, or its places, in the accounts.
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

// charges says whether some member of the gang is charged the dimension. It is asked with the gang placed, so that the GPU
// model and flavor of the charge are known.
func (c *claim) charges(dim int) bool {
	return slices.ContainsFunc(c.g.All(), func(p *cluster.Pod) bool {
		return p.Host != nil && slices.ContainsFunc(p.Charge, func(d quantity.Demand) bool { return d.Dim == dim })
	})
}

// evict plans the evictions, and holds the places until the victims can be expected to be gone. From here on victims
// count as leaving and the places as held, for every gang that comes later in the cycle. Evictions are in the order
// of their pods' keys, so that equal plans have equal versions. victims may be empty: then only the places are held.
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
	s, all := y.Candidates, c.victims(victims)
	y.underWay()
	// last is when the last of the pods that are in the way can be expected to be gone: the holds end then, so that a
	// victim that never goes does not keep the nodes for ever.
	last := y.goneBy(places)
	for _, v := range all {
		last = later(last, y.planEviction(v, c.g.Key))
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
	// If leavers were not looked for yet in this cycle, findLeavers will find the victims among them.
	//mutate: leavers-once -> true
	if y.leavers.known {
		for _, v := range all {
			y.noteLeaver(v.Pod)
		}
	}
}

// victim is a pod that is evicted, with what its unit says about that.
type victim struct {
	*cluster.Pod
	cause api.EvictionCause
	payer *cluster.Queue
	// to is the name of the node on which a place is held for the pod that replaces it, "" but in a move.
	to    string
	surge bool
}

// victims takes the units apart into pods, by key: evictions are of pods, in an order that does not depend on units.
func (c *claim) victims(units []*unit) (all []victim) {
	for _, u := range units {
		for i, p := range u.pods {
			v := victim{Pod: p, cause: u.cause, payer: u.of.payer, surge: u.surge}
			if c.moving {
				v.to = u.to[i]
			}
			all = append(all, v)
		}
	}
	slices.SortFunc(all, func(a, b victim) int { return strings.Compare(a.Key, b.Key) })
	return all
}

// planEviction enters the eviction of the pod, for the workload with the key, in the plan and in the model, and returns how
// long it counts: until AssumeFor after the pod is expected to be gone.
func (y *Cycle) planEviction(v victim, key string) (until time.Time) {
	at, gone := y.evictionTimes(v.Pod, v.payer, v.surge)
	e := api.Eviction{
		Pod: v.Key, UID: v.UID, Version: y.NextVersion(), Cause: v.cause, For: key, To: v.to, Surge: v.surge,
		At: at, Until: gone.Add(y.m.Config.AssumeFor),
	}
	y.Plan.Evictions = append(y.Plan.Evictions, e)
	y.Remember(api.Change{Eviction: &e})
	y.m.MarkEvicting(v.Pod)
	// A pod that stays until its replacement runs is never missing, and so counts against no disruption budget.
	if !v.surge {
		y.disrupt(v.Pod)
	}
	return e.Until
}

// evictionTimes is when a pod of the queue that is evicted now is told to end (at), after the warning of its queue, and
// when it is expected to be gone (gone): after its grace period and, if it waits for its replacement to run, after the time
// that this may take.
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

// goneBy is when the pods that are on their way out on the nodes of the places can be expected to be gone, and in any case
// long enough from now for a change to be seen (Config.AssumeFor). It knows the leavers of before: evict adds its own.
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
// that was decided in an earlier cycle or in this one. One of them must be there. The time may be past.
func (y *Cycle) leaverGone(p *cluster.Pod) time.Time {
	if p.Terminating {
		return p.ReleaseAt
	}
	// Until of an eviction is AssumeFor after the expected end: see evict.
	e := y.m.EvictionOf(p)
	if e == nil {
		e = y.evictionOf(p.Key)
	}
	return e.Until.Add(-y.m.Config.AssumeFor)
}

// evictionOf returns the plan's eviction of the pod, by key, which must have one. The plan grows at its end only, so the
// index is extended by what was added since it was last asked for.
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
