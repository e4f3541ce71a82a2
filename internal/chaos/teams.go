package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	v1alpha1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/engine"
)

// team is a queue that work is charged to.
type team struct {
	name         string
	quota, limit int64  // 0: none
	only         string // the Berth whose work it is for; "": both
}

// teams are the queues; "": the default one, which is nobody's. Only one Berth uses the one with a limit: two that do not know of each other's plans
// can pass it together.
var teams = [...]team{
	{},
	{name: "team-a", quota: nodes * 8 / 3},
	{name: "team-b", quota: nodes * 8 / 3},
	{name: "team-c", limit: nodes * 8 / 4, only: two},
}

// minRun is how long work runs before it may be evicted for others.
const minRun = 10 * time.Second

const (
	// high is the class of work that preempts other work of its queue, and highValue its priority.
	high      = "chaos-high"
	highValue = 1000
)

// charge gives the work a queue, and says what may be done to it for others and how long it runs. Some of it is wrong.
func charge(r *rand.Rand, c recipe) recipe {
	t := teams[r.IntN(len(teams))]
	if t.only != "" && t.only != c.scheduler {
		t = teams[0]
	}
	c.queue, c.high, c.terms = t.name, r.IntN(4) == 0, make(map[string]string)
	if run, err := time.ParseDuration(c.sim["sim.berth.dev/run"]); err == nil && r.IntN(2) == 0 {
		declared := run/speed + 10*time.Second
		if r.IntN(5) == 0 {
			declared /= 3
		}
		c.terms[v1alpha1.KeyExpectedRun] = declared.Round(time.Second).String()
	}
	if r.IntN(2) == 0 {
		c.terms[v1alpha1.KeyCheckpoint] = "5s"
	}
	switch {
	case r.IntN(6) == 0 && int64(c.members)*c.gpus <= t.quota:
		c.terms[v1alpha1.KeyPreemptible] = "false"
	case c.min > 0 && c.min < c.members && r.IntN(2) == 0:
		c.terms[v1alpha1.KeyPreemptible] = "surplus"
	}
	return c
}

// makeTeams gives two teams a third of the GPUs each, and lets a quarter of the pods of team-b be disrupted at a time.
func (w *world) makeTeams(ctx context.Context) error {
	class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: high}, Value: highValue}
	if _, err := w.client.SchedulingV1().PriorityClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	for _, t := range teams[1:] {
		amounts := v1alpha1.QueueResource{Name: gpu, Quota: resource.NewQuantity(t.quota, resource.DecimalSI)}
		if t.limit > 0 {
			amounts.Limit = resource.NewQuantity(t.limit, resource.DecimalSI)
		}
		q := &v1alpha1.BerthQueue{
			TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.QueueKind},
			ObjectMeta: metav1.ObjectMeta{Name: t.name},
			Spec:       v1alpha1.QueueSpec{Resources: []v1alpha1.QueueResource{amounts}},
		}
		body, err := json.Marshal(q)
		if err != nil {
			return err
		}
		err = w.client.Discovery().RESTClient().Post().AbsPath("/apis/"+v1alpha1.GroupVersion.String()+"/berthqueues").
			SetHeader("Content-Type", "application/json").Body(body).Do(ctx).Error()
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	most := intstr.FromString("25%")
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "team-b"}, Spec: policyv1.PodDisruptionBudgetSpec{
		MaxUnavailable: &most, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{labelTeam: "team-b"}},
	}}
	_, err := w.client.PolicyV1().PodDisruptionBudgets(namespace).Create(ctx, budget, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return nil
}

// labelTeam is the queue, on pods.
const labelTeam = "chaos.example/team"

// evicted counts evictions by Berth, and finds work by itself that was evicted for others before its time. The clock of
// conditions has whole seconds.
func (o *observer) evicted(old, p *corev1.Pod) {
	is, was := target(p), target(old)
	if is == nil || was != nil || !ours(p) {
		return
	}
	o.tally.count("pods evicted: " + is.Reason)
	began := scheduled(p)
	if !slices.Contains(forOthers, is.Reason) || p.Annotations[keyMin] != "" || began == nil || began.Status != corev1.ConditionTrue {
		return
	}
	if ran := is.LastTransitionTime.Sub(began.LastTransitionTime.Time); ran < minRun-2*time.Second {
		o.tally.find(finding{"evicted too young", key(p) + " " + string(p.UID), "ran for " + ran.String() + ": " + is.Message})
	}
}

// forOthers are the reasons of evictions before which work runs for its minimum.
var forOthers = []string{"Reclaimed", "Preempted", "OverFairShare"}

// target is the condition of a pod that is being evicted.
func target(p *corev1.Pod) *corev1.PodCondition {
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue {
			return c
		}
	}
	return nil
}

// heldBack says whether the pod waits though there may be room, by policy: its queue's, or because it would delay who
// was promised the place. Whether that is so is for forgotten to find.
func heldBack(p *corev1.Pod) bool {
	c := scheduled(p)
	return p.Annotations[v1alpha1.KeyQueue] != "" || c != nil && c.Reason == "KeptForPromise"
}

// limits finds queues that hold more than they may. What goes away counts until it is gone.
func (l *look) limits() []finding {
	held := make(map[string]int64)
	for i := range l.pods {
		if p := &l.pods[i]; p.Spec.NodeName != "" && !over(p) {
			held[p.Annotations[v1alpha1.KeyQueue]] += gpusOf(p)
		}
	}
	var out []finding
	for _, t := range teams {
		if t.limit > 0 && held[t.name] > t.limit {
			out = append(out, finding{"queue over its limit", t.name, fmt.Sprintf("holds %d of %d", held[t.name], t.limit)})
		}
	}
	return out
}

// evictions finds those that are decided and never happen: pods that are marked and stay, and pods for which room is
// made and that never have it. Where a scheduler that started now would evict somebody for others, it is not at rest.
func (l *look) evictions() []finding {
	var out []finding
	for i := range l.pods {
		p := &l.pods[i]
		if over(p) || p.DeletionTimestamp != nil || !ours(p) {
			continue
		}
		if c := target(p); c != nil && slices.Contains(forOthers, c.Reason) {
			out = append(out, finding{"marked and not evicted", key(p) + " " + string(p.UID), c.Reason + ": " + c.Message})
		}
		if c := scheduled(p); waits(p) && c != nil && c.Reason == "MakingRoom" {
			out = append(out, finding{"room is made and never there", key(p) + " " + string(p.UID), c.Message})
		}
	}
	for _, plan := range l.plans {
		for _, e := range plan.Evictions {
			if slices.Contains([]engine.EvictionCause{engine.Reclaimed, engine.Preempted, engine.Shared}, e.Cause) {
				out = append(out, finding{"would evict", e.Pod + " " + e.UID, fmt.Sprintf("%s for %s", e.Cause, e.For)})
			}
		}
	}
	return out
}
