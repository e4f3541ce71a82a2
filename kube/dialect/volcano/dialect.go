package volcano

import (
	"maps"
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/kube/dialect"
	"github.com/berth-dev/berth/kube/dialect/hami"
)

// SchedulerName is what Volcano's users put into spec.schedulerName.
const SchedulerName = "volcano"

// The keys that are read.
const (
	groupKey     = "scheduling.volcano.sh/group-name"
	kubeGroupKey = "scheduling.k8s.io/group-name"
	minMemberKey = "scheduling.volcano.sh/group-min-member"
	queueKey     = "scheduling.volcano.sh/queue-name"
	jobQueueKey  = "volcano.sh/queue-name"
	taskKey      = "volcano.sh/task-spec"
	preemptable  = "volcano.sh/preemptable"
	rayPriority  = "ray.io/priority-class-name" // of Ray's objects, which KubeRay writes into their PodGroup

	defaultQueue = "default"
	groupPrefix  = "podgroup-"

	// ownDefault is what Volcano's queue default is called here: Berth has a queue of that name itself.
	ownDefault = "volcano-default"
)

// written are the keys that Volcano's controllers write, and that ask for nothing.
var written = []string{
	"volcano.sh/job-name", "volcano.sh/job-namespace", "volcano.sh/job-version", "volcano.sh/job-type", "volcano.sh/job-retry-count",
	"volcano.sh/task-index", "volcano.sh/template-uid", "volcano.sh/partition-id", "scheduling.volcano.sh/group-min-resources",
}

// copied are the keys that Volcano's controllers copy from a workload onto its PodGroup: they are read, or told of, on its pods.
var copied = append([]string{groupKey, minMemberKey, queueKey, jobQueueKey, taskKey, preemptable}, written...)

// New is the dialect of Volcano's users.
func New() dialect.Dialect { return volcano{} }

type volcano struct{}

func (volcano) Name() string             { return "volcano" }
func (volcano) SchedulerNames() []string { return []string{SchedulerName} }

// Domains leave out scheduling.k8s.io, of which Volcano reads one key: the others are Kubernetes' own.
func (volcano) Domains() []string { return []string{"volcano.sh"} }

func (volcano) Kinds() []dialect.Kind {
	group := func(kind string) schema.GroupVersionKind {
		return schema.GroupVersionKind{Group: "scheduling.volcano.sh", Version: "v1beta1", Kind: kind}
	}
	return []dialect.Kind{
		{GroupVersionKind: group("Queue"), Plural: "queues"},
		{GroupVersionKind: group("PodGroup"), Plural: "podgroups", Namespaced: true, Grouping: true},
		{GroupVersionKind: schema.GroupVersionKind{Group: "topology.volcano.sh", Version: "v1alpha1", Kind: "HyperNode"}, Plural: "hypernodes"},
	}
}

// Trim drops the keys that ask Volcano for nothing.
func (v volcano) Trim(o *unstructured.Unstructured) { dialect.KeepKeys(o, v.Domains()) }

func (v volcano) Read(o *unstructured.Unstructured, w dialect.World) dialect.Object {
	var out dialect.Object
	switch o.GetKind() {
	case "Queue":
		out = readQueue(o, w)
	case "PodGroup":
		out = readGroup(o)
	case "HyperNode":
		out = readHyperNode(o)
	}
	own := copied
	if o.GetKind() == "Queue" {
		own = append(slices.Clone(copied), hierarchyKey, hierarchyWeights)
	}
	out.Unread = append(out.Unread, dialect.Strays(o, v.Domains(), own...)...)
	return out
}

// Pod reads a pod into the PodGroup that it names, or into the one that Volcano's controller would make for its controller.
func (v volcano) Pod(p *dialect.Pod, w dialect.World) *dialect.Terms {
	from := []*metav1.ObjectMeta{&p.ObjectMeta}
	for i := range p.Owners {
		from = append(from, &p.Owners[i].Meta)
	}
	g := &grouping{Pod: p, Reader: dialect.NewReader(from...), world: w}
	if p.Spec.SchedulerName != SchedulerName && !g.Any(v.Domains()) {
		return nil
	}
	g.Ignore(written...)
	out := &dialect.Terms{Keys: make(map[string]string), Heeded: []string{kubeGroupKey}}
	name := g.Annotation(groupKey)
	if name == "" {
		name = g.Annotation(kubeGroupKey)
	}
	if name != "" {
		g.named(name, out)
	} else {
		g.derived(out)
	}
	g.preemptible(out)
	g.vgpu()
	out.Unread = g.Unread(v.Domains())
	return out
}

// grouping reads one pod.
type grouping struct {
	*dialect.Pod
	*dialect.Reader
	world dialect.World
}

