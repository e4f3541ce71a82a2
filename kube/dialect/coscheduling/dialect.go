package coscheduling

import (
	"fmt"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/kube/dialect"
)

// SchedulerName is that of the second scheduler which the project's chart installs. Many install the plugins in the default
// scheduler instead; their pods are known by the label.
const SchedulerName = "scheduler-plugins-scheduler"

// defaultScheduler is that of the others.
const defaultScheduler = "default-scheduler"

// The kinds.
const (
	PodGroups     = "PodGroup.scheduling.x-k8s.io"
	ElasticQuotas = "ElasticQuota.scheduling.x-k8s.io"
)

// The labels that are read. The older two say the minimum beside the name, and need no PodGroup.
const (
	groupLabel    = "scheduling.x-k8s.io/pod-group"
	oldNameLabel  = "pod-group.scheduling.sigs.k8s.io/name"
	oldLeastLabel = "pod-group.scheduling.sigs.k8s.io/min-available"
	// rayGangLabel is on RayClusters whose pods KubeRay has the plugins start together; any value will do.
	rayGangLabel = "ray.io/gang-scheduling-enabled"
)

// New is the dialect of the plugins' users.
func New() dialect.Dialect { return coscheduling{} }

type coscheduling struct{}

func (coscheduling) Name() string             { return "coscheduling" }
func (coscheduling) SchedulerNames() []string { return []string{SchedulerName} }
func (coscheduling) Domains() []string {
	return []string{"scheduling.x-k8s.io", "scheduling.sigs.k8s.io"}
}

func (coscheduling) Kinds() []dialect.Kind {
	group := func(kind string) schema.GroupVersionKind {
		return schema.GroupVersionKind{Group: "scheduling.x-k8s.io", Version: "v1alpha1", Kind: kind}
	}
	return []dialect.Kind{
		{GroupVersionKind: group("PodGroup"), Plural: "podgroups", Namespaced: true, Grouping: true},
		{GroupVersionKind: group("ElasticQuota"), Plural: "elasticquotas", Namespaced: true},
	}
}

// Trim drops the keys that ask the plugins for nothing.
func (c coscheduling) Trim(o *unstructured.Unstructured) { dialect.KeepKeys(o, c.Domains()) }

func (c coscheduling) Read(o *unstructured.Unstructured, w dialect.World) dialect.Object {
	var out dialect.Object
	switch o.GetKind() {
	case "PodGroup":
		out = readGroup(o)
	case "ElasticQuota":
		out = readQuota(o, w)
	}
	out.Unread = append(out.Unread, dialect.Strays(o, c.Domains())...)
	return out
}

// Pod reads a pod into the PodGroup that its label names, and charges it to its namespace's ElasticQuota.
func (c coscheduling) Pod(p *dialect.Pod, w dialect.World) *dialect.Terms {
	from := []*metav1.ObjectMeta{&p.ObjectMeta}
	for i := range p.Owners { // the plugins read pods alone: what their controllers say is told
		from = append(from, &p.Owners[i].Meta)
	}
	r := dialect.NewReader(from[:1]...)
	name, old, least := r.Label(groupLabel), r.Label(oldNameLabel), r.Label(oldLeastLabel)
	out := &dialect.Terms{Keys: make(map[string]string)}
	switch {
	case name != "":
		named(p, name, w, out)
	case old != "":
		n, ok := count(least)
		if !ok {
			r.Refuse(oldLeastLabel, least, "a whole number above 0")
		}
		out.Keys[v1alpha1.KeyGang], out.Keys[v1alpha1.KeyMin] = old, strconv.Itoa(n)
	}
	quota, keys := quotaOf(p.Namespace, w), dialect.NewReader(from...).Any(c.Domains())
	switch p.Spec.SchedulerName {
	case SchedulerName:
	case defaultScheduler: // the plugins are in it only for those who use them
		if quota == nil && !keys {
			return nil
		}
	default:
		if !keys {
			return nil
		}
	}
	if quota != nil {
		out.Keys[v1alpha1.KeyQueue] = quota.Queue.Name
	}
	above := dialect.NewReader(from[1:]...)
	for _, key := range []string{groupLabel, oldNameLabel, oldLeastLabel} {
		if v := p.Labels[key]; v != "" && above.Peek(key) == v { // it says again what the pod says
			above.Ignore(key)
		}
	}
	out.Unread = append(r.Unread(c.Domains()), above.Unread(c.Domains())...)
	return out
}

func named(p *dialect.Pod, name string, w dialect.World, out *dialect.Terms) {
	out.Group = &dialect.GroupRef{Kind: PodGroups, Namespace: p.Namespace, Name: name} // also of one that is to come: then the pod is read again
	o := w.Object(PodGroups, p.Namespace, name)
	if o == nil {
		out.Awaits = "PodGroup " + name + " does not exist"
		return
	}
	spec, _ := o.Value.(*groupSpec)
	if spec == nil || o.Problem != "" {
		out.Awaits = "PodGroup " + name + ": " + o.Problem
		return
	}
	out.Keys[v1alpha1.KeyGang], out.Keys[v1alpha1.KeyMin] = name, strconv.Itoa(max(1, int(spec.MinMember)))
}

const maxMember = 1_000_000

func count(text string) (int, bool) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > maxMember {
		return 1, false
	}
	return n, true
}

// groupSpec has the fields of a PodGroup that are understood. The minimum of resources and the time for which pods of an incomplete group
// keep their places are not needed: a gang that waits keeps nothing.
type groupSpec struct {
	MinMember              int32           `json:"minMember"`
	MinResources           dialect.Amounts `json:"minResources"`
	ScheduleTimeoutSeconds *int32          `json:"scheduleTimeoutSeconds"`
}

func readGroup(o *unstructured.Unstructured) dialect.Object {
	spec := &groupSpec{}
	out := dialect.Object{Unread: dialect.Take(dialect.Value(o.Object, "spec"), "spec", spec), Value: spec}
	if spec.MinMember < 0 || spec.MinMember > maxMember {
		out.Problem = fmt.Sprintf("spec.minMember: want a number up to %d", maxMember)
	}
	return out
}

// onlyNamespace selects a namespace by its name.
func onlyNamespace(name string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": name}}
}
