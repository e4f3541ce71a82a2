package calendar

import (
	"slices"
	"time"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/quantity"
	"github.com/berth-dev/berth/engine/why"
)

// Promises. A blocked gang that is among the first in line is given a start time: the first end of running work after
// which it has a place. What is tried after it in the cycle may use its place only if it is over by then (reservation.go),
// so that a stream of small work neither waits for the large gang nor starves it.
//
// A promise is kept, where it can be: in the next cycle the gang is looked for at the same nodes and the same time first, and
// only where that fails anew. So a promise moves only when what it rests on did: a node went, work ran on for longer than
// it was believed to. Work that ran on is believed to go on for a while, each time for longer (overdue), so that promises
// behind it move a few times and not with every cycle.
//
// The life of a promise:
//
//	given     Promise finds no old one, foresee finds a time and nodes, give writes it into the plan
//	kept      stillHolds finds the same time on the same nodes: nothing is written, the room is reserved for the cycle
//	moved     what it rests on has changed: foresee again, give writes the new one with the old Since
//	unseen    the cycle has no lifts left: the old one stands without being looked at
//	fulfilled the gang starts (Started), at its promise or before it
//	dropped   the gang is gone, waits at a gate that no end of work opens, or fits at no time (drop)
//
// Two rules make promises hold together: room that is promised is not given to work that is still there when the promise
// is due (Breaks), and each promise is looked for beside those that were given before it in the cycle (keepOff, charge).
// What they cost is bounded by Config.Heads new promises in a cycle, and by promiseLifts.

// Passing says whether a gang waits at gates that open when running work ends, and at no others.
// Waiting for work to end helps against a full cluster, and does not against a missing queue or a
// node selector that matches nothing: a start time for such a gang would be a lie. Budgets are not
// among them, since no end of work gives back what is spent. One gate that no end opens is enough:
// a gang with a full cluster and an exhausted budget before it is promised nothing.
func Passing(gates []why.Gate) bool {
	return !slices.ContainsFunc(gates, func(g why.Gate) bool {
		switch g.Cause {
		case why.ClusterFull, why.Fragmented, why.TopologyFragmented, why.Stranded, why.SearchBudget, why.OverQueueLimit, why.OverUserLimit,
			why.QueueBusy, why.OverQuota, why.NotLent, why.KeptForPromise, why.KeptByBooking:
			return false
		}
		return true
	})
}

// ofQuota says whether a cause is about what the queues of a workload let it have.
func ofQuota(c why.Cause) bool {
	switch c {
	case why.OverQueueLimit, why.ExceedsQueueMaximum, why.OverUserLimit, why.QueueBusy, why.OverBudget, why.OverQuota, why.NotLent:
		return true
	}
	return false
}

// ofRoom says whether a cause is about nodes and what is promised on them.
func ofRoom(c why.Cause) bool {
	switch c {
	case why.ClusterFull, why.Fragmented, why.TopologyFragmented, why.Stranded, why.SearchBudget, why.KeptForPromise, why.KeptByBooking:
		return true
	}
	return false
}

