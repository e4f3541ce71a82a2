package engine

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/cluster"
)

// guess is which of the run times that a workload may have is meant.
type guess uint8

const (
	safely  guess = iota // nine in ten workloads like it are over by then: for promises
	likely               // half of them are
	soonest              // one in ten is
)

// patience is how long work that is overdue is first given beyond its time; then twice as long, and so on.
const patience = time.Minute

// usualGrace is what a pod has to end where nobody says.
const usualGrace = 30 * time.Second

// runTime is how long a workload on these terms runs; 0: nobody knows. What its author says counts first. A promise
// then trusts the time after which it is ended more than what others like it did; a guess the other way round.
func (s *State) runTime(t *api.Terms, by guess) time.Duration {
	if t.Expected > 0 {
		return capped(t.Expected, t.Max)
	}
	if t.Max > 0 && by == safely {
		return t.Max
	}
	if l := s.m.Lessons[t.Like]; t.Like != "" && l != nil && !s.m.IsRejected(api.KindLesson, t.Like) {
		return capped([...]time.Duration{safely: l.Long, likely: l.Median, soonest: l.Short}[by], t.Max)
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

// endOf is when the pod is expected to give its allocation back; zero: nobody knows. The members of a gang end together,
// but for those on their way out.
func (y *cycle) endOf(p *cluster.Pod) time.Time {
	switch {
	case p.Terminating:
		if p.ReleaseAt.IsZero() {
			return y.Now
		}
		return overdue(p.ReleaseAt.UTC(), y.Now)
	case p.Evicting:
		return y.evictedBy(p)
	case p.Foreign:
		return time.Time{}
	case p.Gang == "":
		return y.workEnd(&p.Terms, y.startOf(p), !p.Firm())
	}
	g := p.In
	if g == nil {
		return time.Time{}
	}
	if end, ok := y.times.ends[g]; ok {
		return end
	}
	if y.times.ends == nil {
		y.times.ends = make(map[*cluster.Gang]time.Time)
	}
	end := y.gangEnd(g)
	y.times.ends[g] = end
	return end
}

// evictedBy is when a pod that is being evicted is gone.
func (y *cycle) evictedBy(p *cluster.Pod) time.Time {
	grace := y.s.m.TermsOf(p).Grace
	if grace == 0 {
		grace = usualGrace
	}
	at := y.Now
	if e := y.s.m.Evictions[p.Key]; e != nil {
		at = e.At.UTC()
	}
	return overdue(at.Add(grace), y.Now)
}

// gangEnd is when the members of the gang that run, and are not on their way out, end.
func (y *cycle) gangEnd(g *cluster.Gang) time.Time {
	if g.Spec == nil {
		return time.Time{}
	}
	started := y.gangStart(g)
	yields := !slices.ContainsFunc(g.Members, func(p *cluster.Pod) bool { return p.Host != nil && !p.Leaving() && p.Firm() })
	return y.workEnd(&g.Spec.Terms, started, yields)
}

// gangStart is since when the gang runs, counted from the first of its members that do; zero: for longer than anybody
// knows.
func (y *cycle) gangStart(g *cluster.Gang) time.Time {
	var first time.Time
	for _, p := range g.Members {
		if p.Host == nil || p.Leaving() {
			continue
		}
		at := y.startOf(p)
		if at.IsZero() {
			return at
		}
		if first.IsZero() || at.Before(first) {
			first = at
		}
	}
	return first
}

// startOf is since when the pod has its allocation; zero: for longer than anybody knows.
func (y *cycle) startOf(p *cluster.Pod) time.Time {
	if !p.Started.IsZero() {
		return p.Started.UTC()
	}
	if p.Node != "" {
		return time.Time{}
	}
	if a := y.s.m.Assumptions[p.Key]; a != nil && a.UID == p.UID && a.Node == p.Host.Name {
		return a.Until.UTC().Add(-y.s.m.Config.AssumeFor)
	}
	return y.Now
}

// workEnd is when work on these terms that started then ends. Work that was let in beside the promise that is looked
// at, may be evicted, and is past what its author said counts as over by now: it has to go once the promise is due, and
// so the promise does not move with it. Other work that is past its time is believed to go on for a while, and for
// twice as long each time that turns out wrong: so promises that wait for it move seldom. A guess at the soonest is that
// it ends at any moment, and a likely one that it ends halfway to when nine in ten of its like are over.
func (y *cycle) workEnd(t *api.Terms, started time.Time, yields bool) time.Time {
	d := y.s.runTime(t, y.times.by)
	if d == 0 || started.IsZero() {
		return time.Time{}
	}
	end := started.Add(d)
	if end.After(y.Now) {
		return end
	}
	said := t.Expected > 0 || t.Max > 0
	if since := y.times.since; yields && said && !since.IsZero() && !started.Before(since) && y.s.m.Config.Policy != api.FIFO {
		return y.Now
	}
	if y.times.by == soonest {
		return y.Now
	}
	if late := started.Add(y.s.runTime(t, safely)); late.After(y.Now) {
		return y.Now.Add(late.Sub(y.Now) / 2)
	}
	return overdue(end, y.Now)
}

// overdue is the time, or where it has come the first of patience, two, four and so on times it later that is yet to
// come.
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

// release is work that ends at one time: pods, and places that are held for work which will have come and gone.
type release struct {
	at    time.Time
	pods  []*cluster.Pod
	holds []*cluster.Hold
	who   string // the promised gang, or the booking, that gives back its room
}

// holdEnd is when the work that the place is held for is over; zero: nobody knows. It comes when those that are on
// their way out for it can be expected to be gone or, where that time has passed, when the place is held no longer. A promise
// that stands does not move for that delay: who comes too late to be over when the promise is due is not started.
func (y *cycle) holdEnd(h *cluster.Hold) time.Time {
	g := y.s.workloadNamed(h.Gang)
	if g == nil {
		//mutate: promise-coming
		if h.Coming {
			return time.Time{} // what an owner makes again stays
		}
		return later(h.Until.UTC(), y.Now)
	}
	d := y.s.runTime(g.Terms(), y.times.by)
	if d == 0 {
		return time.Time{}
	}
	start := h.Until.UTC().Add(-y.s.m.Config.AssumeFor)
	if start.After(y.Now) {
		y.Wake(start)
		return start.Add(d)
	}
	end := later(h.Until.UTC(), y.Now).Add(d)
	//mutate: promise-beside-a-hold
	if due := y.times.due; !due.IsZero() && end.After(due) {
		return later(due, y.Now)
	}
	return end
}

// heldPlaces lists the places that are held for workloads, those decided in this cycle too.
func (y *cycle) heldPlaces() []*cluster.Hold {
	k := &y.times
	if k.heldAt == y.Moment() {
		return k.held
	}
	k.held, k.heldAt = nil, y.Moment()
	for _, key := range cluster.SortedKeys(y.s.m.Holds) {
		k.held = append(k.held, y.s.m.Holds[key])
	}
	put, _ := y.s.m.HoldsTouched()
	for _, h := range put {
		if h.Gang != "" {
			k.held = append(k.held, h)
		}
	}
	return k.held
}

// releases lists what runs and has a known end, the first to end first.
func (y *cycle) releases() []release {
	k := &y.times
	if k.counted == y.Moment() && k.since.IsZero() {
		return k.releases
	}
	if y.s.m.Ending == 0 && len(y.s.m.Holds) == 0 {
		return nil
	}
	var all endings
	n := len(y.s.m.Unqueued.Pods)
	for _, q := range y.s.m.Queues {
		n += len(q.Pods)
	}
	all = make(endings, 0, n)
	//archtest:any-order what ends at one time is lifted together
	for _, q := range y.s.m.Queues {
		all = y.endingsOf(q.Pods, all)
	}
	all = y.endingsOf(y.s.m.Unqueued.Pods, all)
	for _, h := range y.heldPlaces() {
		all = all.add(y.holdEnd(h), nil, h)
	}
	out := all.join()
	if k.since.IsZero() {
		k.releases, k.counted = out, y.Moment()
	}
	return out
}

// ending is one pod that ends, or one place that is held until then.
type ending struct {
	at   int64 // in nanoseconds of Unix time
	pod  *cluster.Pod
	hold *cluster.Hold
}

type endings []ending

// add adds an end, if it is known.
func (all endings) add(at time.Time, p *cluster.Pod, h *cluster.Hold) endings {
	if at.IsZero() {
		return all
	}
	return append(all, ending{at.UnixNano(), p, h})
}

// endingsOf adds the known ends of the pods.
func (y *cycle) endingsOf(pods []*cluster.Pod, all endings) endings {
	for _, p := range pods {
		all = all.add(y.endOf(p), p, nil)
	}
	return all
}

// join sorts by time and makes one release of those at the same.
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
		r.pods = pods[len(pods)-1-len(r.pods):]
	}
	return out
}

