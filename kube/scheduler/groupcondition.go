package scheduler

import (
	"context"
	"encoding/json"
	"fmt"

	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/engine/why"
	"github.com/berth-dev/berth/kube/cluster"
	"github.com/berth-dev/berth/kube/convert"
	"github.com/berth-dev/berth/kube/report"
)

// tried says whether upstream's scheduler would have tried to place the group, and so written its condition.
func tried(w *engine.Waiting) bool {
	return w.Cause != why.GangIncomplete && w.Cause != why.GangMissing
}

func (r *reporter) groupWaits(g *schedulingv1beta1.PodGroup, said pending) {
	r.later(g, r.group(g, metav1.Condition{Status: metav1.ConditionFalse, Reason: said.reason, Message: said.text}, &said.cause))
}

func (r *reporter) Begun(g *schedulingv1beta1.PodGroup) {
	if r.turns(g.UID, "begun") && !r.s.opts.Shadow {
		r.background.put(g.Namespace, string(g.UID), r.group(g, metav1.Condition{Status: metav1.ConditionTrue, Reason: "Scheduled"}, nil))
	}
}

// group writes the condition as upstream's scheduler does, and of a group that waits the cause as data beside it.
func (r *reporter) group(g *schedulingv1beta1.PodGroup, c metav1.Condition, cause *report.Pending) writing {
	c.Type, c.Message = schedulingv1beta1.PodGroupInitiallyScheduled, clip(c.Message, maxMessage)
	return func(ctx context.Context) {
		err := r.gate.again(ctx, g.Namespace, func(ctx context.Context) error { return r.patchGroup(ctx, convert.PodGroup(g).Key, g.UID, c, cause) })
		if err != nil && !apierrors.IsNotFound(err) {
			r.s.log.Warn("write condition", "podgroup", g.Namespace+"/"+g.Name, "err", err)
		}
	}
}

// patchGroup writes onto the version that is known, so that a group which has begun does not go back.
func (r *reporter) patchGroup(ctx context.Context, key string, uid types.UID, c metav1.Condition, cause *report.Pending) error {
	g := r.s.feed.Group(key)
	if g == nil || g.UID != uid || cluster.InitiallyScheduled(g) {
		return nil
	}
	c.ObservedGeneration = g.Generation
	status := g.Status.DeepCopy()
	changed := meta.SetStatusCondition(&status.Conditions, c)
	if cause != nil {
		data := cause.GroupCondition(g.Generation)
		changed = meta.SetStatusCondition(&status.Conditions, data) || changed
	}
	if !changed {
		return nil
	}
	write := []metav1.Condition{*meta.FindStatusCondition(status.Conditions, c.Type)}
	if data := meta.FindStatusCondition(status.Conditions, v1alpha1.PodPendingCause); cause != nil && data != nil {
		write = append(write, *data)
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": uid, "resourceVersion": g.ResourceVersion},
		"status":   map[string]any{"conditions": write},
	})
	if err != nil {
		return fmt.Errorf("condition of %s: %w", key, err)
	}
	_, err = r.s.client.SchedulingV1beta1().PodGroups(g.Namespace).Patch(ctx, g.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	return afterWatch(err)
}
