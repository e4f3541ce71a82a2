package convert

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/engine"
)

// GangOf names the gang that the pod is in, and the part of it; "" for a pod by itself. A PodGroup counts
// before our own keys.
func GangOf(p *corev1.Pod) (key, subgroup string) {
	if inPodGroup(p) {
		return podGroupKey(p.Namespace, *p.Spec.SchedulingGroup.PodGroupName), ""
	}
	if name := asked(&p.ObjectMeta, v1alpha1.KeyGang); name != "" {
		return nativeKey(p.Namespace, name), asked(&p.ObjectMeta, v1alpha1.KeySubgroup)
	}
	return "", ""
}

func nativeKey(namespace, name string) string { return namespace + "/gang/" + name }

func inPodGroup(p *corev1.Pod) bool {
	g := p.Spec.SchedulingGroup
	return g != nil && g.PodGroupName != nil && *g.PodGroupName != ""
}

func podGroupKey(namespace, name string) string { return namespace + "/podgroup/" + name }

// PodGroup is upstream's group as the engine sees it. One with the basic policy whose pods are not Independent starts from its first pod,
// and the others follow one by one, each as wanted as the first (ADR 244).
func PodGroup(g *schedulingv1beta1.PodGroup) engine.Gang {
	out := engine.Gang{
		Key:     podGroupKey(g.Namespace, g.Name),
		Version: version(&g.ObjectMeta),
		Queue:   asked(&g.ObjectMeta, v1alpha1.KeyQueue),
		Created: g.CreationTimestamp.UTC(),
	}
	if g.Spec.Priority != nil {
		out.Priority = *g.Spec.Priority
	}
	out.Min, out.Each = 1, true
	if gang := g.Spec.SchedulingPolicy.Gang; gang != nil {
		out.Min, out.Each = int(gang.MinCount), false
	}
	if m := g.Spec.DisruptionMode; m != nil {
		out.Whole = m.All != nil
	}
	if c := g.Spec.SchedulingConstraints; c != nil && len(c.Topology) > 0 {
		out.Layout.Required = c.Topology[0].Key
	}
	return out
}

// Independent says whether each pod of the group is a workload of its own (ADR 210): the group has the basic policy, and nothing that its
// pods have in common, which are a topology domain, claims, being disrupted together, and a parent.
func Independent(g *schedulingv1beta1.PodGroup) bool {
	s := &g.Spec
	topology := s.SchedulingConstraints != nil && len(s.SchedulingConstraints.Topology) > 0
	whole := s.DisruptionMode != nil && s.DisruptionMode.All != nil
	return s.SchedulingPolicy.Gang == nil && !topology && !whole && len(s.ResourceClaims) == 0 && ParentOf(g) == ""
}

// Idle says whether the group is one that the Job controller makes for every Job (gate WorkloadWithJob), and asks nothing of
// its members. They are what they would be without it, and what they say of a gang themselves counts.
func Idle(g *schedulingv1beta1.PodGroup) bool {
	by := metav1.GetControllerOfNoCopy(g)
	return by != nil && by.Kind == "Job" && strings.HasPrefix(by.APIVersion, "batch/") && Independent(g)
}

// Ungrouped is the pod without its group.
func Ungrouped(p *corev1.Pod) *corev1.Pod {
	out := *p
	out.Spec.SchedulingGroup = nil
	return &out
}

// PodGroupOf is the key of the gang of the PodGroup that the pod names, "" for none.
func PodGroupOf(p *corev1.Pod) string {
	if !inPodGroup(p) {
		return ""
	}
	return podGroupKey(p.Namespace, *p.Spec.SchedulingGroup.PodGroupName)
}
