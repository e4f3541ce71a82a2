package kubelet

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// kind is the part a container plays in its pod.
type kind uint8

const (
	initContainer kind = iota // runs to completion before the next starts
	sidecar                   // an init container that keeps running
	mainContainer
	debugContainer // an ephemeral container: started once, never again
)

// container is one container of a pod through all its instances.
type container struct {
	w    *worker
	kind kind
	name string

	// Owned by the pod's worker goroutine. Others use the spec of a process.
	spec       *corev1.Container // of the pod as last seen; only the image may have changed
	crash      backoff
	pulls      backoff
	pullFailed time.Time
	pulling    bool      // this container waits for its image
	retry      time.Time // no start before this; zero: any time
	again      bool      // to be run once more although it ended well: the machine was rebooted

	// Guarded by w.mu. Values that status points to are replaced, never changed.
	status   corev1.ContainerStatus
	running  *process // nil: not running
	log, old *journal // of the current or last instance, and of the one before it; nil: none
}

// newContainer starts from what the API server knows of it, which is nothing for a new pod. A
// container that ran under an earlier life of this process or of its machine is lost.
func newContainer(w *worker, k kind, spec *corev1.Container, known []corev1.ContainerStatus, fresh string, now metav1.Time) *container {
	c := &container{w: w, kind: k, name: spec.Name, spec: spec}
	for i := range known {
		if known[i].Name == spec.Name {
			c.status = known[i]
			c.lose(now)
			return c
		}
	}
	c.status = corev1.ContainerStatus{
		Name:         spec.Name,
		Image:        spec.Image,
		State:        corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: fresh}},
		Started:      new(bool),
		VolumeMounts: mountStatuses(spec),
	}
	return c
}

func mountStatuses(spec *corev1.Container) []corev1.VolumeMountStatus {
	var all []corev1.VolumeMountStatus
	for _, m := range spec.VolumeMounts {
		s := corev1.VolumeMountStatus{Name: m.Name, MountPath: m.MountPath, ReadOnly: m.ReadOnly}
		if m.ReadOnly {
			disabled := corev1.RecursiveReadOnlyDisabled
			s.RecursiveReadOnly = &disabled
		}
		all = append(all, s)
	}
	return all
}

// lose makes of a container that was said to run one that vanished with its machine: containerd
// reports such a one as ended with 255. Called with w.mu held, or before the worker starts.
func (c *container) lose(now metav1.Time) {
	ran := c.status.State.Running
	if ran == nil {
		return
	}
	c.status.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		ExitCode: 255, Reason: "Unknown", StartedAt: ran.StartedAt, FinishedAt: now, ContainerID: c.status.ContainerID,
	}}
	c.status.Ready, c.status.Started = false, new(bool)
}

// advance starts the container if it should run and does not. It returns when to call again although
// nothing happened; zero: not before something does.
func (c *container) advance(ctx context.Context, m *Machine) time.Time {
	now := time.Now()
	c.w.mu.Lock()
	status, running := c.status, c.running
	c.w.mu.Unlock()
	if running != nil {
		return time.Time{}
	}
	exit := lastExit(&status)
	switch {
	case exit == nil, c.again: // not run yet
	case status.State.Terminated != nil && !shouldRestart(c.w.current(), c, exit):
		return time.Time{}
	default:
		failed := exit.FinishedAt.Time
		if until := c.crash.until(failed, c.w.k.clock); now.Before(until) {
			c.backOff(status.State.Waiting)
			return until
		}
	}
	if now.Before(c.retry) {
		return c.retry
	}
	return c.start(ctx, m, exit, now)
}

// backOff shows that the container waits because it keeps ending.
func (c *container) backOff(shown *corev1.ContainerStateWaiting) {
	if shown != nil && shown.Reason == "CrashLoopBackOff" {
		return
	}
	pod := c.w.current()
	name := fmt.Sprintf("%s_%s(%s)", pod.Name, pod.Namespace, pod.UID)
	c.event(corev1.EventTypeWarning, "BackOff", "Back-off restarting failed container %s in pod %s", c.name, name)
	c.wait("CrashLoopBackOff", fmt.Sprintf("back-off %s restarting failed container=%s pod=%s", c.crash.delay, c.name, name))
}

// wait shows the container as waiting; how it last ended stays known.
func (c *container) wait(reason, message string) {
	c.w.change(func() {
		if c.status.State.Terminated != nil {
			c.status.LastTerminationState = c.status.State
		}
		c.status.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
	})
}

// process is the running instance's; nil: it does not run.
func (c *container) process() *process {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	return c.running
}

// event records an event about the container.
func (c *container) event(kind, reason, format string, args ...any) {
	field := "spec.containers{" + c.name + "}"
	switch c.kind {
	case initContainer, sidecar:
		field = "spec.initContainers{" + c.name + "}"
	case debugContainer:
		field = "spec.ephemeralContainers{" + c.name + "}"
	}
	c.w.k.events.on(c.w.current(), field, kind, reason, format, args...)
}
