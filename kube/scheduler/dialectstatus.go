package scheduler

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/berth-dev/berth/kube/cluster"
	"github.com/berth-dev/berth/kube/dialect"
	"github.com/berth-dev/berth/kube/report"
)

// mostForeignWrites bounds how many objects of dialects are written in one go.
const mostForeignWrites = 500

// writeForeign makes the objects that stand for workloads in a dialect, and writes the statuses of these and of queues where they
// should be others. They are for people: nothing is decided by them. A write that fails is tried again when there is something new. In a
// namespace where the server does not answer no more is written this time, and who had no turn for the number of writes has the first the
// next time: no namespace keeps others from theirs.
func (s *scheduler) writeForeign(ctx context.Context) error {
	if s.foreign == nil {
		return nil
	}
	var first error
	wrote, namespace, silent := 0, "", make(map[string]bool)
	note := func(err error) {
		wrote++
		if err != nil && passing(err) && namespace != "" {
			silent[namespace] = true
		}
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) && first == nil {
			first = err
		}
	}
	for _, q := range s.feed.ForeignQueues() {
		r, ok := q.Dialect.(dialect.Reporter)
		if namespace = q.Object.GetNamespace(); !ok || wrote >= mostForeignWrites || silent[namespace] {
			continue
		}
		q.State.Problem = q.Problem
		status := r.QueueStatus(q.Object, q.State, time.Now())
		if status != nil {
			dialect.Tell(status, q.Unread, q.Problem, time.Now())
		}
		s.patchForeign(ctx, q.Kind, q.Object, status, note)
	}
	groups := s.feed.ForeignGroups()
	from := 1 + slices.IndexFunc(groups, func(g cluster.ForeignGroup) bool { return g.Ref.Named(&s.lastGroup) })
	for i := range groups {
		g := &groups[(from+i)%len(groups)]
		if wrote >= mostForeignWrites {
			signal(s.reports.usage) // there is more
			break
		}
		if namespace = g.Ref.Namespace; silent[namespace] {
			continue
		}
		s.writeGroup(ctx, g, note)
		s.lastGroup = dialect.GroupRef{Kind: g.Ref.Kind, Namespace: namespace, Name: g.Ref.Name}
	}
	return first
}

func (s *scheduler) writeGroup(ctx context.Context, g *cluster.ForeignGroup, note func(error)) {
	if g.Object == nil {
		if g.Ref.Make != nil {
			_, err := s.of(g.Kind, g.Ref.Namespace).Create(ctx, g.Ref.Make(), metav1.CreateOptions{})
			note(err)
		}
		return
	}
	r, ok := g.Dialect.(dialect.Reporter)
	if !ok {
		return // another scheduler owns it, and it has events
	}
	if g.Alone {
		status := dialect.StatusOf(g.Object)
		dialect.Tell(status, g.Unread, g.Problem, time.Now())
		s.patchForeign(ctx, g.Kind, g.Object, status, note)
		return
	}
	if d, ok := g.Dialect.(dialect.Deactivator); ok {
		if spec := d.GroupSpec(g.Object); spec != nil {
			if err := s.patchSpec(ctx, g.Kind, g.Object, spec); err != nil {
				note(err)
				return
			}
		}
	}
	if j := g.Ends; j != nil {
		s.log.Info("suspend", "job", j.Namespace+"/"+j.Name, "because", g.State.Ends)
		if err := suspendJob(ctx, s.client, types.NamespacedName{Namespace: j.Namespace, Name: j.Name}, j.UID); err != nil {
			note(err)
			return
		}
	}
	if g.Workload != "" && g.State.Pending > 0 {
		g.State.Cause, g.State.Reason, g.State.Message = s.reports.waitsFor(g.Workload)
		if len(g.Lacks) > 0 {
			g.State.Cause, g.State.Reason, g.State.Message = string(report.ClaimsNotReady), "ClaimsNotReady", clip(strings.Join(g.Lacks, "; "), maxNote)
		}
	}
	status := r.GroupStatus(g.Object, g.State, time.Now())
	if status != nil {
		dialect.Tell(status, g.Unread, g.Problem, time.Now())
	}
	s.patchForeign(ctx, g.Kind, g.Object, status, note)
}

// patchSpec changes fields of the object's spec.
func (s *scheduler) patchSpec(ctx context.Context, kind dialect.Kind, o *unstructured.Unstructured, spec map[string]any) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": o.GetUID()}, "spec": spec})
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, statusEvery)
		defer cancel()
		_, err = s.of(kind, o.GetNamespace()).Patch(ctx, o.GetName(), types.MergePatchType, patch, metav1.PatchOptions{})
	}
	if err != nil {
		return fmt.Errorf("spec of %s %s/%s: %w", kind.Name(), o.GetNamespace(), o.GetName(), err)
	}
	return nil
}

func (s *scheduler) of(kind dialect.Kind, namespace string) dynamic.ResourceInterface {
	r := s.foreign.Resource(kind.GroupVersion().WithResource(kind.Plural))
	if kind.Namespaced {
		return r.Namespace(namespace)
	}
	return r
}

// patchForeign writes the status that the object should have, nil for the one it has. In a merge patch a field that is left out keeps
// its value: those that are gone are spelled out. The UID keeps it from another object of the same name.
func (s *scheduler) patchForeign(ctx context.Context, kind dialect.Kind, o *unstructured.Unstructured, status map[string]any, note func(error)) {
	was, _ := o.Object["status"].(map[string]any)
	if status == nil || equality.Semantic.DeepEqual(was, status) || len(was) == 0 && len(status) == 0 {
		return
	}
	for key := range was { //archtest:any-order each has its own key
		if _, ok := status[key]; !ok {
			status[key] = nil
		}
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": o.GetUID()}, "status": status})
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, statusEvery)
		defer cancel()
		_, err = s.of(kind, o.GetNamespace()).Patch(ctx, o.GetName(), types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	}
	if err != nil {
		err = fmt.Errorf("status of %s %s/%s: %w", kind.Name(), o.GetNamespace(), o.GetName(), err)
	}
	note(err)
}
