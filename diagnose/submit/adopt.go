package submit

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/cluster"
	"github.com/berth-dev/berth/kube/dialect"
)

// AdoptionKind is of an Adoption printed as JSON. Its fields are a contract with other tools (ADR 100).
const AdoptionKind = "Adoption"

// Adoption is what Berth would make of a cluster that another scheduler serves.
type Adoption struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	At         time.Time         `json:"at"`
	Against    string            `json:"against"`
	From       string            `json:"from"`
	Objects    []AdoptedKind     `json:"objects"`
	Unread     []AdoptedUnread   `json:"unread"` // by kind, namespace and name
	Queues     []AdoptedQueue    `json:"queues"` // by name
	Workloads  []AdoptedWorkload `json:"workloads"`
	Steps      []string          `json:"steps"` // what to do to switch over, in order
	Assumes    []string          `json:"assumes,omitempty"`
	Unseen     []facts.Unseen    `json:"unseen,omitempty"`
}

// AdoptedKind counts the objects of one kind; pods count as a kind.
type AdoptedKind struct {
	Kind       string `json:"kind"`
	Objects    int    `json:"objects"`
	Understood int    `json:"understood"` // all of it has an effect
	InPart     int    `json:"inPart"`
	Refused    int    `json:"refused"` // nothing of it can be carried out
}

// AdoptedUnread is what of an object has no effect. Pods of one workload that say the same are one.
type AdoptedUnread struct {
	Object  facts.Ref `json:"object"`
	Fields  []string  `json:"fields,omitempty"`
	Problem string    `json:"problem,omitempty"`
}

// AdoptedQueue is a queue, and how many workloads of it run and wait today and under Berth.
type AdoptedQueue struct {
	Name    string              `json:"name"`           // as Berth calls it; "": in none
	Kind    string              `json:"kind,omitempty"` // of the object; "": there is none
	Held    corev1.ResourceList `json:"held,omitempty"` // by its workloads, today
	Now     AdoptedCount        `json:"now"`
	Then    AdoptedCount        `json:"then"`
	Problem string              `json:"problem,omitempty"`
}

// AdoptedCount counts workloads.
type AdoptedCount struct {
	Run     int `json:"run"`
	Start   int `json:"start"`
	Wait    int `json:"wait"`
	Evicted int `json:"evicted"`
}

// AdoptedWorkload is one workload today and under Berth.
type AdoptedWorkload struct {
	Target facts.Ref `json:"target"`
	Queue  string    `json:"queue,omitempty"`
	Pods   int       `json:"pods"`
	GPUs   int64     `json:"gpus"`
	Now    State     `json:"now"`
	Then   State     `json:"then"`
	// Together is what of it starts together, where the controller that made it says so.
	Together string `json:"together,omitempty"`
	// Bound is when the old scheduler had bound all its pods that run, and Begun when Berth, in its shadow, would first have started it.
	// They are of a decision log alone.
	Bound *time.Time `json:"bound,omitempty"`
	Begun *time.Time `json:"begun,omitempty"`
}

// Changes says whether Berth would do with it something else than is done today.
func (w *AdoptedWorkload) Changes() bool { return w.Now.State != w.Then.State }

// Adopt plans a cluster as if Berth served the pods that the dialect's scheduler does. Nothing is changed.
func Adopt(w World, d dialect.Dialect) (Adoption, error) {
	f := w.Facts
	out := Adoption{APIVersion: diagnose.APIVersion, Kind: AdoptionKind, At: f.At, Against: w.Against, From: d.Name(), Assumes: w.Assumes, Unseen: slices.Clone(f.Unseen)}
	if !f.Sees("nodes", "") || !f.Sees("pods", "") {
		return out, ErrBlind
	}
	o := w.Model
	o.Dialects, o.For = append(slices.Clone(o.Dialects), d.Name()), adoptedNames(f, d, o.For)
	p := newPlanner(f, o)
	p.set(unbound(f))
	plan := p.model.Plan(f.At)
	out.understand(f, p.model, d)
	out.workloads(f, p.model, &plan)
	out.queues(p.model, d)
	out.Steps = steps(f, d)
	return out, nil
}

// adoptedNames are the scheduler names of the pods that Berth would serve: the dialect's, or, where its users keep the name that they
// have, those of the pods that it lets in.
func adoptedNames(f *facts.Facts, d dialect.Dialect, names []string) []string {
	out := append(slices.Clone(names), cluster.DefaultName)
	out = append(out, d.SchedulerNames()...)
	if len(d.SchedulerNames()) == 0 {
		out = append(out, corev1.DefaultSchedulerName)
		for _, p := range f.Pods {
			for key := range p.Labels { //archtest:any-order it fills a set
				if dialect.Within(key, d.Domains()) {
					out = append(out, p.Spec.SchedulerName)
				}
			}
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(out)))
}

