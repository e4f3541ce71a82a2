package cluster

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func composed(name, parent, uid string) *schedulingv1alpha3.CompositePodGroup {
	c := &schedulingv1alpha3.CompositePodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(uid), ResourceVersion: "5"}}
	if parent != "" {
		c.Spec.ParentCompositePodGroupName = &parent
	}
	c.Spec.SchedulingPolicy.Gang = &schedulingv1alpha3.CompositeGangSchedulingPolicy{MinGroupCount: 1}
	return c
}

func part(name, parent string) *schedulingv1beta1.PodGroup {
	g := group(name, 1)
	g.UID, g.ResourceVersion, g.Spec.ParentCompositePodGroupName = types.UID(name), "6", &parent
	return g
}

// A composite group is made anew with another parent. Pods that wait follow it to the other gang; pods that run stay where they were
// decided about, also when the root is gone, and for a scheduler that starts later.
func TestRootChanges(t *testing.T) {
	f := newClock()
	at := func(f *clock, when, want string) {
		t.Helper()
		f.Settle()
		if got := f.Find("default/g-0").Workload; got != want {
			t.Errorf("%s: in %s, want %s", when, got, want)
		}
	}
	p := edited(grouped("g-0", "g"), func(p *corev1.Pod) { p.UID, p.ResourceVersion = "g-0", "7" })
	f.Set(p)
	at(f, "without its group", "default/podgroup/g")
	f.Set(part("g", "b"))
	at(f, "without its parent", "default/compositepodgroup/b")
	f.Set(composed("b", "a", "b1"))
	at(f, "without the root", "default/compositepodgroup/a")
	f.Set(composed("a", "", "a1"))
	at(f, "with all", "default/compositepodgroup/a")
	if f.members.pods["default/g-0"].terms == nil {
		t.Fatal("it was not decided about")
	}
	f.Remove(composed("b", "a", "b1"))
	f.Set(composed("b", "c", "b2"))
	at(f, "made anew below another, which does not exist", "default/compositepodgroup/c")
	f.Set(composed("c", "", "c1"))
	at(f, "which exists", "default/compositepodgroup/c")

	bound := p.DeepCopy()
	bound.ResourceVersion, bound.Spec.NodeName = "8", "n1"
	m := f.members.pods["default/g-0"]
	bound.Status.Conditions = append(bound.Status.Conditions, *f.admission(m))
	f.Set(bound)
	at(f, "on a node", "default/compositepodgroup/c")
	f.Remove(composed("b", "c", "b2"))
	f.Set(composed("b", "a", "b3"))
	at(f, "on a node, its parent made anew below the first", "default/compositepodgroup/c")
	f.Remove(composed("c", "", "c1"))
	at(f, "on a node, its root gone", "default/compositepodgroup/c")
	if g, ok := f.gangs.described["default/compositepodgroup/c"]; !ok || g.Invalid != "" || len(g.Groups) != 2 {
		t.Errorf("its gang is %+v, %v", g, ok)
	}

	later := newClock()
	later.Set(bound)
	later.Set(part("g", "b"))
	later.Set(composed("a", "", "a1"))
	later.Set(composed("b", "a", "b3"))
	at(later, "for a scheduler that starts later", "default/compositepodgroup/c")
}

// A group that is deleted takes the pods that wait with it, and one that comes back brings them back.
func TestGroupOfATreeGoes(t *testing.T) {
	f := newClock()
	f.Set(composed("a", "", "a"))
	f.Set(part("g", "a"))
	f.Set(edited(grouped("g-0", "g"), func(p *corev1.Pod) { p.UID, p.ResourceVersion = "g-0", "7" }))
	for range 2 {
		f.Settle()
		if got := f.Find("default/g-0").Workload; got != "default/compositepodgroup/a" {
			t.Errorf("with the group: %s", got)
		}
		f.Remove(part("g", "a"))
		f.Settle()
		if g := f.gangs.described["default/compositepodgroup/a"]; len(g.Groups) != 0 {
			t.Errorf("without the group: %+v", g.Groups)
		}
		f.Set(part("g", "a"))
	}
}
