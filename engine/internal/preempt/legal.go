package preempt

import (
	"slices"
	"time"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/place"
	"github.com/berth-dev/berth/engine/internal/quantity"
)

// Legality: which units may be evicted for a claimant, and by what right. It is judged unit by unit, as accounts stand
// before any unit is lifted. Whether a whole set of legal units is more than the claimant has a right to shows only once it
// has a place, and is asked then (withinRights).
//
// For example, queue a has a quota of 16 GPUs and holds 8, its neighbour b has a quota of 8 and holds 16, in two
// workloads of 8 GPUs that started at 9:00 and at 10:00. A gang of a asks for 8 GPUs. a is within its quota with it
// (8 + 8 <= 16), so it may reclaim what the quota of b does not cover: the workload of 10:00. If a had a quota of 8
// it could reclaim nothing, and only lower priorities of a itself would be legal.

// There are five reasons for which work may be evicted for another, tried from the strongest to the weakest. A unit
// keeps the first reason that applies, which becomes the cause of its eviction:
//
//   - Reclaimed: its queue holds more than its quota, and the claimant's queue is within its own.
//   - Shared: the same with fair shares, under the timeshare policy.
//   - Overran: it started after the claimant was promised its start, and runs longer than its author said.
//   - Idled: its GPUs were measured to do nothing for longer than its queue allows.
//   - Preempted: it is in the claimant's own queue and of a lower priority.
//
// Whatever the reason, some units are never legal (takeUnit): those of a frozen queue, those that have not run for their
// minimum run time, those that could not be evicted a short time ago, and those under budgets that must be kept.
//
// Evictions must not go in circles. Each reason is therefore a relation that the victim cannot have to the claimant in
// return: what is above quota or share does not get back what is within; a lower priority does not get back what a higher
// one has. Overrunning and idleness say nothing about quotas, so that takesBack asks for them.

// claim is a gang that looks for work of others to be evicted for it. It is made in MakeRoom or MoveFor and dropped at the
// end.
//
// Amounts of needs and own are as accounts count them, with GPUs in thousandths and at the rates of models; gpus is
// in whole GPUs of nodes.
type claim struct {
	y *Cycle
	// g and t are the gang and its turn. Tidy moves work for no gang, and claims for an empty one.
	g *cluster.Gang
	t cluster.Turn
	// q is the queue that the gang is charged to; Model.Unqueued: none.
	q *cluster.Queue
	// gpus is the least number of whole GPUs that the minimum of the gang takes of nodes.
	gpus int64
	// unrated is the GPUs in needs before the rates of models, parts of GPUs included.
	unrated int64
	// needs is the least that the gang asks for, as queues count it. What it really takes is known once it has a
	// place.
	needs quantity.Vector
	// own is what is held for the gang, and counts in its queues already; nil: nothing.
	own quantity.Vector
	// dims is those dimensions of what the gang asks for of which some queue has quota. Every GPU model and flavor that
	// the gang might get is among them.
	dims []int
	// id is the number of the claim; 0: find was not called yet. A unit is legal for the claim if unit.claim equals it.
	id uint64
	// units is what is legal to evict, in no order that matters: whatever needs an order sorts a copy.
	units []*unit
	// theirs is the places held for others that the claimant may have (holds.go), by key.
	theirs []*cluster.Hold
	// rights is the right to each of theirs.
	rights map[*cluster.Hold]right

	// alike says that counting alone decides whether the gang has a place; first is then one of its members. kins is the
	// ways to make classes of its members, one for each GPU model and flavor. prepare sets them.
	alike bool
	first *cluster.Pod
	kins  []place.Kin

	// owed says that its queue is within quota with it, so that it may reclaim.
	owed bool
	// sharing is how far up its queues are within their fair share with what they hold now (sharesKept).
	sharing int
	// preempts says that lower priorities of its own queue are among the units.
	preempts bool
	// gated says that limits of its queue keep it out too, with all leavers gone.
	gated bool
	// renounced says that what could be reclaimed is left out (attemptByShare).
	renounced bool
	// moving says that its units are moved: each must have another place.
	moving bool
	// settling says that settle is being asked whether the claimant may have the place. Quotas are then asked for the
	// right that the victims were chosen by, and not for the least that the gang needs (Settles).
	settling bool
	// disruption is that of the units that are lifted, or counted as gone.
	disruption disruption
	// asks is the kind of the claim, and plain whether others can be just like it. lookAround notes both for findWaiting, before the claim
	// is tried out.
	asks  claimKind
	plain bool
	// over is the fair share for which a place that was found was given up; the zero value: none was.
	over OverShare
}

