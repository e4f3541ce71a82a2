package kubelet

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/fleet/shell"
)

// leastGrace is what a process always gets between SIGTERM and SIGKILL, as from a kubelet.
const leastGrace = 2 * time.Second

// ending is why a pod has to stop.
type ending struct {
	grace           time.Duration // wall time
	failed          bool          // the pod fails whatever its containers' exit codes
	reason, message string
}

// ending says whether the pod has to stop now: it is being deleted, has run out of time, has done its
// work, or somebody else declared it over. Nil: it goes on.
func (w *worker) ending(now time.Time) *ending {
	w.mu.Lock()
	defer w.mu.Unlock()
	pod := w.pod
	grace := seconds(pod.Spec.TerminationGracePeriodSeconds)
	switch {
	case pod.DeletionTimestamp != nil:
		return &ending{grace: max(0, min(seconds(pod.DeletionGracePeriodSeconds), time.Until(pod.DeletionTimestamp.Time)))}
	case pod.Spec.ActiveDeadlineSeconds != nil && !now.Before(w.started.Add(seconds(pod.Spec.ActiveDeadlineSeconds))):
		return &ending{grace, true, "DeadlineExceeded", "Pod was active on the node longer than the specified deadline"}
	case terminal(pod):
		return &ending{grace: grace}
	}
	if finished(pod, w.containers) {
		return &ending{grace: grace}
	}
	return nil
}

// finished says whether nothing is left to do: an init container failed for good, or every main
// container has ended for good. Sidecars do not keep a pod alive.
func finished(pod *corev1.Pod, containers []*container) bool {
	var n counts
	n.count(pod, containers)
	return n.initFailed > 0 || n.initPending == 0 && n.mains > 0 && n.stopped == n.mains && n.restartable == 0
}

func seconds(n *int64) time.Duration {
	if n == nil {
		return 30 * time.Second
	}
	return time.Duration(*n) * time.Second
}

// deadline is when the pod's time is over; zero: never.
func (w *worker) deadline() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.pod.Spec.ActiveDeadlineSeconds == nil {
		return time.Time{}
	}
	return w.started.Add(seconds(w.pod.Spec.ActiveDeadlineSeconds))
}

// terminate stops all containers, gives back what the pod held, writes how it ended and, if the pod
// is being deleted, deletes it. It is done unless the machine went down or ctx ended meanwhile.
func (w *worker) terminate(ctx context.Context, e *ending) (done bool) {
	if e.reason != "" && w.reason == "" {
		w.event(corev1.EventTypeNormal, e.reason, "%s", e.message)
	}
	w.stopAll(ctx, e.grace)
	if ctx.Err() != nil || w.host.powered() == nil {
		return false
	}
	w.host.release(w.uid)
	w.change(func() {
		w.over, w.sandbox = true, false
		if e.reason != "" {
			w.failed, w.reason, w.message = e.failed, e.reason, e.message
		}
	})
	for !w.isGone() && ctx.Err() == nil && w.host.powered() != nil {
		pod := w.current()
		if pod.DeletionTimestamp == nil || worthTelling(pod) {
			w.report(ctx)
		}
		if pod = w.current(); pod.DeletionTimestamp == nil {
			return w.wasTold()
		}
		if w.remove(ctx, pod) {
			return true
		}
		sleep(ctx, time.Second)
	}
	return w.isGone()
}

// worthTelling says whether anybody could want to know how a pod ended that is deleted in the next
// moment. Pods that a controller simply replaces are not worth the write.
func worthTelling(pod *corev1.Pod) bool {
	return len(pod.Finalizers) > 0 || pod.Spec.RestartPolicy != corev1.RestartPolicyAlways || metav1.GetControllerOf(pod) == nil
}

// remove deletes the object for good. What is already gone, or has become another pod, is removed.
func (w *worker) remove(ctx context.Context, pod *corev1.Pod) bool {
	now := int64(0)
	err := w.k.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: &now,
		Preconditions:      &metav1.Preconditions{UID: &w.uid},
	})
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return true
	}
	w.k.log.Warn("delete pod", "pod", pod.Namespace+"/"+pod.Name, "err", err)
	return false
}

// stopAll stops the containers within the grace period: main containers first and together, then the
// sidecars from the last to the first. A shorter grace period that arrives meanwhile is honoured.
func (w *worker) stopAll(ctx context.Context, grace time.Duration) {
	ctx, kill := context.WithCancel(ctx)
	defer kill()
	w.mu.Lock()
	w.killer = time.AfterFunc(grace, kill)
	if w.gone {
		w.killer.Reset(0)
	}
	w.mu.Unlock()
	for _, batch := range stopOrder(w.containers) {
		var all sync.WaitGroup
		for _, c := range batch {
			if p := c.process(); p != nil {
				all.Go(func() { c.stop(ctx, p, "Stopping container "+c.name) })
			}
		}
		all.Wait()
	}
	w.mu.Lock()
	w.killer.Stop()
	w.killer = nil
	w.mu.Unlock()
}

func stopOrder(all []*container) [][]*container {
	var first []*container
	var then [][]*container
	for _, c := range all {
		if c.kind == sidecar {
			then = append([][]*container{{c}}, then...)
		} else {
			first = append(first, c)
		}
	}
	return append([][]*container{first}, then...)
}

// stop ends one process: preStop hook, SIGTERM, and SIGKILL when grace ends.
func (c *container) stop(grace context.Context, p *process, why string) {
	c.event(corev1.EventTypeNormal, "Killing", "%s", why)
	hooked := c.preStop(grace, p)
	p.signal(shell.Terminate)
	select {
	case <-p.done:
		return
	case <-grace.Done():
	}
	if hooked { // the hook may have used up all the time there was
		select {
		case <-p.done:
			return
		case <-time.After(leastGrace):
		}
	}
	p.signal(shell.Kill)
	<-p.done
}

// restart stops the process for a reason of its own; the worker starts the next instance.
func (c *container) restart(p *process, why string) {
	grace, cancel := context.WithTimeout(context.Background(), c.grace())
	defer cancel()
	c.stop(grace, p, why)
}

func (c *container) grace() time.Duration {
	return seconds(c.w.current().Spec.TerminationGracePeriodSeconds)
}

// killAll ends every process at once and waits for them.
func (w *worker) killAll() {
	for _, c := range w.containers {
		if p := c.process(); p != nil {
			p.signal(shell.Kill)
			<-p.done
		}
	}
}

// losePower is the machine going down: processes are gone, nothing is written. What the pod held
// stays booked, and when the machine is back its containers have been lost.
func (w *worker) losePower() {
	now := metav1.Now()
	var dead []*process
	w.change(func() {
		for _, c := range w.containers {
			if c.running != nil {
				dead = append(dead, c.running)
				c.running = nil
			}
			c.lose(now)
		}
		w.sandbox = false
	})
	for _, p := range dead {
		p.signal(shell.Kill)
		<-p.done
	}
	w.rebooted = w.admitted
}
