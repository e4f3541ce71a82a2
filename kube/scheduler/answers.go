package scheduler

import (
	"cmp"
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/engine/why"
	"github.com/berth-dev/berth/kube/answer"
	"github.com/berth-dev/berth/kube/report"
)

// maxNamed bounds the workloads, ahead or as holders, that are looked up for one answer. Of these, fewer are named.
const maxNamed = 200

// Workloads is as answer.Source says.
func (s *scheduler) Workloads(ctx context.Context, namespace string) ([]answer.Workload, error) {
	b, err := s.snapshot(ctx)
	if err != nil {
		return nil, err
	}
	out := []answer.Workload{}
	known := make(map[string]bool, len(b.tallies))
	for i := range b.tallies {
		t := &b.tallies[i]
		known[t.Key] = true
		if namespace == "" || strings.HasPrefix(t.Key, namespace+"/") {
			out = append(out, s.describe(b, t))
		}
	}
	for _, p := range s.feed.KeptBack(namespace) {
		if key := p.Namespace + "/" + p.Name; !known[key] {
			out = append(out, heldByClaims(key, p))
		}
	}
	slices.SortFunc(out, func(a, b answer.Workload) int {
		return cmp.Or(cmp.Compare(placeOf(a), placeOf(b)), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return out, nil
}

// placeOf orders those in line first.
func placeOf(w answer.Workload) int {
	if w.Position == nil {
		return int(^uint(0) >> 1)
	}
	return w.Position.Place
}

// Workload is as answer.Source says.
func (s *scheduler) Workload(ctx context.Context, namespace, name string) (answer.Workload, error) {
	b, err := s.snapshot(ctx)
	if err != nil {
		return answer.Workload{}, err
	}
	key := workloadKey(namespace, name)
	i, ok := slices.BinarySearchFunc(b.tallies, key, func(t engine.Tally, key string) int { return strings.Compare(t.Key, key) })
	if !ok {
		if p := s.feed.Pod(key); p != nil && slices.Contains(s.feed.KeptBack(namespace), p) {
			return heldByClaims(key, p), nil
		}
		return answer.Workload{}, answer.ErrNotFound
	}
	w := s.describe(b, &b.tallies[i])
	if at, waits := b.places[key]; waits {
		for _, o := range b.plan.Waiting[:min(at, maxNamed)] {
			w.Position.Ahead = append(w.Position.Ahead, s.reference(o.Gang))
		}
		w.Position.Others = at - len(w.Position.Ahead)
		w.Holders, err = s.holders(ctx, key, &b.plan.Waiting[at], b.plan.Certificates)
	}
	return w, err
}

// describe is a workload as a list shows it.
func (s *scheduler) describe(b *snapshot, t *engine.Tally) answer.Workload {
	r := s.reference(t.Key)
	w := answer.Workload{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: r.Name, CreationTimestamp: metav1.NewTime(t.Created)},
		Owner:      r.Owner, Group: s.feed.GroupOfPod(t.Key), Queue: t.Queue, Priority: t.Priority, GPUs: t.GPUs,
		Pods: answer.Pods{Size: t.Size, Min: t.Min, Placed: t.Placed},
	}
	for _, p := range s.feed.PodsOf(t.Key) {
		w.Pods.Names = append(w.Pods.Names, p.Name)
		if p.Status.Phase == corev1.PodRunning {
			w.Pods.Running++
		}
	}
	w.Pods.Waiting = max(0, len(w.Pods.Names)-t.Placed) // a binding on its way is a place
	w.State = stateOf(w.Pods)
	if at, ok := b.places[t.Key]; ok {
		s.explain(&w, b, at)
	} else if reason, ok := b.invalid[t.Key]; ok && t.Placed == 0 {
		w.Verdict, w.Cause, w.Sentence = why.Invalid, why.InvalidObject, reason
	}
	s.foresee(&w, b, t)
	return w
}

// foresee says what will become of the workload: when it starts, and what it may have to give back, or is.
func (s *scheduler) foresee(w *answer.Workload, b *snapshot, t *engine.Tally) {
	if eta, ok := b.etas[t.Key]; ok {
		w.ETA = &eta
	}
	if promise, ok := b.promises[t.Key]; ok {
		w.Promise = &promise
	}
	w.Borrowed = min(t.Loose, b.debts[t.Queue])
	if t.Evicting == 0 {
		return
	}
	w.Evicting = &answer.Evicting{Pods: t.Evicting, Cause: string(t.Eviction.Cause), At: t.Eviction.At}
	if t.Eviction.For != "" {
		r := s.reference(t.Eviction.For)
		w.Evicting.For = &r
	}
}

func stateOf(p answer.Pods) answer.State {
	switch {
	case p.Placed == 0 || p.Placed < p.Min:
		return answer.Waiting
	case p.Running < p.Min:
		return answer.Starting
	}
	return answer.Running
}

// explain says why the workload, at that index in line, waits.
func (s *scheduler) explain(w *answer.Workload, b *snapshot, at int) {
	waiting := &b.plan.Waiting[at]
	w.Verdict, w.Cause = waiting.Verdict, waiting.Cause
	w.Gates, w.Certificates = why.Cite(waiting.Gates, b.plan.Certificates)
	w.Position = &answer.Position{Place: at + 1, Of: len(b.plan.Waiting), InQueue: b.inQueue[at]}
}

// heldByClaims is a pod that the engine does not know because its claims are not there.
func heldByClaims(key string, p *corev1.Pod) answer.Workload {
	r := referenceOf(key, []*corev1.Pod{p})
	w := answer.Workload{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: r.Name, CreationTimestamp: p.CreationTimestamp}, Owner: r.Owner,
		State: answer.Waiting, Pods: answer.Pods{Size: 1, Min: 1, Waiting: 1, Names: []string{p.Name}},
		Verdict: why.Blocked, Cause: report.ClaimsNotReady,
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled {
			w.Sentence = c.Message
		}
	}
	return w
}

// Configuration is as answer.Source says.
func (s *scheduler) Configuration() answer.Configuration {
	return answer.Configuration{ObjectMeta: metav1.ObjectMeta{Name: s.opts.Name}, SchedulerNames: slices.Sorted(slices.Values(s.feed.SchedulerNames())), Engine: s.state.Config()}
}

// Queues is as answer.Source says.
func (s *scheduler) Queues(ctx context.Context) ([]answer.Queue, error) {
	b, err := s.snapshot(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]answer.Queue, 0, len(b.queues))
	for i := range b.queues {
		out = append(out, queueAnswer(&b.queues[i]))
	}
	return out, nil
}

func queueAnswer(u *engine.QueueUse) answer.Queue {
	q := answer.Queue{
		ObjectMeta: metav1.ObjectMeta{Name: u.Name}, Parent: u.Parent, Missing: !u.Known, Problem: u.Problem, Warnings: u.Warnings,
		Quota: u.Quota.Sorted(), Limits: u.Limits.Sorted(), Weight: u.Weight, Namespaces: u.Namespaces,
		Used: u.Used, Borrowed: u.Borrowed, Lent: u.Lent, Wanted: u.Wanted, Share: u.Share,
		Running: answer.Demand(u.Running), Waiting: answer.Demand(u.Waiting), GPUSeconds: u.GPUSeconds,
	}
	for i, b := range u.Budgets {
		spent := int64(0)
		if i < len(u.Spent) {
			spent = u.Spent[i]
		}
		q.Budgets = append(q.Budgets, answer.Budget{Resource: b.Resource, Seconds: b.Seconds, Spent: spent, PeriodSeconds: int64(b.Period.Seconds())})
	}
	return q
}