// unbound are the pods without a node that are not over, those with scheduling gates among them: the dialect may take the gate away.
func unbound(f *facts.Facts) []*corev1.Pod {
	var out []*corev1.Pod
	for _, p := range f.Pods {
		if p.Spec.NodeName == "" && !facts.Ended(p) && p.DeletionTimestamp == nil && len(out) < mostPending {
			out = append(out, p)
		}
	}
	return out
}

// understand lists what of the dialect's objects, and of the pods' keys, has no effect.
func (a *Adoption) understand(f *facts.Facts, m *cluster.Model, d dialect.Dialect) {
	kinds := make(map[string]*AdoptedKind)
	var order []string
	count := func(kind string, fields []string, problem string) {
		k := kinds[kind]
		if k == nil {
			k = &AdoptedKind{Kind: kind}
			kinds[kind] = k
			order = append(order, kind)
		}
		k.Objects++
		switch {
		case problem != "":
			k.Refused++
		case len(fields) > 0:
			k.InPart++
		default:
			k.Understood++
		}
	}
	mine := make(map[string]bool)
	for _, k := range d.Kinds() {
		mine[k.Name()] = true
	}
	for _, o := range m.SpokenObjects() {
		if !mine[o.Kind] {
			continue
		}
		count(o.Kind, o.Unread, o.Problem)
		if len(o.Unread) > 0 || o.Problem != "" {
			kind, _, _ := strings.Cut(o.Kind, ".")
			a.Unread = append(a.Unread, AdoptedUnread{Object: facts.Ref{Kind: kind, Namespace: o.Namespace, Name: o.Name}, Fields: o.Unread, Problem: o.Problem})
		}
	}
	said := make(map[string]bool)
	for _, p := range m.Spoken() {
		count("Pod", p.Unread, p.Awaits)
		if len(p.Unread) == 0 && p.Awaits == "" {
			continue
		}
		u := AdoptedUnread{Object: facts.RefTo(f.TopOwner(p.Object)), Fields: p.Unread, Problem: p.Awaits}
		if key := fmt.Sprint(u.Object, u.Fields, u.Problem); !said[key] {
			said[key] = true
			a.Unread = append(a.Unread, u)
		}
	}
	for _, kind := range order {
		a.Objects = append(a.Objects, *kinds[kind])
	}
}

// workloads says of each what it does today and would do under Berth; those that change come first.
func (a *Adoption) workloads(f *facts.Facts, m *cluster.Model, plan *engine.Plan) {
	where, evicted, waiting := make(map[string]string), make(map[string]string), make(map[string]int)
	for _, s := range plan.Starts {
		for _, at := range s.Placements {
			where[at.Pod] = at.Node
		}
	}
	for _, e := range plan.Evictions {
		evicted[e.Pod] = cmp.Or(e.For, string(e.Cause))
	}
	for i := range plan.Waiting {
		waiting[plan.Waiting[i].Gang] = i + 1
	}
	found := make(map[facts.Ref]*adopting)
	for _, p := range m.Spoken() {
		r := facts.RefTo(f.TopOwner(p.Object))
		w := found[r]
		if w == nil {
			w = &adopting{AdoptedWorkload: AdoptedWorkload{Target: r, Queue: p.Queue, Together: p.Says}, now: make(map[string]bool), then: make(map[string]bool)}
			found[r] = w
		}
		w.Pods++
		w.GPUs += gpusOf(p.Object)
		if w.see(p.Object.Spec.NodeName, where[p.Key], evicted[p.Key]); p.Object.Spec.NodeName == "" && where[p.Key] == "" {
			if i := waiting[p.Workload]; i > 0 && w.Then.Cause == "" && len(plan.Waiting[i-1].Gates) > 0 {
				g := &plan.Waiting[i-1]
				w.Then.Cause, w.Then.Because = string(g.Cause), clauses(g.Gates[0].Sentence(plan.Certificates), 2)
			}
			if p.Awaits != "" && w.Then.Cause == "" {
				w.Then.Cause, w.Then.Because = "invalid-object", p.Awaits
			}
		}
	}
	for _, w := range found { //archtest:any-order they are sorted below
		w.judge()
		a.Workloads = append(a.Workloads, w.AdoptedWorkload)
	}
	a.sort()
}

// sort has the workloads that change come first, then by queue and name.
func (a *Adoption) sort() {
	slices.SortFunc(a.Workloads, func(a, b AdoptedWorkload) int {
		rank := func(w *AdoptedWorkload) int {
			if w.Changes() {
				return 0
			}
			return 1
		}
		return cmp.Or(rank(&a)-rank(&b), cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Target.Namespace, b.Target.Namespace), cmp.Compare(a.Target.Kind, b.Target.Kind), cmp.Compare(a.Target.Name, b.Target.Name))
	})
}

// adopting is a workload whose pods are being counted.
type adopting struct {
	AdoptedWorkload
	ran, runs, starts, waits, out int // pods: ran today; of all under Berth
	now, then                     map[string]bool
	forWhom                       string
}

