package calendar

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/cluster"
)

// Ends: how long work runs, when it ends, and what is free at which time. Promises, backfill and forecasts all rest on
// the answers of this file.
//
// An end has three sources: the run time of the workload (runTime: what its author declared, or else what was learned from
// workloads like it), its start (startOf), and, where the two say that it should be over already, a rule for late work
// (workEnd, overdue). The ends of all that runs are sorted into releases, of which each has the pods and holds that end at
// one time (allReleases).
//
//	12:00       now
//	12:05       a pod that is being evicted, at the end of its grace period
//	14:00       gang a, declared to run for 3 hours since 11:00
//	15:30       gang b, of whose like nine in ten ran for up to 4 hours, since 11:30
//	unknown     gang c, which declares nothing and is like no other: it is in no release
//
// Ends follow from the model, the time of the cycle, the guess (by) and the promise that is looked at (since, due; see
// lookFrom). Those of gangs are kept until a member gets or loses an allocation (Gang.Moves); the list of releases is kept
// for one state of the model (Model.Standing). To list them costs a look at each pod that ends, and a sort.

// Guess is which of the run times that a workload may have is meant: a quantile of what workloads
// like it took. A plan uses the first; a forecast makes a pass with each. For example, of ten runs
// of a kind one took 1 hour, five took up to 2 and nine up to 5: Soonest is 1 hour, Likely 2 and
// Safely 5.
type Guess uint8

const (
	Safely  Guess = iota // nine in ten workloads like it are over by then: for promises
	Likely               // half of them are
	Soonest              // one in ten is
)

// patience is how long work that is overdue is first given beyond its time. It is doubled each time that it runs out.
const patience = time.Minute

// UsualGrace is the grace period of a pod that names none: the default of Kubernetes.
const UsualGrace = 30 * time.Second

// runTime is how long a workload on these terms runs; 0: unknown. A declared run time (Expected) counts first. After that a
// promise trusts the maximum run time more than what was learned, since work is ended then at the latest, and a promise
// must be kept. A forecast trusts it less, since most work runs for much less than its limit.
//
//	                    Safely              Likely, Soonest
//	Expected declared   Expected, at most Max, whatever the purpose
//	Max declared        Max                 learned, at most Max; else Max
//	neither             learned             learned
func (c *Calendar) runTime(t *api.Terms, by Guess) time.Duration {
	if t.Expected > 0 {
		return capped(t.Expected, t.Max)
	}
	if t.Max > 0 && by == Safely {
		return t.Max
	}
	if l := c.m.RunTimeEstimates[t.Like]; t.Like != "" && l != nil && !c.m.IsRejected(api.KindRunTimeEstimate, t.Like) {
		return capped([...]time.Duration{Safely: l.Long, Likely: l.Median, Soonest: l.Short}[by], t.Max)
	}
	return t.Max
}

// capped is the smaller of the two times; most 0 is no limit.
func capped(d, most time.Duration) time.Duration {
	if most > 0 {
		return min(d, most)
	}
	return d
}

// endOf is when the pod, which must have an allocation, is expected to give it back; zero: unknown. The members of a gang
// end together, but for those on their way out. An end is never in the past: work that is late ends now, or somewhat
// later (workEnd). It costs a lookup for a member of a gang that was asked about before.
//
// From the surest to the least sure: a pod that is being deleted has its time from the API; one
// that is being evicted has its grace period; one that another scheduler bound has no terms that
// anybody would keep to; all others have a run time, as far as it is known.
func (c *Calendar) endOf(p *cluster.Pod) time.Time {
	switch {
	case p.Terminating:
		// A deletion of which the time is not known is believed to be over at once.
		if p.ReleaseAt.IsZero() {
			return c.now
		}
		return overdue(p.ReleaseAt.UTC(), c.now)
	case p.Evicting:
		return c.evictedBy(p)
	case p.Foreign:
		return time.Time{}
	case p.Gang == "":
		return c.workEnd(&p.Terms, c.startOf(p), !p.Firm())
	}
	g := p.In
	if g == nil {
		return time.Time{}
	}
	// A gang is asked about for each of its pods, and again in each step of a search: its end is kept, for as long as its
	// members have their allocations.
	if e, ok := c.ends[g]; ok && e.moves == g.Moves {
		return e.at
	}
	if c.ends == nil {
		c.ends = make(map[*cluster.Gang]gangEnd)
	}
	e := gangEnd{c.gangEnd(g), g.Moves}
	c.ends[g] = e
	return e.at
}

// gangEnd is when a gang ends; it holds while Gang.Moves is that number. Trials take members off their nodes and put them
// back, and each of the two counts as a move.
type gangEnd struct {
	at    time.Time
	moves uint64
}

