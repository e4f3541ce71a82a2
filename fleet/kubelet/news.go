package kubelet

import (
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// poke wakes run.
func (w *worker) poke() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// change makes a change that the status has to tell.
func (w *worker) change(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
	w.news++
	w.tellStack()
}

// current is the pod as last seen. It must not be changed.
func (w *worker) current() *corev1.Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pod
}

// learn takes in a newer version of the pod, which becomes the worker's own, and wakes run if it matters.
func (w *worker) learn(pod *corev1.Pod) {
	pod.ManagedFields = nil // never read, and half of the object
	w.mu.Lock()
	defer w.mu.Unlock()
	old := w.pod
	if older(pod.ResourceVersion, old.ResourceVersion) {
		return
	}
	w.pod = pod
	w.tellStack()
	if len(pod.Spec.ReadinessGates) > 0 && gatesChanged(old, pod) {
		w.news++
		w.poke()
	}
	if pod.DeletionTimestamp != nil && w.killer != nil {
		w.killer.Reset(max(0, time.Until(pod.DeletionTimestamp.Time)))
	}
	if (pod.DeletionTimestamp == nil) != (old.DeletionTimestamp == nil) || pod.Generation != old.Generation || terminal(pod) != terminal(old) {
		w.poke()
	}
}

// older compares resource versions, which are numbers; what is not counts as new.
func older(a, b string) bool {
	x, errX := strconv.ParseUint(a, 10, 64)
	y, errY := strconv.ParseUint(b, 10, 64)
	return errX == nil && errY == nil && x < y
}

func gatesChanged(a, b *corev1.Pod) bool {
	for _, gate := range b.Spec.ReadinessGates {
		was, is := findCondition(a.Status.Conditions, gate.ConditionType), findCondition(b.Status.Conditions, gate.ConditionType)
		if (was == nil) != (is == nil) || is != nil && was.Status != is.Status {
			return true
		}
	}
	return false
}

// vanish notes that the object is gone: everything stops at once and nothing more is written.
func (w *worker) vanish() {
	w.mu.Lock()
	w.gone = true
	w.tellStack()
	w.mu.Unlock()
	w.hurry()
	w.poke()
}

// hurry ends the grace period of whatever is being stopped.
func (w *worker) hurry() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.killer != nil {
		w.killer.Reset(0)
	}
}

func (w *worker) isGone() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.gone
}

// wasTold says whether all that is known has been written.
func (w *worker) wasTold() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.gone || w.news == w.told
}
