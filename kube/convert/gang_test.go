package convert

import (
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/engine"
)

func TestGangOf(t *testing.T) {
	for _, c := range []struct {
		name                string
		labels, annotations map[string]string
		group               *corev1.PodSchedulingGroup
		want                [2]string
	}{
		{name: "none"},
		{name: "a subgroup of nothing", labels: map[string]string{v1alpha1.KeySubgroup: "s"}},
		{name: "label", labels: map[string]string{v1alpha1.KeyGang: "g"}, want: [2]string{"ns/gang/g", ""}},
		{name: "annotation first", labels: map[string]string{v1alpha1.KeyGang: "g"}, annotations: map[string]string{v1alpha1.KeyGang: " h ", v1alpha1.KeySubgroup: "s"}, want: [2]string{"ns/gang/h", "s"}},
		{name: "PodGroup first", labels: map[string]string{v1alpha1.KeyGang: "g", v1alpha1.KeySubgroup: "s"}, group: &corev1.PodSchedulingGroup{PodGroupName: ptr("p")}, want: [2]string{"ns/podgroup/p", ""}},
		{name: "an empty group", labels: map[string]string{v1alpha1.KeyGang: "g"}, group: &corev1.PodSchedulingGroup{}, want: [2]string{"ns/gang/g", ""}},
	} {
		key, subgroup := GangOf(&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Labels: c.labels, Annotations: c.annotations},
			Spec:       corev1.PodSpec{SchedulingGroup: c.group},
		})
		if diff := cmp.Diff(c.want, [2]string{key, subgroup}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

func TestPodGroup(t *testing.T) {
	meta := metav1.ObjectMeta{Namespace: "ns", Name: "p", ResourceVersion: "9", CreationTimestamp: elsewhere(noon), Labels: map[string]string{v1alpha1.KeyQueue: "q"}}
	for _, c := range []struct {
		spec schedulingv1beta1.PodGroupSpec
		want engine.Gang
	}{
		{
			schedulingv1beta1.PodGroupSpec{
				SchedulingPolicy: schedulingv1beta1.PodGroupSchedulingPolicy{Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: 4}},
				SchedulingConstraints: &schedulingv1beta1.PodGroupSchedulingConstraints{
					Topology: []schedulingv1beta1.TopologyConstraint{{Key: "berth.dev/rack"}},
				},
				Priority: ptr(int32(5)),
			},
			engine.Gang{
				Key: "ns/podgroup/p", Version: 9, Queue: "q", Priority: 5, Created: noon,
				Group: engine.Group{Min: 4, Layout: engine.Layout{Required: "berth.dev/rack"}},
			},
		},
		{
			schedulingv1beta1.PodGroupSpec{
				SchedulingPolicy:      schedulingv1beta1.PodGroupSchedulingPolicy{Basic: &schedulingv1beta1.BasicSchedulingPolicy{}},
				SchedulingConstraints: &schedulingv1beta1.PodGroupSchedulingConstraints{},
			},
			engine.Gang{Key: "ns/podgroup/p", Version: 9, Queue: "q", Created: noon, Group: engine.Group{Min: 1, Each: true}},
		},
	} {
		if diff := cmp.Diff(c.want, PodGroup(&schedulingv1beta1.PodGroup{ObjectMeta: meta, Spec: c.spec})); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
}

// member is a pod of gang g with these annotations: key, value, key, value... Pods with higher numbers are
// newer.
func member(n int, pairs ...string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "g-" + strconv.Itoa(n), ResourceVersion: strconv.Itoa(100 + n),
		CreationTimestamp: elsewhere(noon.Add(time.Duration(n) * time.Second)),
		Annotations:       map[string]string{v1alpha1.KeyGang: "g"},
	}}
	for i := 0; i < len(pairs); i += 2 {
		p.Annotations[pairs[i]] = pairs[i+1]
	}
	return p
}

