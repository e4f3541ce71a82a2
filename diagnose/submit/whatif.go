package submit

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/engine"
)

// WhatIfKind is of a WhatIf printed as JSON. Its fields are a contract with other tools (ADR 38).
const WhatIfKind = "WhatIf"

// Changes are what a cluster is imagined to be like.
type Changes struct {
	AddNodes []Count  // more nodes like those of a pool
	Drain    []string // nodes
	Quota    []Count  // of GPUs: a queue's, or that of a namespace's ResourceQuota
}

// Count is how many of something.
type Count struct {
	Of string
	N  int64
}

// WhatIf is the plan before and after the changes.
type WhatIf struct {
	APIVersion string         `json:"apiVersion"`
	Kind       string         `json:"kind"`
	At         time.Time      `json:"at"`
	Against    string         `json:"against"`
	Changes    []string       `json:"changes"`
	Before     Capacity       `json:"before"`
	After      Capacity       `json:"after"`
	Workloads  []Outcome      `json:"workloads"` // what waits, or is moved, before or after
	Assumes    []string       `json:"assumes,omitempty"`
	Unseen     []facts.Unseen `json:"unseen,omitempty"`
}

// Capacity is a plan in numbers.
type Capacity struct {
	Nodes    int   `json:"nodes"` // that take pods
	GPUs     int64 `json:"gpus"`
	Used     int64 `json:"used"` // by what runs
	Starting int64 `json:"starting"`
	Waiting  int   `json:"waitingWorkloads"`
}

// Outcome is one workload before and after.
type Outcome struct {
	Target facts.Ref `json:"target"`
	Pods   int       `json:"pods"`
	GPUs   int64     `json:"gpus"`
	Before State     `json:"before"`
	After  State     `json:"after"`
}

// State is what becomes of a workload in one of the two plans.
type State struct {
	State   string     `json:"state"` // absent, runs, starts, waits, evicted or gone: it ran, and nothing makes it again
	Pods    int        `json:"pods,omitempty"`
	Nodes   []string   `json:"nodes,omitempty"`
	Cause   string     `json:"cause,omitempty"`
	ETA     *facts.ETA `json:"eta,omitempty"`
	Because string     `json:"because,omitempty"`
}

// ErrBlind says that nothing can be planned.
var ErrBlind = errors.New("nodes, or the pods on them, could not be read: nothing can be planned")

// Same says whether two states are one to people.
func (s State) Same(o State) bool {
	return s.State == o.State && s.Pods == o.Pods && s.Cause == o.Cause && slices.Equal(s.Nodes, o.Nodes) && (s.ETA == nil) == (o.ETA == nil) && (s.ETA == nil || s.ETA.Likely.Equal(o.ETA.Likely))
}

// Imagine plans everything that waits twice: as things are, and after the changes, with the manifests submitted. Nothing is
// changed. An error is of changes that cannot be imagined: a pool, node or queue that does not exist.
func Imagine(w World, namespace string, items []Item, ch Changes) (WhatIf, error) {
	out := WhatIf{APIVersion: diagnose.APIVersion, Kind: WhatIfKind, At: w.Facts.At, Against: w.Against, Assumes: w.Assumes, Unseen: slices.Clone(w.Facts.Unseen)}
	if !w.Facts.Sees("nodes", "") || !w.Facts.Sees("pods", "") {
		return out, ErrBlind
	}
	after, said, err := ch.apply(w.Facts)
	if err != nil {
		return out, err
	}
	out.Changes = said
	before := planAll(w, w.Facts, nil)
	c := newChecker(World{Facts: after, Model: w.Model, Bare: w.Bare})
	objects := c.read(namespace, items)
	var pods []*corev1.Pod
	for _, s := range c.subs {
		out.Changes = append(out.Changes, "submit "+s.Ref.String())
		pods = append(pods, s.pods...)
	}
	c.now = with(after, objects)
	then := planAll(w, c.now, pods)
	for _, s := range c.subs {
		for _, p := range s.pods {
			then.owners[keyOf(p)] = s.Ref
		}
	}
	out.Before, out.After = before.capacity, then.capacity
	out.Workloads = compare(before, then)
	out.Assumes = append(slices.Clone(out.Assumes), c.assumes...)
	return out, nil
}

// whole is one plan of everything.
type whole struct {
	facts    *facts.Facts
	capacity Capacity
	plan     engine.Plan
	pods     map[string]*corev1.Pod // that wait, by key
	where    map[string]string
	workload map[string]string // by pod
	etas     map[string]engine.Estimate
	owners   map[string]facts.Ref // by pod
	refused  map[string]string    // why a pod of the manifests is not created, by pod
}

// mostForecast bounds the workloads of which it is said when they start.
const mostForecast = 200

func planAll(w World, f *facts.Facts, more []*corev1.Pod) *whole {
	p := newPlanner(f, w.Model)
	out := &whole{facts: f, pods: make(map[string]*corev1.Pod), where: make(map[string]string), workload: make(map[string]string), etas: make(map[string]engine.Estimate), owners: make(map[string]facts.Ref), refused: make(map[string]string)}
	for key, r := range overQuota(f.ResourceQuotas, more) {
		out.refused[key] = r.String()
	}
	may := slices.DeleteFunc(slices.Clone(more), func(p *corev1.Pod) bool { return out.refused[keyOf(p)] != "" })
	waiting := slices.Concat(pending(f), may)
	p.set(waiting)
	out.plan = p.model.Plan(f.At)
	for _, e := range p.model.Forecast(f.At, mostForecast) {
		out.etas[e.Gang] = e
	}
	for _, pod := range slices.Concat(pending(f), more) {
		key := keyOf(pod)
		out.pods[key], out.workload[key] = pod, cmp.Or(p.model.WorkloadOf(key), key)
		out.owners[key] = facts.RefTo(f.TopOwner(pod))
	}
	for _, s := range out.plan.Starts {
		for _, at := range s.Placements {
			out.where[at.Pod] = at.Node
		}
	}
	p.next(p.unruled(&out.plan, waiting), waiting, out.where)
	out.count()
	return out
}

