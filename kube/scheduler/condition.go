package scheduler

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// maxMessage is how long a condition's message is at most. The API server takes no more of a metav1.Condition; a pod's it
// takes until the pod is too large to be stored.
const maxMessage = 32 << 10

// maxError is how much is passed on of what the API server said.
const maxError = 4 << 10

// wait writes the condition of a pod that waits, and the event.
func (r *reporter) wait(p *corev1.Pod, said pending) {
	r.tellPod(p, said, corev1.EventTypeWarning, "FailedScheduling")
}

// tellPod writes the condition of a pod that waits, and an event.
func (r *reporter) tellPod(p *corev1.Pod, said pending, kind, event string) {
	key := p.Namespace + "/" + p.Name
	r.later(p, func(ctx context.Context) {
		err := r.gate.again(ctx, p.Namespace, func(ctx context.Context) error { return r.patchPod(ctx, key, p.UID, said) })
		switch {
		case apierrors.IsNotFound(err):
			return
		case err != nil:
			r.s.log.Warn("write condition", "pod", key, "err", clip(err.Error(), maxNote))
			if passing(err) {
				r.Forget(p.UID) // it is said again when there is something to say
			}
		}
		if r.waits(key, p.UID) != nil {
			r.post(ctx, r.event(p, kind, event, "Scheduling", said.text, said.cause.Text(), false))
		}
	})
}

// waits returns the pod if it still has no place.
func (r *reporter) waits(key string, uid types.UID) *corev1.Pod {
	if p := r.s.feed.Pod(key); p != nil && p.UID == uid && p.Spec.NodeName == "" {
		return p
	}
	return nil
}

// patchPod writes the condition onto the version of the pod that is known, so that it cannot fall on a pod which
// has just been bound.
func (r *reporter) patchPod(ctx context.Context, key string, uid types.UID, said pending) error {
	pod := r.waits(key, uid)
	if pod == nil {
		return nil
	}
	text := clip(said.message(), maxMessage)
	conditions, since := []corev1.PodCondition(nil), metav1.Now()
	if c := r.s.feed.Admission(key, uid); c != nil {
		conditions = append(conditions, *c)
	}
	sentence := corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: said.reason, Message: text}
	data := said.cause.Condition(since)
	was := func(c corev1.PodCondition) *corev1.PodCondition {
		i := slices.IndexFunc(pod.Status.Conditions, func(o corev1.PodCondition) bool { return o.Type == c.Type && o.Status == c.Status })
		if i < 0 {
			return nil
		}
		return &pod.Status.Conditions[i]
	}
	same := func(a *corev1.PodCondition, b corev1.PodCondition) bool {
		return a != nil && a.Reason == b.Reason && a.Message == b.Message
	}
	old := was(sentence)
	if same(old, sentence) && same(was(data), data) && conditions == nil {
		return nil
	}
	if old != nil {
		since = old.LastTransitionTime
	}
	sentence.LastTransitionTime, data.LastTransitionTime = since, since
	conditions = append(conditions, sentence, data)
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": uid, "resourceVersion": pod.ResourceVersion},
		"status":   map[string]any{"conditions": conditions},
	})
	if err != nil {
		return fmt.Errorf("condition of %s: %w", key, err)
	}
	_, err = r.s.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	return afterWatch(err)
}

// afterWatch makes a conflict worth another try: by then the watch may have brought the version that it is about.
func afterWatch(err error) error {
	if apierrors.IsConflict(err) {
		return fmt.Errorf("the object has changed: %s", err)
	}
	return err
}
