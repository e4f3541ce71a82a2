package queue

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/kube/dialect/kai"
	"github.com/berth-dev/berth/kube/dialect/volcano"
)

// coschedulingGroups are those of the coscheduling plugin (scheduler-plugins, apis/scheduling/v1alpha1).
const coschedulingGroups = "PodGroup.scheduling.x-k8s.io"

// groupKeys are the annotations and labels by which pods name a PodGroup of another project, and its kind. All of them have
// spec.minMember.
var groupKeys = []struct{ key, kind string }{
	{"scheduling.k8s.io/group-name", volcano.PodGroups},
	{"scheduling.volcano.sh/group-name", volcano.PodGroups},
	{"scheduling.x-k8s.io/pod-group", coschedulingGroups},
	{"pod-group-name", kai.PodGroups},
}

// ForeignGroup is the PodGroup of another project that the pod names, how many members it starts with, and the pods that name it
// and have not ended; nil for none.
func ForeignGroup(c *check.Case) (group *unstructured.Unstructured, need int64, members []*corev1.Pod) {
	for _, k := range groupKeys {
		name := named(c.Pod, k.key)
		if name == "" {
			continue
		}
		if group = c.ForeignNamed(k.kind, c.Pod.Namespace, name); group == nil {
			continue
		}
		need, _, _ = unstructured.NestedInt64(group.Object, "spec", "minMember")
		if f, ok, _ := unstructured.NestedFloat64(group.Object, "spec", "minMember"); ok && need == 0 { // as plain JSON has it
			need = int64(f)
		}
		for _, p := range c.Pods {
			if p.Namespace == c.Pod.Namespace && named(p, k.key) == name && !facts.Ended(p) && p.DeletionTimestamp == nil {
				members = append(members, p)
			}
		}
		return group, need, members
	}
	return nil, 0, nil
}

func named(p *corev1.Pod, key string) string {
	if v := p.Annotations[key]; v != "" {
		return v
	}
	return p.Labels[key]
}

// KueueGroupName is the label of plain pods that Kueue admits together.
const KueueGroupName = "kueue.x-k8s.io/pod-group-name"

// KueueGroup are the members of the pod's group that there are, where Kueue waits for more of them; none where it does not.
func KueueGroup(c *check.Case) (members []*corev1.Pod) {
	name := c.Pod.Labels[KueueGroupName]
	total, err := strconv.Atoi(c.Pod.Annotations["kueue.x-k8s.io/pod-group-total-count"])
	if name == "" || err != nil || !c.Exists || !kueueHeld(c) || c.Pod.Annotations["kueue.x-k8s.io/pod-group-fast-admission"] == "true" || len(KueueWorks(c)) > 0 {
		return nil
	}
	for _, p := range c.Pods {
		if p.Namespace == c.Pod.Namespace && p.Labels[KueueGroupName] == name && p.Status.Phase != corev1.PodFailed {
			members = append(members, p)
		}
	}
	if len(members) >= total {
		return nil
	}
	return members
}
