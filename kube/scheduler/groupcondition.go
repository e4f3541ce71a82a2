package scheduler

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
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

// invalidGroup is the reason that upstream names for groups whose parents or levels are not what they may be
// (k8s.io/api v0.37.1, scheduling/v1alpha3/types.go, CompositePodGroupStatus).
const invalidGroup = "Invalid"

// groupWaits says on a PodGroup, or a CompositePodGroup, why it waits.
func (r *reporter) groupWaits(o cluster.Object, said pending) {
	c := metav1.Condition{Status: metav1.ConditionFalse, Reason: said.reason, Message: said.text}
	if _, ok := o.(*schedulingv1alpha3.CompositePodGroup); ok && said.cause.Cause == why.InvalidObject {
		c.Reason = invalidGroup
	}
	r.later(o, r.group(o, c, &said.cause))
}

func (r *reporter) Begun(o cluster.Object) {
	if r.turns(o.GetUID(), "begun") && !r.s.opts.Shadow {
		r.background.put(o.GetNamespace(), string(o.GetUID()), r.group(o, metav1.Condition{Status: metav1.ConditionTrue, Reason: "Scheduled"}, nil))
	}
}

// group writes the condition as upstream's scheduler does, and of a group that waits the cause as data beside it. Upstream has a
// condition for CompositePodGroups and, in 1.37, writes none: it is written here as its type says.
func (r *reporter) group(o cluster.Object, c metav1.Condition, cause *report.Pending) writing {
	c.Type, c.Message = schedulingv1beta1.PodGroupInitiallyScheduled, clip(c.Message, maxMessage)
	if _, ok := o.(*schedulingv1alpha3.CompositePodGroup); ok {
		c.Type = cluster.CompositeInitiallyScheduled
	}
	return func(ctx context.Context) {
		err := r.gate.again(ctx, o.GetNamespace(), func(ctx context.Context) error { return r.patchGroup(ctx, o, c, cause) })
		if err != nil && !apierrors.IsNotFound(err) {
			r.s.log.Warn("write condition", "group", o.GetNamespace()+"/"+o.GetName(), "err", err)
		}
	}
}

// groupNow is the group as it is known now, nil where it is gone, with its conditions and who writes them.
func (r *reporter) groupNow(o cluster.Object) (now cluster.Object, has []metav1.Condition, write func(ctx context.Context, patch []byte) error) {
	options := metav1.PatchOptions{}
	switch o := o.(type) {
	case *schedulingv1beta1.PodGroup:
		if g := r.s.feed.Group(convert.PodGroup(o).Key); g != nil {
			return g, g.Status.Conditions, func(ctx context.Context, patch []byte) error {
				_, err := r.s.client.SchedulingV1beta1().PodGroups(g.Namespace).Patch(ctx, g.Name, types.StrategicMergePatchType, patch, options, "status")
				return err
			}
		}
	case *schedulingv1alpha3.CompositePodGroup:
		if c := r.s.feed.Composite(o.Namespace, o.Name); c != nil {
			return c, c.Status.Conditions, func(ctx context.Context, patch []byte) error {
				_, err := r.s.client.SchedulingV1alpha3().CompositePodGroups(c.Namespace).Patch(ctx, c.Name, types.StrategicMergePatchType, patch, options, "status")
				return err
			}
		}
	}
	return nil, nil, nil
}

// patchGroup writes onto the version that is known, so that a group which has begun does not go back.
func (r *reporter) patchGroup(ctx context.Context, o cluster.Object, c metav1.Condition, cause *report.Pending) error {
	g, has, send := r.groupNow(o)
	if g == nil || g.GetUID() != o.GetUID() || cluster.Begun(g) {
		return nil
	}
	c.ObservedGeneration = g.GetGeneration()
	conditions := slices.Clone(has)
	changed := meta.SetStatusCondition(&conditions, c)
	if cause != nil {
		data := cause.GroupCondition(g.GetGeneration())
		changed = meta.SetStatusCondition(&conditions, data) || changed
	}
	if !changed {
		return nil
	}
	write := []metav1.Condition{*meta.FindStatusCondition(conditions, c.Type)}
	if data := meta.FindStatusCondition(conditions, v1alpha1.PodPendingCause); cause != nil && data != nil {
		write = append(write, *data)
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": g.GetUID(), "resourceVersion": g.GetResourceVersion()},
		"status":   map[string]any{"conditions": write},
	})
	if err != nil {
		return fmt.Errorf("condition of %s/%s: %w", g.GetNamespace(), g.GetName(), err)
	}
	return afterWatch(send(ctx, patch))
}
