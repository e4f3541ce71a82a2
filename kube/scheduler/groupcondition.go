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

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/engine/why"
	"github.com/berth-dev/berth/kube/cluster"
	"github.com/berth-dev/berth/kube/convert"
)

// tried says whether upstream's scheduler would have tried to place the group, and so written its condition.
func tried(w *engine.Waiting) bool {
	return w.Cause != why.GangIncomplete && w.Cause != why.GangMissing
}

func (y *sayer) groupWaits(g *schedulingv1beta1.PodGroup, said pending) {
	y.later(g, y.group(g, metav1.Condition{Status: metav1.ConditionFalse, Reason: said.reason, Message: said.text}))
}

func (y *sayer) Begun(g *schedulingv1beta1.PodGroup) {
	if y.turns(g.UID, "begun") && !y.s.opts.Shadow {
		y.calm.put(g.Namespace, string(g.UID), y.group(g, metav1.Condition{Status: metav1.ConditionTrue, Reason: "Scheduled"}))
	}
}

// group writes the condition as upstream's scheduler does.
func (y *sayer) group(g *schedulingv1beta1.PodGroup, c metav1.Condition) writing {
	c.Type, c.Message = schedulingv1beta1.PodGroupInitiallyScheduled, clip(c.Message, maxMessage)
	return func(ctx context.Context) {
		err := y.gate.again(ctx, g.Namespace, func(ctx context.Context) error { return y.patchGroup(ctx, convert.PodGroup(g).Key, g.UID, c) })
		if err != nil && !apierrors.IsNotFound(err) {
			y.s.log.Warn("write condition", "podgroup", g.Namespace+"/"+g.Name, "err", err)
		}
	}
}

// patchGroup writes onto the version that is known, so that a group which has begun does not go back.
func (y *sayer) patchGroup(ctx context.Context, key string, uid types.UID, c metav1.Condition) error {
	g := y.s.feed.Group(key)
	if g == nil || g.UID != uid || cluster.InitiallyScheduled(g) {
		return nil
	}
	c.ObservedGeneration = g.Generation
	status := g.Status.DeepCopy()
	if !meta.SetStatusCondition(&status.Conditions, c) {
		return nil
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": uid, "resourceVersion": g.ResourceVersion},
		"status":   map[string]any{"conditions": []metav1.Condition{*meta.FindStatusCondition(status.Conditions, c.Type)}},
	})
	if err != nil {
		return fmt.Errorf("condition of %s: %w", key, err)
	}
	_, err = y.s.client.SchedulingV1beta1().PodGroups(g.Namespace).Patch(ctx, g.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	return afterWatch(err)
}
