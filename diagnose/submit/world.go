package submit

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/diagnose"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/place"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
	"github.com/berth-dev/berth/diagnose/submit/workload"
	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/engine/why"
	"github.com/berth-dev/berth/kube/cluster"
)

// World is what manifests are planned against.
type World struct {
	Facts   *facts.Facts
	Model   cluster.ModelOptions // as the scheduler is configured
	Against string               // for the report
	Assumes []string             // for the report
	// Bare says that there is no cluster, only nodes: what the manifests refer to is taken to exist.
	Bare bool
	// Late says that the time for an answer is up: start times are then not worked out any more, nor fixes. Verdicts always are.
	// nil: there is time.
	Late func() bool
}

// oursOf are the schedulerNames of the pods that Berth schedules.
func oursOf(o cluster.ModelOptions) []string {
	if o.For == nil {
		return []string{cluster.DefaultName}
	}
	return o.For
}

// with are the facts with the objects in them, in the place of those with the same names. The pods of what is replaced are
// gone: a controller that is given another template makes them anew.
func with(f *facts.Facts, objects []facts.Object) *facts.Facts {
	replaced := make(map[string]bool)
	gone := make(map[types.UID]bool)
	for _, o := range objects {
		replaced[nameOf(o)] = true
	}
	for _, k := range facts.Kinds {
		for _, o := range k.List(&f.Objects) {
			if replaced[nameOf(o)] {
				gone[o.GetUID()] = true
			}
		}
	}
	for range 3 { // ReplicaSets of a Deployment, Jobs of a CronJob, and what these made
		for _, k := range facts.Kinds {
			for _, o := range k.List(&f.Objects) {
				if c := metav1.GetControllerOfNoCopy(o); c != nil && gone[c.UID] {
					gone[o.GetUID()] = true
				}
			}
		}
	}
	out := keep(f, func(o facts.Object) bool { return !gone[o.GetUID()] || o.GetUID() == "" && !replaced[nameOf(o)] })
	for i, q := range out.ResourceQuotas {
		out.ResourceQuotas[i] = freed(q, f.Pods, gone)
	}
	for _, o := range objects {
		if k := facts.KindOfObject(o); k != nil {
			k.Add(&out.Objects, o)
		}
	}
	return out
}

// freed is the quota once those of the pods are gone.
func freed(q *corev1.ResourceQuota, pods []*corev1.Pod, gone map[types.UID]bool) *corev1.ResourceQuota {
	for _, p := range pods {
		if !gone[p.UID] || p.UID == "" || p.Namespace != q.Namespace || facts.Ended(p) || !podspec.InScopes(q, p) {
			continue
		}
		q = q.DeepCopy()
		for _, key := range podspec.Names(q.Status.Used) {
			if ask, counted := podspec.QuotaAsk(p, string(key)); counted {
				left := q.Status.Used[key]
				if left.Sub(ask); left.Sign() >= 0 {
					q.Status.Used[key] = left
				}
			}
		}
	}
	return q
}

func nameOf(o facts.Object) string {
	r, group := facts.RefTo(o), o.GetObjectKind().GroupVersionKind().Group
	if k := facts.KindOfObject(o); k != nil {
		group = k.Group
	}
	return group + "/" + r.Kind + "/" + r.Namespace + "/" + r.Name
}

// keep are the facts with those objects that are to stay, in lists of their own.
func keep(f *facts.Facts, stays func(facts.Object) bool) *facts.Facts {
	out := &facts.Facts{At: f.At, Kubernetes: f.Kubernetes, Logs: f.Logs, Unseen: f.Unseen, Speaks: f.Speaks, Answers: f.Answers, Matches: f.Matches, NewAllocator: f.NewAllocator}
	out.Foreign = make(map[string][]*unstructured.Unstructured)
	for _, k := range facts.Kinds {
		for _, o := range k.List(&f.Objects) {
			if stays(o) {
				k.Add(&out.Objects, o)
			}
		}
	}
	return out
}

// emptied are the facts without the work of others: what runs on every node stays, and nothing else. What cannot start then
// can never start.
func emptied(f *facts.Facts) *facts.Facts {
	out := keep(f, func(o facts.Object) bool {
		switch o := o.(type) {
		case *corev1.Pod:
			return place.ByDaemonSet(o) || o.Annotations[corev1.MirrorPodAnnotationKey] != ""
		case *corev1.Event:
			return false
		}
		return true
	})
	for i, q := range out.ResourceQuotas {
		c := q.DeepCopy()
		for name := range c.Status.Used {
			c.Status.Used[name] = resource.Quantity{}
		}
		out.ResourceQuotas[i] = c
	}
	for i, claim := range out.ResourceClaims {
		if len(claim.Status.ReservedFor) > 0 {
			c := claim.DeepCopy()
			c.Status = resourcev1.ResourceClaimStatus{}
			out.ResourceClaims[i] = c
		}
	}
	return out
}

