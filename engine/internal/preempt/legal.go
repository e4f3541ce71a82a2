package preempt

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/place"
	"github.com/berth-dev/berth/engine/internal/quantity"
)

// Who may be evicted for whom. Legality is judged workload by workload, as things stand before anybody is taken.

// unit is what is evicted together: a pod by itself, a member of a gang above its minimum, or what is left of a gang
// once those are gone.
type unit struct {
	of    *running
	pods  []*cluster.Pod
	spare []*unit // of what is left of a gang: its members above the minimum, which go first
	rest  *unit   // of a member above the minimum: what is left of its gang; nil: that stays

	size     quantity.Vector // of a member above the minimum: what it is booked with
	returns  quantity.Vector // while it is lifted: what it was booked with of pods that somebody makes again
	stints   []stint
	budgeted bool // disruption budgets cover some of its pods, and are taken from when it goes
	surge    bool // of what is moved: it stays until the next one runs

	// For one claim.
	claim       uint64
	cause       api.EvictionCause
	cost        int64
	reach       int // how far up its tree the claimant's queue must be within quota for it or, where it is shared, within its share
	taken       bool
	pass        uint64 // scan that has looked at it
	gone        uint64 // scan that counts it as gone
	allocations []allocationOf
	to          []string // of what is moved: the nodes where its pods have places
}

// allocationOf is where a pod sat before it was lifted.
type allocationOf struct {
	node    *cluster.Node
	devices []string
}

// running is a workload that has allocations in a queue: those of its pods that are not on their way out.
type running struct {
	cluster.Workload
	key      string
	told     *api.Pod // of a pod by itself
	payer    *cluster.Queue
	priority int32
	terms    *api.Terms
	started  time.Time       // when its first pod got its allocation; zero: for long
	size     quantity.Vector // what it is booked with
	core     quantity.Vector // what of that is its minimum
	stays    quantity.Vector // what of that can never be evicted
	units    []*unit         // what of it may be evicted; what is left of a gang last
	pods     []*cluster.Pod
	covered  int // by the quotas of how many queues its minimum is covered: its own, the one above, and so on, without a gap
}

// appraise works out what of the running workload may be evicted, and what of that decides its cost.
func (s *Candidates) appraise(t *running) {
	first := t.pods[0]
	t.key, t.priority, t.started, t.terms = first.WorkloadKey(), first.Priority, first.Started, s.m.TermsOf(first)
	if t.Gang == nil {
		t.told = first.Pod
	} else if t.priority = 0; t.Gang.Spec != nil {
		t.priority = t.Gang.Spec.Priority
	}
	for _, p := range t.pods[1:] {
		if p.Started.Before(t.started) {
			t.started = p.Started
		}
	}
	s.divide(t)
	for _, u := range t.units {
		u.stints = stintsOf(u.pods)
		u.budgeted = slices.ContainsFunc(u.pods, func(p *cluster.Pod) bool { return len(p.Budgets) > 0 })
	}
}

func compareRunning(a, b *running) int {
	if a.priority != b.priority {
		return cluster.Before(a.priority > b.priority)
	}
	return cmp.Or(a.started.Compare(b.started), strings.Compare(a.key, b.key))
}

// divide adds up what the running workload holds, and divides what may be evicted of it into units.
func (s *Candidates) divide(t *running) {
	t.size = cluster.ChargesOf(t.pods)
	if t.Gang == nil {
		t.core = t.size
		if bare(t.pods[0]) {
			t.units = []*unit{{of: t, pods: t.pods}}
		} else if !t.pods[0].Evictable {
			t.stays = t.size
		}
		return
	}
	slices.SortFunc(t.pods, cluster.ComparePods)
	rest := &unit{of: t}
	spare := sparesOf(t.Gang)
	whole := t.Gang.Spec == nil || !t.Gang.Spec.Core
	stays := !whole
	for _, p := range t.pods {
		if slices.Contains(spare, p) {
			u := &unit{of: t, pods: []*cluster.Pod{p}}
			u.size = cluster.ChargesOf(u.pods)
			rest.spare = append(rest.spare, u)
			continue
		}
		stays = stays || !p.Evictable
		for _, d := range p.Charge {
			t.core.Add(d.Dim, d.Amount)
		}
		if bare(p) {
			rest.pods = append(rest.pods, p)
		} else {
			whole = false
		}
	}
	if stays {
		t.stays = t.core
	}
	t.units = append(t.units, rest.spare...)
	if whole && len(rest.pods) > 0 {
		for _, u := range rest.spare {
			u.rest = rest
		}
		t.units = append(t.units, rest)
	}
}