func TestNativeGang(t *testing.T) {
	important := member(1)
	important.Spec.Priority = ptr(int32(10))
	for _, c := range []struct {
		name     string
		pods     []*corev1.Pod
		owners   []PartOwner
		finished map[string]int
		want     engine.Gang
	}{
		{name: "no pods"},
		{
			name: "nothing said",
			pods: []*corev1.Pod{member(0), important, member(2)},
			want: engine.Gang{Key: "ns/gang/g", Version: 102, Priority: 10, Created: noon},
		},
		{
			name: "everything said",
			pods: []*corev1.Pod{member(0, v1alpha1.KeyMin, "2", v1alpha1.KeySize, "4", v1alpha1.KeyTopologyRequired, "block", v1alpha1.KeyTopologyPreferred, "rack",
				v1alpha1.KeySegment, "2@topology.example/row", v1alpha1.KeyWholeNodes, "true", v1alpha1.KeyBalanced, "true", v1alpha1.KeyQueue, "q")},
			want: engine.Gang{Key: "ns/gang/g", Version: 100, Created: noon, Queue: "q", Group: engine.Group{Min: 2, Size: 4, Layout: engine.Layout{
				Required: "block", Preferred: "rack", Segment: 2, SegmentLevel: "topology.example/row", WholeNodes: true, Balanced: true,
			}}},
		},
		{
			name: "the lowest-named that says anything counts",
			pods: []*corev1.Pod{member(2, v1alpha1.KeyMin, "3", v1alpha1.KeySpread, "node"), member(1, v1alpha1.KeyMin, "2"), member(0)},
			want: engine.Gang{Key: "ns/gang/g", Version: 102, Created: noon, Group: engine.Group{Min: 2, Layout: engine.Layout{Spread: "node"}}},
		},
		{
			name: "bad values",
			pods: []*corev1.Pod{
				member(0, v1alpha1.KeyMin, "x", v1alpha1.KeySize, "0", v1alpha1.KeySegment, "4", v1alpha1.KeyWholeNodes, "yes", v1alpha1.KeyBalanced, "TRUE"),
				member(1, v1alpha1.KeyMin, "2", v1alpha1.KeySegment, "2@rack"),
			},
			want: engine.Gang{
				Key: "ns/gang/g", Version: 101, Created: noon,
				Invalid: `berth.dev/whole-nodes of pod g-0 is "yes": want true or false; ` +
					`berth.dev/min of pod g-0 is "x": want a whole number from 1 to 1000000; ` +
					`berth.dev/size of pod g-0 is "0": want a whole number from 1 to 1000000; ` +
					`berth.dev/balanced of pod g-0 is "TRUE": want true or false; ` +
					`berth.dev/segment of pod g-0 is "4": want a size and a level, such as 4@rack`,
			},
		},
		{
			name: "subgroups that agree on a required level",
			pods: []*corev1.Pod{
				member(0, v1alpha1.KeySubgroup, "workers", v1alpha1.KeyMin, "1", v1alpha1.KeyTopologyRequired, "rack", v1alpha1.KeyTopologyPreferred, "row"),
				member(1, v1alpha1.KeySubgroup, "workers", v1alpha1.KeyTopologyRequired, "rack"),
				member(2, v1alpha1.KeySubgroup, "leader", v1alpha1.KeyTopologyRequired, "rack", v1alpha1.KeyWholeNodes, "true"),
			},
			want: engine.Gang{
				Key: "ns/gang/g", Version: 102, Created: noon, Group: engine.Group{Layout: engine.Layout{Required: "rack", WholeNodes: true}},
				Groups: []engine.Group{{Name: "leader"}, {Name: "workers", Min: 1, Layout: engine.Layout{Preferred: "row"}}},
			},
		},
		{
			name: "subgroups with levels of their own, and a pod with none",
			pods: []*corev1.Pod{
				member(0, v1alpha1.KeySubgroup, "a", v1alpha1.KeyTopologyRequired, "rack", v1alpha1.KeyMin, "no"),
				member(1, v1alpha1.KeySubgroup, "b", v1alpha1.KeyTopologyRequired, "row"),
				member(2, v1alpha1.KeyMin, "9"),
			},
			want: engine.Gang{
				Key: "ns/gang/g", Version: 102, Created: noon,
				Groups:  []engine.Group{{Name: "a", Layout: engine.Layout{Required: "rack"}}, {Name: "b", Layout: engine.Layout{Required: "row"}}},
				Invalid: `pod g-2 has no berth.dev/subgroup, as other members have; berth.dev/min of pod g-0 is "no": want a whole number from 1 to 1000000`,
			},
		},
		{
			name: "subgroups in subgroups",
			pods: []*corev1.Pod{
				member(0, v1alpha1.KeySubgroup, "serve/decode", v1alpha1.KeyTopologyRequired, "zone", v1alpha1.KeySubgroupTopology, "rack, serve=block"),
				member(1, v1alpha1.KeySubgroup, "serve/prefill", v1alpha1.KeyTopologyRequired, "zone", v1alpha1.KeyMinSubgroups, "1,serve=2"),
				member(2, v1alpha1.KeySubgroup, "router", v1alpha1.KeyTopologyRequired, "zone", v1alpha1.KeyMinSubgroups, "2"),
			},
			want: engine.Gang{
				Key: "ns/gang/g", Version: 102, Created: noon, Group: engine.Group{MinGroups: 1, Layout: engine.Layout{Required: "zone"}},
				Groups: []engine.Group{
					{Name: "router"},
					{Name: "serve", MinGroups: 2, Layout: engine.Layout{Required: "block"}},
					{Name: "serve/decode", Parent: "serve", Layout: engine.Layout{Required: "rack"}},
					{Name: "serve/prefill", Parent: "serve"},
				},
			},
		},
		{
			name: "a tree that cannot be read",
			pods: []*corev1.Pod{
				member(0, v1alpha1.KeySubgroup, "serve", v1alpha1.KeyMinSubgroups, "few, other=2"),
				member(1, v1alpha1.KeySubgroup, "serve/decode", v1alpha1.KeySubgroupTopology, "serve="),
				member(2, v1alpha1.KeySubgroup, "serve//x"),
			},
			want: engine.Gang{
				Key: "ns/gang/g", Version: 102, Created: noon,
				Groups: []engine.Group{{Name: "serve"}, {Name: "serve/decode", Parent: "serve"}},
				Invalid: `berth.dev/subgroup of pod g-2 is "serve//x": want a name, or a path such as serve/decode; ` +
					`subgroup "serve" has pods of its own beside those of subgroup "serve/decode"; ` +
					`berth.dev/subgroup-topology of pod g-1 is "serve=": want no empty items; ` +
					`berth.dev/min-subgroups of pod g-0 is "few": want a whole number of subgroups, or serve=2 for those of the subgroup serve; ` +
					`berth.dev/min-subgroups of pod g-0 names subgroup "other", which no pod is in`,
			},
		},
		{
			name:   "a subgroup of which there are no pods yet",
			pods:   []*corev1.Pod{owned(member(0, v1alpha1.KeySubgroup, "one/decode", v1alpha1.KeyMinSubgroups, "2, one=2"), "job")},
			owners: []PartOwner{{Owner: &Owner{UID: "job", Pods: 1}, Subgroup: "one/decode"}, {Owner: &Owner{UID: "other", Pods: 3}, Subgroup: "one/prefill"}},
			want: engine.Gang{
				Key: "ns/gang/g", Version: 100, Created: noon, Group: engine.Group{MinGroups: 2},
				Groups:  []engine.Group{{Name: "one", MinGroups: 2}, {Name: "one/decode", Parent: "one", Size: 1}, {Name: "one/prefill", Parent: "one", Size: 3}},
				Invalid: "2 subgroups must start, and pods name 1 so far",
			},
		},
		{
			name:   "a job and a pod by itself",
			pods:   []*corev1.Pod{owned(member(0), "job"), member(1)},
			owners: []PartOwner{{Owner: &Owner{UID: "job", Pods: 4}}},
			want:   engine.Gang{Key: "ns/gang/g", Version: 101, Created: noon, Group: engine.Group{Size: 5}},
		},
		{
			name:   "two jobs, one of which has no pods yet",
			pods:   []*corev1.Pod{owned(member(0, v1alpha1.KeyMin, "3"), "job")},
			owners: []PartOwner{{Owner: &Owner{UID: "job", Pods: 1}}, {Owner: &Owner{UID: "other", Pods: 4}}},
			want:   engine.Gang{Key: "ns/gang/g", Version: 100, Created: noon, Group: engine.Group{Min: 3, Size: 5}},
		},
		{
			name:   "what has succeeded is not waited for",
			pods:   []*corev1.Pod{owned(member(0, v1alpha1.KeyMin, "8", v1alpha1.KeySize, "8"), "job")},
			owners: []PartOwner{{Owner: &Owner{UID: "job", Pods: 5, Done: 3}}},
			want:   engine.Gang{Key: "ns/gang/g", Version: 100, Created: noon, Group: engine.Group{Min: 5, Size: 5}},
		},
		{
			name:     "nor what succeeded without an owner that counts",
			pods:     []*corev1.Pod{member(0, v1alpha1.KeyMin, "3", v1alpha1.KeySize, "4")},
			finished: map[string]int{"": 3},
			want:     engine.Gang{Key: "ns/gang/g", Version: 100, Created: noon, Group: engine.Group{Min: 1, Size: 1}},
		},
		{
			name:   "pods that come one after the other never come",
			pods:   []*corev1.Pod{owned(member(0), "set")},
			owners: []PartOwner{{Owner: &Owner{Kind: "StatefulSet", Name: "s", UID: "set", Pods: 3, InTurn: true}}},
			want: engine.Gang{
				Key: "ns/gang/g", Version: 100, Created: noon, Group: engine.Group{Size: 3},
				Invalid: "StatefulSet s makes its pods one after the other: set podManagementPolicy to Parallel, or berth.dev/min to 1",
			},
		},
		{
			name:   "owners of parts",
			pods:   []*corev1.Pod{owned(member(0, v1alpha1.KeySubgroup, "a"), "job"), owned(member(1, v1alpha1.KeySubgroup, "b"), "other")},
			owners: []PartOwner{{Owner: &Owner{UID: "job", Pods: 2}, Subgroup: "a"}, {Owner: &Owner{UID: "other", Pods: 3}, Subgroup: "b"}},
			want:   engine.Gang{Key: "ns/gang/g", Version: 101, Created: noon, Groups: []engine.Group{{Name: "a", Size: 2}, {Name: "b", Size: 3}}},
		},
	} {
		got := NativeGang(c.pods, c.owners, c.finished)
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
		if c.pods != nil && c.want.Invalid == "" {
			rejectsNothing(t, c.name, got, c.pods)
		}
	}
}

