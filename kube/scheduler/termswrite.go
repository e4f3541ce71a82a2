package scheduler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// errUndecided is of a pod whose terms are not decided any more: its queue went while its binding was on its way.
var errUndecided = errors.New("its terms are not decided")

// sending is how a request about an object of the namespace is sent: once, or again and again.
type sending func(ctx context.Context, namespace string, request func(context.Context) error) error

// writeTerms has the pod's decided terms in its conditions when it returns nil. Where they are there already it costs
// nothing.
func (s *scheduler) writeTerms(ctx context.Context, client kubernetes.Interface, send sending, namespace, name string, uid types.UID) error {
	c, decided := s.feed.Admission(namespace+"/"+name, uid, true)
	switch {
	case !decided:
		return errUndecided
	case c == nil:
		return nil
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": uid},
		"status":   map[string]any{"conditions": []corev1.PodCondition{*c}},
	})
	if err != nil {
		return fmt.Errorf("terms of %s/%s: %w", namespace, name, err)
	}
	return send(ctx, namespace, func(ctx context.Context) error {
		_, err := client.CoreV1().Pods(namespace).Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
		return err
	})
}

// Admitted writes down the terms of a pod that is on a node and was bound by a scheduler that did not.
func (r *reporter) Admitted(p *corev1.Pod) {
	r.mu.Lock()
	mute := r.mute
	r.mu.Unlock()
	if mute {
		return // who leads does it, or this one once it leads
	}
	r.later(p, func(ctx context.Context) {
		err := r.s.writeTerms(ctx, r.s.client, r.gate.again, p.Namespace, p.Name, p.UID)
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) && !errors.Is(err, errUndecided) {
			r.s.log.Warn("write terms", "pod", keyOf(p), "err", err)
		}
	})
}
