package kai

import (
	_ "embed"
	"maps"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/kube/dialect"
)

// New is the dialect of KAI's users.
func New() dialect.Dialect { return kai{} }

type kai struct{}

func (kai) Name() string             { return "kai" }
func (kai) SchedulerNames() []string { return []string{SchedulerName} }
func (kai) Domains() []string        { return []string{"kai.scheduler", "run.ai", "runai"} }

func (kai) Kinds() []dialect.Kind {
	return []dialect.Kind{
		{GroupVersionKind: schema.GroupVersionKind{Group: "scheduling.run.ai", Version: "v2", Kind: "Queue"}, Plural: "queues"},
		{GroupVersionKind: schema.GroupVersionKind{Group: "scheduling.run.ai", Version: "v2alpha2", Kind: "PodGroup"}, Plural: "podgroups", Namespaced: true, Grouping: true},
		{GroupVersionKind: schema.GroupVersionKind{Group: "kai.scheduler", Version: "v1alpha1", Kind: "Topology"}, Plural: "topologies"},
	}
}

// Trim drops the keys that ask KAI for nothing.
func (k kai) Trim(o *unstructured.Unstructured) { dialect.KeepKeys(o, k.Domains()) }

func (k kai) Read(o *unstructured.Unstructured, _ dialect.World) dialect.Object {
	var out dialect.Object
	switch o.GetKind() {
	case "Queue":
		out = readQueue(o)
	case "PodGroup":
		out = readGroup(o)
	case "Topology":
		out = readTopology(o)
	}
	out.Unread = append(out.Unread, dialect.Strays(o, k.Domains(), copied...)...)
	return out
}

// Pod reads a pod as KAI's grouper does: into the PodGroup that it names, or into the one of its topmost controller.
func (k kai) Pod(p *dialect.Pod, w dialect.World) *dialect.Terms {
	from := make([]*metav1.ObjectMeta, 0, len(p.Owners)+1)
	for i := len(p.Owners) - 1; i >= 0; i-- { // the topmost counts first
		from = append(from, &p.Owners[i].Meta)
	}
	if p.Spec.SchedulerName != SchedulerName && !dialect.NewReader(append(from, &p.ObjectMeta)...).Any(k.Domains()) {
		return nil
	}
	g := &grouping{Pod: p, world: w, Reader: dialect.NewReader(append(from, &p.ObjectMeta)...), levels: levels{w}}
	g.Ignore(written...)
	out := &dialect.Terms{Keys: make(map[string]string)}
	if name := g.Annotation(groupAnnotation); name != "" {
		g.named(name, out)
	} else {
		g.derived(out)
	}
	if d := g.Annotation(preemptionDelay); d != "" && out.Keys[v1alpha1.KeyPreemptionDelay] == "" {
		g.delay(d, out)
	}
	for _, key := range bare {
		if g.Annotation(key) != "" {
			g.Tell(key)
		}
	}
	if g.Annotation(containerKey) != "" && !slices.ContainsFunc(partKeys, func(key string) bool { return g.Annotation(key) != "" }) {
		g.Tell(containerKey)
	}
	out.Unread = g.Unread(k.Domains())
	return out
}

// grouping reads one pod.
type grouping struct {
	*dialect.Pod
	*dialect.Reader
	world  dialect.World
	levels levels
}

// named puts the pod into a PodGroup that people made.
func (g *grouping) named(name string, out *dialect.Terms) {
	sub := g.Label(SubgroupLabel)
	g.Ignore(skipGrouper) // which is to leave the pod in it
	out.Group = &dialect.GroupRef{Kind: PodGroups, Namespace: g.Namespace, Name: name}
	o := g.world.Object(PodGroups, g.Namespace, name)
	if o == nil {
		g.Ignore(copied...) // what they are worth, the group will say
		out.Awaits = "PodGroup " + name + " does not exist"
		return
	}
	spec, _ := o.Value.(*groupSpec)
	if spec == nil || o.Problem != "" {
		g.Ignore(copied...)
		out.Awaits = "PodGroup " + name + ": " + o.Problem
		return
	}
	keys, problem := spec.keys(name, sub, g.levels)
	if problem != "" {
		g.Ignore(copied...)
		out.Awaits = problem
		return
	}
	maps.Copy(out.Keys, keys)
	queue := spec.Queue
	if queue == "" {
		queue = g.queue()
	} else {
		g.Ignore(QueueLabel, oldQueueLabel, poolLabel)
	}
	out.Keys[v1alpha1.KeyQueue] = berthName(queue)
	class := spec.PriorityClassName
	if class == "" {
		class = g.class(classTrain)
	}
	g.stand(class, or(spec.Preemptibility, g.Label(preemptibilityLabel)), out)
	if spec.PreemptionDelay != "" {
		g.delay(spec.PreemptionDelay, out)
	}
}

// derived finds the group of a pod that names none: one for a Job, a StatefulSet or a pod alone, and one for each pod of a
// Deployment. A group whose minimum is one pod, and that asks for no place, is no gang to Berth.
func (g *grouping) derived(out *dialect.Terms) {
	top := g.top()
	class, least := classTrain, 1
	switch top.Kind {
	case "Job":
		least = g.count(minMember)
	case "StatefulSet":
		least = g.count(minMemberStateful)
	case "Deployment":
		class, top = classInference, g.itself()
	}
	queue := g.queue()
	out.Keys[v1alpha1.KeyQueue] = berthName(queue)
	class = g.class(class)
	g.stand(class, g.Label(preemptibilityLabel), out)
	name := groupPrefix + top.Name + "-" + string(top.UID)
	at := topology{Topology: g.Annotation(topologyName), Required: g.Annotation(topologyRequired), Preferred: g.Annotation(topologyPreferred)}
	segment := g.segment(at.Topology)
	if least > 1 || at.Required != "" || at.Preferred != "" || segment != "" {
		keys, _ := (&groupSpec{MinMember: int32(least), TopologyConstraint: at}).keys(name, "", g.levels)
		maps.Copy(out.Keys, keys)
		if segment != "" {
			out.Keys[v1alpha1.KeySegment] = segment
		}
	}
	ref := &dialect.GroupRef{Kind: PodGroups, Namespace: g.Namespace, Name: name}
	spec := groupSpec{MinMember: int32(least), Queue: queue, PriorityClassName: class, Preemptibility: g.Label(preemptibilityLabel), TopologyConstraint: at}
	ref.Make = func() *unstructured.Unstructured { return makeGroup(ref, top, &spec) }
	out.Group = ref
}