// find lists the units that are legal to evict for the claim, and the places of others that it may have. What was listed
// before is dropped. Where a unit will become legal at a known time, the next cycle is due then at the latest (Wake). It
// costs a look at each unit that the claimant has a right against; cuts spare it the candidates that quota covers.
func (c *claim) find() {
	s := c.y.Candidates
	// The number of the claim marks its units, so that nothing has to be reset when the next claim looks at the same
	// ones.
	s.claims++
	c.id, c.units, c.owed, c.preempts = s.claims, c.units[:0], false, false
	c.sharing = c.sharesKept()
	if c.q != &s.m.Unqueued {
		if !c.renounced {
			c.reclaim()
		}
		c.share()
	}
	c.overrun()
	c.idle()
	c.theirs = c.outbid()
	// The claimant's own queue comes last. A claimant whose queue is owed quota takes it back from borrowers, and the other
	// workloads of the queue, which have as much right to the quota, keep what they have.
	if !c.owed || len(c.units) == 0 {
		c.preempt()
	}
}

// preempt makes legal what is of a lower priority in the claimant's own queue. A claimant that can ask its quota back
// from others does that first, since its own queue has quota for both.
//
// Under timeshare a queue that is within its fair share must stay within it (sharing). Otherwise the claimant would be
// evicted in turn for a workload that waits for its share, the victim would ask for its place again, and so on for ever
// (scenario share-kept-by-preempting).
func (c *claim) preempt() {
	c.preempts = true
	// The model keeps count of priorities by queue, so the common case is one comparison and no list is made.
	if !c.q.Outranks(c.t.Priority) {
		return
	}
	all := c.y.runningOf(c.q)
	// The list is in the order of priority, the highest first. The loop ends at the first workload that is not lower.
	for i := len(all) - 1; i >= 0 && all[i].priority < c.t.Priority; i-- {
		if !all[i].promoted() {
			c.take(all[i], api.Preempted, -1)
		}
	}
}

// reclaim makes legal what queues hold above their quota, as far up as the claimant's own queue is within its quota.
//
//	root
//	+- research  (quota 32)      reach 1: research asks product
//	|  +- vision (quota 16)      reach 0: vision asks speech
//	|  `- speech (quota 16)
//	`- product   (quota 32)
//
// If vision is within 16 GPUs with the claimant, it may ask speech for what speech holds beyond 16. If research is
// also within 32, it may ask product. The right to a unit of product rests on both, which is what reach records.
func (c *claim) reclaim() {
	if len(c.dims) == 0 {
		return
	}
	reach := 0
	// Invariant: all queues below x, on the way up from the claimant's own, are within quota with the claimant.
	for x := c.q; x != nil && c.fitsIn(x, c.y.m.Quota); x = x.Parent {
		for _, z := range c.y.siblings(x) {
			if z != x {
				c.uncovered(z, c.dims, c.y.m.Quota, api.Reclaimed, reach)
			}
		}
		reach++
	}
	c.owed = reach > 0
}

// share makes legal what queues hold above both their fair share and their quota, as far up as the claimant's own
// queue is within its share. It walks as reclaim does. It lists nothing but under timeshare.
func (c *claim) share() {
	dims := c.sharedDims()
	reach := 0
	for x := c.q; x != nil && len(dims) > 0 && c.fitsShare(x, dims); x = x.Parent {
		for _, z := range c.y.siblings(x) {
			if z != x {
				c.uncovered(z, dims, shareOrQuota, api.Shared, reach)
			}
		}
		reach++
	}
}

