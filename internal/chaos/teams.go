package main

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	v1alpha1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/kube/convert"
)

// teams are the queues that work is charged to; "": none.
var teams = [...]string{"", "team-a", "team-b"}

// minRun is how long work runs before it may be evicted for others.
const minRun = 10 * time.Second

// makeTeams gives each team a third of the GPUs, and lets a quarter of the pods of team-b be disrupted at a time.
func (w *world) makeTeams(ctx context.Context) error {
	for _, name := range teams[1:] {
		q := &v1alpha1.Queue{
			TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Queue"},
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       v1alpha1.QueueSpec{Resources: []v1alpha1.QueueResource{{Name: gpu, Quota: resource.NewQuantity(nodes*8/3, resource.DecimalSI)}}},
		}
		body, err := json.Marshal(q)
		if err != nil {
			return err
		}
		err = w.client.Discovery().RESTClient().Post().AbsPath("/apis/"+v1alpha1.GroupVersion.String()+"/queues").
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
	forOthers := []string{"Reclaimed", "Preempted", "OverFairShare"}
	began := scheduled(p)
	if !slices.Contains(forOthers, is.Reason) || p.Annotations[keyMin] != "" || began == nil || began.Status != corev1.ConditionTrue {
		return
	}
	if ran := is.LastTransitionTime.Sub(began.LastTransitionTime.Time); ran < minRun-2*time.Second {
		o.tally.find(finding{"evicted too young", key(p) + " " + string(p.UID), "ran for " + ran.String() + ": " + is.Message})
	}
}

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
	return p.Annotations[convert.KeyQueue] != "" || c != nil && c.Reason == "KeptForPromise"
}
