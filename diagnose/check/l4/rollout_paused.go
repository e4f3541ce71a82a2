package l4

import (
	"fmt"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

var rolloutPausedCheck = check.Check{
	Cause: "rollout-paused", Layer: check.L4, Owner: check.User, Stage: check.Create, Rank: 4,
	Title:   "The Deployment's rollout is paused",
	Meaning: "Somebody has paused the Deployment: a change of its template makes no new pods until it is resumed. Pods that run go on. One that was created paused has no pods at all.",
	Remedy:  "Resume the rollout when the change should take effect.",
	Find:    rolloutPaused,
}

// rolloutPaused looks only where the pause shows: a change waits that the controller has seen and not carried out. Where pods of
// the present template do not run well, that they do not is the matter, and the pause is told beside it.
func rolloutPaused(c *check.Case) []check.Finding {
	d, ok := c.Top.(*appsv1.Deployment)
	if !ok || !d.Spec.Paused || ptr.Deref(d.Spec.Replicas, 1) == 0 || d.Status.UpdatedReplicas >= ptr.Deref(d.Spec.Replicas, 1) {
		return nil
	}
	f := check.Finding{
		Message:  fmt.Sprintf("%s is paused: %d of %s %s of its newest template", facts.RefTo(d), d.Status.UpdatedReplicas, wording.Number(ptr.Deref(d.Spec.Replicas, 1), "pod"), wording.InNumber(d.Status.UpdatedReplicas, "is", "are")),
		Evidence: []facts.Evidence{{Object: facts.RefTo(d).In(), Field: "spec.paused", Value: "true"}},
		Advice:   fmt.Sprintf("To go on: kubectl rollout resume deployment %s -n %s", d.Name, d.Namespace),
	}
	for _, k := range d.Status.Conditions {
		if k.Reason == "DeploymentPaused" {
			f.Message += " since " + wording.Minutes(c.Now.Sub(k.LastTransitionTime.Time))
		}
	}
	for _, p := range c.All {
		f.Healthy = f.Healthy || p.DeletionTimestamp == nil && !facts.Ended(p) && !ready(p)
	}
	if !f.Healthy {
		f.Edits = []edit.Edit{goesOn(c, d)}
	}
	return []check.Finding{f}
}

func ready(p *corev1.Pod) bool {
	return facts.StateOf(p) == facts.Running && !facts.Unsettled(p) && !slices.ContainsFunc(p.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return !s.Ready })
}

// goesOn resumes the rollout. It is tried to its end: all pods are of the newest template, in a ReplicaSet of their own.
func goesOn(c *check.Case, d *appsv1.Deployment) edit.Edit {
	n := d.DeepCopy()
	n.Spec.Paused = false
	n.Status = appsv1.DeploymentStatus{ObservedGeneration: d.Generation}
	e := edit.Edit{
		Side: edit.Workload, Cost: edit.CostRevert, Text: fmt.Sprintf("resume the rollout of %s", facts.RefTo(d)), Set: []facts.Object{n},
		Command: fmt.Sprintf("kubectl rollout resume deployment %s -n %s", d.Name, d.Namespace),
	}
	for _, p := range c.All {
		e.Gone = append(e.Gone, p)
	}
	for _, o := range c.Children(d) {
		if r, ok := o.(*appsv1.ReplicaSet); ok {
			old := r.DeepCopy()
			old.Spec.Replicas = new(int32)
			e.Set = append(e.Set, old)
		}
	}
	return withNext(e, n)
}

// revisionKey is the annotation with which a Deployment counts its templates.
const revisionKey = "deployment.kubernetes.io/revision"

// withNext has the edit make the ReplicaSet of the newest template.
func withNext(e edit.Edit, d *appsv1.Deployment) edit.Edit {
	name := d.Name + "-next"
	last, _ := strconv.Atoi(d.Annotations[revisionKey])
	e.Set = append(e.Set, &appsv1.ReplicaSet{
		TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "ReplicaSet"},
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: d.Namespace, UID: types.UID(string(d.UID) + "-next"), CreationTimestamp: d.CreationTimestamp, Labels: d.Spec.Template.Labels, Annotations: map[string]string{revisionKey: strconv.Itoa(last + 1)},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: d.Name, UID: d.UID, Controller: ptr.To(true)}},
		},
		Spec: appsv1.ReplicaSetSpec{Replicas: d.Spec.Replicas, Selector: d.Spec.Selector, Template: d.Spec.Template},
	})
	return e
}
