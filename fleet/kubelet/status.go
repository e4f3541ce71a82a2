package kubelet

import (
	"context"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// writesInFlight bounds the status writes of the whole fleet at one time.
	writesInFlight = 48

	// holdBack is how long a pod that is about to start keeps quiet: one that is running within
	// this time is written once, as Running.
	holdBack = time.Second

	firstRetry, lastRetry = 100 * time.Millisecond, 10 * time.Second
)

// report writes the pod's status if there is news, and again until the API server has it. It gives
// up when ctx ends, the pod is gone or the machine goes down. It returns when to look again because
// news is held back; zero if none is.
func (w *worker) report(ctx context.Context) (next time.Time) {
	for wait := firstRetry; ; wait = min(2*wait, lastRetry) {
		pod, news, hold := w.compose(time.Now())
		if pod == nil || !hold.IsZero() {
			return hold
		}
		err := w.write(ctx, pod, news)
		switch {
		case err == nil:
			return time.Time{}
		case apierrors.IsNotFound(err):
			w.vanish()
			return time.Time{}
		case apierrors.IsInvalid(err): // trying again would not help; the next change may
			w.k.log.Error("write status", "pod", pod.Namespace+"/"+pod.Name, "err", err)
			w.settle(news)
			return time.Time{}
		case apierrors.IsConflict(err):
			err = w.refresh(ctx)
		}
		if ctx.Err() != nil || w.host.powered() == nil {
			return time.Time{}
		}
		if err != nil {
			w.k.log.Warn("write status", "pod", pod.Namespace+"/"+pod.Name, "err", err)
			sleep(ctx, wait)
		}
	}
}

// compose makes the pod object to write; nil if there is nothing new. The object shares all but its
// status with the cached pod, which is never changed. news is the number of the last change in it.
func (w *worker) compose(now time.Time) (pod *corev1.Pod, news int, hold time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.gone || w.news == w.told {
		return nil, 0, time.Time{}
	}
	status := w.statusNow(metav1.NewTime(now))
	if w.rejected != nil {
		status = rejectedStatus(w.pod, w.rejected, metav1.NewTime(now))
	}
	if until := w.seen.Add(holdBack); w.pod.Status.StartTime == nil && status.Phase == corev1.PodPending && now.Before(until) {
		return nil, 0, until
	}
	written := *w.pod
	written.Status = status
	if w.gpus != "" {
		setAnnotation(&written, gpuAnnotation, w.gpus)
	}
	for key, value := range w.written {
		setAnnotation(&written, key, value)
	}
	return &written, w.news, time.Time{}
}

// setAnnotation changes the pod alone, and not the map that it shares with the cached one.
func setAnnotation(pod *corev1.Pod, key, value string) {
	if have, ok := pod.Annotations[key]; ok && have == value {
		return
	}
	pod.Annotations = maps.Clone(pod.Annotations)
	if pod.Annotations == nil {
		pod.Annotations = make(map[string]string, 1)
	}
	pod.Annotations[key] = value
}

// write sends one status and learns the object that came of it.
func (w *worker) write(ctx context.Context, pod *corev1.Pod, news int) error {
	select {
	case w.k.writes <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	got, err := w.k.client.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	<-w.k.writes
	if err != nil {
		return err
	}
	w.learn(got)
	w.settle(news)
	return nil
}

// settle notes that the changes up to news are dealt with.
func (w *worker) settle(news int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.told = max(w.told, news)
}

// refresh reads the pod anew after a conflict.
func (w *worker) refresh(ctx context.Context) error {
	pod := w.current()
	got, err := w.k.client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && got.UID != w.uid {
		w.vanish()
		return nil
	}
	if err != nil {
		return err
	}
	w.learn(got)
	return nil
}

// statusNow is the pod's status as the kubelet would write it. Called with w.mu held.
func (w *worker) statusNow(now metav1.Time) corev1.PodStatus {
	pod := w.pod
	s := pod.Status // others' fields stay as they are
	s.Phase = phaseOf(pod, w.containers, w.over)
	s.Reason, s.Message = w.reason, w.message
	if w.failed && w.over {
		s.Phase = corev1.PodFailed
	}
	if terminal(pod) {
		s.Phase, s.Reason, s.Message = pod.Status.Phase, pod.Status.Reason, pod.Status.Message
	}
	s.ObservedGeneration = pod.Generation
	s.Conditions = conditionsOf(pod, w.containers, s.Phase, w.sandbox, now)
	if w.evicted != "" && w.failed && findCondition(s.Conditions, corev1.DisruptionTarget) == nil {
		s.Conditions = append(s.Conditions, evictedCondition(pod, w.evicted, now))
	}
	s.HostIP, s.HostIPs = w.hostIP, []corev1.HostIP{{IP: w.hostIP}}
	if w.podIP != "" && (w.sandbox || w.over) { // before its sandbox a pod has no network
		s.PodIP, s.PodIPs = w.podIP, []corev1.PodIP{{IP: w.podIP}}
	}
	s.StartTime = &w.started
	s.InitContainerStatuses, s.ContainerStatuses, s.EphemeralContainerStatuses = nil, make([]corev1.ContainerStatus, 0, len(pod.Spec.Containers)), nil
	for _, c := range w.containers {
		switch c.kind {
		case mainContainer:
			s.ContainerStatuses = append(s.ContainerStatuses, c.status)
		case debugContainer:
			s.EphemeralContainerStatuses = append(s.EphemeralContainerStatuses, c.status)
		default:
			s.InitContainerStatuses = append(s.InitContainerStatuses, c.status)
		}
	}
	return s
}

// rejectedStatus is that of a pod that was not admitted.
func rejectedStatus(pod *corev1.Pod, r *rejection, now metav1.Time) corev1.PodStatus {
	s := corev1.PodStatus{
		Phase: corev1.PodFailed, Reason: r.reason, Message: "Pod was rejected: " + r.message,
		QOSClass: pod.Status.QOSClass, StartTime: &now, ObservedGeneration: pod.Generation,
		ResourceClaimStatuses:       pod.Status.ResourceClaimStatuses,
		ExtendedResourceClaimStatus: pod.Status.ExtendedResourceClaimStatus,
	}
	for _, c := range pod.Status.Conditions {
		if !ownCondition(c.Type) || c.Type == corev1.PodScheduled {
			s.Conditions = append(s.Conditions, c)
		}
	}
	return s
}

// sleep waits on the wall clock.
func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