// Promise gives the gang, which is blocked by the gates, a start time if it is among the first in
// line, must be promised one, or has one. It says whether it has one now.
//
// For example, 8 nodes are full, 4 of them until 14:00 and 4 until 18:00, and a gang needs 6. After
// the first end it has 4 nodes, after the second 8: it is promised 18:00, on 6 nodes. A pod of two
// hours that comes at 15:00 may have a node of the 4 that are free until 18:00 (backfill). One of
// four hours may only have a node that is not among the 6.
//
// The order of what is tried: the old promise as it is, then any time and place. A promise that
// holds costs a look at its own nodes; a new one costs the search of firstFit.
func (c *Calendar) Promise(g *cluster.Gang, t cluster.Turn, gates []why.Gate, must bool) bool {
	old := c.Standing(g)
	if !Passing(gates) {
		c.drop(old)
		return false
	}
	// At most Config.Heads blocked gangs are promised a start in a cycle, because each promise keeps room idle that others could
	// use. One that was promised before stays promised, also when it is not among the first any more: a promise is not taken back
	// for a newcomer.
	c.heads.blocked++
	if old == nil && !must && c.m.Config.Heads >= 0 && c.heads.blocked > c.m.Config.Heads {
		return false
	}
	// The future is played on the model itself, and rolled back: the gang gets the places that are held for it, running work is
	// taken off, queues are charged. A second model for the future would have to know every rule that a start is under.
	m := c.m.Mark()
	c.ask.Claim(g)
	defer c.m.Rollback(m)
	// A new promise is looked for without a view of its own (since is zero): what is late counts as late.
	var r *Reservation
	if old != nil {
		r = c.stillHolds(g, t, gates, old)
	}
	if r == nil && c.ask.CouldEver(g, t) {
		if r = c.foresee(g, t, c.allReleases(), nil, time.Time{}); r != nil {
			r.end = c.believedEnd(g, r.start)
		}
	}
	switch {
	case r != nil:
		c.give(r, old)
		return true
	case old == nil:
	// The cycle has lifted as many pods for promises as it may. That a promise was not looked at is no reason to break it.
	case c.exhausted(): // it stands, unseen
		c.draft.Plan.Promises = append(c.draft.Plan.Promises, *old)
		return true
	default:
		c.drop(old)
	}
	return false
}

// Withdraw drops the promise of the gang, if it has one. It is for gangs that cannot start for a
// reason that no end of work changes.
func (c *Calendar) Withdraw(g *cluster.Gang) { c.drop(c.Standing(g)) }

// TakeBack takes back what this plan promises the gang, of which some more starts now: a gang has one answer in a plan. It is promised the
// rest by the next one.
func (c *Calendar) TakeBack(g *cluster.Gang) {
	plan := &c.draft.Plan
	plan.Promises = slices.DeleteFunc(plan.Promises, func(p api.Promise) bool { return p.Gang == g.Key })
	plan.Changes = slices.DeleteFunc(plan.Changes, func(ch api.Change) bool { return ch.Promise != nil && ch.Promise.Gang == g.Key })
	c.drop(c.Standing(g))
}

// drop forgets the promise; nil: there is none.
func (c *Calendar) drop(p *api.Promise) {
	if p != nil {
		c.draft.Forget(api.KindPromise, p.Gang, p.Version)
	}
}

// Standing returns the promise that the gang was given, nil if there is none. A promise that was rejected is none, nor is one whose workload was not there when the cycle
// began.
func (c *Calendar) Standing(g *cluster.Gang) *api.Promise {
	if len(c.m.Promises) == 0 || !c.promised[g] || c.m.IsRejected(api.KindPromise, g.Key) {
		return nil
	}
	return c.m.Promises[g.Key]
}

// stillHolds looks whether the gang can start when and where it was promised, or there sooner; nil:
// it cannot. Only what runs there is looked at, unless it waits for its queue rather than for room.
// What is overdue there is over by then; see workEnd.
//
// That this is tried first is what keeps promises still. To look everywhere in each cycle would
// find another equally good place whenever something ends elsewhere, and everybody behind would be
// planned anew.
//
// For example, a gang was promised 18:00 on nodes n1 to n6, of which n2 is the last to be free and n5, at 17:30, the one
// before it. At 15:00 work on n9 ends early: the gang still fits on its own nodes at 18:00, and keeps them. At 17:00 the
// work on n2 ends early: the promise moves to 17:30, on the same nodes. At 17:20 n4 is taken out of the cluster: now all
// nodes are looked at.
func (c *Calendar) stillHolds(g *cluster.Gang, t cluster.Turn, gates []why.Gate, old *api.Promise) *Reservation {
	// A promise that is due and not kept is not late yet in this view: what should have ended is believed to end now.
	by := later(old.Start.UTC(), c.now)
	c.lookFrom(old.Since.UTC(), by)
	defer c.lookFrom(time.Time{}, time.Time{})
	var nodes []*cluster.Node
	for _, name := range old.Nodes {
		n := c.m.Nodes[name]
		// One node that is gone, or is of no use any more, is enough: a gang that fits on the others has a new place.
		if n == nil || n.Bucket == nil {
			return nil
		}
		nodes = append(nodes, n)
	}
	slices.SortFunc(nodes, cluster.ComparePlaces)
	releases := c.releasesOn(nodes, by)
	// Room on its nodes depends on what runs there. A limit of its queue depends on what runs anywhere in the queue, so then all
	// ends up to the promised start are looked at.
	if slices.ContainsFunc(gates, func(g why.Gate) bool { return !ofRoom(g.Cause) }) {
		releases = until(c.allReleases(), by)
	}
	r := c.foresee(g, t, releases, nodes, by)
	if r == nil || r.start.After(by) {
		return nil
	}
	if r.start.After(old.Start) { // it is due, and only what is overdue is in its way
		r.start = old.Start.UTC()
	}
	r.end = c.believedEnd(g, r.start)
	return r
}