// releasesOn lists what ends on the nodes by the time.
func (y *cycle) releasesOn(nodes []*cluster.Node, by time.Time) []release {
	var all endings
	for _, n := range nodes {
		all = y.endingsOf(n.Pods, all)
	}
	for _, h := range y.heldPlaces() {
		if slices.Contains(nodes, h.On) {
			all = all.add(y.holdEnd(h), nil, h)
		}
	}
	last := by.UnixNano()
	return slices.DeleteFunc(all, func(e ending) bool { return e.at > last }).join()
}

// endOverdue ends what has run for as long as it may.
func (y *cycle) endOverdue() {
	var over []*cluster.Pod
	starts := make(map[*cluster.Gang]time.Time)
	//archtest:any-order each is judged by itself, and evictions are sorted
	for p := range y.s.m.TimeLimited {
		if p.Leaving() || p.Node == "" {
			continue
		}
		started := y.startOf(p)
		if g := p.In; g != nil && g.Lone == nil {
			if _, ok := starts[g]; !ok {
				starts[g] = y.gangStart(g)
			}
			started = starts[g]
		}
		if started.IsZero() {
			continue // nobody knows since when it runs
		}
		//mutate: time-max-run
		if due := started.Add(y.s.m.TermsOf(p).Max); y.Now.Before(due) {
			y.Wake(due)
			continue
		}
		over = append(over, p)
		if g := p.In; g != nil {
			y.times.ending = append(y.times.ending, g)
		}
	}
	y.dismissAll(over, api.MaxRun)
}