// planner is a model with everything in it that does not wait.
type planner struct {
	facts *facts.Facts
	model *cluster.Model
	ours  []string // schedulerNames of the pods that Berth schedules
	why   *diagnose.Diagnoser
	late  func() bool // see World
}

func newPlanner(f *facts.Facts, o cluster.ModelOptions) *planner {
	p := &planner{facts: f, model: cluster.NewModel(o), ours: oursOf(o)}
	diagnose.Load(f, p.model)
	p.why = diagnose.NewLoaded(f, p.model)
	return p
}

// blind says whether nodes, or the pods on them, could not be read: nothing can be planned.
func (p *planner) blind() bool { return !p.facts.Sees("nodes", "") || !p.facts.Sees("pods", "") }

// set puts pods that wait into the model, each kept from the nodes that what it claims excludes.
func (p *planner) set(pods []*corev1.Pod) {
	for _, pod := range pods {
		p.claims(pod)
		p.model.Set(pod)
	}
	for _, pod := range pods {
		p.restrict(p.facts, pod)
	}
}

// claims gives the model the claims that are made for the pod: a diagnosis takes those of pods to come out again.
func (p *planner) claims(pod *corev1.Pod) {
	for i := range pod.Spec.Volumes {
		if pod.Spec.Volumes[i].Ephemeral == nil {
			continue
		}
		name, _ := place.ClaimOf(pod, &pod.Spec.Volumes[i])
		if c := place.Named(p.facts.PersistentVolumeClaims, pod.Namespace, name); c != nil {
			p.model.Set(c)
		}
	}
}

// restrict keeps the pod from nodes that attached volumes or claims of devices exclude: the engine does not know these.
func (p *planner) restrict(f *facts.Facts, pod *corev1.Pod) {
	if !minds(pod) {
		return
	}
	excluded := place.ReasonsByNode(place.Exclusions(f, pod))
	if len(excluded) == 0 {
		return
	}
	allowed := []string{}
	for _, n := range f.Nodes {
		if excluded[n.Name] == nil {
			allowed = append(allowed, n.Name)
		}
	}
	slices.Sort(allowed)
	p.model.Allow(keyOf(pod), allowed)
}

func (p *planner) unset(pods []*corev1.Pod) {
	for _, pod := range pods {
		p.model.Delete(pod)
	}
}

// mostApart bounds the pods that are placed one after the other.
const mostApart = 500

// next places pods for which it matters where the others are, each beside those before it, and writes into where they go. The
// pods before them are where it says.
func (p *planner) next(apart, before []*corev1.Pod, where map[string]string) {
	var placed []*corev1.Pod
	at := func(pod *corev1.Pod, node string) {
		q := pod.DeepCopy()
		q.Spec.NodeName = node
		p.model.Set(q)
		placed = append(placed, q)
	}
	if len(apart) == 0 {
		return
	}
	for _, pod := range before {
		if node := where[keyOf(pod)]; node != "" {
			at(pod, node)
		}
	}
	apart, gangs := p.gangs(apart)
	for _, gang := range gangs {
		for _, s := range p.whole(gang, placed) {
			i := slices.IndexFunc(gang, func(pod *corev1.Pod) bool { return keyOf(pod) == s.Pod })
			if i >= 0 {
				where[s.Pod] = s.Node
				at(gang[i], s.Node)
			}
		}
	}
	for i, pod := range apart {
		p.claims(pod)
		p.model.Set(pod)
		if i >= mostApart {
			continue
		}
		if minds(pod) {
			p.restrict(p.facts.Beside(placed), pod)
		}
		e, starts, missing := p.model.Try(keyOf(pod), p.facts.At)
		if e.Verdict != why.Placed || len(missing) > 0 {
			continue
		}
		for _, s := range starts {
			if s.Pod == keyOf(pod) {
				where[s.Pod] = s.Node
				at(pod, s.Node)
			}
		}
	}
}

// gangs are the pods with claims of devices that start together with others of the list, by workload, and the rest is those that start by
// themselves. All of a gang are in the model then.
func (p *planner) gangs(pods []*corev1.Pod) (rest []*corev1.Pod, gangs [][]*corev1.Pod) {
	if !slices.ContainsFunc(pods, claimsDevices) {
		return pods, nil
	}
	for _, pod := range pods {
		p.claims(pod)
		p.model.Set(pod)
	}
	of := make(map[string][]*corev1.Pod)
	var names []string
	for _, pod := range pods {
		name := p.model.WorkloadOf(keyOf(pod))
		if of[name] == nil {
			names = append(names, name)
		}
		of[name] = append(of[name], pod)
	}
	for _, name := range names {
		if list := of[name]; name != "" && len(list) > 1 && slices.ContainsFunc(list, claimsDevices) {
			gangs = append(gangs, list)
			continue
		}
		rest = append(rest, of[name]...)
	}
	for _, pod := range rest { // each comes in its turn
		p.model.Delete(pod)
	}
	return rest, gangs
}

