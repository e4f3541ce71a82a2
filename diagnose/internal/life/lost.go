package life

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/gpustack"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

// lostAfter is how long a node is not Ready before it is proposed to give up what runs there: it may come back. That it is
// not Ready is said at once, as nothing that runs there is known to run.
const lostAfter = time.Minute

// Lost says why nothing is heard of the pod's node, where that is so. A pod that was put by hand on a node which never
// was is not lost.
func Lost(c *check.Case) (what string, e facts.Evidence) {
	name := c.Pod.Spec.NodeName
	if name == "" || facts.Ended(c.Pod) {
		return "", facts.Evidence{}
	}
	if !c.Sees("nodes", "") {
		return lostAsSaid(c)
	}
	n := c.NodeNamed(name)
	if n == nil && Since(c.Pod).IsZero() {
		return "", facts.Evidence{}
	}
	if n == nil {
		return fmt.Sprintf("node %s does not exist any more", name), facts.Evidence{Object: facts.RefTo(c.Pod).In(), Field: "spec.nodeName", Value: name}
	}
	k := facts.ConditionOf(n, corev1.NodeReady)
	if k == nil || k.Status == corev1.ConditionTrue || boots(c, n) {
		return "", facts.Evidence{}
	}
	return fmt.Sprintf("node %s is not ready (%s) since %s", name, k.Reason, wording.Minutes(c.Now.Sub(k.LastTransitionTime.Time))),
		facts.Evidence{Object: facts.RefTo(n).In(), Field: "status.conditions[Ready]", Value: fmt.Sprintf("%s %s: %s", k.Status, k.Reason, wording.Shortened(k.Message, 120))}
}

// lostAsSaid goes by the pod where nodes cannot be seen. When a node is lost, Kubernetes' node lifecycle controller takes a pod's condition
// Ready away and leaves ContainersReady as the kubelet wrote it last; without readiness gates the kubelet itself writes both alike.
func lostAsSaid(c *check.Case) (string, facts.Evidence) {
	var ready, containers *corev1.PodCondition
	for i := range c.Pod.Status.Conditions {
		switch k := &c.Pod.Status.Conditions[i]; k.Type {
		case corev1.PodReady:
			ready = k
		case corev1.ContainersReady:
			containers = k
		}
	}
	if ready == nil || containers == nil || len(c.Pod.Spec.ReadinessGates) > 0 || c.Pod.DeletionTimestamp != nil || ready.Status != corev1.ConditionFalse || containers.Status != corev1.ConditionTrue {
		return "", facts.Evidence{}
	}
	return fmt.Sprintf("nothing has been heard of node %s for %s", c.Pod.Spec.NodeName, wording.Minutes(c.Now.Sub(ready.LastTransitionTime.Time))),
		facts.Evidence{Object: facts.RefTo(c.Pod).In(), Field: "status.conditions[Ready]", Value: "False, with ContainersReady True: the kubelet did not write it"}
}

// boots says whether the node is new and its kubelet at work, and the pod has not run there: it is one of those that make
// the node ready.
func boots(c *check.Case, n *corev1.Node) bool {
	return c.Now.Sub(n.CreationTimestamp.Time) < gpustack.YoungNode && !facts.Silent(n) && c.State == facts.Starting
}

// GivenUp says whether the pod's node has been away for so long that what ran there may be given up.
func GivenUp(c *check.Case) bool {
	n := c.NodeNamed(c.Pod.Spec.NodeName)
	if n == nil {
		return true
	}
	k := facts.ConditionOf(n, corev1.NodeReady)
	return k != nil && c.Now.Sub(k.LastTransitionTime.Time) > lostAfter
}

// Ailments are the conditions with which health systems report a fault of the node. Names of conditions tell their polarity only where
// they are True, those of GPUs aside.
func Ailments(n *corev1.Node) []facts.Condition {
	sick := gpustack.Sickness(n)
	var out []facts.Condition
	for _, k := range facts.ConditionsOf(n) {
		if k.Status == string(corev1.ConditionTrue) && k.Bad() || sick != nil && k.Type == string(sick.Type) {
			out = append(out, k)
		}
	}
	return out
}
