package kubelet

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// start makes and starts a new instance: image, configuration, process, hook.
func (c *container) start(ctx context.Context, m *Machine, exit *corev1.ContainerStateTerminated, now time.Time) time.Time {
	im, later, bad := c.ensureImage(m, now)
	if !later.IsZero() {
		return later
	}
	var p *process
	if bad == nil {
		p, bad = c.prepare(ctx, m, im)
	}
	if bad != nil {
		c.fail(bad)
		return bad.retry
	}
	if exit != nil && !c.again {
		c.crash.tried(exit.FinishedAt.Time, now, c.w.k.clock)
	}
	c.retry, c.again = time.Time{}, false
	c.event(corev1.EventTypeNormal, "Created", "Container created")
	if refusal := p.refusal(m); refusal != "" {
		c.startError(p, refusal)
		return time.Time{}
	}
	c.event(corev1.EventTypeNormal, "Started", "Container started")
	c.launch(p)
	c.postStart(p)
	return time.Time{}
}

// fail shows why the container could not be made, and remembers when to try again.
func (c *container) fail(bad *failure) {
	c.retry = bad.retry
	c.w.mu.Lock()
	shown := c.status.State.Waiting
	c.w.mu.Unlock()
	if shown == nil || shown.Reason != bad.reason || shown.Message != bad.message {
		c.wait(bad.reason, bad.message)
	}
}

// instance begins a new instance's status: its number, its id, its log. Called with w.mu held.
func (c *container) instance(p *process) {
	if c.status.ContainerID != "" {
		c.status.RestartCount++
	}
	if c.status.State.Terminated != nil {
		c.status.LastTerminationState = c.status.State
	}
	id := sha256.Sum256([]byte(string(c.w.uid) + "/" + c.name + "/" + strconv.Itoa(int(c.status.RestartCount))))
	c.status.ContainerID = fmt.Sprintf("berth://%x", id)
	c.status.Image, c.status.ImageID = p.image.String(), p.image.id()
	c.status.AllocatedResources = c.spec.Resources.Requests
	if c.spec.Resources.Requests != nil || c.spec.Resources.Limits != nil {
		c.status.Resources = &c.spec.Resources
	}
	c.status.AllocatedResourcesStatus = p.resourceHealth()
	if c.log != nil {
		c.old = c.log
	}
	c.log = p.log
}

// launch starts the process and shows the container as running. What has neither a start-up probe nor
// a readiness probe is ready at once.
func (c *container) launch(p *process) {
	now := metav1.Now()
	started := c.spec.StartupProbe == nil && p.settle == 0
	c.w.change(func() {
		c.instance(p)
		c.running = p
		p.startedAt = now
		c.status.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}}
		c.status.Started = &started
		c.status.Ready = started && c.spec.ReadinessProbe == nil && c.kind != initContainer
	})
	go p.run()
	if !started || c.spec.ReadinessProbe != nil || c.spec.LivenessProbe != nil {
		go c.watch(p)
	}
}

// startError is an instance that the runtime could not start at all. Its start time is the epoch,
// as container runtimes have it.
func (c *container) startError(p *process, why string) {
	c.event(corev1.EventTypeWarning, "Failed", "Error: %s", why)
	c.w.change(func() {
		c.instance(p)
		c.status.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: 128, Reason: "StartError", Message: why,
			StartedAt: metav1.Unix(0, 0), FinishedAt: metav1.Now(), ContainerID: c.status.ContainerID,
		}}
		c.status.Ready, c.status.Started = false, new(bool)
	})
	p.log.end()
	c.w.poke()
}

// ended is called by the process when it is over.
func (c *container) ended(p *process, code int, reason string) {
	p.log.end()
	message := p.lastWords(code)
	c.w.change(func() {
		if c.running != p { // lost with its machine
			return
		}
		c.running = nil
		c.status.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: int32(code), Reason: cmp.Or(reason, exitReason(code)), Message: message,
			StartedAt: p.startedAt, FinishedAt: metav1.Now(), ContainerID: c.status.ContainerID,
		}}
		c.status.Started = new(bool)
		c.status.Ready = c.kind == initContainer && code == 0
	})
	c.w.poke()
}

func exitReason(code int) string {
	if code == 0 {
		return "Completed"
	}
	return "Error"
}
