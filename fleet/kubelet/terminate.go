package kubelet

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ending is why a pod has to stop.
type ending struct {
	grace           time.Duration // wall time
	failed          bool          // the pod fails whatever its containers' exit codes
	reason, message string
	warns           bool // the event is a warning
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
		return &ending{grace: grace, failed: true, reason: "DeadlineExceeded", message: "Pod was active on the node longer than the specified deadline"}
	case w.evicted != "" && !terminal(pod):
		return &ending{grace: evictionGrace, failed: true, reason: evictedReason, message: w.evicted, warns: true}
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
		kind := corev1.EventTypeNormal
		if e.warns {
			kind = corev1.EventTypeWarning
		}
		w.event(kind, e.reason, "%s", e.message)
	}
	w.stopAll(ctx, e.grace)
	if ctx.Err() != nil || w.host.powered() == nil {
		return false
	}
	w.release(w.current())
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

// leftOver says whether the pod is to be deleted though its life is over: the deletion came between the last look
// at it and its last status, and the API server waits for us.
func (w *worker) leftOver() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ended && !w.gone && w.pod.DeletionTimestamp != nil
}

// finish removes the object of a pod that is left over.
func (w *worker) finish(ctx context.Context) {
	for w.leftOver() && ctx.Err() == nil {
		if w.host.powered() != nil && w.remove(ctx, w.current()) {
			return
		}
		sleep(ctx, time.Second)
	}
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