// bare says whether nothing about the pod itself keeps it from being evicted.
func bare(p *cluster.Pod) bool { return p.Evictable && p.Node != "" && p.Host != nil && !p.Leaving() }

// sparesOf lists the members that the gang can lose and still have its minimum: in each leaf those of the last ranks.
func sparesOf(g *cluster.Gang) []*cluster.Pod {
	if g.Spec == nil || g.Tree == nil {
		return nil
	}
	var out []*cluster.Pod
	g.Tree.Each(func(b *cluster.Branch) {
		if len(b.Children) > 0 {
			return
		}
		bound := 0
		for _, p := range b.Pods {
			if p.Host != nil && p.Node != "" {
				bound++
			}
		}
		for i := len(b.Pods) - 1; i >= 0 && bound > b.Min(); i-- {
			if bare(b.Pods[i]) {
				out = append(out, b.Pods[i])
				bound--
			}
		}
	})
	return out
}

// coveredUpTo says whether all queues of the running workload that are deeper than that cover its minimum.
func (t *running) coveredUpTo(depth int) bool { return t.covered >= t.payer.Depth-depth }

// coverBelow returns the running workloads of the queue and of all below it, having found out which of them its quota covers.
func (s *Candidates) coverBelow(q *cluster.Queue) []*running {
	all := s.runningBelow(q)
	var buf [4]int
	dims := buf[:0]
	for dim, promised := range s.m.Tree.Promised {
		if promised > 0 {
			dims = append(dims, dim)
		}
	}
	v := &cover{s: s, queue: q, dims: dims, part: s.m.Quota, all: all}
	v.firm()
	for _, t := range all {
		below := t.payer.Depth - q.Depth
		t.covered = min(t.covered, below)
		//mutate: cover-from-below
		if v.covers(t.core, t.stays) && t.covered == below {
			t.covered++
		}
	}
	return all
}

// claim is a gang that looks for others' work to be evicted for it.
type claim struct {
	y      *Cycle
	g      *cluster.Gang
	t      cluster.Turn
	q      *cluster.Queue  // that it is charged to; Model.Unqueued: none
	gpus   int64           // the least that it asks for
	needs  quantity.Vector // the least that it asks for, as queues count it
	own    quantity.Vector // what is held for it, and counts in its queues already
	dims   []int           // of what it asks for, what is promised; of every GPU model too
	id     uint64
	units  []*unit                 // that are legal to evict
	theirs []*cluster.Hold         // places of others that it may have
	rights map[*cluster.Hold]right // to those

	// Of a gang of like members: how its classes are made, one for each GPU model.
	alike bool
	first *cluster.Pod
	kins  []place.Kin

	owed       bool       // its queue is within quota with it
	preempts   bool       // lower priorities of its own queue are among the units
	gated      bool       // limits of its queue keep it out too
	moving     bool       // its units are moved, not taken away
	settling   bool       // it is asked whether the claimant may have the place
	disruption disruption // of the units that are lifted
	tests      int
}

// find lists the units that are legal to evict for the claim, in no order.
func (c *claim) find() {
	s := c.y.Candidates
	s.claims++
	c.id = s.claims
	if c.q != &s.m.Unqueued {
		c.reclaim()
		c.share()
	}
	c.overrun()
	c.idle()
	c.theirs = c.outbid()
	if !c.owed || len(c.units) == 0 {
		c.preempt()
	}
}

// preempt: what is of a lower priority in the claimant's own queue. Who can ask its quota back from others does that
// first: its own queue has quota for both.
func (c *claim) preempt() {
	c.preempts = true
	if !c.q.Outranks(c.t.Priority) {
		return
	}
	all := c.y.runningOf(c.q)
	for i := len(all) - 1; i >= 0 && all[i].priority < c.t.Priority; i-- {
		if !all[i].promoted() {
			c.take(all[i], api.Preempted, -1)
		}
	}
}