// evictedBy is when a pod that is being evicted is gone: its grace period after it is told to end, which is after the
// warning of its queue. The eviction is one of this plan or of an earlier one; a pod that leaves without either is taken to
// be told now.
func (c *Calendar) evictedBy(p *cluster.Pod) time.Time {
	grace := c.m.TermsOf(p).Grace
	if grace == 0 {
		grace = UsualGrace
	}
	at := c.now
	if told, ok := c.evictedNow()[p.Key]; ok {
		at = told
	} else if e := c.m.EvictionOf(p); e != nil {
		at = e.At.UTC()
	}
	return overdue(at.Add(grace), c.now)
}

// evictedNow is when the pods that this plan evicts are told to end, by key. Evictions are only ever added to a plan, one
// for each pod, so that it reads those that came since it was last asked.
func (c *Calendar) evictedNow() map[string]time.Time {
	if c.draft == nil { // the cycle is over
		return c.evicted
	}
	for _, e := range c.draft.Plan.Evictions[len(c.evicted):] {
		if c.evicted == nil {
			c.evicted = make(map[string]time.Time)
		}
		//mutate: time-warned
		c.evicted[e.Pod] = e.At.UTC()
	}
	return c.evicted
}

// gangEnd is when the members of the gang that run, and are not on their way out, end; zero: unknown. It costs a look at
// each member. A gang without a spec has no terms, and so no end.
func (c *Calendar) gangEnd(g *cluster.Gang) time.Time {
	if g.Spec == nil {
		return time.Time{}
	}
	started := c.gangStart(g)
	// yields says that all of them can be evicted.
	yields := !slices.ContainsFunc(g.Members, func(p *cluster.Pod) bool { return p.Host != nil && !p.Leaving() && p.Firm() })
	return c.workEnd(&g.Spec.Terms, started, yields)
}

// gangStart is the start of the gang: that of the first of its members that run and are not on their way out; zero: that of
// some member is unknown, or none runs.
func (c *Calendar) gangStart(g *cluster.Gang) time.Time {
	var first time.Time
	for _, p := range g.Members {
		if p.Host == nil || p.Leaving() {
			continue
		}
		at := c.startOf(p)
		if at.IsZero() {
			return at
		}
		if first.IsZero() || at.Before(first) {
			first = at
		}
	}
	return first
}

// startOf is when the pod, which has an allocation, got it; zero: unknown. A pod that is assumed to be bound has it since
// the plan that placed it, and one that this plan places since now.
func (c *Calendar) startOf(p *cluster.Pod) time.Time {
	if !p.Started.IsZero() {
		return p.Started.UTC()
	}
	// The pod is bound, and its start has not been told: it may have run for any time.
	if p.Node != "" {
		return time.Time{}
	}
	// An assumption lasts AssumeFor from the plan on that made it.
	if a := c.m.Assumptions[p.Key]; a != nil && a.UID == p.UID && a.Node == p.Host.Name {
		return a.Until.UTC().Add(-c.m.Config.AssumeFor)
	}
	return c.now
}

// workEnd is when work on these terms that started at the given time ends; zero: unknown. yields says that all of it can be
// evicted. For work that is past its run time there are three rules:
//
//   - Work that started after the promise that is looked at was made (since), yields, and has declared a run time or limit,
//     counts as over now. It will be evicted once the promise is due (preempt.overrun), so the promise does not move with it.
//   - A guess at the Soonest is that it ends at any moment; one at the Likely, that it ends halfway to when nine in ten of
//     its like are over.
//   - Otherwise it is believed to go on for a while, and for twice as long each time that this turns out wrong (overdue).
//     So promises that wait for it move seldom.
//
// For example, work started at 12:00 and was expected to take an hour. Until 13:00 its end is
// 13:00. At 13:00 it is 13:01, from 13:01 on it is 13:02, from 13:02 on 13:04, and at 13:30 it is
// 13:32. A promise behind it has moved 6 times in half an hour; if late work were believed to end
// now, it would have moved with every cycle.
func (c *Calendar) workEnd(t *api.Terms, started time.Time, yields bool) time.Time {
	d := c.runTime(t, c.by)
	// Without a run time, or a start, the end is unknown.
	if d == 0 || started.IsZero() {
		return time.Time{}
	}
	end := started.Add(d)
	if end.After(c.now) {
		return end
	}
	said := t.Expected > 0 || t.Max > 0
	// Under fifo nothing is evicted for a promise.
	if yields && said && c.m.Config.Policy != api.FIFO {
		c.lastLate = later(c.lastLate, started)
		if since := c.since; !since.IsZero() && !started.Before(since) {
			return c.now
		}
	}
	if c.by == Soonest {
		return c.now
	}
	// In a guess at the Likely, it has outlived half of its like and not yet nine in ten of them.
	if late := started.Add(c.runTime(t, Safely)); late.After(c.now) {
		return c.now.Add(late.Sub(c.now) / 2)
	}
	return overdue(end, c.now)
}

