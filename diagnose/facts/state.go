package facts

import (
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
)

// StateOf is how far a pod has come.
func StateOf(p *corev1.Pod) State {
	switch p.Status.Phase {
	case corev1.PodSucceeded:
		return Succeeded
	case corev1.PodFailed:
		return Failed
	case corev1.PodRunning:
		return Running
	}
	if len(p.Spec.SchedulingGates) > 0 {
		return Gated
	}
	if p.Spec.NodeName == "" {
		return Pending
	}
	return Starting
}

// StateOrder sorts states: the least far first, and what has failed before what runs.
func StateOrder(s State) int {
	return slices.Index([]State{Absent, Gated, Pending, Starting, Failed, Running, Succeeded}, s)
}

// Unsettled says whether the pod is not where its author wants it to be.
func Unsettled(p *corev1.Pod) bool {
	switch StateOf(p) {
	case Gated, Pending, Starting:
		return true
	case Running:
		return slices.ContainsFunc(p.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool {
			return s.State.Waiting != nil
		})
	}
	return false
}

// State is how far the work has come.
type State string

const (
	Absent    State = "absent" // pods that should exist do not
	Gated     State = "gated"
	Pending   State = "pending"
	Starting  State = "starting" // on a node, not running yet
	Running   State = "running"
	Failed    State = "failed"
	Succeeded State = "succeeded"
)

// Suspended says whether the object holds itself back, and by which field.
func Suspended(o Object) (field string, yes bool) {
	switch o := o.(type) {
	case *batchv1.Job:
		return "spec.suspend", ptr.Deref(o.Spec.Suspend, false) && JobEnded(o) == ""
	case *unstructured.Unstructured:
		if v, ok, _ := unstructured.NestedBool(o.Object, "spec", "suspend"); ok && v {
			return "spec.suspend", true
		}
		v, ok, _ := unstructured.NestedBool(o.Object, "spec", "runPolicy", "suspend")
		return "spec.runPolicy.suspend", ok && v
	}
	return "", false
}

// NodeReady reports whether the kubelet says that the node can run pods.
func NodeReady(n *corev1.Node) bool {
	c := ConditionOf(n, corev1.NodeReady)
	return c == nil || c.Status == corev1.ConditionTrue
}

// Silent says whether the node once spoke and no longer does: that is no boot.
func Silent(n *corev1.Node) bool {
	ready := ConditionOf(n, corev1.NodeReady)
	return ready != nil && ready.Status == corev1.ConditionUnknown
}

// ConditionOf returns the node's condition of the type, nil where it has none.
func ConditionOf(n *corev1.Node, kind corev1.NodeConditionType) *corev1.NodeCondition {
	for i := range n.Status.Conditions {
		if n.Status.Conditions[i].Type == kind {
			return &n.Status.Conditions[i]
		}
	}
	return nil
}
