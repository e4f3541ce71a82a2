package preempt

import (
	"slices"
	"time"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/place"
	"github.com/berth-dev/berth/engine/internal/quantity"
)

// Who may be evicted for whom. Legality is judged workload by workload, as things stand before anybody is taken.

// claim is a gang that looks for others' work to be evicted for it.
//
// There are five reasons for which work may be evicted for another, tried from the strongest to the weakest. A unit keeps the
// first reason that applies, which becomes the cause of its eviction:
//
//   - Reclaimed: its queue holds more than its quota, and the claimant's queue is within its own.
//   - Shared: the same with fair shares, under the timeshare policy.
//   - Overran: it started after the claimant was promised its start, and runs longer than its author said.
//   - Idled: its GPUs were measured to do nothing for longer than its queue allows.
//   - Preempted: it is in the claimant's own queue and of a lower priority.
type claim struct {
	y       *Cycle
	g       *cluster.Gang
	t       cluster.Turn
	q       *cluster.Queue  // that it is charged to; Model.Unqueued: none
	gpus    int64           // the least that it asks for, of nodes
	unrated int64           // the same as queues count it, parts too, before the rates of models
	needs   quantity.Vector // the least that it asks for, as queues count it
	own     quantity.Vector // what is held for it, and counts in its queues already
	dims    []int           // of what it asks for, what is promised; of every GPU model and flavor too
	id      uint64
	units   []*unit                 // that are legal to evict
	theirs  []*cluster.Hold         // places of others that it may have
	rights  map[*cluster.Hold]right // to those

	// Of a gang of like members: how its classes are made, one for each GPU model.
	alike bool
	first *cluster.Pod
	kins  []place.Kin

	owed       bool       // its queue is within quota with it
	sharing    int        // how far up its queues are within their fair share; -1: not at all
	preempts   bool       // lower priorities of its own queue are among the units
	gated      bool       // limits of its queue keep it out too
	renounced  bool       // what could be reclaimed is left out
	moving     bool       // its units are moved, not taken away
	settling   bool       // it is asked whether the claimant may have the place
	disruption disruption // of the units that are lifted
	over       OverShare  // for which a place that was found was given up; the zero value: none was
}

// find lists the units that are legal to evict for the claim, in no order.
func (c *claim) find() {
	s := c.y.Candidates
	// The number of the claim marks its units, so that nothing has to be reset when the next claim looks at the same ones.
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
	// The claimant's own queue comes last. A claimant whose queue is owed quota takes it back from borrowers, and its neighbours
	// in the queue, who have as much right to the quota, keep what they have.
	if !c.owed || len(c.units) == 0 {
		c.preempt()
	}
}

// preempt: what is of a lower priority in the claimant's own queue. Who can ask its quota back from others does that
// first: its own queue has quota for both. Under timeshare a queue that is within its fair share stays within it: else the
// claimant would be evicted in turn by those who are waiting for their share, the victim would ask for its own again, and so
// on for ever.
func (c *claim) preempt() {
	c.preempts = true
	if !c.q.Outranks(c.t.Priority) {
		return
	}
	all := c.y.runningOf(c.q)
	// The list is in the order of priority, the highest first: the loop ends at the first that is not lower.
	for i := len(all) - 1; i >= 0 && all[i].priority < c.t.Priority; i-- {
		if !all[i].promoted() {
			c.take(all[i], api.Preempted, -1)
		}
	}
}

