package kubelet

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// syncRetry is how long a pod waits after something it needs could not be had.
const syncRetry = 10 * time.Second

// sync starts whatever should run and does not. It returns when to look again; zero: on news.
func (w *worker) sync(ctx context.Context, m *Machine) (next time.Time) {
	w.meetSpec()
	if w.allRestart() {
		w.restartAll(ctx)
	}
	if retry := w.mount(ctx, m); !retry.IsZero() {
		return retry
	}
	if !w.initialized {
		ready, next := w.initialize(ctx, m)
		if !ready {
			return next
		}
		w.initialized = true
	}
	for _, c := range w.containers {
		if c.kind != initContainer {
			next = earlier(next, c.advance(ctx, m))
		}
	}
	return next
}

// initialize brings the init containers on their way one after the other; ready: all are through.
func (w *worker) initialize(ctx context.Context, m *Machine) (ready bool, next time.Time) {
	for _, c := range w.containers {
		if c.kind == debugContainer || c.kind == mainContainer {
			continue
		}
		next = earlier(next, c.advance(ctx, m))
		w.mu.Lock()
		through := c.kind == sidecar && isTrue(c.status.Started) ||
			c.kind == initContainer && !c.again && c.status.State.Terminated != nil && c.status.State.Terminated.ExitCode == 0
		w.mu.Unlock()
		if !through {
			return false, next
		}
	}
	return true, next
}

// meetSpec follows what may change in a pod's spec: images, and new ephemeral containers.
func (w *worker) meetSpec() {
	pod := w.current()
	for i := range pod.Spec.EphemeralContainers {
		spec := (*corev1.Container)(&pod.Spec.EphemeralContainers[i].EphemeralContainerCommon)
		if w.find(spec.Name) == nil {
			c := newContainer(w, debugContainer, spec, pod.Status.EphemeralContainerStatuses, "ContainerCreating", metav1.Now())
			w.change(func() { w.containers = append(w.containers, c) })
		}
	}
	for _, c := range w.containers {
		spec := specOf(pod, c.name)
		if c.kind == debugContainer || spec == nil || spec.Image == c.spec.Image {
			continue
		}
		c.spec, c.retry, c.pulls = spec, time.Time{}, backoff{}
		if p := c.process(); p != nil {
			go c.restart(p, nil, "Container "+spec.Name+" definition changed, will be restarted")
		}
	}
}