// top is the pod's topmost controller, or itself.
func (g *grouping) top() dialect.Owner {
	if n := len(g.Owners); n > 0 {
		return g.Owners[n-1]
	}
	return g.itself()
}

func (g *grouping) itself() dialect.Owner {
	return dialect.Owner{Kind: "Pod", Name: g.Name, UID: g.UID}
}

// queue is the one that the pod's controllers or the pod name, or their project.
func (g *grouping) queue() string {
	if q := or(g.Label(QueueLabel), g.Label(oldQueueLabel)); q != "" {
		return q
	}
	if project := g.Label(projectLabel); project != "" {
		if pool := g.Label(poolLabel); pool != "" {
			return project + "-" + pool
		}
		return project
	}
	return defaultQueue
}

// class is the priority class that is named and exists, else the one given.
func (g *grouping) class(fallback string) string {
	for _, name := range []string{g.Label(rayPriorityLabel), g.Label(priorityLabel), g.Spec.PriorityClassName} {
		if name == "" {
			continue
		}
		if _, ok := g.world.Priority(name); ok {
			return name
		}
		g.Refuse(priorityLabel, name, "a PriorityClass that exists")
	}
	return fallback
}

// stand gives the pod the class's priority, and what follows from it.
func (g *grouping) stand(class, preemptibility string, out *dialect.Terms) {
	priority, ok := g.world.Priority(class)
	if !ok {
		priority = defaultGroupPriority
		if class == classInference { // the class that says so may not be installed
			priority = 125
		}
	}
	out.Priority = &priority
	switch preemptibility {
	case "preemptible":
		return
	case "semi-preemptible":
		out.Keys[v1alpha1.KeyPreemptible] = "surplus"
		return
	case "non-preemptible":
	case "":
		if priority < firmFrom {
			return
		}
	default:
		g.Refuse(preemptibilityLabel, preemptibility, "preemptible or non-preemptible")
		if priority < firmFrom {
			return
		}
	}
	out.Keys[v1alpha1.KeyPreemptible] = "false"
}

// count reads a minimum, 1 where there is none.
func (g *grouping) count(key string) int {
	text := g.Annotation(key)
	if text == "" {
		return 1
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > 1_000_000 {
		g.Refuse(key, text, "a whole number above 0")
		return 1
	}
	return n
}

// segment reads size@level; "": none.
func (g *grouping) segment(topology string) string {
	size, level := g.Annotation(segmentSize), g.Annotation(segmentRequired)
	if size == "" && level == "" {
		return ""
	}
	if n, err := strconv.Atoi(size); err != nil || n < 2 || level == "" {
		g.Refuse(segmentSize, size, "a number above 1, with "+segmentRequired)
		return ""
	}
	return size + "@" + g.levels.of(topology, level)
}

func (g *grouping) delay(text string, out *dialect.Terms) {
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		g.Refuse(preemptionDelay, text, "a time, such as 10m")
		return
	}
	if d > 0 {
		out.Keys[v1alpha1.KeyPreemptionDelay] = d.String()
	}
}

// berthName is what a Queue is called as one of Berth's, which has a default itself.
func berthName(queue string) string {
	if queue == v1alpha1.DefaultQueue {
		return ownDefault
	}
	return queue
}

// kaiName is what a queue of Berth's is called as a Queue.
func kaiName(queue string) string {
	if queue == ownDefault {
		return v1alpha1.DefaultQueue
	}
	return queue
}

func or(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// makeGroup is the PodGroup that KAI's grouper makes.
func makeGroup(ref *dialect.GroupRef, top dialect.Owner, spec *groupSpec) *unstructured.Unstructured {
	version := "apps/v1"
	switch {
	case top.APIVersion != "":
		version = top.APIVersion
	case top.Kind == "Job":
		version = "batch/v1"
	case top.Kind == "Pod":
		version = "v1"
	}
	body := map[string]any{"minMember": int64(spec.MinMember), "queue": spec.Queue, "priorityClassName": spec.PriorityClassName}
	if spec.Preemptibility != "" {
		body["preemptibility"] = spec.Preemptibility
	}
	at := make(map[string]any)
	for key, value := range map[string]string{"topology": spec.TopologyConstraint.Topology, "requiredTopologyLevel": spec.TopologyConstraint.Required, "preferredTopologyLevel": spec.TopologyConstraint.Preferred} { //archtest:any-order each has its own key
		if value != "" {
			at[key] = value
		}
	}
	if len(at) > 0 {
		body["topologyConstraint"] = at
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup",
		"metadata": map[string]any{
			"name": ref.Name, "namespace": ref.Namespace, "labels": map[string]any{"app.kubernetes.io/managed-by": "berth"},
			"ownerReferences": []any{map[string]any{"apiVersion": version, "kind": top.Kind, "name": top.Name, "uid": string(top.UID)}},
		},
		"spec": body,
	}}
}
