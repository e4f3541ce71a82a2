package scheduler

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/volume"

	"github.com/berth-dev/berth/kube/cluster"
	"github.com/berth-dev/berth/kube/convert"
)

// ask writes down what every claim is to get.
func (v *preparer) ask(ctx context.Context, p *preparation) *cluster.Failure {
	return v.each(p.Wants, func(w cluster.Want) *cluster.Failure {
		var err error
		switch {
		case w.Shared:
			return nil
		case w.Volume != "":
			err = v.takeVolume(ctx, w)
		default:
			err = v.selectNode(ctx, w)
		}
		switch {
		case err == nil:
			return nil
		case apierrors.IsNotFound(err):
			return &cluster.Failure{Reason: err.Error()}
		}
		return &cluster.Failure{Reason: err.Error(), Blamed: []cluster.Want{w}}
	})
}

// selectNode has a volume made for the claim on the node. Where the claim has moved on there is nothing to
// write, and progress says what of it.
func (v *preparer) selectNode(ctx context.Context, w cluster.Want) error {
	return v.annotate(ctx, w, w.Node, func(c *corev1.PersistentVolumeClaim) bool { return c.Annotations[volume.AnnSelectedNode] != w.Node })
}

// takeBack undoes selectNode, unless that was done already or the claim has its volume.
func (v *preparer) takeBack(ctx context.Context, w cluster.Want) {
	if w.Shared || w.Volume != "" {
		return
	}
	err := v.annotate(ctx, w, nil, func(c *corev1.PersistentVolumeClaim) bool { return c.Annotations[volume.AnnSelectedNode] == w.Node })
	if err != nil && !apierrors.IsNotFound(err) {
		v.s.log.Warn("take back", "claim", w.Claim, "node", w.Node, "err", err)
	}
}

// annotate sets the node for which the claim's volume is made, nil for none, on an unbound claim that needs it.
func (v *preparer) annotate(ctx context.Context, w cluster.Want, node any, needs func(*corev1.PersistentVolumeClaim) bool) error {
	return v.gate.again(ctx, namespaceOf(w.Claim), func(ctx context.Context) error {
		c := v.s.feed.Claim(w.Claim)
		if c == nil || c.UID != w.UID || convert.Bound(c) || !needs(c) {
			return nil
		}
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
			"uid": c.UID, "resourceVersion": c.ResourceVersion, "annotations": map[string]any{volume.AnnSelectedNode: node},
		}})
		if err != nil {
			return fmt.Errorf("node of claim %s: %w", w.Claim, err)
		}
		got, err := v.s.client.CoreV1().PersistentVolumeClaims(c.Namespace).Patch(ctx, c.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
		if err == nil {
			cluster.Trim(got)
			v.s.feed.Learn(got)
		}
		return afterWatch(err)
	})
}

// takeVolume enters the claim in the volume, as the controller that binds the two does.
func (v *preparer) takeVolume(ctx context.Context, w cluster.Want) error {
	return v.gate.again(ctx, namespaceOf(w.Claim), func(ctx context.Context) error {
		pv, c := v.s.feed.Volume(w.Volume), v.s.feed.Claim(w.Claim)
		if pv == nil || pv.Spec.ClaimRef != nil && pv.Spec.ClaimRef.UID != "" || c == nil || c.UID != w.UID {
			return nil
		}
		bound, _, err := volume.GetBindVolumeToClaim(pv, c)
		if err != nil {
			return fmt.Errorf("volume of claim %s: %w", w.Claim, err)
		}
		patch, err := json.Marshal(map[string]any{
			"metadata": map[string]any{"uid": pv.UID, "resourceVersion": pv.ResourceVersion, "annotations": bound.Annotations},
			"spec":     map[string]any{"claimRef": bound.Spec.ClaimRef},
		})
		if err != nil {
			return fmt.Errorf("volume of claim %s: %w", w.Claim, err)
		}
		got, err := v.s.client.CoreV1().PersistentVolumes().Patch(ctx, pv.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
		if err == nil {
			cluster.Trim(got)
			v.s.feed.Learn(got)
		}
		return afterWatch(err)
	})
}