// named puts the pod into a PodGroup that somebody made.
func (g *grouping) named(name string, out *dialect.Terms) {
	task := g.Either(taskKey)
	out.Group = &dialect.GroupRef{Kind: PodGroups, Namespace: g.Namespace, Name: name} // also of one that is to come: then the pod is read again
	o := g.world.Object(PodGroups, g.Namespace, name)
	if o == nil {
		out.Awaits = "PodGroup " + name + " does not exist"
		return
	}
	spec, _ := o.Value.(*groupSpec)
	if spec == nil || o.Problem != "" {
		out.Awaits = "PodGroup " + name + ": " + o.Problem
		return
	}
	maps.Copy(out.Keys, spec.keys(name, task))
	if g.near(spec, out); out.Awaits != "" {
		clear(out.Keys) // it is no gang yet: each of its pods says why
	}
	g.Ignore(queueKey, jobQueueKey, minMemberKey) // the group's count
	queue := or(spec.Queue, defaultQueue)
	out.Keys[v1alpha1.KeyQueue] = berthName(queue)
	if out.Awaits == "" {
		g.nodeGroups(queue, out)
	}
	g.priority(spec.PriorityClassName, out)
}

// derived finds the group of a pod that names none: one for all pods of a controller, and one for a pod without. Its minimum is one
// pod unless the controller says more, and then it is no gang to Berth.
func (g *grouping) derived(out *dialect.Terms) {
	g.Ignore(taskKey)
	top := dialect.Owner{Kind: "Pod", Name: g.Name, UID: g.UID}
	if len(g.Owners) > 0 {
		top = g.Owners[0]
	}
	name, least := groupPrefix+string(top.UID), g.least()
	queue := or(or(g.Annotation(queueKey), g.Either(jobQueueKey)), defaultQueue)
	out.Keys[v1alpha1.KeyQueue] = berthName(queue)
	g.nodeGroups(queue, out)
	if least > 1 {
		out.Keys[v1alpha1.KeyGang], out.Keys[v1alpha1.KeyMin] = name, strconv.Itoa(least)
	}
	ref := &dialect.GroupRef{Kind: PodGroups, Namespace: g.Namespace, Name: name}
	class := g.Spec.PriorityClassName
	if ray := g.Label(rayPriority); ray != "" {
		class = ray
		g.priority(ray, out)
	}
	ref.Make = func() *unstructured.Unstructured { return makeGroup(ref, top, least, queue, class) }
	out.Group = ref
}

// least is the minimum that a controller says, 1 for none.
func (g *grouping) least() int {
	text := g.Annotation(minMemberKey)
	if text == "" {
		return 1
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > maxMember {
		g.Refuse(minMemberKey, text, "a whole number above 0")
		return 1
	}
	return n
}

// priority gives the pod that of its group's class, where that exists.
func (g *grouping) priority(class string, out *dialect.Terms) {
	if class == "" {
		return
	}
	if n, ok := g.world.Priority(class); ok {
		out.Priority = &n
	}
}

func (g *grouping) preemptible(out *dialect.Terms) {
	text := g.Either(preemptable)
	if text == "" {
		return
	}
	b, err := strconv.ParseBool(text)
	if err != nil {
		g.Refuse(preemptable, text, "true or false")
		return
	}
	out.Keys[v1alpha1.KeyPreemptible] = strconv.FormatBool(b)
}

// vgpu leaves the keys of vGPUs to whoever reads what the pod asks of its GPUs (kube/convert). Of the modes one is honoured: a GPU that
// MIG divides as pods ask is none of those that parts are given of.
func (g *grouping) vgpu() {
	e := hami.Volcano()
	g.Ignore(e.UseUUID, e.NoUseUUID)
	g.Ignore(e.Written()...)
	if mode := g.Annotation(e.Mode); mode != "" && mode != hami.Core {
		g.Refuse(e.Mode, mode, hami.Core)
	}
}

// berthName is what a Queue is called as one of Berth's.
func berthName(queue string) string {
	if queue == defaultQueue {
		return ownDefault
	}
	return queue
}

func or(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// makeGroup is the PodGroup that Volcano's controller makes for pods that name none.
func makeGroup(ref *dialect.GroupRef, top dialect.Owner, least int, queue, class string) *unstructured.Unstructured {
	version := "apps/v1"
	switch {
	case top.APIVersion != "":
		version = top.APIVersion
	case top.Kind == "Job":
		version = "batch/v1"
	case top.Kind == "Pod":
		version = "v1"
	}
	spec := map[string]any{"minMember": int64(least), "queue": queue}
	if class != "" {
		spec["priorityClassName"] = class
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup",
		"metadata": map[string]any{
			"name": ref.Name, "namespace": ref.Namespace, "labels": map[string]any{"app.kubernetes.io/managed-by": "berth"},
			"ownerReferences": []any{map[string]any{"apiVersion": version, "kind": top.Kind, "name": top.Name, "uid": string(top.UID)}},
		},
		"spec": spec,
	}}
}
