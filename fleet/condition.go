package fleet

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// notReady is the kubelet's message while the network plugin is still coming up.
const notReady = "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:Network plugin returns error: cni plugin not initialized"

// conditions is the list with the kubelet's own four brought up to date. Times move only with a
// change: the heartbeat is the lease. Conditions of others stay where they are. It may write to have.
func conditions(have []corev1.NodeCondition, ready bool, now time.Time) []corev1.NodeCondition {
	for _, c := range kubeletConditions(ready) {
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
