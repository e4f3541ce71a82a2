package cluster

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/berth-dev/berth/kube/convert"
)

// disruption is a PodDisruptionBudget for pods with the label app, "" for those that it does not select.
func disruption(name, app string, allowed int32) *policyv1.PodDisruptionBudget {
	b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	if app != "" {
		b.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
	}
	b.Status.DisruptionsAllowed = allowed
	return b
}

// app gives the pod a label.
func app(p *corev1.Pod, name string) *corev1.Pod {
	p.Labels = map[string]string{"app": name}
	return p
}

// covered are the budgets of the pods that the engine knows, by pod.
func (m *Model) covered() map[string][]string {
	out := make(map[string][]string)
	for _, p := range m.Snapshot().Pods {
		out[p.Key] = p.Budgets
	}
	return out
}

// Pods name the budgets that cover them, whichever of the two comes first or changes.
func TestBudgetsOfPods(t *testing.T) {
	m := NewModel(ModelOptions{})
	elsewhere, theirs := app(pod("a", 1), "x"), app(pod("theirs", 1), "x")
	elsewhere.Namespace, theirs.Spec.SchedulerName = "other", "default-scheduler"
	m.Set(node("n1", "r1", 8), app(pod("a", 1), "x"), app(pod("b", 1), "y"), elsewhere, theirs)
	m.Set(disruption("x", "x", 2), disruption("all", "", 0), disruption("y", "y", -1))
	all := disruption("every", "", 1)
	all.Spec.Selector = &metav1.LabelSelector{}
	m.Set(all, app(pod("late", 1), "y"))
	want := map[string][]string{
		"default/a": {"default/every", "default/x"}, "default/b": {"default/every", "default/y"}, "default/late": {"default/every", "default/y"},
		"other/a": nil, "default/theirs": nil,
	}
	if diff := cmp.Diff(want, m.covered()); diff != "" {
		t.Fatal(diff)
	}
	allowed := make(map[string]int)
	for _, d := range m.Snapshot().Disruptions {
		allowed[d.Key] = d.Allowed
	}
	if diff := cmp.Diff(map[string]int{"default/x": 2, "default/all": 0, "default/y": 0, "default/every": 1}, allowed); diff != "" {
		t.Error(diff)
	}
	m.Set(disruption("x", "y", 2), app(pod("a", 1), "z"))
	m.Delete(all)
	want = map[string][]string{
		"default/a": nil, "default/b": {"default/x", "default/y"}, "default/late": {"default/x", "default/y"}, "other/a": nil, "default/theirs": nil,
	}
	if diff := cmp.Diff(want, m.covered()); diff != "" {
		t.Error(diff)
	}
	if got := len(m.Snapshot().Disruptions); got != 3 {
		t.Errorf("%d budgets", got)
	}
}

// A budget that only counts otherwise gives no pod again.
func TestBudgetThatCountsOtherwise(t *testing.T) {
	m := NewModel(ModelOptions{})
	m.Set(node("n1", "r1", 8), app(pod("a", 1), "x"), disruption("x", "x", 2))
	m.settle()
	m.Set(disruption("x", "x", 2))
	m.feed.Settle()
	if got := m.changes.take(); len(got) > 0 {
		t.Errorf("nothing changed, and %d changes", len(got))
	}
	m.Set(disruption("x", "x", 1))
	m.feed.Settle()
	if got := m.changes.take(); len(got) != 1 || got[0].Disruption == nil || got[0].Disruption.Allowed != 1 {
		t.Errorf("%v", got)
	}
}

// A PodGroup that is not to be evicted keeps its pods, whether it comes before or after them.
func TestFirmPodGroup(t *testing.T) {
	name := "g"
	group := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: "g", Annotations: map[string]string{"berth.dev/preemptible": "false", "berth.dev/user": "ann"}}}
	group.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: 2}
	in := func(p *corev1.Pod) *corev1.Pod {
		p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &name}
		return p
	}
	m := NewModel(ModelOptions{})
	evictable := func() map[string]bool {
		out := make(map[string]bool)
		for _, p := range m.Snapshot().Pods {
			out[p.Key] = p.Evictable
		}
		return out
	}
	m.Set(in(pod("a", 1)))
	if diff := cmp.Diff(map[string]bool{"default/a": true}, evictable()); diff != "" {
		t.Error(diff)
	}
	m.Set(group, in(pod("b", 1)))
	if diff := cmp.Diff(map[string]bool{"default/a": false, "default/b": false}, evictable()); diff != "" {
		t.Error(diff)
	}
	if got := m.Snapshot().Gangs[0].User; got != "ann" {
		t.Errorf("user %q", got)
	}
	open := group.DeepCopy()
	open.Annotations = nil
	m.Set(open)
	if diff := cmp.Diff(map[string]bool{"default/a": true, "default/b": true}, evictable()); diff != "" {
		t.Error(diff)
	}
}

// Whatever comes and goes, a pod of ours names the budgets of its namespace whose selectors match its labels, and no others.
func TestBudgetsKeepUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := NewModel(ModelOptions{})
		pods, all := make(map[string]*corev1.Pod), make(map[string]*policyv1.PodDisruptionBudget)
		name, label, space := rapid.SampledFrom([]string{"a", "b", "c"}), rapid.SampledFrom([]string{"x", "y"}), rapid.SampledFrom([]string{"default", "other"})
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			p, b := app(pod(name.Draw(t, "name"), 1), label.Draw(t, "label")), disruption(name.Draw(t, "name"), label.Draw(t, "label"), 1)
			p.Namespace, b.Namespace = space.Draw(t, "space"), space.Draw(t, "space")
			switch rapid.IntRange(0, 4).Draw(t, "what") {
			case 0, 1:
				pods[keyOf(p)] = p
				m.Set(p)
			case 2:
				all[keyOf(b)] = b
				m.Set(b)
			case 3:
				delete(pods, keyOf(p))
				m.Delete(p)
			case 4:
				delete(all, keyOf(b))
				m.Delete(b)
			}
			if rapid.Bool().Draw(t, "look") {
				m.settle()
			}
		}
		want := make(map[string][]string)
		for key, p := range pods {
			want[key] = nil
			for _, of := range slices.Sorted(maps.Keys(all)) {
				if b := all[of]; b.Namespace == p.Namespace && b.Spec.Selector.MatchLabels["app"] == p.Labels["app"] {
					want[key] = append(want[key], of)
				}
			}
		}
		if diff := cmp.Diff(want, m.covered()); diff != "" {
			t.Fatal(diff)
		}
	})
}

// Of more budgets in a namespace than are looked at the first by name count, until some are gone.
func TestTooManyBudgets(t *testing.T) {
	p := app(pod("a", 1), "x")
	p.Spec.NodeName = "n1"
	m := racked(node("n1", "r1", 8), p)
	for i := range convert.MaxBudgets {
		m.Set(disruption(fmt.Sprintf("b%04d", i), "y", 1))
	}
	late := disruption("late", "x", 0)
	m.Set(late)
	if got := m.covered()["default/a"]; len(got) > 0 {
		t.Errorf("covered by %q", got)
	}
	m.Delete(disruption("b0000", "y", 1))
	if diff := cmp.Diff([]string{"default/late"}, m.covered()["default/a"]); diff != "" {
		t.Error(diff)
	}
}
