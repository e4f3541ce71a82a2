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

	"github.com/berth-dev/berth/kube/policy"
)

// errUndecided is of a pod whose terms are not decided any more: its queue went while its binding was on its way.
var errUndecided = errors.New("its terms are not decided")

// sending is how a request about an object of the namespace is sent: once, or again and again.
type sending func(ctx context.Context, namespace string, request func(context.Context) error) error

// writeTerms has the pod's decided terms in its conditions when it returns nil, or returns what puts them onto its Binding.
// Where they are written down already it does nothing.
func (s *scheduler) writeTerms(ctx context.Context, client kubernetes.Interface, send sending, namespace, name string, uid types.UID) (sign func(*corev1.Binding), err error) {
	before, sign, decided := s.feed.Start(namespace+"/"+name, uid)
	switch {
	case !decided:
		return nil, errUndecided
	case before == nil:
		return sign, nil
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": uid},
		"status":   map[string]any{"conditions": []corev1.PodCondition{*before}},
	})
	if err != nil {
		return nil, fmt.Errorf("terms of %s/%s: %w", namespace, name, err)
	}
	return nil, send(ctx, namespace, func(ctx context.Context) error {
		_, err := client.CoreV1().Pods(namespace).Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
		return err
	})
}

// guardTerms keeps the feed told whether the API server keeps others from removing sealed terms. While that is not known they
// are not relied on.
func (s *scheduler) guardTerms(ctx context.Context, was bool) {
	for sleep(ctx, guardEvery) {
		if on := s.seeGuard(ctx); on != was {
			s.log.Warn("the policy that guards terms changed", "policy", policy.Terms, "guards", on)
			was = on
		}
	}
}

// seeGuard looks once, and not for long: it is done before the first pod is bound.
func (s *scheduler) seeGuard(ctx context.Context) bool {
	asking, cancel := context.WithTimeout(ctx, guardFor)
	defer cancel()
	on, err := policy.GuardsTerms(asking, s.client)
	if err != nil && ctx.Err() == nil {
		s.log.Warn("it cannot be seen whether terms are guarded", "policy", policy.Terms, "err", err)
	}
	if ctx.Err() == nil {
		s.feed.Guard(on)
	}
	return on
}

// Admitted writes down the terms of a pod that is on a node and was bound by a scheduler that did not.
func (r *reporter) Admitted(p *corev1.Pod) {
	r.mu.Lock()
	mute := r.mute
	r.mu.Unlock()
	if mute {
		return // the leader does it, or this process once it leads
	}
	r.later(p, func(ctx context.Context) {
		_, err := r.s.writeTerms(ctx, r.s.client, r.gate.again, p.Namespace, p.Name, p.UID)
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) && !errors.Is(err, errUndecided) {
			r.s.log.Warn("write terms", "pod", keyOf(p), "err", err)
		}
	})
}
