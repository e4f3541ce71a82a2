package submit

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/berth-dev/berth/diagnose"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/engine"
)

// Day is what a scheduler in the shadow of another decided in a span of time: its decision log, gone through once.
type Day struct {
	begun map[string]time.Time // workloads, and when a plan started each first
}

// NewDay is a day of which nothing is known yet.
func NewDay() *Day { return &Day{begun: make(map[string]time.Time)} }

// Cycle takes in the plan of one cycle.
func (d *Day) Cycle(now time.Time, p *engine.Plan) {
	for i := range p.Starts {
		if g := p.Starts[i].Gang; d.begun[g].IsZero() {
			d.begun[g] = now
		}
	}
}

// Adopt is the report at the end of the day: of each workload what it does, and what it would do under Berth, from the last state and plan.
// What ran at the end was bound by the old scheduler; where Berth would have started it is told. Which fields have no effect, the log
// does not say: it has the engine's values, not objects.
func (d *Day) Adopt(from string, at time.Time, state engine.Snapshot, plan *engine.Plan) Adoption {
	out := Adoption{APIVersion: diagnose.APIVersion, Kind: AdoptionKind, At: at, Against: "decisions", From: from}
	queueOf, gates := make(map[string]string), make(map[string]string)
	for i := range state.Gangs {
		queueOf[state.Gangs[i].Key] = state.Gangs[i].Queue
	}
	for i := range plan.Waiting {
		gates[plan.Waiting[i].Gang] = string(plan.Waiting[i].Cause)
	}
	where, evicted := make(map[string]string), make(map[string]string)
	for _, s := range plan.Starts {
		for _, p := range s.Placements {
			where[p.Pod] = p.Node
		}
	}
	for _, e := range plan.Evictions {
		evicted[e.Pod] = cmp.Or(e.For, string(e.Cause))
	}
	found := make(map[string]*adopting)
	for i := range state.Pods {
		p := &state.Pods[i]
		if p.Foreign {
			continue
		}
		key := cmp.Or(p.Gang, p.Key)
		w := found[key]
		if w == nil {
			w = &adopting{AdoptedWorkload: AdoptedWorkload{Target: workloadRef(key), Queue: cmp.Or(queueOf[p.Gang], p.Queue)}, now: make(map[string]bool), then: make(map[string]bool)}
			if t := d.begun[key]; !t.IsZero() {
				w.Begun = &t
			}
			found[key] = w
		}
		w.Pods++
		for _, r := range p.Spec.Requests {
			if strings.HasSuffix(r.Resource, "/gpu") {
				w.GPUs += r.Value
			}
		}
		w.see(p.Node, where[p.Key], evicted[p.Key])
		if p.Node != "" && !p.Started.IsZero() && (w.Bound == nil || p.Started.After(*w.Bound)) {
			t := p.Started
			w.Bound = &t
		}
		if w.waits > 0 {
			w.Then.Cause = gates[key]
		}
	}
	for _, key := range slices.Sorted(maps.Keys(found)) {
		w := found[key]
		w.judge()
		out.Workloads = append(out.Workloads, w.AdoptedWorkload)
	}
	out.sort()
	out.count(make(map[string]*AdoptedQueue))
	return out
}

// workloadRef names a workload by its key: namespace/gang/name, or a pod's.
func workloadRef(key string) facts.Ref {
	namespace, rest, _ := strings.Cut(key, "/")
	kind, name, ok := strings.Cut(rest, "/")
	switch {
	case !ok:
		return facts.Ref{Kind: "Pod", Namespace: namespace, Name: rest}
	case kind == "podgroup":
		return facts.Ref{Kind: "PodGroup", Namespace: namespace, Name: name}
	}
	return facts.Ref{Kind: "Gang", Namespace: namespace, Name: name}
}
