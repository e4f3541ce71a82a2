package cli

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/engine/why"
	"github.com/berth-dev/berth/kube/scheduler"
	"github.com/berth-dev/berth/record"
)

// Bounds on how much of the past a diagnosis reads: an answer must not wait for it.
const (
	historyBudget = time.Second
	historyReach  = 24 * time.Hour
	historyMost   = 8 // moments, of which the latest are kept
	// historyBrief is for how long a cause has to last to be told, where it came once: pods of a gang are created one
	// after the other, and until the last is there its cause is another one.
	historyBrief = 2 * time.Second
)

// remember adds to the answer what the decision log says of the target's past. Only a cluster of this machine has one
// that can be read, with the rights of its administrator; what of it cannot be read is listed as not seen.
func (o *whyOptions) remember(d *diagnose.Diagnosis, f *facts.Facts) {
	if o.from != "" || d.State == facts.Succeeded {
		return
	}
	pods := servedPods(f, d.Target)
	at, err := o.choose()
	if err != nil || at.decisions == "" || len(pods) == 0 {
		return
	}
	past := newHistorian(f, pods)
	unseen := past.read(at.decisions, f.At, historyBudget)
	d.History = past.moments()
	d.Unseen = append(slices.Clip(d.Unseen), unseen...)
}

// servedPods are the target's that Berth's scheduler places.
func servedPods(f *facts.Facts, target facts.Ref) []*corev1.Pod {
	names := f.ServedBy(scheduler.DefaultName)
	if f.Served != nil {
		names = f.Served.Names
	}
	return slices.DeleteFunc(slices.Clone(f.PodsOf(target)), func(p *corev1.Pod) bool { return !slices.Contains(names, p.Spec.SchedulerName) })
}

// historian follows decisions and keeps what concerns one target. Its pods come and go under new names, so it knows them by
// their gang or by who makes them.
type historian struct {
	gangs  map[string]bool
	owners map[string]bool // as engine.Pod has them
	pods   map[string]bool // keys

	waits map[why.Cause]time.Time // those of now, and since when
	told  []diagnose.Moment
}

func newHistorian(f *facts.Facts, pods []*corev1.Pod) *historian {
	h := &historian{gangs: make(map[string]bool), owners: make(map[string]bool), pods: make(map[string]bool)}
	for _, p := range pods {
		key := p.Namespace + "/" + p.Name
		h.pods[key] = true
		if gang := f.GangOf(p); gang != "" {
			h.gangs[gang] = true
		} else if c := f.Controller(p); c != nil {
			h.owners[p.Namespace+"/"+strings.ToLower(facts.RefTo(c).Kind)+"/"+c.GetName()] = true
		}
	}
	return h
}

// read plays the log, the latest segment first, until the budget is spent. It returns what of it was not read.
func (h *historian) read(dir string, now time.Time, budget time.Duration) []facts.Unseen {
	deadline := time.Now().Add(budget)
	log, err := record.Open(dir)
	if err != nil {
		return decisionsUnseen(err.Error())
	}
	var unseen []facts.Unseen
	segments := log.Segments()
	for i, until := len(segments)-1, now; i >= 0; i-- {
		s := segments[i]
		if s.Err != nil {
			unseen = append(unseen, decisionsUnseen(s.Err.Error())...)
			continue
		}
		if now.Sub(until) > historyReach || time.Now().After(deadline) {
			return append(unseen, decisionsUnseen("not read before "+until.UTC().Format(time.RFC3339))...)
		}
		earlier := &historian{gangs: h.gangs, owners: h.owners, pods: h.pods}
		if err := earlier.play(log, s, until, deadline); err != nil {
			unseen = append(unseen, decisionsUnseen(err.Error())...)
		}
		h.told = append(earlier.told, h.told...)
		until = s.Start.Add(-time.Nanosecond)
	}
	return unseen
}

// decisionsUnseen says that the log was not read, or not all of it.
func decisionsUnseen(reason string) []facts.Unseen {
	return []facts.Unseen{{Resource: "decisions", Reason: reason}}
}

// errBudget ends the reading of a log that is too long for a diagnosis.
var errBudget = errors.New("too many decisions to read in the time for an answer")

// play follows one segment.
func (h *historian) play(log *record.Log, s record.Segment, until, deadline time.Time) error {
	for c, err := range log.Cycles(s.Start, until) {
		if err != nil {
			return err
		}
		if c.Segment.Path != s.Path {
			continue // another one of the same time: the clock went back
		}
		h.tell(c)
		if time.Now().After(deadline) {
			return fmt.Errorf("%w: read from %s to %s", errBudget, s.Start.UTC().Format(time.RFC3339), c.Now.UTC().Format(time.RFC3339))
		}
	}
	return nil
}

