package scheduler

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/cluster"
	"github.com/berth-dev/berth/kube/convert"
	"github.com/berth-dev/berth/kube/dialect"
)

// letsIn says whether the start is of pods that do not exist yet: it lets their Job in.
func letsIn(s *engine.Start) bool {
	return len(s.Placements) > 0 && cluster.ExpectedKey(s.Placements[0].Pod)
}

// letIn lets a suspended Job in whose pods a plan starts (ADR 76): it runs, with the labels of its flavor as node selector. The pods
// that it makes then are bound like any. A Job that has changed since, or that the server refuses, is planned again.
func (b *binder) letIn(ctx context.Context, s *start) {
	giveUp := func() {
		for _, p := range s.Placements {
			b.giveUp(intent{Placement: p})
		}
	}
	e := b.s.feed.Entry(s.Start)
	if e == nil || time.Since(s.planned) > b.s.opts.Engine.AssumeFor/2 {
		giveUp()
		return
	}
	ctx, cancel := context.WithDeadline(ctx, s.planned.Add(b.s.opts.Engine.AssumeFor*3/4))
	defer cancel()
	err := b.gate.again(ctx, e.Namespace, func(ctx context.Context) error {
		patch, err := json.Marshal(map[string]any{
			"metadata": map[string]any{"uid": e.UID, "resourceVersion": e.ResourceVersion},
			"spec":     map[string]any{"suspend": false, "template": map[string]any{"spec": directives(e.Flavor, e.Tolerations)}},
		})
		if err == nil {
			_, err = b.client.BatchV1().Jobs(e.Namespace).Patch(ctx, e.Name, types.MergePatchType, patch, metav1.PatchOptions{})
		}
		return err
	})
	if err == nil {
		b.s.feed.Entered(s.Start)
		b.s.log.Info("let in", "job", e.Namespace+"/"+e.Name, "workload", s.Gang, "pods", len(s.Placements))
		return
	}
	b.s.feed.NotEntered(e.UID)
	wait := time.Duration(0)
	if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) { // the watch tells of those
		wait = cluster.RefuseFor
		b.s.log.Warn("not let in", "job", e.Namespace+"/"+e.Name, "err", clip(err.Error(), maxNote))
	}
	time.AfterFunc(wait, giveUp)
}

// directives are what is written of a flavor into a pod's spec.
func directives(f *dialect.Flavor, has []corev1.Toleration) map[string]any {
	out := make(map[string]any)
	if f == nil {
		return out
	}
	if len(f.Labels) > 0 {
		out["nodeSelector"] = maps.Clone(f.Labels)
	}
	if all := convert.WithTolerations(has, f.Tolerations); len(all) > len(has) {
		out["tolerations"] = all
	}
	return out
}

// ungate takes away the gate of a pod that is about to be bound, and writes the flavor of its node; without one nothing is done.
func (b *binder) ungate(ctx context.Context, i intent, binding *corev1.Binding) error {
	gate, flavor, has := b.s.feed.Gated(i.Pod, i.Node)
	if gate == "" {
		return nil
	}
	spec := directives(flavor, has)
	spec["schedulingGates"] = []any{map[string]any{"$patch": "delete", "name": gate}}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": binding.UID}, "spec": spec})
	if err != nil {
		return fmt.Errorf("gate of %s: %w", i.Pod, err)
	}
	return b.gate.once(ctx, binding.Namespace, func(ctx context.Context) error {
		_, err := b.client.CoreV1().Pods(binding.Namespace).Patch(ctx, binding.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
		return err
	})
}

// suspend has the Job of the pod wait again, which ends all its pods; false: no dialect lets it in, and the pod is deleted.
func (v *evictor) suspend(ctx context.Context, pod string) (done bool, err error) {
	job, uid, ok := v.s.feed.JobOf(pod)
	if !ok {
		return false, nil
	}
	return true, v.gate.again(ctx, job.Namespace, func(ctx context.Context) error { return suspendJob(ctx, v.client, job, uid) })
}

func suspendJob(ctx context.Context, client kubernetes.Interface, job types.NamespacedName, uid types.UID) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": uid}, "spec": map[string]any{"suspend": true}})
	if err == nil {
		_, err = client.BatchV1().Jobs(job.Namespace).Patch(ctx, job.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	}
	if err != nil {
		return fmt.Errorf("suspend %s: %w", job, err)
	}
	return nil
}

// rivalEvery is how often it is looked whether a dialect's own controller runs.
const rivalEvery = 10 * time.Second

// lookForRival finds out whether the dialect's own controller lets workloads in: then its lease was renewed not long ago. A lease that
// the API server refuses to show counts as held, so that no two let the same workload in. While the server fails, what was known stays.
func (d *dialects) lookForRival(ctx context.Context, one dialect.Dialect) {
	a, ok := one.(dialect.Admitter)
	if !ok {
		return
	}
	at, who := a.Rival(), ""
	var lease *coordinationv1.Lease
	err := answered(ctx, func(ctx context.Context) (err error) {
		lease, err = d.s.client.CoordinationV1().Leases(at.Namespace).Get(ctx, at.Name, metav1.GetOptions{})
		return err
	})
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		who = fmt.Sprintf("lease %s cannot be read, so Berth lets no workload in: %s", at, clip(err.Error(), maxNote))
	default:
		s := lease.Spec
		if s.HolderIdentity != nil && *s.HolderIdentity != "" && s.RenewTime != nil && s.LeaseDurationSeconds != nil &&
			time.Since(s.RenewTime.Time) < time.Duration(*s.LeaseDurationSeconds)*time.Second+rivalEvery {
			who = fmt.Sprintf("the controller of %s runs (%s holds lease %s), so Berth lets no workload in", one.Name(), *s.HolderIdentity, at)
		}
	}
	if ctx.Err() == nil && d.s.feed.SetRival(one, who) {
		d.s.log.Warn("lets workloads in", "dialect", one.Name(), "berth", who == "", "because", who)
	}
}