// sharesKept is how far up the claimant's queues are within their fair shares with what they hold now, and stay so
// when the claimant takes the place of another workload of its queue: 0 its own queue, 1 the parent too; -1: not at all, or
// there are no shares.
func (c *claim) sharesKept() int {
	dims, reach := c.sharedDims(), -1
	if len(dims) == 0 || c.q == &c.y.m.Unqueued {
		return reach
	}
	// What the queues have now is compared, without the claimant's needs: it takes the place of another of its own
	// queue, and the sum stays the same.
	//mutate: share-kept
	for x := c.q; x != nil; x = x.Parent {
		if slices.ContainsFunc(dims, func(dim int) bool { return x.Committed(dim) > x.Fair.At(dim) }) {
			break
		}
		reach++
	}
	return reach
}

// sharedDims lists the dimensions of the claimant's needs that there are fair shares of; nil but under timeshare. What
// there are no shares of, such as network adapters, keeps no claimant from asking for its share of the rest.
func (c *claim) sharedDims() []int {
	if c.y.m.Config.Policy != api.TimeShare || c.q.Fair == nil {
		return nil
	}
	dims := make([]int, 0, len(c.y.m.Tree.Shared))
	for _, dim := range c.y.m.Tree.Shared {
		if c.needs.At(dim) > 0 {
			dims = append(dims, dim)
		}
	}
	return dims
}

// fitsShare says whether the queue is within its fair share with what the claimant asks for, in each of the dims, which are
// of sharedDims.
func (c *claim) fitsShare(q *cluster.Queue, dims []int) bool {
	for _, dim := range dims {
		// What is held for the claimant counts in Committed already, and is subtracted so that it does not count
		// twice.
		if q.Committed(dim)-c.own.At(dim)+c.needs[dim] > q.Fair.At(dim) {
			return false
		}
	}
	return true
}

// fairShare is the queue's fair share of the dimension, as accounts count it. Package queue works shares out for each cycle.
func fairShare(q *cluster.Queue, dim int) int64 { return q.Fair.At(dim) }

// shareOrQuota is the amount below which nothing is taken from a queue for a share. Where quotas promise more than there
// is, a share can be less than the quota, and what was taken below the quota would be reclaimed.
func shareOrQuota(q *cluster.Queue, dim int) int64 { return max(q.Fair.At(dim), q.Quota.At(dim)) }

// fitsIn says whether the queue is within its part with what the claimant asks for, in every dimension of its needs that
// some queue has quota of. GPU models and flavors are not asked, since it is not known which of them the gang gets:
// withinRights asks for them.
func (c *claim) fitsIn(q *cluster.Queue, part func(*cluster.Queue, int) int64) bool {
	for _, dim := range c.dims {
		if c.needs.At(dim) > 0 && q.Committed(dim)-c.own.At(dim)+c.needs.At(dim) > part(q, dim) {
			return false
		}
	}
	return true
}

// siblings lists the queues with the same parent, by name, itself among them.
func (s *Candidates) siblings(q *cluster.Queue) []*cluster.Queue {
	if q.Parent != nil {
		return q.Parent.Children
	}
	return s.m.Tree.Top
}

// uncovered makes legal the units of the queue, and of those below it, that the queue's part of the dims does not cover.
func (c *claim) uncovered(z *cluster.Queue, dims []int, part func(*cluster.Queue, int) int64, cause api.EvictionCause, reach int) {
	if x := c.y.cutOf(z, dims, part, cause == api.Shared); x != nil {
		for _, u := range x.units {
			c.takeUnit(u, cause, reach)
		}
	}
}

