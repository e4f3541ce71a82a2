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
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/cluster"
	"github.com/berth-dev/berth/kube/convert"
)

const (
	// statusAfter is how long a change of what queues' workloads hold waits for others.
	statusAfter = 100 * time.Millisecond
	// statusEvery is the least time between two statuses of one queue.
	statusEvery = 5 * time.Second
)

// writeStatuses keeps the statuses of queues up to date until ctx ends. The counts in them are for people: nothing is
// decided by them. What is spent and promised is for who schedules next. A write that fails is left until there is
// something new to write.
func (s *scheduler) writeStatuses(ctx context.Context) {
	said := ""
	tick := time.NewTicker(memoryEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.reports.usage:
		case <-tick.C:
		}
		if !sleep(ctx, statusAfter) {
			return
		}
		for _, q := range s.ledger(ctx).statuses(s.feed) {
			err := s.writeStatus(ctx, &q)
			if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) && said != err.Error() {
				said = err.Error()
				s.log.Warn("write status", "queue", q.Name, "err", err)
			}
		}
		if err := s.writeForeign(ctx); err != nil && ctx.Err() == nil && said != err.Error() {
			said = err.Error()
			s.log.Warn("write status", "err", err)
		}
		if !sleep(ctx, statusEvery) {
			return
		}
	}
}

// sleep waits and says whether ctx is still there.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// writeStatus spells out all fields: in a merge patch one that is left out keeps its old value. The UID keeps it
// from another queue of the same name.
func (s *scheduler) writeStatus(ctx context.Context, q *v1alpha1.BerthQueue) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": q.UID},
		"status": map[string]any{
			"running": q.Status.Running, "waiting": q.Status.Waiting, "resources": q.Status.Resources, "conditions": q.Status.Conditions,
			"gpuHours": q.Status.GPUHours, "spending": q.Status.Spending, "budgets": q.Status.Budgets, "promises": q.Status.Promises,
		},
	})
	if err != nil {
		return fmt.Errorf("status of queue %s: %w", q.Name, err)
	}
	ctx, cancel := context.WithTimeout(ctx, statusEvery)
	defer cancel()
	return again(ctx, func(ctx context.Context) error {
		_, err := s.queues.Patch(ctx, q.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
		return err
	})
}

// statuses returns the queues whose status should be another one, with that status, by name. It counts all pods
// afresh, so that it cannot drift; what queues owe each other is from the books.
func (b *ledger) statuses(f *cluster.Feed) []v1alpha1.BerthQueue {
	b.sort(f)
	var out []v1alpha1.BerthQueue
	for _, u := range f.QueueUsages() {
		q := u.Queue
		if u.Foreign { // writeForeign says it in the words of its dialect
			continue
		}
		next := b.status(&u)
		b.remember(q, &next)
		if !equality.Semantic.DeepEqual(q.Status, next) {
			out = append(out, v1alpha1.BerthQueue{ObjectMeta: metav1.ObjectMeta{Name: q.Name, UID: q.UID}, Status: next})
		}
	}
	return out
}

// status is the queue's, with what was counted.
func (b *ledger) status(u *cluster.QueueUsage) v1alpha1.QueueStatus {
	q := u.Queue
	out := v1alpha1.QueueStatus{
		Running: u.Running, Waiting: u.Waiting, Conditions: slices.Clone(q.Status.Conditions),
		GPUHours: q.Status.GPUHours, Spending: q.Status.Spending, Budgets: q.Status.Budgets, Promises: q.Status.Promises,
	}
	use := b.uses[q.Name]
	for i, name := range u.Resources {
		used, wanted := engine.Amount{Value: u.Used[i]}, engine.Amount{Value: u.Wanted[i]}
		if use != nil && name == b.gpu {
			used, wanted = withParts(used, use.Parts), withParts(wanted, use.PartsWanted)
		}
		out.Resources = append(out.Resources, b.amounts(use, name, v1alpha1.QueueUse{
			Name: name, Used: convert.QuantityOf(name, used), Wanted: convert.QuantityOf(name, wanted),
		}))
		out.Resources = append(out.Resources, b.models(use, q, name)...)
	}
	judge(u, use, &out.Conditions)
	return out
}

// withParts adds thousandths to a whole amount.
func withParts(a engine.Amount, parts int64) engine.Amount {
	sum := a.Value*1000 + a.Milli + parts
	return engine.Amount{Value: sum / 1000, Milli: sum % 1000}
}

// judge says whether the queue can be carried out.
func judge(u *cluster.QueueUsage, use *engine.QueueUse, out *[]metav1.Condition) {
	q := u.Queue
	valid := metav1.Condition{Type: v1alpha1.QueueValid, Status: metav1.ConditionTrue, Reason: "Valid", ObservedGeneration: q.Generation}
	no := func(why string) {
		valid.Status, valid.Reason, valid.Message = metav1.ConditionFalse, "Invalid", why+"; the queue is open to nobody"
	}
	switch {
	case u.Problem != nil:
		no(u.Problem.Error())
	case use != nil && use.Problem != "":
		no(use.Problem)
	}
	meta.SetStatusCondition(out, valid)
	if use == nil {
		return
	}
	exceed := metav1.Condition{Type: v1alpha1.QueuePromisesExceedParent, Status: metav1.ConditionFalse, Reason: "Covered", ObservedGeneration: q.Generation}
	if len(use.Warnings) > 0 {
		exceed.Status, exceed.Reason, exceed.Message = metav1.ConditionTrue, "TooMuchPromised", strings.Join(use.Warnings, "; ")
	}
	if len(use.Warnings) > 0 || meta.FindStatusCondition(*out, exceed.Type) != nil {
		meta.SetStatusCondition(out, exceed)
	}
}
