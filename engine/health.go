package engine

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/calendar"
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/index"
)

// Gang health. A gang that runs under its minimum is repaired before anything else is placed: a member that waits goes
// to the domain of the others. While that fails what the gang holds helps nobody, so after a grace time it is let go
// whole, and starts anew as a whole. Members that nobody would make again stay.

// releaseBroken ends gangs that have been running under their minimum for too long.
func (y *cycle) releaseBroken() {
	s := y.s
	for _, key := range cluster.SortedKeys(s.m.Degradations) {
		if g := s.m.Gangs[key]; g == nil || !g.Degraded() {
			y.Forget(api.KindDegradation, key, s.m.Degradations[key].Version)
		}
	}
	for g := range s.line.Short {
		y.short = append(y.short, g)
	}
	cluster.SortGangs(y.short)
	for _, g := range y.short {
		if !g.Degraded() {
			continue
		}
		since := y.Now
		if l := s.m.Degradations[g.Key]; l != nil {
			since = l.Since.UTC()
		} else {
			y.Remember(api.Change{Degradation: &api.Degradation{Gang: g.Key, Version: y.NextVersion(), Since: y.Now}})
		}
		due := since.Add(s.m.Config.GangGrace)
		//mutate: health-grace
		if y.Now.Before(due) {
			y.Wake(due)
			continue
		}
		y.release(g)
	}
}

// DegradedSince is since when the gang of the key has been running under its minimum; zero: it does not.
func (s *State) DegradedSince(key string) time.Time {
	if l := s.m.Degradations[key]; l != nil {
		return l.Since.UTC()
	}
	return time.Time{}
}

// release ends the gang's members that somebody makes again.
func (y *cycle) release(g *cluster.Gang) {
	var over []*cluster.Pod
	for _, p := range g.Members {
		if p.Node != "" && p.Host != nil && !p.Leaving() && p.Owner != "" {
			over = append(over, p)
		}
	}
	y.dismissAll(over, api.Broken)
}

// endOverdue ends what has run for as long as it may.
func (y *cycle) endOverdue() { y.dismissAll(y.times.Overdue(), api.MaxRun) }

// drainQueues ends what runs in queues that are drained, as far as somebody makes it again.
func (y *cycle) drainQueues() {
	var over []*cluster.Pod
	for _, name := range cluster.SortedKeys(y.s.m.Queues) {
		q := y.s.m.Queues[name]
		if !q.Drains() || q.Frozen() {
			continue
		}
		for _, p := range q.Pods {
			if p.Node == "" || p.Leaving() || p.Owner == "" {
				continue
			}
			over = append(over, p)
			if p.In != nil {
				y.times.End(p.In)
			}
		}
	}
	y.dismissAll(over, api.Drained)
}

// keepBookings keeps the nodes of bookings for their queues, and ends others' work there once a booking begins: of work
// that is not of the queue, what can be evicted and, where a gang would be left under its minimum, all of the gang, which
// nothing joins before it is gone.
func (y *cycle) keepBookings() {
	over := make(map[*cluster.Pod]bool)
	for _, r := range y.times.KeepBookings() {
		for _, q := range r.Strangers() {
			for _, g := range y.s.candidates.Displaced(q, r.Covers, over) {
				y.times.End(g)
			}
		}
	}
	y.dismissAll(slices.Collect(maps.Keys(over)), api.Booked)
}

// leaveQuarantine ends work on nodes whose hardware is not trusted, as far as it can be evicted, somebody makes it again, and it
// would not come back: nodes that are open to it are left to whoever watches the hardware. Where a
// gang would be left under its minimum all of it goes, so that it starts anew whole and elsewhere; a rank that is lost in the
// middle of a step costs the others their work since the last checkpoint. Where more than half of all nodes are
// quarantined nothing is ended: then it is more likely that the watch is broken than the hardware.
func (y *cycle) leaveQuarantine() {
	bad := y.s.m.Quarantined
	//mutate: quarantine-of-most
	if len(bad) == 0 || 2*len(bad) > y.s.m.Specced {
		return
	}
	over := make(map[*cluster.Pod]bool)
	var gangs []*cluster.Gang
	for _, q := range payersOn(bad) {
		gangs = append(gangs, y.s.candidates.Displaced(q, func(n *cluster.Node) bool { return bad[n] }, over)...)
	}
	keep(over, func(p *cluster.Pod) bool { return p.Owner == "" || bad[p.Host] && !index.Closed(p.Host.Spec, &p.Spec) })
	for _, g := range gangs {
		if slices.ContainsFunc(g.Members, func(p *cluster.Pod) bool { return over[p] }) {
			y.times.End(g)
		}
	}
	y.dismissAll(slices.Collect(maps.Keys(over)), api.Unhealthy)
}

// payersOn are the queues whose work is on the nodes, each once.
func payersOn(nodes map[*cluster.Node]bool) []*cluster.Queue {
	var out []*cluster.Queue
	for n := range nodes { //archtest:any-order the queues are a set
		for _, p := range n.Pods {
			if p.Payer != nil && !slices.Contains(out, p.Payer) {
				out = append(out, p.Payer)
			}
		}
	}
	return out
}

// keep takes out of the pods those that stay, and with one of a gang all of it.
func keep(pods map[*cluster.Pod]bool, stays func(*cluster.Pod) bool) {
	whole := make(map[*cluster.Gang]bool)
	for p := range pods { //archtest:any-order a set
		if p.In != nil && stays(p) {
			whole[p.In] = true
		}
	}
	maps.DeleteFunc(pods, func(p *cluster.Pod, _ bool) bool { return whole[p.In] || stays(p) })
}

// isEnding says whether the gang has to go and some of it is still there, which could not be evicted: nothing joins it. One
// that is on its way out whole may begin anew, and then grow.
func (y *cycle) isEnding(g *cluster.Gang) bool {
	return y.starts[g] == 0 && g.Tree.Running() > 0 && y.times.HasToEnd(g)
}

// dismissAll evicts the pods for the cause alone.
func (y *cycle) dismissAll(pods []*cluster.Pod, cause api.EvictionCause) {
	slices.SortFunc(pods, func(a, b *cluster.Pod) int { return strings.Compare(a.Key, b.Key) })
	for _, p := range pods {
		y.dismiss(p, cause)
	}
}

// dismiss evicts a pod for the cause alone, unless its queue is frozen or it was refused lately. It is warned as its queue says.
func (y *cycle) dismiss(p *cluster.Pod, cause api.EvictionCause) {
	q := y.s.m.QueueOf(p)
	//mutate: freeze-dismiss
	if q != nil && q.Frozen() {
		return
	}
	if e := y.s.m.Evictions[p.Key]; e != nil && e.UID == p.UID && cluster.Live(e.Until, y.Now) {
		y.Wake(e.Until)
		return
	}
	at := y.Now
	if q != nil && q.Spec != nil {
		at = at.Add(q.Spec.Warning)
	}
	grace := y.s.m.TermsOf(p).Grace
	if grace == 0 {
		grace = calendar.UsualGrace
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