// until is the part of the releases, which are in order, that are due by the time. Those at that
// time are due.
func until(releases []release, by time.Time) []release {
	end, _ := slices.BinarySearchFunc(releases, by, func(r release, by time.Time) int {
		if r.at.After(by) {
			return 1
		}
		return -1
	})
	return releases[:end]
}

// believedEnd is when the gang that is to start at the time gives its room back; zero: unknown. One that should have
// started by now is believed to start a while later, as work that is overdue is to end: so what is promised after it does
// not move with every moment.
func (c *Calendar) believedEnd(g *cluster.Gang, start time.Time) time.Time {
	d := c.runTime(g.Terms(), c.by)
	if d == 0 {
		return time.Time{}
	}
	if !start.After(c.now) {
		start = overdue(start, c.now)
		c.draft.Wake(start)
	}
	return start.Add(d)
}

// lookFrom lets work be judged as a promise of that time, which is due then, sees it; two zero
// times: as no promise sees it. Ends that were worked out before are of another view and are
// dropped.
func (c *Calendar) lookFrom(since, due time.Time) {
	c.since, c.due = since, due
	clear(c.ends)
}

// give enters the promise in the plan, and in memory if it is new or changed, and protects it in
// this cycle. A promise that moves keeps the time since when it has been given (Since): work that
// was let in beside it must still leave for it.
//
// For example, a promise was given at 12:00 for 16:00, and a pod that declares a run time of one hour and may be evicted
// was started beside it at 13:00. At 15:00 the promise moves to 17:00, and the pod is still there. It was let in after 12:00, so it counts as over
// (workEnd). With Since set to 15:00 it would look like work that was there first.
func (c *Calendar) give(r *Reservation, old *api.Promise) {
	var p api.Promise
	nodes := make([]string, 0, len(r.needs))
	for n := range r.needs {
		nodes = append(nodes, n.Name)
	}
	slices.Sort(nodes)
	// The same start on the same nodes is the same promise, word by word: it is not written again, and so a cycle in which nothing
	// changed writes nothing.
	//mutate: promise-of-other-nodes -> old != nil && old.Start.Equal(r.start)
	if old != nil && old.Start.Equal(r.start) && slices.Equal(old.Nodes, nodes) {
		p = *old
	} else {
		p = api.Promise{Gang: r.name, Version: c.draft.NextVersion(), Since: c.now, Start: r.start, Nodes: nodes}
		if old != nil {
			p.Since = old.Since
		}
		c.draft.Remember(api.Change{Promise: &p})
	}
	c.draft.Plan.Promises = append(c.draft.Plan.Promises, p)
	c.reserve(r)
	if r.start.After(c.now) {
		c.draft.Wake(r.start)
	}
}

// Started notes that the gang starts with the allocations since the mark: a promise that it had is kept.
func (c *Calendar) Started(g *cluster.Gang, m cluster.Mark) {
	if len(c.reservations) > 0 {
		c.settleHeadroom(g, c.m.AllocatedSince(m))
	}
	c.drop(c.Standing(g))
	c.reopen(g)
}

