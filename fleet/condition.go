package fleet

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/fleet/fault"
)

// notReady is the kubelet's message while the network plugin is still coming up.
const notReady = "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:Network plugin returns error: cni plugin not initialized"

// conditions is the list with the kubelet's own four brought up to date. Times move only with a
// change: the heartbeat is the lease. Conditions of others stay where they are. It may write to have.
func conditions(have []corev1.NodeCondition, ready bool, e *fault.Effects, now time.Time) []corev1.NodeCondition {
	want := kubeletConditions(ready)
	if e != nil {
		want = append(trouble(want, e), e.Conditions...)
		now = now.Add(e.Skew)
	}
	for _, c := range want {
		c.LastHeartbeatTime, c.LastTransitionTime = metav1.NewTime(now), metav1.NewTime(now)
		i := slices.IndexFunc(have, func(o corev1.NodeCondition) bool { return o.Type == c.Type })
		switch {
		case i < 0:
			have = append(have, c)
		case have[i].Status != c.Status:
			have[i] = c
		case have[i].Reason != c.Reason || have[i].Message != c.Message:
			c.LastTransitionTime = have[i].LastTransitionTime
			have[i] = c
		}
	}
	return have
}

func kubeletConditions(ready bool) []corev1.NodeCondition {
	list := []corev1.NodeCondition{
		{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasSufficientMemory", Message: "kubelet has sufficient memory available"},
		{Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasNoDiskPressure", Message: "kubelet has no disk pressure"},
		{Type: corev1.NodePIDPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasSufficientPID", Message: "kubelet has sufficient PID available"},
		{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", Message: "kubelet is posting ready status"},
	}
	if !ready {
		list[3].Status, list[3].Reason, list[3].Message = corev1.ConditionFalse, "KubeletNotReady", notReady
	}
	return list
}

// trouble is the kubelet's conditions with what faults make of them.
func trouble(list []corev1.NodeCondition, e *fault.Effects) []corev1.NodeCondition {
	if e.DiskPressure {
		list[1].Status, list[1].Reason, list[1].Message = corev1.ConditionTrue, "KubeletHasDiskPressure", "kubelet has disk pressure"
	}
	if e.NotReady != "" {
		list[3].Status, list[3].Reason, list[3].Message = corev1.ConditionFalse, "KubeletNotReady", e.NotReady
	}
	return list
}

// faultConditions is where a node's kubelet keeps the types of conditions that faults wrote, without which nobody could take
// them back after a restart.
const faultConditions = "sim.berth.dev/fault-conditions"

// heal takes the conditions of faults that are over off the node.
func heal(node *corev1.Node, e *fault.Effects) {
	var now []string
	if e != nil {
		for _, c := range e.Conditions {
			now = append(now, string(c.Type))
		}
	}
	before := strings.Split(node.Annotations[faultConditions], ",")
	node.Status.Conditions = slices.DeleteFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return slices.Contains(before, string(c.Type)) && !slices.Contains(now, string(c.Type))
	})
	keepAnnotation(node, faultConditions, strings.Join(now, ","))
}

// isReady reads the Ready condition.
func isReady(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// isSchedulable says that the node lifecycle controller has seen the node Ready and let pods in.
// A user's cordon or taint does not count against it.
func isSchedulable(node *corev1.Node) bool {
	return isReady(node) && !slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool {
		return t.Key == corev1.TaintNodeNotReady || t.Key == corev1.TaintNodeUnreachable
	})
}
