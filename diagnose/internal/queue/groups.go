package queue

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
)

// ForeignGroup is the PodGroup of another project that the pod names, how many members it starts with, and the pods that name it
// and have not ended; nil for none.
func ForeignGroup(c *check.Case) (group *unstructured.Unstructured, need int64, members []*corev1.Pod) {
	for _, k := range facts.GroupKeys {
		name := facts.Named(c.Pod, k.Key)
		if name == "" {
			continue
		}
		if group = c.ForeignNamed(k.Kind, c.Pod.Namespace, name); group == nil {
			continue
		}
		need, _, _ = unstructured.NestedInt64(group.Object, "spec", "minMember")
		if f, ok, _ := unstructured.NestedFloat64(group.Object, "spec", "minMember"); ok && need == 0 { // as plain JSON has it
			need = int64(f)
		}
		for _, p := range c.Pods {
			if p.Namespace == c.Pod.Namespace && facts.Named(p, k.Key) == name && !facts.Ended(p) && p.DeletionTimestamp == nil {
				members = append(members, p)
			}
		}
		return group, need, members
	}
	return nil, 0, nil
}

// wordedKeys are the annotations and labels in which pods describe a group that no object does: its name, and how many members it starts
// with (Koordinator, apis/extension/coscheduling.go; scheduler-plugins, before there were PodGroups).
var wordedKeys = []struct{ name, need string }{
	{"gang.scheduling.koordinator.sh/name", "gang.scheduling.koordinator.sh/min-available"},
	{"pod-group.scheduling.sigs.k8s.io/name", "pod-group.scheduling.sigs.k8s.io/min-available"},
}

// WordedGroup is the group that the pod itself describes, and no object: its name, the key that says how many members it starts with, how
// many that are, and the pods of it that have not ended; "" for none.
func WordedGroup(c *check.Case) (name, key string, need int, members []*corev1.Pod) {
	for _, k := range wordedKeys {
		name, key = facts.Named(c.Pod, k.name), k.need
		need, _ = strconv.Atoi(facts.Named(c.Pod, key))
		if name == "" || need == 0 {
			continue
		}
		for _, p := range c.Pods {
			if p.Namespace == c.Pod.Namespace && facts.Named(p, k.name) == name && !facts.Ended(p) && p.DeletionTimestamp == nil {
				members = append(members, p)
			}
		}
		return name, key, need, members
	}
	return "", "", 0, nil
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