// Expire drops the promises of gangs that have started or are gone, and notes for whom the others
// stand. It is called once, when a cycle begins. A key can be that of a gang or of a pod by itself.
func (c *Calendar) Expire() {
	if len(c.m.Promises) == 0 {
		return
	}
	c.promised = make(map[*cluster.Gang]bool, len(c.m.Promises))
	for _, key := range cluster.SortedKeys(c.m.Promises) {
		if g := c.m.Gangs[key]; g != nil {
			c.promised[g] = true
		}
		if p := c.m.Pods[key]; p != nil && p.In != nil {
			c.promised[p.In] = true
		}
		if !c.waits(key) {
			c.draft.Forget(api.KindPromise, key, c.m.Promises[key].Version)
		}
	}
}

// waits says whether a workload of the key waits for more than room to grow.
func (c *Calendar) waits(key string) bool {
	if g := c.m.Gangs[key]; g != nil && g.Wants() && !(g.Known() && g.Tree.Satisfied() && g.Tree.Need() == 0) {
		return true
	}
	p := c.m.Pods[key]
	return p != nil && p.In != nil && p.In.Lone == p && p.Waits()
}

// foresee finds the first time at which the gang has a place, as the releases go, and the room that it takes there; nil:
// there is no such time. Nodes that are named (first) are taken first, and by is when it should fit, if that is known. The
// model is as before. When the room is given back (end) is for the caller to say, which knows whether the gang starts then
// or was promised to start before.
//
// When the time is found, the model is put into that future: what ends by then is gone, what is
// reserved for others then is taken, their queues are charged. The gang is placed there, and what
// it then takes, of nodes and of queues, is the reservation. So a reservation is made of the same
// rules as a start, and there is no second model of what a gang needs.
//
// For example, at 12:00 8 nodes are full, n1 to n4 until 14:00 and n5 to n8 until 18:00, and a gang of 6 nodes asks.
// There are two releases, and the search asks after none of them, after one and after both: it fits after both. The model
// is left with all 8 nodes empty. Of those, n1 is promised to another from 14:00 on: keepOff puts a hold on it. Place
// finds six of the seven others, and these with what the pods take there are the reservation, from 18:00 on.
//
// It is also how a forecast is made, for each workload in line.
func (c *Calendar) foresee(g *cluster.Gang, t cluster.Turn, releases []release, first []*cluster.Node, by time.Time) *Reservation {
	m, trying := c.m.Mark(), c.m.Trying
	c.m.Trying = true // no list of running workloads is asked for before it is rolled back
	defer func() {
		c.m.Rollback(m)
		c.m.Trying = trying
	}()
	// Taken before the future is played, because headroom compares what the queues use now with what they may use then.
	used := c.usedOf(g)
	// The time is found first, by counting, with a search over the ends (future.go). The place is chosen after that, once.
	//
	// A promise that is looked at again mostly fits after the releases up to its old time: firstFit begins there.
	x := &future{c: c, g: g, turn: t, releases: c.withMoments(releases)}
	var at time.Time
	//mutate: time-beyond-all -> first != nil
	ok := first != nil || !x.beyondAll()
	if ok {
		at, ok = x.firstFit(len(until(x.releases, by)))
	}
	if !ok {
		if c.m.HasRules() || len(c.reservations) > 0 {
			// More room may help less here: a pod that the gang must be near may leave, or another gang was promised a start.
			// So an end that turns out to be later can let the gang fit before it.
			//mutate: time-no-promise-wakes
			c.wakeAtFirst(x.releases)
		}
		return nil
	}
	//mutate: time-promise-wakes
	c.wakeAtFirst(x.releases[:len(x.marks)])
	w := c.stay(g, at)
	c.keepOff(w)
	c.charge(w, 1)
	// Deferred calls run last first: the charges of others are taken back before the model is. They are not in the journal,
	// so that a rollback would leave them.
	defer c.charge(w, -1)
	// The model is in the future now. What the gang is given from here on is what has to be kept for it.
	places := c.m.Mark()
	if !c.ask.Place(g, t, first) {
		return nil
	}
	r := c.reservationOf(g, at, c.m.AllocatedSince(places))
	r.headroom = c.headroomOf(g, used)
	r.after = x.lastToEnd()
	return r
}

