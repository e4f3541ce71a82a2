package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/resource"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// devices finds GPUs that are under two pods. The kubelets of the fleet say which they gave.
func (l *look) devices() []finding {
	var out []finding
	holders := make(map[string]string)
	for i := range l.pods {
		p := &l.pods[i]
		if over(p) || p.Spec.NodeName == "" {
			continue
		}
		for _, id := range heldBy(p) {
			if other := holders[id]; other != "" {
				out = append(out, finding{"device given twice", id, fmt.Sprintf("to %s and %s on %s", other, key(p), p.Spec.NodeName)})
			}
			holders[id] = key(p)
		}
	}
	return out
}

func heldBy(p *corev1.Pod) (ids []string) {
	var of map[string][]string
	if json.Unmarshal([]byte(p.Annotations[v1alpha1.KeyGPUs]), &of) != nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(of)) {
		ids = append(ids, of[name]...)
	}
	return ids
}

// accounts finds nodes whose pods ask for more than there is, and pods that run with other than the GPUs that
// they asked for.
func (l *look) accounts() []finding {
	used := make(map[string]corev1.ResourceList)
	var out []finding
	for i := range l.pods {
		p := &l.pods[i]
		if over(p) || p.Spec.NodeName == "" {
			continue
		}
		add(used, p)
		if got := int64(len(heldBy(p))); p.Status.Phase == corev1.PodRunning && p.Namespace == namespace && got != gpusOf(p) {
			out = append(out, finding{"wrong devices", key(p), fmt.Sprintf("asked for %d and has %d", gpusOf(p), got)})
		}
	}
	for i := range l.nodes {
		n := &l.nodes[i]
		for _, name := range slices.Sorted(maps.Keys(used[n.Name])) {
			sum, there := used[n.Name][name], n.Status.Allocatable[name]
			if sum.Cmp(there) > 0 {
				out = append(out, finding{"node overbooked", n.Name + " " + string(name), fmt.Sprintf("%s of %s", sum.String(), there.String())})
			}
		}
	}
	return out
}

func add(used map[string]corev1.ResourceList, p *corev1.Pod) {
	sum := used[p.Spec.NodeName]
	if sum == nil {
		sum = corev1.ResourceList{}
		used[p.Spec.NodeName] = sum
	}
	for name, q := range resource.PodRequests(p, resource.PodResourcesOptions{}) {
		total := sum[name]
		total.Add(q)
		sum[name] = total
	}
}

// fleet finds nodes that have not come back, and pods on nodes that will not.
func (l *look) fleet() []finding {
	var out []finding
	there := make(map[string]*corev1.Node)
	for i := range l.nodes {
		there[l.nodes[i].Name] = &l.nodes[i]
	}
	for _, name := range l.expected {
		n := there[name]
		if n == nil {
			out = append(out, finding{"node missing", name, "is not registered"})
			continue
		}
		gpus := n.Status.Allocatable[gpu]
		if !usable(n) || gpus.Value() != 8 {
			out = append(out, finding{"node missing", name, fmt.Sprintf("usable %v, %s GPUs", usable(n), gpus.String())})
		}
	}
	for i := range l.pods {
		if p := &l.pods[i]; p.Spec.NodeName != "" && !over(p) && there[p.Spec.NodeName] == nil {
			out = append(out, finding{"on a node that is gone", key(p) + " " + string(p.UID), p.Spec.NodeName})
		}
	}
	return out
}

// usable says whether a node takes pods with GPUs.
func usable(n *corev1.Node) bool {
	for _, t := range n.Spec.Taints {
		if t.Key != gpu && t.Effect != corev1.TaintEffectPreferNoSchedule {
			return false
		}
	}
	return !n.Spec.Unschedulable
}
