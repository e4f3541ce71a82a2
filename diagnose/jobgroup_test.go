package diagnose_test

import (
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/diagnose/facts"
)

// grouped gives every Job of the case the Workload and the PodGroup that the Job controller makes for one that asks for no gang
// (gate WorkloadWithJob of Kubernetes 1.37), and the group the condition that the stock scheduler writes. It says for how many. A group that is
// not made by the controller is one that somebody else made for the pods.
func grouped(f *facts.Facts, made bool) int {
	workloads := facts.FoundAs(schema.GroupVersionKind{Group: "scheduling.k8s.io", Version: "v1beta1", Kind: "Workload"}, "workloads", true)
	done := 0
	for _, j := range f.Jobs {
		if metav1.GetControllerOf(j) != nil || j.UID == "" || j.Spec.Template.Spec.SchedulingGroup != nil {
			continue
		}
		done++
		owner := metav1.OwnerReference{APIVersion: "batch/v1", Kind: "Job", Name: j.Name, UID: j.UID, Controller: new(true)}
		meta := metav1.ObjectMeta{Namespace: j.Namespace, Name: j.Name + "-d8f7c", UID: "group of " + j.UID, CreationTimestamp: j.CreationTimestamp, OwnerReferences: []metav1.OwnerReference{owner}}
		if !made {
			meta.OwnerReferences = nil
		}
		g := &schedulingv1beta1.PodGroup{ObjectMeta: meta, Spec: schedulingv1beta1.PodGroupSpec{SchedulingPolicy: schedulingv1beta1.PodGroupSchedulingPolicy{Basic: &schedulingv1beta1.BasicSchedulingPolicy{}}}}
		condition(f, j, g)
		f.PodGroups = append(f.PodGroups, g)
		if !made {
			continue
		}
		workload := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "Workload",
			"spec": map[string]any{
				"controllerRef":     map[string]any{"apiGroup": "batch", "kind": "Job", "name": j.Name},
				"podGroupTemplates": []any{map[string]any{"name": "pods", "schedulingPolicy": map[string]any{"basic": map[string]any{}}}},
			},
		}}
		workload.SetNamespace(j.Namespace)
		workload.SetName(meta.Name)
		workload.SetUID(types.UID("workload of " + string(j.UID)))
		workload.SetCreationTimestamp(j.CreationTimestamp)
		workload.SetOwnerReferences(meta.OwnerReferences)
		workloads.Add(&f.Objects, workload)
	}
	return done
}

// condition puts the Job's pods into the group and writes of it what the stock scheduler does.
func condition(f *facts.Facts, j *batchv1.Job, g *schedulingv1beta1.PodGroup) {
	waiting, placed := false, false
	for _, p := range f.Pods {
		if by := metav1.GetControllerOf(p); by == nil || by.UID != j.UID || p.Spec.SchedulingGroup != nil {
			continue
		}
		p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &g.Name}
		g.Spec.Priority, g.Spec.PriorityClassName = p.Spec.Priority, p.Spec.PriorityClassName
		placed = placed || p.Spec.NodeName != ""
		for i := range p.Status.Conditions {
			c := &p.Status.Conditions[i]
			if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable {
				waiting = true
				asOfGroup(c)
			}
		}
	}
	switch c := (metav1.Condition{Type: schedulingv1beta1.PodGroupInitiallyScheduled, LastTransitionTime: j.CreationTimestamp}); {
	case placed:
		c.Status, c.Reason = metav1.ConditionTrue, "Scheduled"
		g.Status.Conditions = []metav1.Condition{c}
	case waiting:
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, schedulingv1beta1.PodGroupReasonUnschedulable, "pod group preemption: no victims found"
		g.Status.Conditions = []metav1.Condition{c}
	}
}

// asOfGroup words a refusal as the stock scheduler of 1.37 does for a pod of a group: what it says of preemption is in the
// group's condition; and where a plugin refused the pod before any node was looked at, another's error hides the reason.
func asOfGroup(c *corev1.PodCondition) {
	if strings.Contains(c.Message, "persistentvolumeclaim ") || strings.Contains(c.Message, "unbound immediate") {
		c.Reason, c.Message = corev1.PodReasonSchedulerError, `error in "DynamicResources" PodGroupPostFilter plugins: not found`
		return
	}
	for _, then := range []string{" no new claims", " preemption:"} {
		c.Message, _, _ = strings.Cut(c.Message, then)
	}
}

// What the Job controller makes for a Job that asks for no gang changes no answer, and neither does such a group of another author.
func TestJobGroupsChangeNothing(t *testing.T) {
	for _, made := range []bool{true, false} {
		cases := 0
		for _, name := range caseNames(t) {
			c := loadCase(t, name, fixedSeed())
			if grouped(c.facts, made) == 0 {
				continue
			}
			cases++
			got := c.diagnose(t)
			if wrong := c.wrong(got); len(wrong) > 0 {
				b, _ := yaml.Marshal(got)
				t.Errorf("%s, made by its controller %v: %s (Kubernetes %s)\n%s", name, made, strings.Join(wrong, "\n"), c.facts.Kubernetes, b)
			}
		}
		if cases < 50 {
			t.Errorf("only %d cases have a Job", cases)
		}
	}
}