// see counts a pod: the node that it has, the one that the plan gives it, and for whom the plan evicts it.
func (w *adopting) see(node, to, evictedFor string) {
	switch {
	case node != "" && evictedFor != "":
		w.ran, w.out, w.forWhom = w.ran+1, w.out+1, cmp.Or(w.forWhom, evictedFor)
		w.now[node] = true
	case node != "":
		w.ran, w.runs = w.ran+1, w.runs+1
		w.now[node], w.then[node] = true, true
	case to != "":
		w.starts++
		w.then[to] = true
	default:
		w.waits++
	}
}

// judge says what becomes of the workload as a whole. Of one that waits in part the part that runs is named.
func (w *adopting) judge() {
	w.Now = State{State: "waits", Pods: w.ran, Nodes: slices.Sorted(maps.Keys(w.now))}
	if w.ran > 0 {
		w.Now.State = "runs"
	}
	if w.ran > 0 && w.ran < w.Pods {
		w.Now.Because = fmt.Sprintf("%d of %d pods", w.ran, w.Pods)
	}
	w.Then.Pods, w.Then.Nodes = w.runs+w.starts, slices.Sorted(maps.Keys(w.then))
	switch {
	case w.out > 0:
		w.Then.State, w.Then.Cause, w.Then.Because = "evicted", "", "for "+w.forWhom
	case w.starts > 0 && w.runs == 0:
		w.Then.State, w.Then.Cause, w.Then.Because = "starts", "", ""
	case w.runs+w.starts > 0:
		w.Then.State, w.Then.Cause, w.Then.Because = "runs", "", ""
	default:
		w.Then.State = "waits"
	}
	if n := w.runs + w.starts; n > 0 && w.out == 0 && n < w.Pods {
		w.Then.Because = fmt.Sprintf("%d of %d pods", n, w.Pods)
	}
}

// queues has the dialect's queues, those of no queue last.
func (a *Adoption) queues(m *cluster.Model, d dialect.Dialect) {
	byName := make(map[string]*AdoptedQueue)
	for _, q := range m.SpokenQueues() {
		if q.Dialect.Name() != d.Name() || q.Queue == "" {
			continue
		}
		byName[q.Queue] = &AdoptedQueue{Name: q.Queue, Kind: q.Kind.Name(), Held: q.State.Allocated, Problem: q.Problem}
	}
	a.count(byName)
}

// count counts the workloads by queue.
func (a *Adoption) count(byName map[string]*AdoptedQueue) {
	for i := range a.Workloads {
		w := &a.Workloads[i]
		q := byName[w.Queue]
		if q == nil {
			q = &AdoptedQueue{Name: w.Queue}
			byName[w.Queue] = q
		}
		add(&q.Now, w.Now.State)
		add(&q.Then, w.Then.State)
	}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		a.Queues = append(a.Queues, *byName[name])
	}
	if len(a.Queues) > 0 && a.Queues[0].Name == "" {
		a.Queues = append(a.Queues[1:], a.Queues[0])
	}
}

func add(c *AdoptedCount, state string) {
	switch state {
	case "runs":
		c.Run++
	case "starts":
		c.Start++
	case "waits":
		c.Wait++
	case "evicted":
		c.Evicted++
	}
}

// processes are the Deployments of a project that place pods or let them in, by the dialect; those that make PodGroups of other kinds of
// workloads, and admission webhooks, go on.
var processes = map[string][]string{
	"kai":          {"scheduler", "kai-scheduler", "kai-scheduler-default", "binder", "pod-grouper"},
	"volcano":      {"volcano-scheduler"},
	"kueue":        {"kueue-controller-manager"},
	"coscheduling": {"scheduler-plugins-scheduler"},
}

// steps are what to do to switch over. Nothing of it is done here.
func steps(f *facts.Facts, d dialect.Dialect) []string {
	out := []string{"berth install    # it reads " + d.Name() + "'s kinds wherever they are served"}
	if names := d.SchedulerNames(); len(names) > 0 {
		out[0] = "berth install    # it answers the scheduler name " + strings.Join(names, ", ") + " wherever " + d.Name() + "'s kinds are served"
	}
	var found []string
	for _, p := range f.Deployments {
		if slices.Contains(processes[d.Name()], p.Name) && ofProject(p, d) && (p.Spec.Replicas == nil || *p.Spec.Replicas > 0) {
			found = append(found, "kubectl -n "+p.Namespace+" scale deployment "+p.Name+" --replicas=0")
		}
	}
	slices.Sort(found)
	if len(found) == 0 {
		what := "scheduler"
		if len(d.SchedulerNames()) == 0 {
			what = "controller"
		}
		found = []string{"stop " + d.Name() + "'s own " + what + ": two must not decide about the same pods"}
	}
	out = append(out, found...)
	return append(out, "berth queue      # what is held and waited for, queue by queue")
}

// ofProject says whether a Deployment with a name as common as binder is the project's.
func ofProject(p *appsv1.Deployment, d dialect.Dialect) bool {
	return strings.Contains(p.Name, d.Name()) || strings.Contains(p.Namespace, d.Name()) || slices.ContainsFunc(d.SchedulerNames(), func(name string) bool { return strings.Contains(p.Name, name) || strings.Contains(p.Namespace, name) })
}
