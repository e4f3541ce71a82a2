package submit

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/diagnose"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/gpustack"
	"github.com/berth-dev/berth/diagnose/internal/place"
	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/internal/spelling"
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
	State   string     `json:"state"` // absent, runs, starts, waits or evicted
	Pods    int        `json:"pods,omitempty"`
	Nodes   []string   `json:"nodes,omitempty"`
	Cause   string     `json:"cause,omitempty"`
	ETA     *facts.ETA `json:"eta,omitempty"`
	Because string     `json:"because,omitempty"`
}

// Same says whether two states are one to people.
func (s State) Same(o State) bool {
	return s.State == o.State && s.Pods == o.Pods && s.Cause == o.Cause && slices.Equal(s.Nodes, o.Nodes) && (s.ETA == nil) == (o.ETA == nil) && (s.ETA == nil || s.ETA.Likely.Equal(o.ETA.Likely))
}

// Imagine plans everything that waits twice: as things are, and after the changes, with the manifests submitted. Nothing is
// changed. An error is of changes that cannot be imagined: a pool, node or queue that does not exist.
func Imagine(w World, namespace string, items []Item, ch Changes) (WhatIf, error) {
	out := WhatIf{APIVersion: diagnose.APIVersion, Kind: WhatIfKind, At: w.Facts.At, Against: w.Against, Assumes: w.Assumes, Unseen: slices.Clone(w.Facts.Unseen)}
	if !w.Facts.Sees("nodes", "") || !w.Facts.Sees("pods", "") {
		return out, errors.New("nodes, or the pods on them, could not be read: nothing can be planned")
	}
	after, said, err := ch.apply(w.Facts)
	if err != nil {
		return out, err
	}
	out.Changes = said
	before := planAll(w, w.Facts, nil)
	c := &checker{world: World{Facts: after, Model: w.Model, Bare: w.Bare}, where: make(map[string]string)}
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
}

// mostForecast bounds the workloads of which it is said when they start.
const mostForecast = 200