// promoted says whether the running workload started after it had waited for so long that it goes before higher priorities of its
// queue: it is not evicted for them then.
func (t *running) promoted() bool {
	q := t.payer.Spec
	if q == nil || q.PromoteAfter == 0 {
		return false
	}
	created := t.pods[0].Created
	if t.Gang != nil && t.Gang.Spec != nil {
		created = t.Gang.Spec.Created
	}
	return !t.started.Before(created.Add(q.PromoteAfter))
}

// reclaim: what queues hold above their quota, as far up as the claimant's own is within its.
func (c *claim) reclaim() {
	if len(c.dims) == 0 {
		return
	}
	reach := 0
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

// sharedDims lists what of the claimant's needs there are fair shares of that it may ask for; none but under timeshare.
func (c *claim) sharedDims() []int {
	if c.y.m.Config.Policy != api.TimeShare {
		return nil
	}
	dims := make([]int, 0, len(c.needs))
	for dim, need := range c.needs {
		if need > 0 && dim != quantity.DimPods && dim < len(c.q.Fair) {
			dims = append(dims, dim)
		}
	}
	return dims
}

// fitsShare says whether the queue is within its fair share with what the claimant asks for.
func (c *claim) fitsShare(q *cluster.Queue, dims []int) bool {
	for _, dim := range dims {
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

// cover is what a queue's part is enough for, as it is being added up.
type cover struct {
	s     *Candidates
	queue *cluster.Queue
	dims  []int
	over  []int // of dims, where the queue holds more than its part
	part  func(*cluster.Queue, int) int64
	all   []*running
	sum   quantity.Vector
}

// newCover has the running workloads of a queue that holds more than its part.
func newCover(s *Candidates, z *cluster.Queue, dims []int, part func(*cluster.Queue, int) int64) *cover {
	v := &cover{s: s, queue: z, dims: dims, part: part}
	for _, dim := range dims {
		if z.Committed(dim) > part(z, dim) {
			v.over = append(v.over, dim)
		}
	}
	if len(v.over) == 0 {
		return v
	}
	v.all = s.runningBelow(z)
	return v
}

// firm adds up what can never be evicted.
func (v *cover) firm() {
	for _, dim := range v.dims {
		if v.queue.Firm.At(dim) == 0 {
			continue
		}
		for _, t := range v.all {
			if n := t.stays.At(dim); n > 0 {
				v.sum.Add(dim, n)
			}
		}
	}
}

// covers adds more, without what of it is counted already, if the part is enough for it.
func (v *cover) covers(more, counted quantity.Vector) bool {
	for _, dim := range v.dims {
		if n := more.At(dim) - counted.At(dim); n > 0 && v.sum.At(dim)+n > v.part(v.queue, dim) {
			return false
		}
	}
	for _, dim := range v.dims {
		if n := more.At(dim) - counted.At(dim); n > 0 {
			v.sum.Add(dim, n)
		}
	}
	return true
}

// lacks says whether some of what a workload of the payer holds is of what the queue holds too much of, and can be asked
// back from it.
func (v *cover) lacks(payer *cluster.Queue, some quantity.Vector) bool {
	return slices.ContainsFunc(v.over, func(dim int) bool {
		//mutate: cover-devices-only -> some.At(dim) > 0
		return some.At(dim) > 0 && v.s.m.Covers(payer, dim)
	})
}

// uncovered takes of a queue that holds more than its part what is not covered by it.
func (c *claim) uncovered(z *cluster.Queue, dims []int, part func(*cluster.Queue, int) int64, cause api.EvictionCause, reach int) {
	if x := c.y.cutOf(z, dims, part); x != nil {
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
	var promised []int
	for dim, n := range s.m.Tree.Promised {
		if n > 0 {
			promised = append(promised, dim)
		}
	}
	return c.isOwed(t, promised, s.m.Quota, s.m.Quota) || c.isOwed(t, c.sharedDims(), fairShare, shareOrQuota)
}

// isOwed says whether the running workload's queues are within their part up to where they meet the claimant's, and those hold more
// than theirs with the claimant.
func (c *claim) isOwed(t *running, dims []int, part, most func(*cluster.Queue, int) int64) bool {
	s := c.y.Candidates
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
					need = c.gpus
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
	if u.claim == c.id || t.Gang == c.g {
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
