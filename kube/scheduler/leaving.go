package scheduler

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/kube/convert"
)

// cordonLook is how often it is looked whether a node leaves now.
const cordonLook = 2 * time.Second

// cordonLeaving cordons nodes when the time has come that was announced for their maintenance (ADR 149), until ctx ends.
func (s *scheduler) cordonLeaving(ctx context.Context) {
	for ctx.Err() == nil {
		now := time.Now()
		for _, n := range s.feed.NodesWhere(func(n *corev1.Node) bool { return leavesNow(n, now) }) {
			s.cordon(ctx, n)
		}
		select {
		case <-ctx.Done():
		case <-time.After(cordonLook):
		}
	}
}

// leavesNow says whether the node is to be cordoned for its maintenance: it leaves now, and was not cordoned for it before. A person
// who opens it again by hand is not overruled. Nodes of a reservation that ends are kube/provision's.
func leavesNow(n *corev1.Node, now time.Time) bool {
	d, leaves := convert.DepartureOf(n)
	return leaves && !now.Before(d.At) && !n.Spec.Unschedulable && n.Annotations[v1alpha1.KeyCordonedFor] != n.Annotations[v1alpha1.KeyLeavesAt] && !strings.HasPrefix(d.With, v1alpha1.LeavesWithReservation)
}

func (s *scheduler) cordon(ctx context.Context, n *corev1.Node) {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": n.UID, "resourceVersion": n.ResourceVersion, "annotations": map[string]string{v1alpha1.KeyCordonedFor: n.Annotations[v1alpha1.KeyLeavesAt]}},
		"spec":     map[string]any{"unschedulable": true},
	})
	if err == nil {
		_, err = s.client.CoreV1().Nodes().Patch(ctx, n.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	}
	switch {
	case err == nil:
		s.log.Info("cordoned for its maintenance", "node", n.Name)
	case !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) && ctx.Err() == nil:
		s.log.Warn("cordon for its maintenance", "node", n.Name, "err", clip(err.Error(), maxNote))
	}
}