// isEnding says whether the gang has to go and some of it is still there, which could not be evicted: nothing joins it. One
// that is on its way out whole may begin anew, and then grow.
func (y *cycle) isEnding(g *cluster.Gang) bool {
	return y.starts[g] == 0 && g.Tree.Running() > 0 && slices.Contains(y.times.ending, g)
}

// dismissAll evicts the pods for the cause alone.
func (y *cycle) dismissAll(pods []*cluster.Pod, cause api.EvictionCause) {
	slices.SortFunc(pods, func(a, b *cluster.Pod) int { return strings.Compare(a.Key, b.Key) })
	for _, p := range pods {
		y.dismiss(p, cause)
	}
}

// dismiss evicts a pod for the cause alone, unless it was refused lately. It is warned as its queue says.
func (y *cycle) dismiss(p *cluster.Pod, cause api.EvictionCause) {
	if e := y.s.m.Evictions[p.Key]; e != nil && e.UID == p.UID && cluster.Live(e.Until, y.Now) {
		y.Wake(e.Until)
		return
	}
	at := y.Now
	if q := y.s.m.QueueOf(p); q != nil && q.Spec != nil {
		at = at.Add(q.Spec.Warning)
	}
	grace := y.s.m.TermsOf(p).Grace
	if grace == 0 {
		grace = usualGrace
	}
	e := api.Eviction{Pod: p.Key, UID: p.UID, Version: y.NextVersion(), Cause: cause, At: at, Until: at.Add(grace + y.s.m.Config.AssumeFor)}
	y.Plan.Evictions = append(y.Plan.Evictions, e)
	y.Remember(api.Change{Eviction: &e})
	y.Wake(e.Until)
	y.s.m.MarkEvicting(p)
	y.preempt.Disrupt(p)
	if p.In != nil {
		y.retally(p.In)
	}
}
