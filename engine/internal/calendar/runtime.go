package calendar

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/cluster"
)

// Run-time estimates. What a workload's author says about its run time counts first; else what others like it did
// (api.RunTimeEstimate), of which the calendar trusts another quantile for each purpose.

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

// patience is how long work that is overdue is first given beyond its time; then twice as long, and
// so on.
const patience = time.Minute

// UsualGrace is what a pod has to end where nobody says: the default of Kubernetes.
const UsualGrace = 30 * time.Second

// runTime is how long a workload on these terms runs; 0: nobody knows. What its author says counts
// first. A promise then trusts the time after which it is ended more than what others like it did;
// a guess the other way round: no work runs longer than its limit, but most of it runs for much
// less.
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

// capped is the time, or the most that it may be; 0: any.
func capped(d, most time.Duration) time.Duration {
	if most > 0 {
		return min(d, most)
	}
	return d
}

// endOf is when the pod is expected to give its allocation back; zero: nobody knows. The members of
// a gang end together, but for those on their way out. An end is never in the past: whoever is late
// ends now, or somewhat later, by workEnd.
//
// From the surest to the least sure: a pod that is being deleted has its time from the API; one
// that is being evicted has its grace period; one that another scheduler bound has no terms that
// anybody would keep to; all others have a run time, as far as it is known.
func (c *Calendar) endOf(p *cluster.Pod) time.Time {
	switch {
	case p.Terminating:
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
	// A gang is asked about for each of its pods, and again in each step of a search: its end is
	// remembered.
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

// gangEnd is when a gang ends, as long as its Moves are that many: a trial takes members off their
// nodes and puts them back.
type gangEnd struct {
	at    time.Time
	moves uint64
}

// evictedBy is when a pod that is being evicted is gone: its grace period after it is told to end, which is
// after the warning of its queue. One that is on its way out for a trial alone is told so now.
func (c *Calendar) evictedBy(p *cluster.Pod) time.Time {
	grace := c.m.TermsOf(p).Grace
	if grace == 0 {
		grace = UsualGrace
	}
	at := c.now
	if told, ok := c.evictedNow()[p.Key]; ok {
		at = told
	} else if e := c.m.Evictions[p.Key]; e != nil {
		at = e.At.UTC()
	}
	return overdue(at.Add(grace), c.now)
}

// evictedNow is when the pods that this plan evicts are told to end, by key. Evictions are only ever added to a plan,
// so that it reads those that came since it was last asked.
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

// gangEnd is when the members of the gang that run, and are not on their way out, end; zero: nobody
// knows. yields is whether all of them can be evicted.
func (c *Calendar) gangEnd(g *cluster.Gang) time.Time {
	if g.Spec == nil {
		return time.Time{}
	}
	started := c.gangStart(g)
	yields := !slices.ContainsFunc(g.Members, func(p *cluster.Pod) bool { return p.Host != nil && !p.Leaving() && p.Firm() })
	return c.workEnd(&g.Spec.Terms, started, yields)
}

// gangStart is since when the gang runs, counted from the first of its members that do; zero: for
// longer than anybody knows, or none runs.
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

// startOf is since when the pod, which has an allocation, has it; zero: for longer than anybody
// knows. A pod that is assumed to be bound has it since the plan that placed it, and one that this
// plan places since now.
func (c *Calendar) startOf(p *cluster.Pod) time.Time {
	if !p.Started.IsZero() {
		return p.Started.UTC()
	}
	// It is bound, and its start has not been told: it may have run for any time.
	if p.Node != "" {
		return time.Time{}
	}
	if a := c.m.Assumptions[p.Key]; a != nil && a.UID == p.UID && a.Node == p.Host.Name {
		return a.Until.UTC().Add(-c.m.Config.AssumeFor)
	}
	return c.now
}

// workEnd is when work on these terms that started then ends. Work that was let in beside the
// promise that is looked at, may be evicted, and is past what its author said counts as over by
// now: it has to go once the promise is due, and so the promise does not move with it. Other work
// that is past its time is believed to go on for a while, and for twice as long each time that
// turns out wrong: so promises that wait for it move seldom. A guess at the Soonest is that it ends
// at any moment, and a likely one that it ends halfway to when nine in ten of its like are over.
//
// For example, work started at 12:00 and was expected to take an hour. Until 13:00 its end is
// 13:00. At 13:00 it is 13:01, from 13:01 on it is 13:02, from 13:02 on 13:04, and at 13:30 it is
// 13:32. A promise behind it has moved 6 times in half an hour; if late work were believed to end
// now, it would have moved with every cycle.
func (c *Calendar) workEnd(t *api.Terms, started time.Time, yields bool) time.Time {
	d := c.runTime(t, c.by)
	// Without a run time, or a beginning, there is no end to tell.
	if d == 0 || started.IsZero() {
		return time.Time{}
	}
	end := started.Add(d)
	if end.After(c.now) {
		return end
	}
	said := t.Expected > 0 || t.Max > 0
	if yields && said && c.m.Config.Policy != api.FIFO {
		c.lastLate = later(c.lastLate, started)
		if since := c.since; !since.IsZero() && !started.Before(since) {
			return c.now
		}
	}
	if c.by == Soonest {
		return c.now
	}
	// It has outlived half of its like, and is believed to end halfway to when nine in ten of them
	// are over.
	if late := started.Add(c.runTime(t, Safely)); late.After(c.now) {
		return c.now.Add(late.Sub(c.now) / 2)
	}
	return overdue(end, c.now)
}

// overdue is the time, or where it has come the first of patience, two, four and so on times it
// later that is yet to come. It depends on the two times alone, so that it stays the same from one
// cycle to the next until it comes. The bound on d only keeps the loop from an overflow.
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

// release is work that ends at one time: pods, and places that are held for work which will have
// come and gone. Lists of releases are in order of time, with one for each time.
type release struct {
	at    time.Time
	pods  []*cluster.Pod
	holds []*cluster.Hold
	who   string // the promised gang, or the booking, that gives back its room
}

// holdEnd is when the work that the place is held for is over; zero: nobody knows. It comes when
// those that are on their way out for it can be expected to be gone or, where that time has passed,
// when the place is held no longer. A promise that stands does not move for that delay: work that
// would have been over when the promise is due, had it come in time, is not started once it is too
// late for that. Work that was never to be over by then keeps its place: its victims were evicted
// beside that promise.
func (c *Calendar) holdEnd(h *cluster.Hold) time.Time {
	g := c.m.WorkloadNamed(h.Gang)
	if g == nil {
		//mutate: promise-coming
		if h.Coming {
			return time.Time{} // what an owner makes again stays
		}
		return later(h.Until.UTC(), c.now)
	}
	d := c.runTime(g.Terms(), c.by)
	if d == 0 {
		return time.Time{}
	}
	// A hold lasts AssumeFor longer than those that are on their way out for it are expected to.
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

// heldPlaces lists the places that are held for workloads, those decided in this cycle too: by key,
// and then in the order in which they were decided. A hold that does not count any more, since its
// time is over or somebody else got the room, keeps nothing that an end could give back.
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

// allReleases lists what runs and has a known end, the first to end first. A promise sees the list
// that anybody does, unless work that is late counts as over for it, or places are held, of which
// it has a view of its own.
//
// The list costs a look at everything that ends and a sort, and most promises of a cycle can share
// one. It is kept for the state of the model that it was made in.
func (c *Calendar) allReleases() []release {
	if len(c.m.Ending) == 0 && len(c.m.Holds) == 0 {
		return nil
	}
	if since, due := c.since, c.due; !since.IsZero() && len(c.heldPlaces()) == 0 {
		c.lookFrom(time.Time{}, time.Time{})
		all := c.allReleases()
		c.lookFrom(since, due)
		//mutate: time-releases-late -> true
		if c.lastLate.Before(since) {
			return all
		}
	}
	// The state of the model is part of the key: a list that was made in a trial is of that trial.
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

// add adds an end, if it is known.
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

// endingsOf adds the known ends of the pods.
func (c *Calendar) endingsOf(pods []*cluster.Pod, all endings) endings {
	for _, p := range pods {
		all = all.add(c.endOf(p), p, nil)
	}
	return all
}

// join sorts by time and makes one release of those at the same time. Whatever order equals come in
// makes no difference to anybody: all of them are released together. The pods of all releases share
// one list.
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

// releasesOn lists what ends on the nodes by the time, in order. It is all that a promise on these
// nodes depends on, but for limits of queues.
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

// Overdue lists the pods that have run for as long as they may, and notes their gangs as ending. It
// wakes when the next has. The members of a gang have run since the first of them started, so that
// a gang ends as one.
func (c *Calendar) Overdue() []*cluster.Pod {
	var over []*cluster.Pod
	starts := make(map[*cluster.Gang]time.Time)
	//archtest:any-order who evicts them sorts
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
			continue // nobody knows since when it runs
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

// End notes that the gang has to end.
func (c *Calendar) End(g *cluster.Gang) {
	if c.ending == nil {
		c.ending = make(map[*cluster.Gang]bool)
	}
	c.ending[g] = true
}

// HasToEnd says whether the gang has run for as long as it may, or has to leave booked nodes.
func (c *Calendar) HasToEnd(g *cluster.Gang) bool { return c.ending[g] }