func (h *historian) tell(c record.Cycle) {
	if c.Number == 1 {
		for _, p := range c.State.Dump().Pods {
			h.meet(&p)
		}
	}
	for i := range c.Changes {
		h.change(c.Now, &c.Changes[i])
	}
	for i := range c.Plan.Evictions {
		h.eviction(c.Now, &c.Plan.Evictions[i])
	}
	for i := range c.Plan.Starts {
		if s := &c.Plan.Starts[i]; h.mine(s.Gang) {
			h.add(diagnose.Moment{At: c.Now, What: "starts", Text: startText(s.Placements)})
		}
	}
	h.wait(c)
}

// meet remembers the pod if it is one of the target's.
func (h *historian) meet(p *engine.Pod) {
	if h.gangs[p.Gang] || p.Owner != "" && p.Gang == "" && h.owners[p.Owner] {
		h.pods[p.Key] = true
	}
}

// mine says whether the key is that of the target's gang, or of a pod of its own that is a gang by itself.
func (h *historian) mine(workload string) bool { return h.gangs[workload] || h.pods[workload] }

func (h *historian) change(now time.Time, c *engine.Change) {
	switch {
	case c.Pod != nil:
		h.meet(c.Pod)
	case c.Refusal != nil && h.pods[c.Refusal.Pod]:
		h.add(diagnose.Moment{At: now, What: "refused", Text: fmt.Sprintf("node %s was chosen and could not be had: %s", c.Refusal.Node, c.Refusal.Reason)})
	}
}

func (h *historian) eviction(now time.Time, e *engine.Eviction) {
	if !h.pods[e.Pod] || e.Refused {
		return
	}
	text := string(e.Cause)
	if e.For != "" {
		text += " for " + e.For
	}
	h.add(diagnose.Moment{At: now, What: "evicted", Cause: why.Cause(e.Cause), Text: text})
}

// wait tells of causes that are new.
func (h *historian) wait(c record.Cycle) {
	before := h.waits
	h.waits = make(map[why.Cause]time.Time)
	for i := range c.Plan.Waiting {
		w := &c.Plan.Waiting[i]
		if _, known := h.waits[w.Cause]; known || !h.mine(w.Gang) {
			continue
		}
		since, waited := before[w.Cause]
		h.waits[w.Cause] = since
		if !waited {
			h.waits[w.Cause] = c.Now
			h.add(diagnose.Moment{At: c.Now, What: "waits", Cause: w.Cause, Text: string(w.Cause)})
		}
	}
	for cause, since := range before {
		if _, still := h.waits[cause]; !still && c.Now.Sub(since) < historyBrief {
			h.told = slices.DeleteFunc(h.told, func(m diagnose.Moment) bool { return m.What == "waits" && m.Cause == cause && m.At.Equal(since) })
		}
	}
}

func (h *historian) add(m diagnose.Moment) {
	m.Times, m.Last = 1, m.At
	h.told = append(h.told, m)
}

// moments are what was told, of which the same is told once, with how often it happened; in the order of when it last did.
// A second segment tells again what its first cycle finds: waits that go on are not counted again.
func (h *historian) moments() []diagnose.Moment {
	type kind struct{ what, text string }
	all := make(map[kind]*diagnose.Moment)
	var last *diagnose.Moment
	for _, m := range h.told {
		k := kind{m.What, m.Text}
		if m.What == "starts" {
			k.text = ""
		}
		old := all[k]
		switch {
		case old == nil:
			all[k] = &m
		case m.What == "waits" && old == last:
			continue
		default:
			old.Times++
			old.Last, old.Text = m.At, m.Text
		}
		last = all[k]
	}
	out := make([]diagnose.Moment, 0, len(all))
	for m := range maps.Values(all) {
		out = append(out, *m)
	}
	slices.SortFunc(out, func(a, b diagnose.Moment) int {
		return cmp.Or(a.Last.Compare(b.Last), a.At.Compare(b.At), cmp.Compare(a.What, b.What), cmp.Compare(a.Text, b.Text))
	})
	return out[max(0, len(out)-historyMost):]
}

func startText(all []engine.Placement) string {
	nodes := make(map[string]bool)
	for _, p := range all {
		nodes[p.Node] = true
	}
	return fmt.Sprintf("%s on %s", plural(len(all), "pod"), plural(len(nodes), "node"))
}