func planAll(w World, f *facts.Facts, more []*corev1.Pod) *whole {
	p := newPlanner(f, w.Model)
	out := &whole{facts: f, pods: make(map[string]*corev1.Pod), where: make(map[string]string), workload: make(map[string]string), etas: make(map[string]engine.Estimate), owners: make(map[string]facts.Ref)}
	waiting := slices.Concat(pending(f), more)
	p.set(waiting)
	out.plan = p.model.Plan(f.At)
	for _, e := range p.model.Forecast(f.At, mostForecast) {
		out.etas[e.Gang] = e
	}
	for _, pod := range waiting {
		key := keyOf(pod)
		out.pods[key], out.workload[key] = pod, p.model.WorkloadOf(key)
		out.owners[key] = facts.RefTo(f.TopOwner(pod))
	}
	for _, s := range out.plan.Starts {
		for _, at := range s.Placements {
			out.where[at.Pod] = at.Node
		}
	}
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
	w.capacity.Waiting = len(w.plan.Waiting)
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
	var out []Outcome
	for r, o := range all {
		keys := slices.Sorted(maps.Keys(pods[r]))
		o.Pods = len(keys)
		for _, key := range keys {
			o.GPUs += gpusOf(pods[r][key])
		}
		o.Before, o.After = before.state(keys), after.state(keys)
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
	var waits string
	for _, key := range keys {
		switch node := w.where[key]; {
		case node != "":
			s.Pods++
			nodes[node] = true
		case w.pods[key] != nil:
			if waits == "" {
				waits = w.workload[key]
			}
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
		w.why(&s, waits)
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

// apply are the facts after the changes, and the changes in words.
func (ch *Changes) apply(f *facts.Facts) (*facts.Facts, []string, error) {
	var said []string
	out := keep(f, func(facts.Object) bool { return true })
	for _, a := range ch.AddNodes {
		if err := addNodes(out, a); err != nil {
			return nil, nil, err
		}
		said = append(said, fmt.Sprintf("add %d nodes to pool %s", a.N, a.Of))
	}
	for _, name := range ch.Drain {
		moved, err := drain(out, name)
		if err != nil {
			return nil, nil, err
		}
		said = append(said, fmt.Sprintf("drain node %s: %d pods move", name, moved))
	}
	for _, q := range ch.Quota {
		text, err := setQuota(out, q)
		if err != nil {
			return nil, nil, err
		}
		said = append(said, text)
	}
	return out, said, nil
}

// poolsIn are the first nodes of pools, by every name that a pool has.
func poolsIn(f *facts.Facts) map[string]*corev1.Node {
	out := make(map[string]*corev1.Node)
	for _, n := range f.Nodes {
		for _, key := range gpustack.PoolLabels {
			pool := n.Labels[key]
			if had := out[pool]; pool != "" && (had == nil || n.Name < had.Name) {
				out[pool] = n
			}
		}
	}
	return out
}

// addNodes adds nodes like the first one of the pool, ready and empty.
func addNodes(f *facts.Facts, a Count) error {
	pools := poolsIn(f)
	like := pools[a.Of]
	if like == nil {
		return fmt.Errorf("no node is of pool %s%s", a.Of, among(a.Of, slices.Sorted(maps.Keys(pools))))
	}
	for i := range a.N {
		n := like.DeepCopy()
		n.Name = fmt.Sprintf("%s-new-%d", a.Of, i)
		n.UID = types.UID("added-" + n.Name)
		n.Spec.Unschedulable = false
		n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return strings.HasPrefix(t.Key, "node.kubernetes.io/") })
		n.Labels[corev1.LabelHostname] = n.Name
		for j := range n.Status.Conditions {
			c := &n.Status.Conditions[j]
			c.Status = corev1.ConditionFalse
			if c.Type == corev1.NodeReady {
				c.Status = corev1.ConditionTrue
			}
		}
		f.Nodes = append(f.Nodes, n)
	}
	return nil
}

func among(name string, names []string) string {
	if near, ok := spelling.Closest(name, names); ok {
		return fmt.Sprintf("; did you mean %s?", near)
	}
	if len(names) == 0 {
		return ""
	}
	return "; there are " + strings.Join(names[:min(8, len(names))], ", ")
}

// drain cordons the node and takes its pods off, but those of DaemonSets: what a controller makes again waits.
func drain(f *facts.Facts, name string) (moved int, err error) {
	i := slices.IndexFunc(f.Nodes, func(n *corev1.Node) bool { return n.Name == name })
	if i < 0 {
		var names []string
		for _, n := range f.Nodes {
			names = append(names, n.Name)
		}
		slices.Sort(names)
		return 0, fmt.Errorf("there is no node %s%s", name, among(name, names))
	}
	n := f.Nodes[i].DeepCopy()
	n.Spec.Unschedulable = true
	f.Nodes[i] = n
	var pods []*corev1.Pod
	for _, p := range f.Pods {
		if p.Spec.NodeName != name || facts.Ended(p) || place.ByDaemonSet(p) || p.Annotations[corev1.MirrorPodAnnotationKey] != "" {
			pods = append(pods, p)
			continue
		}
		moved++
		if metav1.GetControllerOfNoCopy(p) == nil {
			continue // nobody makes it again
		}
		q := p.DeepCopy()
		q.Spec.NodeName, q.Status = "", corev1.PodStatus{Phase: corev1.PodPending}
		delete(q.Annotations, v1alpha1.KeyGPUs)
		pods = append(pods, q)
	}
	f.Pods = pods
	return moved, nil
}

// setQuota changes the quota of GPUs of a queue or, where there is no queue of the name, of a namespace.
func setQuota(f *facts.Facts, q Count) (string, error) {
	const gpu = "nvidia.com/gpu"
	queues := f.Foreign[v1alpha1.QueueKind+".berth.dev"]
	for i, u := range queues {
		if u.GetName() != q.Of {
			continue
		}
		text := fmt.Sprintf("set the quota of queue %s to %d %s", q.Of, q.N, gpu)
		list, _, _ := unstructured.NestedSlice(u.Object, "spec", "resources")
		at := slices.IndexFunc(list, func(r any) bool { m, ok := r.(map[string]any); return ok && m["name"] == gpu })
		next := u.DeepCopy()
		if at < 0 {
			list = append(list, map[string]any{"name": gpu, "quota": fmt.Sprint(q.N)})
			if err := unstructured.SetNestedSlice(next.Object, list, "spec", "resources"); err != nil {
				return "", err
			}
		} else {
			next = edit.WithValues(u, map[string]any{fmt.Sprintf("/spec/resources/%d/quota", at): fmt.Sprint(q.N)})
		}
		queues[i] = next
		return text, nil
	}
	for i, r := range f.ResourceQuotas {
		if r.Namespace != q.Of {
			continue
		}
		c := r.DeepCopy()
		amount := *resource.NewQuantity(q.N, resource.DecimalSI)
		for _, l := range []*corev1.ResourceList{&c.Spec.Hard, &c.Status.Hard} {
			if *l == nil {
				*l = corev1.ResourceList{}
			}
			(*l)["requests."+gpu] = amount
		}
		f.ResourceQuotas[i] = c
		return fmt.Sprintf("set the quota of namespace %s to %d requests.%s", q.Of, q.N, gpu), nil
	}
	return "", fmt.Errorf("there is no queue %s, and no namespace of the name with a quota%s", q.Of, among(q.Of, f.ForeignNames(v1alpha1.QueueKind+".berth.dev", "")))
}
