package convert

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	helper "k8s.io/component-helpers/resource"

	"github.com/berth-dev/berth/engine"
)

// most is the largest amount that the engine takes.
const most = 1 << 50

// amount is the quantity in the engine's units: -1 for any below zero, most+1 for any that is too large to
// count. Parts of a unit count as a whole one, as upstream counts them.
func amount(name corev1.ResourceName, q resource.Quantity) int64 {
	limit, scale := int64(most), resource.Scale(0)
	if name == corev1.ResourceCPU {
		limit, scale = most/1000, resource.Milli
	}
	switch {
	case q.Sign() < 0:
		return -1
	case q.CmpInt64(limit) > 0: // before scaling, which overflows without a word
		return most + 1
	}
	return q.ScaledValue(scale)
}

// allocatable is what a node has. What is below zero is left out, and what is too large to count is the most
// there can be.
func allocatable(list corev1.ResourceList) engine.Resources {
	out := make(engine.Resources, 0, len(list))
	for name, q := range list {
		if v := amount(name, q); v >= 0 {
			out = append(out, engine.Amount{Resource: string(name), Value: min(v, most)})
		}
	}
	return sorted(out)
}

// requests is what a pod takes of its node, by upstream's formula; once it is bound, what a resize gave it
// counts too. Of a waiting pod an amount that makes no sense stays, for the engine to refuse by name; of a
// bound one it is brought into range, for the room is taken.
func requests(p *corev1.Pod) engine.Resources {
	bound := p.Spec.NodeName != ""
	list := helper.PodRequests(guarded(p), helper.PodResourcesOptions{
		UseStatusResources: bound, InPlacePodLevelResourcesVerticalScalingEnabled: bound,
		UseDRANodeAllocatableResourceClaimStatus: bound, // what its devices take of the node, as whoever bound it wrote down
	})
	out := make(engine.Resources, 0, len(list))
	for name, q := range list {
		v := amount(name, q)
		if bound {
			v = max(0, min(v, most))
		}
		if v != 0 && name != corev1.ResourcePods { // every pod takes one of pods without asking
			out = append(out, engine.Amount{Resource: string(name), Value: v})
		}
	}
	return sorted(out)
}

// guarded is the pod, or a copy where PodRequests would write to it: it adds the overhead to the pod's own
// quantities, once more each time that it is asked (kubernetes/kubernetes#141241).
func guarded(p *corev1.Pod) *corev1.Pod {
	if p.Spec.Resources == nil || len(p.Spec.Overhead) == 0 {
		return p
	}
	c := *p
	c.Spec.Resources = p.Spec.Resources.DeepCopy()
	return &c
}

// sorted orders the amounts by name, in place; none are nil.
func sorted(r engine.Resources) engine.Resources {
	if len(r) == 0 {
		return nil
	}
	slices.SortFunc(r, func(a, b engine.Amount) int { return strings.Compare(a.Resource, b.Resource) })
	return r
}