func claimsDevices(p *corev1.Pod) bool { return len(p.Spec.ResourceClaims) > 0 }

// mostRounds bounds how often a gang is placed anew as its claims are too much for nodes.
const mostRounds = 64

// whole places a gang, whose pods are in the model, beside what is placed. The engine knows of each pod where its claims can be met, and not of
// several pods together: where it puts more on a node than can have their devices there, those beyond are kept from the node, and it is asked
// again.
func (p *planner) whole(gang, placed []*corev1.Pod) []engine.Placement {
	f := p.facts.Beside(placed)
	allowed := make(map[string][]string, len(gang))
	for _, pod := range gang {
		excluded := place.ReasonsByNode(place.Exclusions(f, pod))
		allowed[keyOf(pod)] = []string{} // nil would be all
		for _, n := range f.Nodes {
			if excluded[n.Name] == nil {
				allowed[keyOf(pod)] = append(allowed[keyOf(pod)], n.Name)
			}
		}
		slices.Sort(allowed[keyOf(pod)])
		p.model.Allow(keyOf(pod), allowed[keyOf(pod)])
	}
	for range mostRounds {
		e, starts, missing := p.model.Try(keyOf(gang[0]), f.At)
		if e.Verdict != why.Placed || len(missing) > 0 {
			return nil
		}
		on := make(map[string]string, len(starts))
		for _, s := range starts {
			on[s.Pod] = s.Node
		}
		fits := true
		for _, n := range f.Nodes {
			var here []*corev1.Pod
			for _, pod := range gang {
				if on[keyOf(pod)] == n.Name {
					here = append(here, pod)
				}
			}
			if len(here) == 0 {
				continue
			}
			room := place.Together(f, n, here)
			if room == len(here) {
				continue
			}
			fits = false
			for _, pod := range gang {
				if !slices.Contains(here[:room], pod) {
					key := keyOf(pod)
					allowed[key] = slices.DeleteFunc(slices.Clone(allowed[key]), func(name string) bool { return name == n.Name })
					p.model.Allow(key, allowed[key])
				}
			}
		}
		if fits {
			return starts
		}
	}
	return nil
}

// unruled are the pods of other schedulers that the plan leaves waiting for the order of Berth's queues alone. Another scheduler
// lets whatever fits pass what waits, so they are placed one after the other.
func (p *planner) unruled(plan *engine.Plan, pods []*corev1.Pod) []*corev1.Pod {
	order := make(map[string]bool) // workloads that wait for that alone
	for i := range plan.Waiting {
		w := &plan.Waiting[i]
		order[w.Gang] = len(w.Gates) > 0 && !slices.ContainsFunc(w.Gates, func(g why.Gate) bool { return !ofOrder(g) })
	}
	var out []*corev1.Pod
	for _, pod := range pods {
		if !slices.Contains(p.ours, pod.Spec.SchedulerName) && order[p.model.WorkloadOf(keyOf(pod))] && p.facts.GangOf(pod) == "" {
			out = append(out, pod)
		}
	}
	return out
}

// oneByOne is where the pods, which wait in the model, have places one beside the other.
func (p *planner) oneByOne(pods []*corev1.Pod) map[string]string {
	where := make(map[string]string)
	p.next(pods, nil, where)
	return where
}

// minds says whether where the pod may be depends on what others hold beside what the engine counts: claims of devices, and
// volumes. Rules between pods are the engine's, for all replicas at once.
func minds(p *corev1.Pod) bool {
	return len(p.Spec.ResourceClaims) > 0 ||
		slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool { return v.PersistentVolumeClaim != nil || v.Ephemeral != nil })
}

func keyOf(p *corev1.Pod) string { return p.Namespace + "/" + p.Name }

// mostPending bounds the pods of others that wait and are planned too.
const mostPending = 10_000

// pending are the pods of others that wait for a place.
func pending(f *facts.Facts) []*corev1.Pod {
	var out []*corev1.Pod
	for _, p := range f.Pods {
		if p.Spec.NodeName == "" && facts.StateOf(p) == facts.Pending && p.DeletionTimestamp == nil && len(out) < mostPending {
			out = append(out, p)
		}
	}
	return out
}

// objectsOf are the objects that a workload adds to the facts, its pods aside: itself, what makes its pods, and its claims.
func objectsOf(w *workload.Workload) []facts.Object {
	var out []facts.Object
	add := func(o facts.Object) {
		if o != nil && !slices.Contains(out, o) {
			out = append(out, o)
		}
	}
	if _, pod := w.Object.(*corev1.Pod); !pod {
		add(w.Object)
	}
	for _, p := range w.Parts {
		add(p.Above)
		add(p.Maker)
	}
	for _, c := range w.Claims() {
		add(c)
	}
	for _, o := range w.Also {
		add(o)
	}
	return out
}
