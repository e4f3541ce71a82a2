package scheduler

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
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

// Each pod of a group with the basic policy has others evicted for itself, and the group says why the first of those that wait does, until
// one of them has a node.
func TestBasicPodGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		low := func(name, node string) *corev1.Pod {
			p := pod(name, 1)
			p.Spec.NodeName = node
			return p
		}
		of := func(name string, priority int32) *corev1.Pod {
			p := grouped(name, "g")
			p.Spec.Priority = &priority
			return p
		}
		basic := group("g", 0)
		basic.Spec.SchedulingPolicy = schedulingv1beta1.PodGroupSchedulingPolicy{Basic: &schedulingv1beta1.BasicSchedulingPolicy{}}
		basic.Spec.Priority = new(int32(10))
		held := of("g-1", 10)
		held.Annotations[v1alpha1.KeyHold] = "true"
		w := newWorld(t, node("n1", "r1", 1), node("n2", "r1", 1), low("low-1", "n1"), low("low-2", "n2"), basic, held)
		w.ends(time.Second)
		w.start()
		if c := w.initially("g"); c == nil || c.Status != metav1.ConditionFalse {
			t.Errorf("while its only pod is held back: %v", c)
		}
		if said := w.groupCause("g"); said.Cause != why.WorkloadHeld {
			t.Errorf("as data: %+v", said)
		}
		w.edit("g-1", func(p *corev1.Pod) { delete(p.Annotations, v1alpha1.KeyHold) })
		w.add(of("g-0", 10))
		w.add(of("g-2", 10))
		w.after(time.Minute)
		got := w.at("g-0", "g-1", "g-2")
		slices.Sort(got)
		if diff := cmp.Diff([]string{"", "n1", "n2"}, got); diff != "" {
			t.Errorf("places: %s", diff)
		}
		if c := w.initially("g"); c == nil || c.Status != metav1.ConditionTrue {
			t.Errorf("once pods run: %v", c)
		}
	})
}

// Where the pods of such a group name a gang, the group says why that waits, until it runs.
func TestBasicPodGroupOfAGang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		basic := group("g", 0)
		basic.Spec.SchedulingPolicy = schedulingv1beta1.PodGroupSchedulingPolicy{Basic: &schedulingv1beta1.BasicSchedulingPolicy{}}
		w := newWorld(t, node("n1", "r1", 1), basic)
		for _, o := range gang("ours", 2) {
			o.(*corev1.Pod).Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: new("g")}
			w.add(o)
		}
		w.start()
		if c, said := w.initially("g"), w.groupCause("g"); c == nil || c.Status != metav1.ConditionFalse || said.Cause != why.ClusterFull {
			t.Errorf("while the gang waits: %v, as data %+v", c, said)
		}
		w.add(node("n2", "r1", 1))
		w.after(time.Minute)
		if c := w.initially("g"); c == nil || c.Status != metav1.ConditionTrue {
			t.Errorf("once the gang runs, on %q: %v", w.at("ours-0", "ours-1"), c)
		}
	})
}

// What the pods of such a group have in common changes nothing about that: others are evicted for each, one after the other, as far as their
// priority is lower.
func TestBasicPodGroupWithSomethingInCommon(t *testing.T) {
	for name, share := range map[string]func(*schedulingv1beta1.PodGroupSpec){
		"a rack": func(s *schedulingv1beta1.PodGroupSpec) {
			s.SchedulingConstraints = &schedulingv1beta1.PodGroupSchedulingConstraints{Topology: []schedulingv1beta1.TopologyConstraint{{Key: "rack"}}}
		},
		"disruption": func(s *schedulingv1beta1.PodGroupSpec) {
			s.DisruptionMode = &schedulingv1beta1.DisruptionMode{All: &schedulingv1beta1.AllDisruptionMode{}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				with := func(p *corev1.Pod, node string, priority int32) *corev1.Pod {
					p.Spec.NodeName, p.Spec.Priority = node, &priority
					return p
				}
				basic := group("g", 0)
				basic.Spec.SchedulingPolicy = schedulingv1beta1.PodGroupSchedulingPolicy{Basic: &schedulingv1beta1.BasicSchedulingPolicy{}}
				basic.Spec.Priority = new(int32(10))
				share(&basic.Spec)
				w := newWorld(t, node("n1", "r1", 1), node("n2", "r1", 1), node("n3", "r1", 1), basic,
					with(pod("low-1", 1), "n1", 0), with(pod("low-2", 1), "n2", 0), with(pod("even", 1), "n3", 10))
				w.ends(time.Second)
				for _, name := range []string{"g-0", "g-1", "g-2"} {
					w.add(with(grouped(name, "g"), "", 10))
				}
				w.start()
				w.after(time.Minute)
				got := w.at("g-0", "g-1", "g-2", "even")
				slices.Sort(got)
				if diff := cmp.Diff([]string{"", "n1", "n2", "n3"}, got); diff != "" {
					t.Errorf("places: %s", diff)
				}
			})
		})
	}
}