// overdue is the given time where it is yet to come, and otherwise the first time yet to come of those that are one, two,
// four and so on times patience after it. It depends on the two times alone, so that it stays the same from one cycle to
// the next until it comes. The bound on d only keeps the loop from an overflow.
func overdue(at, now time.Time) time.Time {
	if at.After(now) {
		return at
	}
	d := patience
	for !at.Add(d).After(now) && d < 1<<61 {
		d *= 2
	}
	return at.Add(d)
}

// release is what ends at one time: pods, and places that are held for work which will have come and gone. Lists of
// releases are in order of time, with one for each time.
type release struct {
	at    time.Time
	pods  []*cluster.Pod
	holds []*cluster.Hold
	// who is the promised gang, or the booking, that gives back its room; "" where pods or holds end (future.withMoments).
	who string
}

// holdEnd is when the work that the place is held for is over; zero: unknown. That work is believed to start when the pods
// that are on their way out for it can be expected to be gone, and where that time has passed, when the hold expires.
//
// A promise that stands does not move for that delay. Work that would have been over when the promise is due, had it
// started in time, is not started once it is too late for that, and so counts as over by then. Work that was never to be
// over by then keeps its place: its victims were evicted beside that promise.
//
// For example, a place is held for work of an hour, whose victims should be gone at 12:00, and the hold expires at 12:01. A
// promise is due at 13:00. At 12:00:30 the work has not come: it would end at 13:01, and yet counts as over at 13:00.
func (c *Calendar) holdEnd(h *cluster.Hold) time.Time {
	g := c.m.WorkloadNamed(h.Gang)
	// Without a workload the hold is for a pod that its owner is to make again after a move, which then stays, or for one
	// that is gone: that place is free when the hold expires.
	if g == nil {
		//mutate: promise-coming
		if h.Coming {
			return time.Time{}
		}
		return later(h.Until.UTC(), c.now)
	}
	d := c.runTime(g.Terms(), c.by)
	if d == 0 {
		return time.Time{}
	}
	// A hold lasts AssumeFor longer than the pods that are on their way out for it are expected to. Once that time comes the
	// answer changes, so the next cycle is due then.
	start := h.Until.UTC().Add(-c.m.Config.AssumeFor)
	if start.After(c.now) {
		c.draft.Wake(start)
		return start.Add(d)
	}
	end := later(h.Until.UTC(), c.now).Add(d)
	//mutate: promise-hold-over-in-time -> !c.due.IsZero()
	inTime := !start.Add(d).After(c.due)
	//mutate: promise-beside-a-hold
	if inTime && end.After(c.due) {
		return later(c.due, c.now)
	}
	return end
}

// heldPlaces lists the places that are held for workloads: those of earlier cycles by key, and then those that this cycle
// has decided, in that order. A hold that does not count any more, because it has expired or another workload got the room,
// keeps nothing that an end could give back, and is left out.
func (c *Calendar) heldPlaces() (out []*cluster.Hold) {
	for _, key := range cluster.SortedKeys(c.m.Holds) {
		out = append(out, c.m.Holds[key])
	}
	put, _ := c.m.HoldsTouched()
	for _, h := range put {
		if h.Gang != "" {
			out = append(out, h)
		}
	}
	//mutate: promise-expired-hold -> out
	return slices.DeleteFunc(out, func(h *cluster.Hold) bool { return !h.Stands() })
}

// allReleases lists what runs, or is held, and has a known end, the first to end first. Callers must not change it.
//
// The list costs a look at everything that ends and a sort, and most promises of a cycle can share one, which is kept for
// the state of the model that it was made in. A promise that stands (since) needs a list of its own only where work that is
// late may count as over for it, or where places are held, whose ends depend on when the promise is due.
func (c *Calendar) allReleases() []release {
	if len(c.m.Ending) == 0 && len(c.m.Holds) == 0 {
		return nil
	}
	// To make the shared list notes the latest start of late work (lastLate). Where that is before since, no work counts as
	// over for this promise.
	if since, due := c.since, c.due; !since.IsZero() && len(c.heldPlaces()) == 0 {
		c.lookFrom(time.Time{}, time.Time{})
		all := c.allReleases()
		c.lookFrom(since, due)
		//mutate: time-releases-late -> true
		if c.lastLate.Before(since) {
			return all
		}
	}
	// The state of the model is part of the key: a list that was made in a trial is of that trial. It is kept plus one, so
	// that 0 is no list.
	if c.listedAt == c.m.Standing()+1 && c.since.IsZero() {
		return c.releases
	}
	all := c.endingsOf(c.m.Ending, make(endings, 0, len(c.m.Ending)))
	for _, h := range c.heldPlaces() {
		all = all.add(c.holdEnd(h), nil, h)
	}
	out := all.join()
	if c.since.IsZero() {
		c.releases, c.listedAt = out, c.m.Standing()+1
	}
	return out
}

