package scheduler

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
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
		case <-s.feed.tenancy.stale:
		case <-tick.C:
		}
		if !sleep(ctx, statusAfter) {
			return
		}
		for _, q := range s.feed.statuses(s.books(ctx)) {
			err := s.writeStatus(ctx, &q)
			if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) && said != err.Error() {
				said = err.Error()
				s.log.Warn("write status", "queue", q.Name, "err", err)
			}
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
func (s *scheduler) writeStatus(ctx context.Context, q *v1alpha1.Queue) error {
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
func (f *feed) statuses(b *books) []v1alpha1.Queue {
	f.mu.Lock()
	defer f.mu.Unlock()
	tallies := f.count()
	b.sort(f)
	var out []v1alpha1.Queue
	for _, name := range slices.Sorted(maps.Keys(f.tenancy.queues)) {
		q := f.tenancy.queues[name]
		next := tallies[name].status(q, b)
		b.remember(q, &next)
		if !equality.Semantic.DeepEqual(q.Status, next) {
			out = append(out, v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: name, UID: q.UID}, Status: next})
		}
	}
	return out
}

// tally is what the workloads of one queue, and of those below it, hold and ask for, in the engine's units.
type tally struct {
	above            *tally // of the queue above it
	running, waiting int32
	names            []string // of resources
	used, wanted     []int64  // in the order of names
}

// count goes through all workloads of known queues.
func (f *feed) count() map[string]*tally {
	t := &f.tenancy
	out := make(map[string]*tally, len(t.queues))
	for name, q := range t.queues {
		out[name] = newTally(cmp.Or(f.opts.GPU, defaultGPU), q)
	}
	t.stack(out)
	for _, m := range f.pods {
		if y := out[f.payer(m)]; y != nil && m.ours && !m.inGang() {
			y.enter(y.add(m))
		}
	}
	for key, members := range f.gangs {
		y := out[f.described[key].Queue]
		if y == nil {
			continue
		}
		running, waiting := false, false
		for _, m := range members {
			holds, waits := y.add(m)
			running, waiting = running || holds, waiting || waits
		}
		y.enter(running, waiting)
	}
	return out
}

// stack puts each queue's tally below that of its parent. What is in a circle stays alone.
func (t *tenancy) stack(tallies map[string]*tally) {
	for name, q := range t.queues {
		at, steps := q, 0
		for ; at != nil && at.Spec.Parent != "" && steps <= len(t.queues); steps++ {
			at = t.queues[at.Spec.Parent]
		}
		if steps <= len(t.queues) {
			tallies[name].above = tallies[q.Spec.Parent]
		}
	}
}

func newTally(gpu string, q *queue) *tally {
	names := []string{gpu}
	for i := range q.Spec.Resources {
		names = append(names, q.Spec.Resources[i].Name)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	return &tally{names: names, used: make([]int64, len(names)), wanted: make([]int64, len(names))}
}

// add counts a pod. One that has a node holds what it asks for until it is gone.
func (y *tally) add(m *member) (holds, waits bool) {
	holds, waits = m.pod.Spec.NodeName != "", m.waiting()
	if !holds && !waits {
		return false, false
	}
	for ; y != nil; y = y.above {
		at := y.wanted
		if holds {
			at = y.used
		}
		for _, a := range m.takes {
			if i, ok := slices.BinarySearch(y.names, a.Resource); ok {
				at[i] += a.Value
			}
		}
	}
	return holds, waits
}

// enter counts a workload.
func (y *tally) enter(running, waiting bool) {
	for ; y != nil; y = y.above {
		if running {
			y.running++
		}
		if waiting {
			y.waiting++
		}
	}
}

// status is the queue's, with what was counted.
func (y *tally) status(q *queue, b *books) v1alpha1.QueueStatus {
	out := v1alpha1.QueueStatus{
		Running: y.running, Waiting: y.waiting, Conditions: slices.Clone(q.Status.Conditions),
		GPUHours: q.Status.GPUHours, Spending: q.Status.Spending, Budgets: q.Status.Budgets, Promises: q.Status.Promises,
	}
	use := b.uses[q.Name]
	for i, name := range y.names {
		out.Resources = append(out.Resources, b.amounts(use, name, v1alpha1.QueueUse{
			Name: name, Used: convert.Quantity(name, y.used[i]), Wanted: convert.Quantity(name, y.wanted[i]),
		}))
		out.Resources = append(out.Resources, b.models(use, q, name)...)
	}
	y.judge(q, use, &out.Conditions)
	return out
}

// judge says whether the queue can be carried out.
func (y *tally) judge(q *queue, use *engine.QueueUse, out *[]metav1.Condition) {
	valid := metav1.Condition{Type: v1alpha1.QueueValid, Status: metav1.ConditionTrue, Reason: "Valid", ObservedGeneration: q.Generation}
	no := func(why string) {
		valid.Status, valid.Reason, valid.Message = metav1.ConditionFalse, "Invalid", why+"; the queue is open to nobody"
	}
	switch {
	case q.problem != nil:
		no(q.problem.Error())
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