func owned(p *corev1.Pod, by types.UID) *corev1.Pod {
	p.OwnerReferences = []metav1.OwnerReference{{UID: by, Controller: ptr(true)}}
	return p
}

// rejectsNothing holds the gang to what the engine takes.
func rejectsNothing(t *testing.T, name string, g engine.Gang, pods []*corev1.Pod) {
	t.Helper()
	s := engine.Snapshot{Version: engine.SnapshotVersion, Gangs: []engine.Gang{g}}
	for _, p := range pods {
		s.Pods = append(s.Pods, Pod(p, Options{SchedulerNames: []string{p.Spec.SchedulerName}}))
	}
	if bad := engine.Load(s, engine.Config{}).Rejected(); len(bad) > 0 {
		t.Errorf("%s: the engine rejects %v", name, bad)
	}
}

// FuzzNativeGang: whatever is written, the gang is one that the engine takes, or says what is wrong with it; and
// the order of pods does not matter.
func FuzzNativeGang(f *testing.F) {
	f.Add("2", "4", "4@rack", "true", "false", "rack", "row", "node", "")
	f.Add("x", "-1", "@", "TRUE", "1", " ", "a b", "", "s")
	f.Add("1000001", "99999999999999999999", "4@@", "", "true", "", "", "", "s")
	f.Fuzz(func(t *testing.T, minimum, size, segment, whole, balanced, required, preferred, spread, subgroup string) {
		said := map[string]string{
			v1alpha1.KeyMin: minimum, v1alpha1.KeySize: size, v1alpha1.KeySegment: segment, v1alpha1.KeyWholeNodes: whole, v1alpha1.KeyBalanced: balanced,
			v1alpha1.KeyTopologyRequired: required, v1alpha1.KeyTopologyPreferred: preferred, v1alpha1.KeySpread: spread, v1alpha1.KeySubgroup: subgroup,
		}
		first, second := member(0), member(1, v1alpha1.KeyMin, "7", v1alpha1.KeySegment, "7@row")
		for key, value := range said {
			first.Annotations[key] = value
		}
		got := NativeGang([]*corev1.Pod{first, second}, nil, nil)
		if diff := cmp.Diff(got, NativeGang([]*corev1.Pod{second, first}, nil, nil)); diff != "" {
			t.Fatalf("the order of pods matters:\n%s", diff)
		}
		bad := engine.Load(engine.Snapshot{Version: engine.SnapshotVersion, Gangs: []engine.Gang{got}}, engine.Config{}).Rejected()
		if got.Invalid != "" && (len(bad) != 1 || bad[0].Reason != got.Invalid) {
			t.Fatalf("the engine does not say %q: %v", got.Invalid, bad)
		}
	})
}
