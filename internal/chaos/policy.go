package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/berth-dev/berth/kube/convert"
)

// queue is one that work is charged to. Each Berth has queues of its own: two that do not know of each other's plans
// could pass a limit together.
type queue struct {
	name, scheduler string
	quota           int64
	limit           int64 // 0: none
	minRun, warning time.Duration
}

var queues = []queue{
	{name: "one-a", scheduler: one, quota: 16, minRun: minRun},
	{name: "one-b", scheduler: one, limit: 32, minRun: minRun, warning: 2 * time.Second},
	{name: "two-a", scheduler: two, quota: 32, minRun: minRun},
	{name: "two-b", scheduler: two, quota: 16, limit: 48, minRun: minRun},
	{name: "two-c", scheduler: two, minRun: minRun},
}

const (
	// minRun is how long work of a queue runs before it is evicted for others.
	minRun = 8 * time.Second
	// high is the class of work that preempts other work of its queue.
	high = "chaos-high"
	// highValue is its priority.
	highValue = 1000
)

// makePolicy makes the queues and the class.
func (w *world) makePolicy(ctx context.Context) error {
	class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: high}, Value: highValue}
	if _, err := w.client.SchedulingV1().PriorityClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	for _, q := range queues {
		err := w.client.CoreV1().RESTClient().Post().AbsPath("/apis/berth.dev/v1alpha1/queues").
			SetHeader("Content-Type", "application/json").Body([]byte(q.manifest())).Do(ctx).Error()
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("queue %s: %w", q.name, err)
		}
	}
	return nil
}

func (q queue) manifest() string {
	limit, warning := "", ""
	if q.limit > 0 {
		limit = fmt.Sprintf(`,"limit":%d`, q.limit)
	}
	if q.warning > 0 {
		warning = fmt.Sprintf(`,"warning":%q`, q.warning)
	}
	return fmt.Sprintf(`{"apiVersion":"berth.dev/v1alpha1","kind":"Queue","metadata":{"name":%q},"spec":{"minRunTime":%q%s,"resources":[{"name":%q,"quota":%d%s}]}}`,
		q.name, q.minRun, warning, gpu, q.quota, limit)
}

// charge gives the work a queue, and says what may be done to it for others.
func charge(r *rand.Rand, c recipe) recipe {
	c.policy = make(map[string]string)
	if c.scheduler == corev1.DefaultSchedulerName {
		return c
	}
	if run, err := time.ParseDuration(c.sim["sim.berth.dev/run"]); err == nil && r.IntN(2) == 0 {
		declared := run/speed + 10*time.Second
		if r.IntN(5) == 0 {
			declared /= 3 // it is wrong
		}
		c.policy[convert.KeyExpectedRun] = declared.Round(time.Second).String()
	}
	if r.IntN(2) == 0 {
		c.policy[convert.KeyCheckpoint] = "5s"
	}
	mine := slices.DeleteFunc(slices.Clone(queues), func(q queue) bool { return q.scheduler != c.scheduler })
	if r.IntN(5) == 0 {
		return c // in no queue
	}
	q := mine[r.IntN(len(mine))]
	c.policy[convert.KeyQueue] = q.name
	c.high = r.IntN(4) == 0
	switch size := int64(c.members) * c.gpus; {
	case r.IntN(6) == 0 && size <= q.quota:
		c.policy[convert.KeyPreemptible] = "false"
	case c.min > 0 && c.min < c.members && r.IntN(2) == 0:
		c.policy[convert.KeyPreemptible] = "surplus"
	}
	c.budget = (c.owner == "deployment" || c.owner == "statefulset") && r.IntN(2) == 0
	return c
}

// disruptionBudget lets one pod of the work be away.
func (c recipe) disruptionBudget() *policyv1.PodDisruptionBudget {
	most := intstr.FromInt32(1)
	return &policyv1.PodDisruptionBudget{ObjectMeta: c.meta(), Spec: policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &most, Selector: c.selector()}}
}

// limits finds queues that hold more than they may. What goes away counts until it is gone.
func (l *look) limits() []finding {
	held := make(map[string]int64)
	for i := range l.pods {
		if p := &l.pods[i]; p.Spec.NodeName != "" && !over(p) {
			held[p.Annotations[convert.KeyQueue]] += gpusOf(p)
		}
	}
	var out []finding
	for _, q := range queues {
		if q.limit > 0 && held[q.name] > q.limit {
			out = append(out, finding{"queue over its limit", q.name, fmt.Sprintf("holds %d of %d", held[q.name], q.limit)})
		}
	}
	return out
}

// evictions finds those that are decided and never happen: pods that are marked and stay, and pods for which room is
// made that never have it. A plan that would evict somebody now, too, is not at rest.
func (l *look) evictions() []finding {
	var out []finding
	for i := range l.pods {
		p := &l.pods[i]
		if over(p) || p.DeletionTimestamp != nil || !ours(p) {
			continue
		}
		if c := evicted(p); c != nil {
			out = append(out, finding{"marked and not evicted", key(p) + " " + string(p.UID), c.Reason + ": " + c.Message})
		}
		if c := scheduled(p); waits(p) && c != nil && c.Reason == "MakingRoom" {
			out = append(out, finding{"room is made and never there", key(p) + " " + string(p.UID), c.Message})
		}
	}
	for _, plan := range l.plans {
		for _, e := range plan.Evictions {
			out = append(out, finding{"would evict", e.Pod + " " + e.UID, fmt.Sprintf("%s for %s", e.Cause, e.For)})
		}
	}
	return out
}

// forOthers are the reasons of evictions before which work runs for its minimum.
var forOthers = map[string]bool{"Reclaimed": true, "Preempted": true, "OverFairShare": true}

// evicted is the condition of a pod that a Berth ends for others, nil if there is none.
func evicted(p *corev1.Pod) *corev1.PodCondition {
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue && forOthers[c.Reason] {
			return c
		}
	}
	return nil
}

// tooYoung says whether the pod, which is evicted, has run for less than its queue's minimum. Times are in whole
// seconds, and of a gang the first that started counts.
func tooYoung(p *corev1.Pod) (time.Duration, bool) {
	i := slices.IndexFunc(queues, func(q queue) bool { return q.name == p.Annotations[convert.KeyQueue] })
	c, began := evicted(p), scheduled(p)
	if i < 0 || c == nil || began == nil || began.Status != corev1.ConditionTrue {
		return 0, false
	}
	ran := c.LastTransitionTime.Sub(began.LastTransitionTime.Time)
	return ran, ran < queues[i].minRun-2*time.Second
}