// Every group below a composite group with the policy basic is wanted, and every pod of those that are basic: others are evicted for each, whole
// for a gang, whatever the groups have in common. A gang below one with the policy gang is not, above the minimum.
func TestBasicCompositePodGroup(t *testing.T) {
	basic := schedulingv1alpha3.CompositePodGroupSchedulingPolicy{Basic: &schedulingv1alpha3.CompositeBasicSchedulingPolicy{}}
	for name, tt := range map[string]struct {
		is     func(*schedulingv1alpha3.CompositePodGroupSpec)
		starts int
	}{
		"nothing in common": {func(*schedulingv1alpha3.CompositePodGroupSpec) {}, 4},
		"a rack": {func(s *schedulingv1alpha3.CompositePodGroupSpec) {
			s.SchedulingConstraints = &schedulingv1alpha3.CompositePodGroupSchedulingConstraints{Topology: []schedulingv1alpha3.TopologyConstraint{{Key: "rack"}}}
		}, 4},
		"disruption": {func(s *schedulingv1alpha3.CompositePodGroupSpec) {
			s.DisruptionMode = &schedulingv1alpha3.CompositeDisruptionMode{All: &schedulingv1alpha3.AllCompositeDisruptionMode{}}
		}, 4},
		"a gang": {func(s *schedulingv1alpha3.CompositePodGroupSpec) {
			s.SchedulingPolicy = schedulingv1alpha3.CompositePodGroupSchedulingPolicy{Gang: &schedulingv1alpha3.CompositeGangSchedulingPolicy{MinGroupCount: 1}}
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				with := func(p *corev1.Pod, node string, priority int32) *corev1.Pod {
					p.Spec.NodeName, p.Spec.Priority = node, &priority
					return p
				}
				tree := &schedulingv1alpha3.CompositePodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "tree", UID: "tree"}}
				tree.Spec.SchedulingPolicy, tree.Spec.Priority = basic, new(int32(10))
				tt.is(&tree.Spec)
				parent, pair, rest, single := "tree", group("pair", 2), group("rest", 2), group("any", 0)
				single.Spec.SchedulingPolicy = schedulingv1beta1.PodGroupSchedulingPolicy{Basic: &schedulingv1beta1.BasicSchedulingPolicy{}}
				pair.Spec.ParentCompositePodGroupName, rest.Spec.ParentCompositePodGroupName, single.Spec.ParentCompositePodGroupName = &parent, &parent, &parent
				w := newWorld(t, tree, pair, rest, single, with(pod("even", 1), "n5", 10))
				for i := range 5 {
					w.add(node(fmt.Sprintf("n%d", i+1), "r1", 1))
				}
				for i := range 4 {
					w.add(with(pod(fmt.Sprintf("low-%d", i+1), 1), fmt.Sprintf("n%d", i+1), 0))
				}
				w.ends(time.Second)
				for _, name := range []string{"any", "pair", "rest"} {
					for i := range 2 {
						w.add(with(grouped(fmt.Sprintf("%s-%d", name, i), name), "", 10))
					}
				}
				w.start()
				w.after(2 * time.Minute)
				got := w.at("any-0", "any-1", "pair-0", "pair-1", "rest-0", "rest-1")
				on := slices.DeleteFunc(slices.Clone(got), func(node string) bool { return node == "" })
				if len(on) != tt.starts || tt.starts > 1 && slices.Contains(got[:4], "") || w.at("even")[0] == "" {
					t.Errorf("on %q, want %d of them on nodes", got, tt.starts)
				}
			})
		})
	}
}

// A composite group and the PodGroups below it follow their tree to its start: all of them say why they wait, and that they have begun.
func TestCompositePodGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parent := "tree"
		a, b := group("a", 1), group("b", 1)
		a.Spec.ParentCompositePodGroupName, b.Spec.ParentCompositePodGroupName = &parent, &parent
		w := newWorld(t, node("n1", "r1", 1), a, b, grouped("a-0", "a"), grouped("b-0", "b"))
		w.start()
		if got := w.condition("a-0"); got != "False GangMissing" {
			t.Fatalf("without the parent: condition %q", got)
		}
		tree := &schedulingv1alpha3.CompositePodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "tree", UID: "tree", Generation: 2}}
		tree.Spec.SchedulingPolicy.Gang = &schedulingv1alpha3.CompositeGangSchedulingPolicy{MinGroupCount: 2}
		w.add(tree)
		w.rest()
		at := func() *metav1.Condition {
			c, err := w.client.SchedulingV1alpha3().CompositePodGroups("default").Get(t.Context(), "tree", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			out := meta.FindStatusCondition(c.Status.Conditions, "CompositePodGroupInitiallyScheduled")
			if out != nil {
				out.Message, out.LastTransitionTime = "", metav1.Time{}
			}
			return out
		}
		want := &metav1.Condition{Type: "CompositePodGroupInitiallyScheduled", Status: metav1.ConditionFalse, Reason: "Unschedulable", ObservedGeneration: 2}
		if diff := cmp.Diff(want, at()); diff != "" {
			t.Fatal(diff)
		}
		for _, name := range []string{"a", "b"} {
			if c := w.initially(name); c == nil || c.Status != metav1.ConditionFalse || c.Reason != "Unschedulable" {
				t.Errorf("group %s: %v", name, c)
			}
		}
		w.add(node("n2", "r1", 1))
		w.rest()
		want.Status, want.Reason = metav1.ConditionTrue, "Scheduled"
		if diff := cmp.Diff(want, at()); diff != "" {
			t.Error(diff)
		}
		for _, name := range []string{"a", "b"} {
			if c := w.initially(name); c == nil || c.Status != metav1.ConditionTrue {
				t.Errorf("group %s: %v", name, c)
			}
		}
		if err := w.client.SchedulingV1alpha3().CompositePodGroups("default").Delete(t.Context(), "tree", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		w.rest()
		if at := slices.Sorted(slices.Values(w.at("a-0", "b-0"))); !slices.Equal(at, []string{"n1", "n2"}) { // those that run stay
			t.Errorf("without the parent they are on %v", at)
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
