package scheduler

import (
	"encoding/json"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/engine/why"
	"github.com/berth-dev/berth/kube/report"
)

func group(name string, minimum int32) *schedulingv1beta1.PodGroup {
	return &schedulingv1beta1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Generation: 3},
		Spec: schedulingv1beta1.PodGroupSpec{SchedulingPolicy: schedulingv1beta1.PodGroupSchedulingPolicy{
			Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: minimum},
		}},
	}
}

func grouped(name, group string) *corev1.Pod {
	p := pod(name, 1)
	p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &group}
	return p
}

// initially is the group's condition, without its time; nil if there is none.
func (w *world) initially(name string) *metav1.Condition {
	w.t.Helper()
	g, err := w.client.SchedulingV1beta1().PodGroups("default").Get(w.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	c := meta.FindStatusCondition(g.Status.Conditions, schedulingv1beta1.PodGroupInitiallyScheduled)
	if c == nil {
		return nil
	}
	out := *c
	if out.LastTransitionTime.IsZero() {
		w.t.Error("no transition time")
	}
	out.LastTransitionTime = metav1.Time{}
	return &out
}

// groupCause is why the group waits, as data.
func (w *world) groupCause(name string) (said report.Pending) {
	w.t.Helper()
	g, err := w.client.SchedulingV1beta1().PodGroups("default").Get(w.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	c := meta.FindStatusCondition(g.Status.Conditions, v1alpha1.PodPendingCause)
	if c == nil || json.Unmarshal([]byte(c.Message), &said) != nil {
		w.t.Fatalf("no data, or none that can be read: %v", c)
	}
	return said
}

// The group's condition follows it to its start, as upstream writes it, and never goes back.
func TestPodGroupCondition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, node("n1", "r1", 1), group("g", 2), grouped("g-0", "g"))
		w.start()
		if c := w.initially("g"); c != nil {
			t.Fatalf("of a group that is not complete: %v", c)
		}
		w.add(grouped("g-1", "g"))
		w.rest()
		c := w.initially("g")
		if c == nil || c.Message == "" {
			t.Fatalf("no condition, or none that explains: %v", c)
		}
		c.Message = ""
		want := &metav1.Condition{Type: "PodGroupInitiallyScheduled", Status: metav1.ConditionFalse, Reason: "Unschedulable", ObservedGeneration: 3}
		if diff := cmp.Diff(want, c); diff != "" {
			t.Fatal(diff)
		}
		if said := w.groupCause("g"); said.Cause != why.ClusterFull || len(said.Gates) != 1 {
			t.Errorf("as data: %+v", said)
		}
		w.add(node("n2", "r1", 1))
		w.rest()
		want = &metav1.Condition{Type: "PodGroupInitiallyScheduled", Status: metav1.ConditionTrue, Reason: "Scheduled", ObservedGeneration: 3}
		if diff := cmp.Diff(want, w.initially("g")); diff != "" {
			t.Fatal(diff)
		}
		w.remove("nodes", "", "n2")
		w.remove("pods", "default", "g-1")
		w.rest()
		w.add(grouped("g-2", "g"))
		w.rest()
		if diff := cmp.Diff(want, w.initially("g")); diff != "" {
			t.Error(diff)
		}
	})
}

// A group that has not its whole minimum has not begun.
func TestPodGroupUnderItsMinimum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := grouped("g-0", "g")
		first.Spec.NodeName = "n1"
		w := newWorld(t, node("n1", "r1", 1), group("g", 2), first)
		w.start()
		if c := w.initially("g"); c != nil {
			t.Errorf("condition %v", c)
		}
		second := grouped("g-1", "g")
		second.Spec.NodeName = "n1"
		w.add(second)
		w.rest()
		if c := w.initially("g"); c == nil || c.Status != metav1.ConditionTrue {
			t.Errorf("condition %v", c)
		}
	})
}

func TestPodGroupSaysWhatIsNotHonoured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, parent := group("g", 2), "parent"
		g.Spec.ParentCompositePodGroupName = &parent
		w := newWorld(t, g)
		w.start()
		if diff := cmp.Diff([]string{"NotHonoured: Not honoured yet: parent composite pod group"}, w.said("g")); diff != "" {
			t.Error(diff)
		}
	})
}

// A member of a group that does not exist waits for it, not for nodes.
func TestPodGroupMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, node("n1", "r1", 1), grouped("g-0", "g"))
		w.start()
		if got := w.condition("g-0"); got != "False GangMissing" {
			t.Fatalf("condition %q", got)
		}
		w.add(group("g", 1))
		w.rest()
		if diff := cmp.Diff([]string{"n1"}, w.at("g-0")); diff != "" {
			t.Error(diff)
		}
	})
}