// reclaim: what queues hold above their quota, as far up as the claimant's own is within its.
func (c *claim) reclaim() {
	if len(c.dims) == 0 {
		return
	}
	reach := 0
	// Up the tree: if the claimant's queue is within its quota, it may ask the queues beside it; if its department is within the
	// department's quota too, the departments beside that, and so on. reach is how far up that was, since the claimant must be
	// within quota up to there also with the place that is found.
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

// share: what queues hold above their fair share and their quota, as far up as the claimant's own is within its share.
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

// sharesKept is how far up the claimant's queues are within their fair shares with what they have now, and stay so when it takes
// the place of another of its queue; -1: not at all, or there are no shares.
func (c *claim) sharesKept() int {
	dims, reach := c.sharedDims(), -1
	if len(dims) == 0 || c.q == &c.y.m.Unqueued {
		return reach
	}
	// Here what the queues have now is compared, without the claimant's needs: it takes the place of another of its own queue,
	// and the sum stays the same.
	//mutate: share-kept
	for x := c.q; x != nil; x = x.Parent {
		if slices.ContainsFunc(dims, func(dim int) bool { return x.Committed(dim) > x.Fair.At(dim) }) {
			break
		}
		reach++
	}
	return reach
}

// sharedDims lists what of the claimant's needs there are fair shares of that it may ask for; none but under timeshare. What
// there are no shares of, like adapters of a network, keeps nobody from asking for its share of the rest.
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

// fitsShare says whether the queue is within its fair share with what the claimant asks for.
func (c *claim) fitsShare(q *cluster.Queue, dims []int) bool {
	for _, dim := range dims {
		// What is held for the claimant counts in Committed already, and is taken off so that it does not count twice.
		if q.Committed(dim)-c.own.At(dim)+c.needs[dim] > q.Fair.At(dim) {
			return false
		}
	}
	return true
}

// fairShare is the queue's fair share.
func fairShare(q *cluster.Queue, dim int) int64 { return q.Fair.At(dim) }

// shareOrQuota is what nobody may take from a queue for a share. Where quotas promise more than there is, a share can be
// less than the quota, and that would be asked back again by right.
func shareOrQuota(q *cluster.Queue, dim int) int64 { return max(q.Fair.At(dim), q.Quota.At(dim)) }

// fitsIn says whether the queue is within its part with what the claimant asks for.
func (c *claim) fitsIn(q *cluster.Queue, part func(*cluster.Queue, int) int64) bool {
	for _, dim := range c.dims {
		if c.needs.At(dim) > 0 && q.Committed(dim)-c.own.At(dim)+c.needs.At(dim) > part(q, dim) {
			return false
		}
	}
	return true
}

// siblings lists the queues with the same parent, itself among them.
func (s *Candidates) siblings(q *cluster.Queue) []*cluster.Queue {
	if q.Parent != nil {
		return q.Parent.Children
	}
	return s.m.Tree.Top
}

// uncovered takes of a queue that holds more than its part what is not covered by it.
func (c *claim) uncovered(z *cluster.Queue, dims []int, part func(*cluster.Queue, int) int64, cause api.EvictionCause, reach int) {
	if x := c.y.cutOf(z, dims, part, cause == api.Shared); x != nil {
		for _, u := range x.units {
			c.takeUnit(u, cause, reach)
		}
	}
}

// overrun: what started after the claimant was promised its start, which has come, and runs longer than was said.
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
		end := c.y.saidEnd(t)
		switch {
		// Work that ran before the promise was made was part of the calculation, and its overrun is nobody's breach.
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

// takesBack says whether the running workload, once it is evicted and made again, could have the claimant evicted in return: by its
// priority, its quota or its share. For who runs too long, or does nothing, nobody has such a claim to begin with, and so
// the place would be taken back and forth.
func (c *claim) takesBack(t *running) bool {
	s := c.y.Candidates
	if !slices.ContainsFunc(t.pods, func(p *cluster.Pod) bool { return p.Owner != "" }) {
		return false // nobody makes it again
	}
	if t.payer == c.q {
		return t.priority > c.t.Priority
	}
	if t.payer == &s.m.Unqueued || c.q == &s.m.Unqueued {
		return false
	}
	return c.isOwed(t, s.m.Tree.PromisedDims, s.m.Quota, s.m.Quota) || c.isOwed(t, c.sharedDims(), fairShare, shareOrQuota)
}

// isOwed says whether the running workload's queues are within their part up to where they meet the claimant's, and those hold more
// than theirs with the claimant.
func (c *claim) isOwed(t *running, dims []int, part, most func(*cluster.Queue, int) int64) bool {
	s := c.y.Candidates
	// Both walk up their trees to the two queues that are beside each other: there one of them asks and the other is asked.
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

// saidEnd is when the running workload would have ended as its author said; zero: that was not said.
func (y *Cycle) saidEnd(t *running) time.Time {
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

// everyRunning visits all, queue by queue.
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

// idle: what was measured to do nothing for long enough in a queue that does not let that be.
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

// take makes all units of the running workload legal.
func (c *claim) take(t *running, cause api.EvictionCause, reach int) {
	if len(t.units) == 0 || t.Gang == c.g {
		return
	}
	for _, u := range t.units {
		c.takeUnit(u, cause, reach)
	}
}

// minRun is how long a workload of the queue runs before it may be evicted.
func (s *Candidates) minRun(q *cluster.Queue) time.Duration {
	if q.Spec != nil && q.Spec.MinRun > 0 {
		return q.Spec.MinRun
	}
	return s.m.Config.MinRun
}

// takeUnit makes the unit legal, if it is not yet.
func (c *claim) takeUnit(u *unit, cause api.EvictionCause, reach int) {
	t := u.of
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
	for _, o := range u.spare {
		if o.claim != c.id {
			return // it cannot go, and so the gang cannot go whole
		}
	}
	u.claim, u.cause, u.cost, u.reach, u.taken = c.id, cause, c.y.costOf(u, c.y.Now), reach, false
	c.units = append(c.units, u)
}

// refusing says whether any pod could not be evicted a short time ago.
func (y *Cycle) refusing() bool {
	if !y.knowsRefused {
		y.knowsRefused = true
		for _, e := range y.m.Evictions {
			y.anyRefused = y.anyRefused || e.Refused
		}
	}
	return y.anyRefused
}

// refused says whether the pod could not be evicted a short time ago.
func (y *Cycle) refused(p *cluster.Pod) bool {
	e := y.m.Evictions[p.Key]
	return e != nil && e.Refused && e.UID == p.UID && cluster.Live(e.Until, y.Now) && !y.m.IsRejected(api.KindEviction, p.Key)
}
