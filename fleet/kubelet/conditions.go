package kubelet

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The conditions a kubelet owns; it keeps all others as they are.
func ownCondition(t corev1.PodConditionType) bool {
	switch t {
	case corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.PodReady, corev1.ContainersReady, corev1.PodScheduled, corev1.AllContainersRestarting:
		return true
	}
	return false
}

// conditionsOf gives the pod's conditions for a phase: others' first, then the kubelet's own in its
// order. A condition that did not change keeps its time.
func conditionsOf(pod *corev1.Pod, containers []*container, phase corev1.PodPhase, sandbox bool, now metav1.Time) []corev1.PodCondition {
	old := pod.Status.Conditions
	all := make([]corev1.PodCondition, 0, len(old)+4)
	for _, c := range old {
		if !ownCondition(c.Type) {
			all = append(all, c)
		}
	}
	ready := containersReady(containers, phase)
	own := []corev1.PodCondition{
		condition(corev1.PodReadyToStartContainers, sandbox, "", ""),
		initialized(containers, phase),
		podReady(pod, ready),
		ready,
		condition(corev1.PodScheduled, true, "", ""),
	}
	if allCouldRestart(pod) {
		own = append(own, allRestarting(containers, phase))
	}
	for _, c := range own {
		c.ObservedGeneration = pod.Generation
		c.LastTransitionTime = now
		if was := findCondition(old, c.Type); was != nil && was.Status == c.Status {
			c.LastTransitionTime = was.LastTransitionTime
		}
		all = append(all, c)
	}
	return all
}

// allRestarting is only there on pods that have a rule for it.
func allRestarting(containers []*container, phase corev1.PodPhase) corev1.PodCondition {
	if phase == corev1.PodSucceeded || phase == corev1.PodFailed || !asksForAll(containers) {
		return condition(corev1.AllContainersRestarting, false, "", "")
	}
	return condition(corev1.AllContainersRestarting, true, "RestartAllContainersStarted", "container exited with restart policy rule")
}

func findCondition(list []corev1.PodCondition, t corev1.PodConditionType) *corev1.PodCondition {
	for i := range list {
		if list[i].Type == t {
			return &list[i]
		}
	}
	return nil
}

func condition(t corev1.PodConditionType, ok bool, reason, message string) corev1.PodCondition {
	status := corev1.ConditionFalse
	if ok {
		status = corev1.ConditionTrue
	}
	return corev1.PodCondition{Type: t, Status: status, Reason: reason, Message: message}
}

func initialized(containers []*container, phase corev1.PodPhase) corev1.PodCondition {
	if phase == corev1.PodSucceeded {
		return condition(corev1.PodInitialized, true, "PodCompleted", "")
	}
	var incomplete []string
	for _, c := range containers {
		switch {
		case c.kind == mainContainer && (c.status.State.Running != nil || lastExit(&c.status) != nil):
			return condition(corev1.PodInitialized, true, "", "")
		case c.kind == initContainer && !c.status.Ready, c.kind == sidecar && !isTrue(c.status.Started):
			incomplete = append(incomplete, c.name)
		}
	}
	if len(incomplete) == 0 {
		return condition(corev1.PodInitialized, true, "", "")
	}
	return condition(corev1.PodInitialized, false, "ContainersNotInitialized", fmt.Sprintf("containers with incomplete status: %s", incomplete))
}

func containersReady(containers []*container, phase corev1.PodPhase) corev1.PodCondition {
	switch phase {
	case corev1.PodSucceeded:
		return condition(corev1.ContainersReady, false, "PodCompleted", "")
	case corev1.PodFailed:
		return condition(corev1.ContainersReady, false, "PodFailed", "")
	}
	var unready []string
	for _, c := range containers {
		if (c.kind == sidecar || c.kind == mainContainer) && !c.status.Ready {
			unready = append(unready, c.name)
		}
	}
	if len(unready) == 0 {
		return condition(corev1.ContainersReady, true, "", "")
	}
	return condition(corev1.ContainersReady, false, "ContainersNotReady", fmt.Sprintf("containers with unready status: %s", unready))
}

// podReady is ContainersReady and the pod's readiness gates.
func podReady(pod *corev1.Pod, containers corev1.PodCondition) corev1.PodCondition {
	if containers.Status != corev1.ConditionTrue {
		containers.Type = corev1.PodReady
		return containers
	}
	var closed []string
	for _, gate := range pod.Spec.ReadinessGates {
		c := findCondition(pod.Status.Conditions, gate.ConditionType)
		switch {
		case c == nil:
			closed = append(closed, fmt.Sprintf("corresponding condition of pod readiness gate %q does not exist.", gate.ConditionType))
		case c.Status != corev1.ConditionTrue:
			closed = append(closed, fmt.Sprintf("the status of pod readiness gate %q is not \"True\", but %v", gate.ConditionType, c.Status))
		}
	}
	if len(closed) > 0 {
		return condition(corev1.PodReady, false, "ReadinessGatesNotReady", strings.Join(closed, ", "))
	}
	return condition(corev1.PodReady, true, "", "")
}
