package life

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
)

// AwaitsContainers says whether the pod has its node, has had time, and no container of it was made yet.
func AwaitsContainers(c *check.Case) bool {
	if !c.Exists || c.State != facts.Starting || c.Pod.DeletionTimestamp != nil || c.Now.Sub(Since(c.Pod)) < Patience {
		return false
	}
	return !slices.ContainsFunc(slices.Concat(c.Pod.Status.InitContainerStatuses, c.Pod.Status.ContainerStatuses), func(s corev1.ContainerStatus) bool {
		w := s.State.Waiting
		return w == nil || w.Reason != "" && w.Reason != "ContainerCreating" && w.Reason != "PodInitializing"
	})
}

// HasSandbox says whether the kubelet reports that the pod's sandbox and network are there.
func HasSandbox(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(k corev1.PodCondition) bool {
		return k.Type == corev1.PodReadyToStartContainers && k.Status == corev1.ConditionTrue
	})
}