func (w *whole) count() {
	for _, n := range w.facts.Nodes {
		if !n.Spec.Unschedulable && facts.NodeReady(n) {
			w.capacity.Nodes++
			w.capacity.GPUs += gpusIn(n.Status.Allocatable)
		}
	}
	for _, p := range w.facts.Pods {
		if p.Spec.NodeName != "" && !facts.Ended(p) {
			w.capacity.Used += gpusOf(p)
		}
	}
	for key := range w.where {
		if p := w.pods[key]; p != nil {
			w.capacity.Starting += gpusOf(p)
		}
	}
	waiting := make(map[string]bool)
	for key := range w.pods {
		if w.where[key] == "" {
			waiting[w.workload[key]] = true
		}
	}
	w.capacity.Waiting = len(waiting)
}

func gpusIn(l corev1.ResourceList) int64 {
	n := int64(0)
	for name, q := range l {
		if strings.HasSuffix(string(name), "/gpu") {
			n += q.Value()
		}
	}
	return n
}

// compare lists the workloads that wait in one of the plans, or are moved, by namespace and name; those that change first.
func compare(before, after *whole) []Outcome {
	all := make(map[facts.Ref]*Outcome)
	pods := make(map[facts.Ref]map[string]*corev1.Pod)
	see := func(w *whole) {
		for _, key := range slices.Sorted(maps.Keys(w.pods)) {
			p, r := w.pods[key], w.owners[key]
			if all[r] == nil {
				all[r], pods[r] = &Outcome{Target: r}, make(map[string]*corev1.Pod)
			}
			pods[r][key] = p
		}
		for _, e := range w.plan.Evictions {
			namespace, name, _ := strings.Cut(e.Pod, "/")
			if p := w.facts.PodNamed(namespace, name); p != nil {
				r := facts.RefTo(w.facts.TopOwner(p))
				if all[r] == nil {
					all[r], pods[r] = &Outcome{Target: r}, make(map[string]*corev1.Pod)
				}
				pods[r][e.Pod] = p
			}
		}
	}
	see(before)
	see(after)
	for _, p := range before.facts.Pods { // that leave with their node
		if p.Spec.NodeName == "" || facts.Ended(p) || after.facts.PodNamed(p.Namespace, p.Name) != nil {
			continue
		}
		r := facts.RefTo(before.facts.TopOwner(p))
		if all[r] == nil {
			all[r], pods[r] = &Outcome{Target: r}, make(map[string]*corev1.Pod)
		}
		pods[r][keyOf(p)] = p
	}
	var out []Outcome
	for r, o := range all {
		keys := slices.Sorted(maps.Keys(pods[r]))
		o.Pods = len(keys)
		for _, key := range keys {
			o.GPUs += gpusOf(pods[r][key])
		}
		o.Before, o.After = before.state(keys), after.state(keys)
		if o.Before.State == "runs" && o.After.State == "absent" {
			o.After.State = "gone"
		}
		out = append(out, *o)
	}
	slices.SortFunc(out, func(a, b Outcome) int {
		rank := func(o *Outcome) int {
			if o.Before.Same(o.After) {
				return 1
			}
			return 0
		}
		return cmp.Or(rank(&a)-rank(&b), strings.Compare(a.Target.Namespace, b.Target.Namespace), strings.Compare(a.Target.Kind, b.Target.Kind), strings.Compare(a.Target.Name, b.Target.Name))
	})
	return out
}

// state is what becomes of the pods, which are of one workload.
func (w *whole) state(keys []string) State {
	var s State
	runs, evicted := 0, ""
	nodes := make(map[string]bool)
	var waits, refused string
	for _, key := range keys {
		switch node := w.where[key]; {
		case node != "":
			s.Pods++
			nodes[node] = true
		case w.pods[key] != nil:
			if waits == "" {
				waits = w.workload[key]
			}
			refused = cmp.Or(refused, w.refused[key])
		default:
			namespace, name, _ := strings.Cut(key, "/")
			if p := w.facts.PodNamed(namespace, name); p != nil && p.Spec.NodeName != "" {
				runs++
				nodes[p.Spec.NodeName] = true
				for _, e := range w.plan.Evictions {
					if e.Pod == key {
						evicted = cmp.Or(e.For, string(e.Cause))
					}
				}
			}
		}
	}
	s.Nodes = slices.Sorted(maps.Keys(nodes))
	switch {
	case evicted != "":
		s.State, s.Pods, s.Because = "evicted", runs, "for "+evicted
	case waits != "":
		s.State = "waits"
		if w.why(&s, waits); refused != "" {
			s.Cause, s.Because = "quota-exceeded", refused
		}
	case s.Pods > 0:
		s.State = "starts"
	case runs > 0:
		s.State, s.Pods = "runs", runs
	default:
		s.State = "absent"
	}
	return s
}

// why is what the workload waits for in the plan, and when it starts.
func (w *whole) why(s *State, workload string) {
	for _, g := range w.plan.Waiting {
		if g.Gang == workload && len(g.Gates) > 0 {
			s.Cause, s.Because = string(g.Cause), clauses(g.Gates[0].Sentence(w.plan.Certificates), 2)
		}
	}
	if e, ok := w.etas[workload]; ok {
		s.ETA = &facts.ETA{Earliest: e.Earliest, Likely: e.Likely, Because: e.Because}
	}
}