// ending is one pod that ends, or one place that is held until then. Times are numbers here,
// because tens of thousands of them are sorted.
type ending struct {
	at   int64 // see instant
	pod  *cluster.Pod
	hold *cluster.Hold
}

type endings []ending

// add appends the end of the pod or of the hold, if it is known; the other of the two is nil.
func (all endings) add(at time.Time, p *cluster.Pod, h *cluster.Hold) endings {
	if at.IsZero() {
		return all
	}
	return append(all, ending{instant(at), p, h})
}

// instant is the time as a number: nanoseconds of Unix time. The type ends in the year 2262, and work can be told to run
// for 292 years: what ends later ends in its last nanosecond, and not in the past.
func instant(at time.Time) int64 {
	//mutate: time-beyond-numbers
	if at.Unix() > math.MaxInt64/int64(time.Second)-1 {
		return math.MaxInt64
	}
	return at.UnixNano()
}

// endingsOf appends the known ends of the pods.
func (c *Calendar) endingsOf(pods []*cluster.Pod, all endings) endings {
	for _, p := range pods {
		all = all.add(c.endOf(p), p, nil)
	}
	return all
}

// join sorts the ends by time and makes one release of those at the same time. The order of equals makes no difference,
// since all of them are released together. The pods of all releases share one piece of memory.
func (all endings) join() []release {
	slices.SortFunc(all, func(a, b ending) int { return cmp.Compare(a.at, b.at) })
	pods := make([]*cluster.Pod, 0, len(all))
	var out []release
	for i, e := range all {
		if i == 0 || e.at != all[i-1].at {
			out = append(out, release{at: time.Unix(0, e.at).UTC(), pods: pods[len(pods):len(pods):cap(pods)]})
		}
		r := &out[len(out)-1]
		if e.hold != nil {
			r.holds = append(r.holds, e.hold)
			continue
		}
		pods = append(pods, e.pod)
		// The pods of a release lie next to each other in the list, since ends are sorted.
		r.pods = pods[len(pods)-1-len(r.pods):]
	}
	return out
}

// releasesOn lists what ends on the nodes by the given time, in order. A promise on these nodes depends on nothing else, but
// for limits of queues. It costs a look at the pods of the nodes, and is never kept.
func (c *Calendar) releasesOn(nodes []*cluster.Node, by time.Time) []release {
	var all endings
	for _, n := range nodes {
		all = c.endingsOf(n.Pods, all)
		for _, h := range n.Held {
			if h.Gang != "" {
				all = all.add(c.holdEnd(h), nil, h)
			}
		}
	}
	last := instant(by)
	return slices.DeleteFunc(all, func(e ending) bool { return e.at > last }).join()
}

// Overdue lists, in no order, the pods that have run for their maximum run time, and notes their gangs as ending (End). The
// next cycle is due when the next pod has. The members of a gang have run since the first of them started, so that a gang
// ends as one. Package dismiss evicts them. It costs a look at each pod with a maximum run time.
func (c *Calendar) Overdue() []*cluster.Pod {
	var over []*cluster.Pod
	starts := make(map[*cluster.Gang]time.Time)
	//archtest:any-order the caller sorts them
	for p := range c.m.TimeLimited {
		if p.Leaving() || p.Node == "" {
			continue
		}
		started := c.startOf(p)
		if g := p.In; g != nil && g.Lone == nil {
			if _, ok := starts[g]; !ok {
				starts[g] = c.gangStart(g)
			}
			started = starts[g]
		}
		if started.IsZero() {
			continue // its start is unknown
		}
		//mutate: time-max-run
		if due := started.Add(c.m.TermsOf(p).Max); c.now.Before(due) {
			c.draft.Wake(due)
			continue
		}
		over = append(over, p)
		if p.In != nil {
			c.End(p.In)
		}
	}
	return over
}

// End notes, for the rest of the cycle, that the gang has to end. No member is added to it meanwhile.
func (c *Calendar) End(g *cluster.Gang) {
	if c.ending == nil {
		c.ending = make(map[*cluster.Gang]bool)
	}
	c.ending[g] = true
}

// HasToEnd says whether the gang has to end (End): it has run for its maximum run time, or must leave nodes that are booked
// or quarantined.
func (c *Calendar) HasToEnd(g *cluster.Gang) bool { return c.ending[g] }
