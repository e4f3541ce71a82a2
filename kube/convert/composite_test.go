package convert

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/engine"
)

// composite is a CompositePodGroup; "" is no parent, and a minimum of 0 the basic policy.
func composite(name, parent string, least int32, change ...func(*schedulingv1alpha3.CompositePodGroup)) *schedulingv1alpha3.CompositePodGroup {
	c := &schedulingv1alpha3.CompositePodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
	if parent != "" {
		c.Spec.ParentCompositePodGroupName = &parent
	}
	if least > 0 {
		c.Spec.SchedulingPolicy.Gang = &schedulingv1alpha3.CompositeGangSchedulingPolicy{MinGroupCount: least}
	}
	for _, f := range change {
		f(c)
	}
	return c
}

// child is a PodGroup with a parent.
func child(name, parent string, least int32) *schedulingv1beta1.PodGroup {
	g := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
	g.Spec.ParentCompositePodGroupName = &parent
	if least > 0 {
		g.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: least}
	}
	return g
}

func find(all ...*schedulingv1alpha3.CompositePodGroup) func(string) *schedulingv1alpha3.CompositePodGroup {
	return func(key string) *schedulingv1alpha3.CompositePodGroup {
		for _, c := range all {
			if CompositeKey(c.Namespace, c.Name) == key {
				return c
			}
		}
		return nil
	}
}

func TestTreeAsGang(t *testing.T) {
	noon := time.Date(2026, 11, 18, 12, 0, 0, 0, time.UTC)
	tree := Tree{
		Root: composite("serve", "", 2, func(c *schedulingv1alpha3.CompositePodGroup) {
			c.ResourceVersion, c.CreationTimestamp = "9", metav1.NewTime(noon)
			c.Annotations = map[string]string{"berth.dev/queue": "research"}
			c.Spec.Priority = ptr(int32(5))
			c.Spec.SchedulingConstraints = &schedulingv1alpha3.CompositePodGroupSchedulingConstraints{Topology: []schedulingv1alpha3.TopologyConstraint{{Key: "zone"}}}
		}),
		Composites: []*schedulingv1alpha3.CompositePodGroup{composite("empty", "serve", 3), composite("replica", "serve", 0, func(c *schedulingv1alpha3.CompositePodGroup) {
			c.Spec.DisruptionMode = &schedulingv1alpha3.CompositeDisruptionMode{All: &schedulingv1alpha3.AllCompositeDisruptionMode{}}
		})},
		Groups: []*schedulingv1beta1.PodGroup{child("leader", "replica", 1), child("router", "serve", 0), child("workers", "replica", 4)},
	}
	tree.Groups[1].Spec.DisruptionMode = &schedulingv1beta1.DisruptionMode{All: &schedulingv1beta1.AllDisruptionMode{}}
	want := engine.Gang{
		Key: "ns/compositepodgroup/serve", Version: 9, Queue: "research", Priority: 5, Created: noon,
		Group: engine.Group{MinGroups: 2, Layout: engine.Layout{Required: "zone"}},
		Groups: []engine.Group{
			{Name: "compositepodgroup/empty", Min: 1},
			{Name: "compositepodgroup/replica", MinGroups: 1, Whole: true, Each: true},
			{Name: "leader", Parent: "compositepodgroup/replica", Min: 1},
			{Name: "router", Min: 1, Whole: true, Each: true},
			{Name: "workers", Parent: "compositepodgroup/replica", Min: 4},
		},
	}
	got := tree.Gang()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	Finish(&got, map[string]bool{"leader": true, "workers": true}) // and with them the replica
	Capped(&got)
	want.MinGroups = 1
	want.Groups = []engine.Group{{Name: "compositepodgroup/empty", Min: 1}, {Name: "router", Min: 1, Whole: true, Each: true}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("when a replica is over (-want +got):\n%s", diff)
	}
}

// Every way up ends at one gang, whatever the parents are.
func TestRootKey(t *testing.T) {
	long := []*schedulingv1alpha3.CompositePodGroup{composite("l0", "", 1)}
	for i := 1; i < 1000; i++ {
		long = append(long, composite(fmt.Sprint("l", i), fmt.Sprint("l", i-1), 1))
	}
	for _, c := range []struct {
		name, parent, want, problem string
		all                         []*schedulingv1alpha3.CompositePodGroup
	}{
		{"its parent is the root", "a", "a", "", []*schedulingv1alpha3.CompositePodGroup{composite("a", "", 1)}},
		{"no parent", "a", "a", "", nil},
		{"no parent of the parent", "a", "b", "", []*schedulingv1alpha3.CompositePodGroup{composite("a", "b", 1)}},
		{"its own parent", "a", "a", "circle, a, a", []*schedulingv1alpha3.CompositePodGroup{composite("a", "a", 1)}},
		{"a circle", "c", "a", "circle, a, b, a", []*schedulingv1alpha3.CompositePodGroup{composite("c", "b", 1), composite("b", "a", 1), composite("a", "b", 1)}},
		{"very many", "l999", "l995", "more than 4 levels", long},
	} {
		got := RootKey("ns", c.parent, find(c.all...))
		if got != CompositeKey("ns", c.want) || !IsComposite(got) {
			t.Errorf("%s: %s", c.name, got)
		}
		problem := ""
		if root := find(c.all...)(got); root != nil {
			problem = Misplaced(root, find(c.all...))
		}
		if (problem == "") != (c.problem == "") || !strings.Contains(problem, c.problem) {
			t.Errorf("%s: %q", c.name, problem)
		}
	}
}

