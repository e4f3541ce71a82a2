package convert

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
)

// A PodGroup, or a tree of groups, has one priority and one preemption policy: those of the group at the top. Upstream's scheduler
// refuses all of it while a pod of it, running or not, has another, and Berth does so in the same words
// (k8s.io/kubernetes v1.37.1, pkg/scheduler/schedule_one_podgroup.go:218, validatePodGroup). What groups below the top say of both has
// no effect on either scheduler; Berth tells their authors.

// precedence is the priority and the preemption policy of a pod or a group.
type precedence struct {
	priority *int32
	class    string
	policy   *corev1.PreemptionPolicy
}

func precedenceOf(g *schedulingv1beta1.PodGroup) precedence {
	return precedence{g.Spec.Priority, g.Spec.PriorityClassName, (*corev1.PreemptionPolicy)(g.Spec.PreemptionPolicy)}
}

func compositePrecedence(c *schedulingv1alpha3.CompositePodGroup) precedence {
	return precedence{c.Spec.Priority, c.Spec.PriorityClassName, (*corev1.PreemptionPolicy)(c.Spec.PreemptionPolicy)}
}

// known says whether the priority is: that of a class is in the object once an API server has admitted it.
func (r precedence) known() bool { return r.priority != nil || r.class == "" }

func (r precedence) number() int32 {
	if r.priority == nil {
		return 0
	}
	return *r.priority
}

func (r precedence) preempts() corev1.PreemptionPolicy {
	if r.policy == nil {
		return corev1.PreemptLowerPriority
	}
	return *r.policy
}

// Disagreement says which of the pods has another priority or preemption policy than their PodGroup, which has no parent; "": none. The
// pods are as they are in the API.
func Disagreement(g *schedulingv1beta1.PodGroup, pods []*corev1.Pod) string {
	return precedenceOf(g).disagreement(pods)
}

// Disagreement says which of the pods has another priority or preemption policy than the group at the top of the tree; "": none.
func (t *Tree) Disagreement(pods []*corev1.Pod) string {
	return compositePrecedence(t.Root).disagreement(pods)
}

func (r precedence) disagreement(pods []*corev1.Pod) string {
	of := " as the pod group's preemption policy"
	for _, p := range pods {
		own := precedence{p.Spec.Priority, p.Spec.PriorityClassName, p.Spec.PreemptionPolicy}
		if r.known() && own.known() && own.number() != r.number() {
			return fmt.Sprintf("pod %s: all pods in a single pod group should have the same priority as the pod group's priority, got %d and %d", p.Name, own.number(), r.number())
		}
		if r.policy == nil { // the API server keeps none, its gate PodGroupPreemptionPolicy is off: the pods have to agree
			policy := own.preempts()
			r.policy, of = &policy, ""
		}
		if own.preempts() != r.preempts() {
			return fmt.Sprintf("pod %s: all pods in a single pod group should have the same preemption policy%s, got %s and %s", p.Name, of, own.preempts(), r.preempts())
		}
	}
	return ""
}

// Overruled lists what the PodGroup, which is below the top of the tree, asks for and does not get because the top decides it.
func (t *Tree) Overruled(g *schedulingv1beta1.PodGroup) []string {
	return t.overruled(precedenceOf(g))
}

// OverruledComposite is Overruled for a CompositePodGroup below the top.
func (t *Tree) OverruledComposite(c *schedulingv1alpha3.CompositePodGroup) []string {
	return t.overruled(compositePrecedence(c))
}

// overruled passes over what admission fills in where the author says nothing.
func (t *Tree) overruled(own precedence) (out []string) {
	top := compositePrecedence(t.Root)
	if own.class != "" && own.known() && top.known() && own.number() != top.number() {
		out = append(out, fmt.Sprintf("priorityClassName %s: the priority of CompositePodGroup %s, %d, holds for all groups below it", own.class, t.Root.Name, top.number()))
	}
	if own.preempts() == corev1.PreemptNever && top.preempts() != corev1.PreemptNever {
		out = append(out, fmt.Sprintf("preemptionPolicy Never: that of CompositePodGroup %s, %s, holds for all groups below it", t.Root.Name, top.preempts()))
	}
	return out
}
