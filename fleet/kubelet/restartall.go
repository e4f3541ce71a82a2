package kubelet

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/fleet/shell"
)

// restartingAll is the reason that containers show which were taken down because another one's
// restart rule asks for all to start anew, with the kubelet's words for it.
const (
	restartingAll        = "RestartingAllContainers"
	restartingAllMessage = "The container is removed because RestartAllContainers in place"
)

// allCouldRestart says whether any container has such a rule.
func allCouldRestart(pod *corev1.Pod) bool {
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			for _, rule := range list[i].RestartPolicyRules {
				if rule.Action == corev1.ContainerRestartRuleActionRestartAllContainers {
					return true
				}
			}
		}
	}
	return false
}

// allRestart says whether a container has just ended in the way that restarts all.
func (w *worker) allRestart() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return asksForAll(w.containers)
}

func asksForAll(containers []*container) bool {
	for _, c := range containers {
		exit := c.status.State.Terminated
		if exit == nil || c.kind == debugContainer {
			continue
		}
		if rule := matchingRule(c.spec, exit.ExitCode); rule != nil && rule.Action == corev1.ContainerRestartRuleActionRestartAllContainers {
			return true
		}
	}
	return false
}

// restartAll starts the pod anew in its place: it says so, kills what runs without grace and makes
// every container that ever ran one that waits. Volumes, devices and address stay.
func (w *worker) restartAll(ctx context.Context) {
	w.report(ctx)
	for _, c := range w.containers {
		if p := c.process(); p != nil && c.kind != debugContainer {
			c.event(corev1.EventTypeNormal, "Killing", "killing")
			p.signal(shell.Kill)
			<-p.done
		}
	}
	w.change(func() {
		for _, c := range w.containers {
			if c.kind != debugContainer && c.status.State.Waiting == nil {
				c.reset()
			}
		}
	})
	w.initialized = false
}

// reset shows the container as removed. Called with w.mu held.
func (c *container) reset() {
	s := &c.status
	s.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: restartingAll, Message: restartingAllMessage}}
	s.LastTerminationState = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		ExitCode: 137, Reason: restartingAll, Message: restartingAllMessage,
	}}
	s.ContainerID, s.Ready, s.Started = "", false, new(bool)
	s.RestartCount++ // the next instance has no container to count on from
}
