package dismiss

import (
	"maps"
	"slices"
	"strings"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/calendar"
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/draft"
	"github.com/berth-dev/berth/engine/internal/index"
	"github.com/berth-dev/berth/engine/internal/preempt"
)

// Dismissals are those of one cycle.
type Dismissals struct {
	draft      *draft.Draft
	m          *cluster.Model
	times      *calendar.Calendar
	candidates *preempt.Candidates

	disrupt func(*cluster.Pod)  // counts against its budgets
	retally func(*cluster.Gang) // counts its members again
}

// New makes the dismissals of a cycle.
func New(d *draft.Draft, m *cluster.Model, times *calendar.Calendar, candidates *preempt.Candidates, disrupt func(*cluster.Pod), retally func(*cluster.Gang)) *Dismissals {
	return &Dismissals{draft: d, m: m, times: times, candidates: candidates, disrupt: disrupt, retally: retally}
}

// Overdue ends what has run for as long as it may.
func (d *Dismissals) Overdue() { d.dismissAll(d.times.Overdue(), api.MaxRun) }

// Queues ends what runs in queues that are drained, as far as it has an owner that makes it again.
func (d *Dismissals) Queues() {
	var over []*cluster.Pod
	//archtest:any-order dismissAll sorts them
	for _, q := range d.m.Queues {
		if !q.Drains() || q.Frozen() {
			continue
		}
		for _, p := range q.Pods {
			if p.Node == "" || p.Leaving() || p.Owner == "" {
				continue
			}
			over = append(over, p)
			if p.In != nil {
				d.times.End(p.In)
			}
		}
	}
	d.dismissAll(over, api.Drained)
}

// Bookings keeps the nodes of bookings for their queues, and ends others' work there once a booking begins: of work
// that is not of the queue, what can be evicted and, where a gang would be left under its minimum, all of the gang, which
// nothing joins before it is gone.
func (d *Dismissals) Bookings() {
	over := make(map[*cluster.Pod]bool)
	for _, r := range d.times.KeepBookings() {
		for _, q := range r.Strangers() {
			for _, g := range d.candidates.Displaced(q, r.Covers, over) {
				d.times.End(g)
			}
		}
	}
	d.dismissAll(slices.Collect(maps.Keys(over)), api.Booked)
}

// Quarantine ends work on nodes whose hardware is not trusted, as far as it can be evicted, has an owner that makes it again, and
// would not come back: nodes that are open to it are left to the tool that watches the hardware. Where a
// gang would be left under its minimum all of it goes, so that it starts anew whole and elsewhere; a rank that is lost in the
// middle of a step costs the others their work since the last checkpoint. Where more than half of all nodes are
// quarantined nothing is ended: then it is more likely that the watch is broken than the hardware.
func (d *Dismissals) Quarantine() {
	bad := d.m.Quarantined
	//mutate: quarantine-of-most
	if len(bad) == 0 || 2*len(bad) > d.m.Specced {
		return
	}
	over := make(map[*cluster.Pod]bool)
	var gangs []*cluster.Gang
	for _, q := range payersOn(bad) {
		gangs = append(gangs, d.candidates.Displaced(q, func(n *cluster.Node) bool { return bad[n] }, over)...)
	}
	keep(over, func(p *cluster.Pod) bool { return p.Owner == "" || bad[p.Host] && !index.Closed(p.Host.Spec, &p.Spec) })
	for _, g := range gangs {
		if slices.ContainsFunc(g.Members, func(p *cluster.Pod) bool { return over[p] }) {
			d.times.End(g)
		}
	}
	d.dismissAll(slices.Collect(maps.Keys(over)), api.Unhealthy)
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

// Broken ends gangs that have been running under their minimum for too long. A gang that runs under its minimum is repaired before
// anything else is placed: a member that waits goes to the domain of the others. While that fails, what the gang holds helps
// nobody; so after a grace time all of it ends that somebody makes again, and it starts anew as a whole.
func (d *Dismissals) Broken(short []*cluster.Gang) {
	for _, key := range cluster.SortedKeys(d.m.Degradations) {
		if g := d.m.Gangs[key]; g == nil || !g.Degraded() {
			d.draft.Forget(api.KindDegradation, key, d.m.Degradations[key].Version)
		}
	}
	cluster.SortGangs(short)
	for _, g := range short {
		if !g.Degraded() {
			continue
		}
		since := d.draft.Now
		if l := d.m.Degradations[g.Key]; l != nil {
			since = l.Since.UTC()
		} else {
			d.draft.Remember(api.Change{Degradation: &api.Degradation{Gang: g.Key, Version: d.draft.NextVersion(), Since: d.draft.Now}})
		}
		due := since.Add(d.m.Config.GangGrace)
		//mutate: health-grace
		if d.draft.Now.Before(due) {
			d.draft.Wake(due)
			continue
		}
		d.release(g)
	}
}

// release ends the gang's members that an owner makes again.
func (d *Dismissals) release(g *cluster.Gang) {
	var over []*cluster.Pod
	for _, p := range g.Members {
		if p.Node != "" && p.Host != nil && !p.Leaving() && p.Owner != "" {
			over = append(over, p)
		}
	}
	d.dismissAll(over, api.Broken)
}

// dismissAll evicts the pods for the cause alone.
func (d *Dismissals) dismissAll(pods []*cluster.Pod, cause api.EvictionCause) {
	slices.SortFunc(pods, func(a, b *cluster.Pod) int { return strings.Compare(a.Key, b.Key) })
	for _, p := range pods {
		d.dismiss(p, cause)
	}
}

// dismiss evicts a pod for the cause alone, unless its queue is frozen or it was refused lately. It is warned as its queue says.
func (d *Dismissals) dismiss(p *cluster.Pod, cause api.EvictionCause) {
	q := d.m.QueueOf(p)
	//mutate: freeze-dismiss
	if q != nil && q.Frozen() {
		return
	}
	if e := d.m.EvictionOf(p); e != nil && cluster.Live(e.Until, d.draft.Now) {
		d.draft.Wake(e.Until)
		return
	}
	at := d.draft.Now
	if q != nil && q.Spec != nil {
		at = at.Add(q.Spec.Warning)
	}
	grace := d.m.TermsOf(p).Grace
	if grace == 0 {
		grace = calendar.UsualGrace
	}
	e := api.Eviction{Pod: p.Key, UID: p.UID, Version: d.draft.NextVersion(), Cause: cause, At: at, Until: at.Add(grace + d.m.Config.AssumeFor)}
	d.draft.Plan.Evictions = append(d.draft.Plan.Evictions, e)
	d.draft.Remember(api.Change{Eviction: &e})
	d.draft.Wake(e.Until)
	d.m.MarkEvicting(p)
	d.disrupt(p)
	if p.In != nil {
		d.retally(p.In)
	}
}
