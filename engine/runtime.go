package engine

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/berth-dev/berth/engine/internal/api"
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
	if l := s.lessons[t.Like]; t.Like != "" && l != nil && !s.isRejected(api.KindLesson, t.Like) {
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

// termsOf returns what holds for the pod's workload over time.
func (s *State) termsOf(p *pod) *api.Terms {
	if p.Gang == "" {
		return &p.Terms
	}
	if g := p.gang; g != nil && g.spec != nil {
		return &g.spec.Terms
	}
	return &api.Terms{}
}

// terms returns what holds for the gang over time.
func (g *gang) terms() *api.Terms {
	switch {
	case g.lone != nil:
		return &g.lone.Terms
	case g.spec != nil:
		return &g.spec.Terms
	}
	return &api.Terms{}
}

// endOf is when the pod is expected to give its seat back; zero: nobody knows. The members of a gang end together,
// but for those on their way out.
func (y *cycle) endOf(p *pod) time.Time {
	switch {
	case p.Terminating:
		if p.ReleaseAt.IsZero() {
			return y.now
		}
		return overdue(p.ReleaseAt.UTC(), y.now)
	case p.evicting:
		return y.evictedBy(p)
	case p.Foreign:
		return time.Time{}
	case p.Gang == "":
		return y.workEnd(&p.Terms, y.startOf(p), !p.firm())
	}
	g := p.gang
	if g == nil {
		return time.Time{}
	}
	if end, ok := y.times.ends[g]; ok {
		return end
	}
	if y.times.ends == nil {
		y.times.ends = make(map[*gang]time.Time)
	}
	end := y.gangEnd(g)
	y.times.ends[g] = end
	return end
}

// evictedBy is when a pod that is being evicted is gone.
func (y *cycle) evictedBy(p *pod) time.Time {
	grace := y.s.termsOf(p).Grace
	if grace == 0 {
		grace = usualGrace
	}
	at := y.now
	if e := y.s.evictions[p.Key]; e != nil {
		at = e.At.UTC()
	}
	return overdue(at.Add(grace), y.now)
}

// gangEnd is when the members of the gang that run, and are not on their way out, end.
func (y *cycle) gangEnd(g *gang) time.Time {
	if g.spec == nil {
		return time.Time{}
	}
	started := y.gangStart(g)
	yields := !slices.ContainsFunc(g.members, func(p *pod) bool { return p.seat != nil && !p.leaving() && p.firm() })
	return y.workEnd(&g.spec.Terms, started, yields)
}

// gangStart is since when the gang runs, counted from the first of its members that do; zero: for longer than anybody
// knows.
func (y *cycle) gangStart(g *gang) time.Time {
	var first time.Time
	for _, p := range g.members {
		if p.seat == nil || p.leaving() {
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

// startOf is since when the pod has its seat; zero: for longer than anybody knows.
func (y *cycle) startOf(p *pod) time.Time {
	if !p.Started.IsZero() {
		return p.Started.UTC()
	}
	if p.Node != "" {
		return time.Time{}
	}
	if a := y.s.assumptions[p.Key]; a != nil && a.UID == p.UID && a.Node == p.seat.name {
		return a.Until.UTC().Add(-y.s.cfg.AssumeFor)
	}
	return y.now
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
	if end.After(y.now) {
		return end
	}
	said := t.Expected > 0 || t.Max > 0
	if since := y.times.since; yields && said && !since.IsZero() && !started.Before(since) && y.s.cfg.Policy != api.FIFO {
		return y.now
	}
	if y.times.by == soonest {
		return y.now
	}
	if late := started.Add(y.s.runTime(t, safely)); late.After(y.now) {
		return y.now.Add(late.Sub(y.now) / 2)
	}
	return overdue(end, y.now)
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
	pods  []*pod
	holds []*hold
	who   string // the promised gang, or the booking, that gives back its room
}

// holdEnd is when the work that the place is held for is over; zero: nobody knows. It comes when those that are on
// their way out for it can be expected to be gone or, where that time has passed, when the place is held no longer.
func (y *cycle) holdEnd(h *hold) time.Time {
	g := y.s.workloadNamed(h.Gang)
	if g == nil {
		//mutate: promise-coming
		if h.Coming {
			return time.Time{} // what an owner makes again stays
		}
		return later(h.Until.UTC(), y.now)
	}
	d := y.s.runTime(g.terms(), y.times.by)
	if d == 0 {
		return time.Time{}
	}
	start := h.Until.UTC().Add(-y.s.cfg.AssumeFor)
	if start.After(y.now) {
		y.wake(start)
		return start.Add(d)
	}
	return later(h.Until.UTC(), y.now).Add(d)
}

// heldPlaces lists the places that are held for workloads, those decided in this cycle too.
func (y *cycle) heldPlaces() []*hold {
	k := &y.times
	if k.heldAt == y.moment() {
		return k.held
	}
	k.held, k.heldAt = nil, y.moment()
	for _, h := range y.s.holds {
		k.held = append(k.held, h)
	}
	for _, e := range y.s.journal {
		if e.did == held && e.hold.Gang != "" {
			k.held = append(k.held, e.hold)
		}
	}
	return k.held
}

// releases lists what runs and has a known end, the first to end first.
func (y *cycle) releases() []release {
	k := &y.times
	if k.counted == y.moment() && k.since.IsZero() {
		return k.releases
	}
	if y.s.ends == 0 && len(y.s.holds) == 0 {
		return nil
	}
	var all endings
	n := len(y.s.nobody.pods)
	for _, q := range y.s.queues {
		n += len(q.pods)
	}
	all = make(endings, 0, n)
	for _, q := range y.s.queues {
		all = y.endingsOf(q.pods, all)
	}
	all = y.endingsOf(y.s.nobody.pods, all)
	for _, h := range y.heldPlaces() {
		all = all.add(y.holdEnd(h), nil, h)
	}
	out := all.join()
	if k.since.IsZero() {
		k.releases, k.counted = out, y.moment()
	}
	return out
}

// ending is one pod that ends, or one place that is held until then.
type ending struct {
	at   int64 // in nanoseconds of Unix time
	pod  *pod
	hold *hold
}

type endings []ending

// add adds an end, if it is known.
func (all endings) add(at time.Time, p *pod, h *hold) endings {
	if at.IsZero() {
		return all
	}
	return append(all, ending{at.UnixNano(), p, h})
}

// endingsOf adds the known ends of the pods.
func (y *cycle) endingsOf(pods []*pod, all endings) endings {
	for _, p := range pods {
		all = all.add(y.endOf(p), p, nil)
	}
	return all
}

// join sorts by time and makes one release of those at the same.
func (all endings) join() []release {
	slices.SortFunc(all, func(a, b ending) int { return cmp.Compare(a.at, b.at) })
	pods := make([]*pod, 0, len(all))
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

// moment tells apart the times in a cycle between which something started or was evicted.
func (y *cycle) moment() [2]int { return [2]int{len(y.plan.Starts) + 1, len(y.plan.Evictions)} }

// releasesOn lists what ends on the nodes by the time.
func (y *cycle) releasesOn(nodes []*node, by time.Time) []release {
	var all endings
	for _, n := range nodes {
		all = y.endingsOf(n.occ, all)
	}
	for _, h := range y.heldPlaces() {
		if slices.Contains(nodes, h.on) {
			all = all.add(y.holdEnd(h), nil, h)
		}
	}
	last := by.UnixNano()
	return slices.DeleteFunc(all, func(e ending) bool { return e.at > last }).join()
}

// endOverdue ends what has run for as long as it may.
func (y *cycle) endOverdue() {
	var over []*pod
	starts := make(map[*gang]time.Time)
	for p := range y.s.bounded {
		if p.leaving() || p.Node == "" {
			continue
		}
		started := y.startOf(p)
		if g := p.gang; g != nil && g.lone == nil {
			if _, ok := starts[g]; !ok {
				starts[g] = y.gangStart(g)
			}
			started = starts[g]
		}
		if started.IsZero() {
			continue // nobody knows since when it runs
		}
		//mutate: time-max-run
		if due := started.Add(y.s.termsOf(p).Max); y.now.Before(due) {
			y.wake(due)
			continue
		}
		over = append(over, p)
		if g := p.gang; g != nil {
			y.times.ending = append(y.times.ending, g)
		}
	}
	y.dismissAll(over, api.MaxRun)
}

// isEnding says whether the gang has to go and some of it is still there, which could not be evicted: nothing joins it. One
// that is on its way out whole may begin anew, and then grow.
func (y *cycle) isEnding(g *gang) bool {
	return g.start == 0 && g.tree.running() > 0 && slices.Contains(y.times.ending, g)
}

// dismissAll evicts the pods for the cause alone.
func (y *cycle) dismissAll(pods []*pod, cause api.EvictionCause) {
	slices.SortFunc(pods, func(a, b *pod) int { return strings.Compare(a.Key, b.Key) })
	for _, p := range pods {
		y.dismiss(p, cause)
	}
}

// bound keeps the list of seated pods whose workloads have a longest run time.
func (s *State) bound(p *pod, seated bool) {
	if !seated {
		if len(s.bounded) > 0 {
			delete(s.bounded, p)
		}
		return
	}
	if s.termsOf(p).Max > 0 {
		if s.bounded == nil {
			s.bounded = make(map[*pod]bool)
		}
		s.bounded[p] = true
	}
}

// dismiss evicts a pod for the cause alone, unless it was refused lately. It is warned as its queue says.
func (y *cycle) dismiss(p *pod, cause api.EvictionCause) {
	if e := y.s.evictions[p.Key]; e != nil && e.UID == p.UID && live(e.Until, y.now) {
		y.wake(e.Until)
		return
	}
	at := y.now
	if q := y.s.queueOf(p); q != nil && q.spec != nil {
		at = at.Add(q.spec.Warning)
	}
	grace := y.s.termsOf(p).Grace
	if grace == 0 {
		grace = usualGrace
	}
	y.version++
	e := api.Eviction{Pod: p.Key, UID: p.UID, Version: y.version, Cause: cause, At: at, Until: at.Add(grace + y.s.cfg.AssumeFor)}
	y.plan.Evictions = append(y.plan.Evictions, e)
	y.plan.Changes = append(y.plan.Changes, api.Change{Eviction: &e})
	y.wake(e.Until)
	y.s.condemn(p)
	y.underWay()
	y.disrupt(p)
	if p.gang != nil {
		y.retally(p.gang)
	}
}
