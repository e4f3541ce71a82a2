package scheduler

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/kube/convert"
)

const (
	// statusAfter is how long a change of what queues' workloads hold waits for others.
	statusAfter = 100 * time.Millisecond
	// statusEvery is the least time between two statuses of one queue.
	statusEvery = 5 * time.Second
)

// writeStatuses keeps the statuses of queues up to date until ctx ends. They are for people: nothing is decided
// by them, and a write that fails is left until there is something new to write.
func (s *scheduler) writeStatuses(ctx context.Context) {
	said := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.feed.tenancy.stale:
		}
		if !sleep(ctx, statusAfter) {
			return
		}
		for _, q := range s.feed.statuses() {
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
		},
	})
	if err != nil {
		return fmt.Errorf("status of queue %s: %w", q.Name, err)
	}
	ctx, cancel := context.WithTimeout(ctx, statusEvery)
	defer cancel()
	return again(ctx, func() error {
		_, err := s.queues.Patch(ctx, q.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
		return err
	})
}

// statuses returns the queues whose status should be another one, with that status, by name. It counts all pods
// afresh, so that it cannot drift.
func (f *feed) statuses() []v1alpha1.Queue {
	f.mu.Lock()
	defer f.mu.Unlock()
	tallies := f.count()
	var out []v1alpha1.Queue
	for _, name := range slices.Sorted(maps.Keys(f.tenancy.queues)) {
		q := f.tenancy.queues[name]
		next := tallies[name].status(q)
		if !equality.Semantic.DeepEqual(q.Status, next) {
			out = append(out, v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: name, UID: q.UID}, Status: next})
		}
	}
	return out
}

// tally is what the workloads of one queue hold and ask for, in the engine's units.
type tally struct {
	running, waiting int32
	names            []string // of resources
	used, wanted     []int64  // in the order of names
}

// count goes through all workloads of known queues.
func (f *feed) count() map[string]*tally {
	t := &f.tenancy
	out := make(map[string]*tally, len(t.queues))
	for name, q := range t.queues {
		out[name] = newTally(cmp.Or(f.opts.GPU, "nvidia.com/gpu"), q)
	}
	for _, m := range f.pods {
		if y := out[t.payer(m.pod.Namespace, convert.QueueOf(m.pod))]; y != nil && m.ours && !m.inGang() {
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

func newTally(gpu string, q *queue) *tally {
	names := []string{gpu}
	for i := range q.Spec.Resources {
		if name := q.Spec.Resources[i].Name; name != gpu {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return &tally{names: names, used: make([]int64, len(names)), wanted: make([]int64, len(names))}
}

// add counts a pod. One that has a node holds what it asks for until it is gone.
func (y *tally) add(m *member) (holds, waits bool) {
	holds, waits = m.pod.Spec.NodeName != "", m.waiting()
	at := y.wanted
	switch {
	case holds:
		at = y.used
	case !waits:
		return false, false
	}
	for _, a := range m.takes {
		if i, ok := slices.BinarySearch(y.names, a.Resource); ok {
			at[i] += a.Value
		}
	}
	return holds, waits
}

// enter counts a workload.
func (y *tally) enter(running, waiting bool) {
	if running {
		y.running++
	}
	if waiting {
		y.waiting++
	}
}

// status is the queue's, with what was counted.
func (y *tally) status(q *queue) v1alpha1.QueueStatus {
	out := v1alpha1.QueueStatus{Running: y.running, Waiting: y.waiting, Conditions: slices.Clone(q.Status.Conditions)}
	for i, name := range y.names {
		out.Resources = append(out.Resources, v1alpha1.QueueUse{Name: name, Used: convert.Quantity(name, y.used[i]), Wanted: convert.Quantity(name, y.wanted[i])})
	}
	valid := metav1.Condition{Type: v1alpha1.QueueValid, Status: metav1.ConditionTrue, Reason: "Valid", ObservedGeneration: q.Generation}
	if q.problem != nil {
		valid.Status, valid.Reason, valid.Message = metav1.ConditionFalse, "Invalid", q.problem.Error()+"; the queue is open to nobody"
	}
	meta.SetStatusCondition(&out.Conditions, valid)
	return out
}