// A group that is being deleted keeps others from starting, and nothing that runs from going on.
func TestTreeInDeletion(t *testing.T) {
	now := metav1.Now()
	tree := Tree{Root: composite("a", "", 1, func(c *schedulingv1alpha3.CompositePodGroup) { c.DeletionTimestamp = &now }), Groups: []*schedulingv1beta1.PodGroup{child("g", "a", 1)}}
	for started, want := range map[bool]string{false: "CompositePodGroup a is being deleted", true: ""} {
		g := tree.Gang()
		if tree.Terms(&g, nil, started); g.Invalid != want {
			t.Errorf("started %v: %q", started, g.Invalid)
		}
	}
}

// What was decided about a tree is there again when its groups are gone, and a minimum does not grow.
func TestTreeFromRecord(t *testing.T) {
	all := func(c *schedulingv1alpha3.CompositePodGroup) {
		c.Spec.DisruptionMode = &schedulingv1alpha3.CompositeDisruptionMode{All: &schedulingv1alpha3.AllCompositeDisruptionMode{}}
		c.Spec.Priority = ptr(int32(7))
		c.Spec.SchedulingConstraints = &schedulingv1alpha3.CompositePodGroupSchedulingConstraints{Topology: []schedulingv1alpha3.TopologyConstraint{{Key: "rack"}}}
	}
	root, part, group := composite("a", "", 2, all), composite("b", "a", 1), child("g", "b", 3)
	was := Tree{Root: root, Composites: []*schedulingv1alpha3.CompositePodGroup{part}, Groups: []*schedulingv1beta1.PodGroup{group}}
	record := GroupRecordOf(group)
	record.Above = []CompositeRecord{CompositeRecordOf(part), CompositeRecordOf(root)}
	gone := Tree{}
	gone.Recorded("ns", "g", record)
	if diff := cmp.Diff(was.Gang(), gone.Gang()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	grown := Tree{Root: composite("a", "", 9, all), Composites: []*schedulingv1alpha3.CompositePodGroup{composite("b", "elsewhere", 1)}, Groups: []*schedulingv1beta1.PodGroup{child("g", "b", 8)}}
	grown.Recorded("ns", "g", record)
	if diff := cmp.Diff(was.Gang(), grown.Gang()); diff != "" {
		t.Errorf("of groups that want more (-want +got):\n%s", diff)
	}
	text := Record{Queue: "q", Group: record}.Text()
	for _, spoiled := range []string{text, strings.Replace(text, `"name":"a"`, `"name":""`, 1), strings.Replace(text, `"min":2`, `"min":-2`, 1)} {
		_, _, ok := RecordOf(withRecord(spoiled), nil)
		if ok != (spoiled == text) {
			t.Errorf("%s: read %v", spoiled, ok)
		}
	}
}

// FuzzTree has groups name each other at random: there is always one gang, its groups form a tree, and nothing is listed twice.
func FuzzTree(f *testing.F) {
	f.Add("ab,bc,c", "xa,yb")
	f.Add("aa", "xa")
	f.Add("ab,ba", "xa,yb")
	f.Fuzz(func(t *testing.T, above, leaves string) {
		var all []*schedulingv1alpha3.CompositePodGroup
		seen := make(map[string]bool)
		for _, pair := range strings.Split(above, ",") {
			if len(pair) > 0 && len(pair) < 3 && !seen[pair[:1]] && len(all) < 12 {
				seen[pair[:1]] = true
				all = append(all, composite(pair[:1], pair[1:], 1))
			}
		}
		for _, pair := range strings.Split(leaves, ",") {
			if len(pair) != 2 {
				continue
			}
			key := RootKey("ns", pair[1:], find(all...))
			if !IsComposite(key) || key != RootKey("ns", pair[1:], find(all...)) {
				t.Fatalf("root %q", key)
			}
			if root := find(all...)(key); root != nil && (Misplaced(root, find(all...)) == "") != (ParentOfComposite(root) == "") {
				t.Fatalf("%s has a parent, and is said to be well placed", key)
			}
		}
	})
}

func withRecord(text string) *corev1.Pod {
	return &corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: Admitted, Status: corev1.ConditionTrue, Message: text}}}}
}