// reservationOf is the room that the gang takes from the given time on, of nodes and of queues, with its pods, which have been
// placed. What follows from the future that they were placed in, headroom and after, is for the caller to add.
func (c *Calendar) reservationOf(g *cluster.Gang, at time.Time, pods []*cluster.Pod) *Reservation {
	r := &Reservation{gang: g, name: g.Key, start: at, needs: make(map[*cluster.Node]quantity.Vector)}
	for _, p := range pods {
		v := r.needs[p.Host]
		for _, d := range p.Demands {
			v.Add(d.Dim, d.Amount)
		}
		// A gang that has its nodes to itself needs all their GPUs kept, whether it uses them or not. The sum is set, not
		// added to: each of its pods on the node comes to the same.
		if g.Whole && v.At(quantity.DimGPU) > 0 {
			v.Add(quantity.DimGPU, p.Host.Spec.Allocatable.Get(c.m.Config.GPU)-v.At(quantity.DimGPU))
		}
		r.needs[p.Host] = v
		if kept := p.Host.KeptBy(p); kept != nil {
			if r.cards == nil {
				r.cards = make(map[*cluster.Node][]cluster.Kept)
			}
			r.cards[p.Host] = append(r.cards[p.Host], kept...)
		}
		//mutate: time-promise-devices
		if devices := p.Host.OffersOf(p); devices != nil {
			if r.devices == nil {
				r.devices = make(map[*cluster.Node][]string)
			}
			r.devices[p.Host] = append(r.devices[p.Host], devices...)
		}
	}
	if c.m.HasRules() {
		// With rules between pods it matters which pods will be there, and not only how many. Without any the list is not
		// needed.
		r.pods = make(map[*cluster.Node][]*cluster.Pod)
		for _, p := range pods {
			r.pods[p.Host] = append(r.pods[p.Host], p)
		}
	}
	r.charges = chargesOf(pods)
	for _, p := range pods {
		r.surplus += p.Surplus()
	}
	return r
}

// wakeAtFirst wakes when the first of the releases that are yet to come is due: what has not ended by then ends later than
// was thought, and so does what waits for it.
func (c *Calendar) wakeAtFirst(releases []release) {
	if i := slices.IndexFunc(releases, func(r release) bool { return r.at.After(c.now) }); i >= 0 {
		c.draft.Wake(releases[i].at)
	}
}

// usedOf is what the queues that the gang is charged to use now, the lowest first: copies, in the
// order in which headroomOf walks up.
func (c *Calendar) usedOf(g *cluster.Gang) []quantity.Vector {
	var out []quantity.Vector
	for q := c.m.Queues[g.Queue()]; q != nil; q = q.Parent {
		out = append(out, slices.Clone(q.Used))
	}
	return out
}

// headroomOf works out, with the gang placed when it starts, by how much its queues may use more
// than they did. One entry for each limit of each queue from the gang's own up.
//
// For example, a queue has a limit of 16 GPUs and uses 12. When the gang starts 8 of these will
// have ended, and it takes 10: 14 are used then, and 2 are left. So until then the queue may use 12
// + 2 = 14: what starts now and stays longer than that may take 2 more GPUs.
func (c *Calendar) headroomOf(g *cluster.Gang, used []quantity.Vector) []headroom {
	var out []headroom
	i := 0
	for q := c.m.Queues[g.Queue()]; q != nil; q = q.Parent {
		if q.Spec != nil {
			for _, limit := range q.Spec.Limits {
				dim, most := c.m.Booked(limit)
				// q.Used is the queue's use in that future, with the gang in it; most minus that is what it could use beyond;
				// added to what it uses now, that is the most it may use until then.
				out = append(out, headroom{q, dim, used[i].At(dim) + most - q.Used.At(dim)})
			}
		}
		i++
	}
	return out
}