// overrun makes legal the workloads that started after the claimant was promised its start and have run for longer than
// their authors said, once the time of the promise has come. Until then the next cycle is due at that time at the latest. It
// looks at every running workload, and only for a claimant with a promise.
func (c *claim) overrun() {
	p := c.y.m.Promises[c.g.Key]
	if p == nil {
		return
	}
	if c.y.Now.Before(p.Start) {
		c.y.Wake(p.Start)
		return
	}
	c.y.everyRunning(func(t *running) {
		end := t.saidEnd()
		switch {
		// Work that ran before the promise was made was part of the calculation, and its overrun breaks no promise.
		case end.IsZero() || t.started.Before(p.Since.Truncate(time.Second)): // clusters tell starts to the second
		case c.y.Now.Before(end):
			c.y.Wake(end)
		//mutate: overrun-takes-back
		case c.takesBack(t):
		default:
			c.take(t, api.Overran, -1)
		}
	})
}

// takesBack says whether the running workload, once it is evicted and made again, could have the claimant evicted in
// return: by its priority, its quota or its share. Overrunning and idleness are judged without regard to any of
// these, so without this check the place would be taken back and forth.
func (c *claim) takesBack(t *running) bool {
	s := c.y.Candidates
	if !slices.ContainsFunc(t.pods, func(p *cluster.Pod) bool { return p.Owner != "" }) {
		return false // it has no owner that makes it again
	}
	if t.payer == c.q {
		return t.priority > c.t.Priority
	}
	if t.payer == &s.m.Unqueued || c.q == &s.m.Unqueued {
		return false
	}
	return c.isOwed(t, s.m.Tree.PromisedDims, s.m.Quota, s.m.Quota) || c.isOwed(t, c.sharedDims(), fairShare, shareOrQuota)
}

// isOwed says whether the running workload's queues are within their part up to where they meet the claimant's, while
// those hold more than theirs with the claimant: the test of reclaim and share, with the two in each other's place.
func (c *claim) isOwed(t *running, dims []int, part, most func(*cluster.Queue, int) int64) bool {
	s := c.y.Candidates
	// Both walk up their trees to the two queues that are beside each other: there one of them asks and the other is
	// asked.
	for x := t.payer; x != nil && len(dims) > 0; x = x.Parent {
		for _, dim := range dims {
			if t.size.At(dim) > 0 && x.Committed(dim) > part(x, dim) {
				return false
			}
		}
		for z := c.q; z != nil; z = z.Parent {
			if z == x || z.Parent != x.Parent {
				continue
			}
			return slices.ContainsFunc(dims, func(dim int) bool {
				need := c.needs.At(dim)
				if s.m.OfModel(dim) {
					need = c.unrated
				} else if s.m.OfFlavor(dim) {
					need = c.inFlavor(dim)
				}
				return need > 0 && s.m.Covers(c.q, dim) && z.Committed(dim)-c.own.At(dim)+need > most(z, dim)
			})
		}
	}
	return false
}

// saidEnd is when the running workload would have ended as its author said: after the shorter of its declared run time and
// its maximum run time; zero: neither was declared, or its start is unknown. Run times that were learned do not count, since
// the author has promised nothing.
func (t *running) saidEnd() time.Time {
	terms := t.terms
	run := terms.Expected
	if terms.Max > 0 && (run == 0 || terms.Max < run) {
		run = terms.Max
	}
	if run == 0 || t.started.IsZero() {
		return time.Time{}
	}
	return t.started.Add(run)
}

// everyRunning visits the running workloads of all queues, by the name of the queue and then in the order of its list; last
// those without a queue.
func (s *Candidates) everyRunning(visit func(*running)) {
	for _, name := range cluster.SortedKeys(s.m.Queues) {
		for _, t := range s.runningOf(s.m.Queues[name]) {
			visit(t)
		}
	}
	for _, t := range s.runningOf(&s.m.Unqueued) {
		visit(t)
	}
}

// idle makes legal the units whose GPUs were measured to do nothing for as long as ReclaimIdle of their queue. It looks at
// the running workloads of queues with that setting alone (Tree.Idle).
func (c *claim) idle() {
	for _, q := range c.y.m.Tree.Idle {
		for _, t := range c.y.runningOf(q) {
			for _, u := range t.units {
				//mutate: idle-takes-back
				if c.idles(u, q.Spec.ReclaimIdle) && !c.takesBack(t) {
					c.takeUnit(u, api.Idled, -1)
				}
			}
		}
	}
}

// idles says whether all pods of the unit, and all that go before it, have done nothing for so long. One busy pod is enough
// for a no, since the unit goes whole. Where a pod has been idle for less, the next cycle is due when it has been for long
// enough.
func (c *claim) idles(u *unit, after time.Duration) bool {
	for _, p := range u.pods {
		if p.Idle.IsZero() {
			return false
		}
		if at := p.Idle.Add(after); c.y.Now.Before(at) {
			c.y.Wake(at)
			return false
		}
	}
	for _, o := range u.spare {
		if !c.idles(o, after) {
			return false
		}
	}
	return true
}

// take makes all units of the running workload legal, as far as takeUnit lets it.
func (c *claim) take(t *running, cause api.EvictionCause, reach int) {
	if len(t.units) == 0 || t.Gang == c.g {
		return
	}
	for _, u := range t.units {
		c.takeUnit(u, cause, reach)
	}
}

// minRun is the minimum run time of the queue's workloads: how long each of their pods runs before it may be evicted for
// others. The queue's own setting goes before the one of the configuration; a queue above it has no say.
func (s *Candidates) minRun(q *cluster.Queue) time.Duration {
	if q.Spec != nil && q.Spec.MinRun > 0 {
		return q.Spec.MinRun
	}
	return s.m.Config.MinRun
}

// takeUnit makes the unit legal, unless it is already or something about the unit itself forbids it: its queue, its
// age, a refusal a short time ago, a budget. The first cause stays, so callers go from the strongest right to the
// weakest. Units of a workload must be taken in their order, since each looks at those that go before it.
//
// The checks are in the order of their cost. For a unit that is too young the next cycle is due when it may be evicted.
func (c *claim) takeUnit(u *unit, cause api.EvictionCause, reach int) {
	t := u.of
	// A gang that has lost members claims for the missing ones while the others run: it evicts none of its own.
	//mutate: freeze-victims -> u.claim == c.id || t.Gang == c.g
	if u.claim == c.id || t.Gang == c.g || t.payer.Frozen() {
		return
	}
	// A queue can say that nothing is taken from it for other queues, such as one of Volcano with reclaimable: false.
	if byOthers := cause == api.Reclaimed || cause == api.Shared; byOthers && t.payer.Spec != nil && t.payer.Spec.Keeps {
		return
	}
	least := c.y.minRun(t.payer)
	for _, p := range u.pods {
		// Each pod counts by itself: one that came back to a gang which runs for long is young too.
		if at := p.Started.Add(least); !p.Started.IsZero() && c.y.Now.Before(at) {
			c.y.Wake(at)
			return
		}
	}
	if c.y.refusing() && slices.ContainsFunc(u.pods, c.y.refused) || u.budgeted && slices.ContainsFunc(u.pods, c.forbidden) {
		return
	}
	// The unit is the rest of a gang. It can go only if all members above the minimum can go before it; they come
	// before it in the list of units, and so have been decided.
	for _, o := range u.spare {
		if o.claim != c.id {
			return // it cannot go, and so the gang cannot go whole
		}
	}
	u.claim, u.cause, u.cost, u.reach, u.taken = c.id, cause, c.y.costOf(u, c.y.Now), reach, false
	c.units = append(c.units, u)
}

// refusing says whether the eviction of any pod was refused a short time ago. It is worked out once in a cycle, and false
// most often, which spares a lookup for each pod.
func (y *Cycle) refusing() bool {
	if !y.knowsRefused {
		y.knowsRefused = true
		for _, e := range y.m.Evictions {
			y.anyRefused = y.anyRefused || e.Refused
		}
	}
	return y.anyRefused
}

// refused says whether the eviction of the pod was refused a short time ago: the refusal has not expired (Until), and is
// about this pod and not about an earlier one of the same name.
func (y *Cycle) refused(p *cluster.Pod) bool {
	e := y.m.EvictionOf(p)
	return e != nil && e.Refused && cluster.Live(e.Until, y.Now) && !y.m.IsRejected(api.KindEviction, p.Key)
}
