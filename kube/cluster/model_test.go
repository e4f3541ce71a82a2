package cluster

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/engine/why"
)

var noon = time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)

// racked is a model with one level, rack.
func racked(objects ...metav1.Object) *Model {
	m := NewModel(ModelOptions{Engine: engine.Config{Levels: []engine.Level{{Name: "rack", Label: "rack"}}}})
	m.Set(objects...)
	return m
}

// outcome is that of a trial, in a line.
func outcome(m *Model, pod string) string {
	e, starts, missing := m.Try("default/"+pod, noon)
	out := string(e.Verdict)
	if e.Cause != "" {
		out += " " + string(e.Cause)
	}
	for _, p := range starts {
		out += " " + strings.TrimPrefix(p.Pod, "default/") + "@" + p.Node
	}
	for _, s := range missing {
		out += "; " + s
	}
	return out
}

func expect(t *testing.T, m *Model, want map[string]string) {
	t.Helper()
	got := make(map[string]string)
	for name := range want {
		got[name] = outcome(m, name)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// edited is a copy of the pod with a change.
func edited(p *corev1.Pod, change func(*corev1.Pod)) *corev1.Pod {
	p = p.DeepCopy()
	change(p)
	return p
}

func on(node string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Spec.NodeName = node } }

// Pods and nodes are edited back and forth, and each trial is of the objects as they are then.
func TestModelFollowsEdits(t *testing.T) {
	a := edited(pod("a", 2), func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"rack": "r2"} })
	n1, n2 := node("n1", "r1", 4), node("n2", "r2", 1)
	m := racked(n1, n2, a)
	expect(t, m, map[string]string{"a": "impossible larger-than-any-node", "nobody": "absent"})
	m.Set(edited(a, func(p *corev1.Pod) { p.Spec.NodeSelector = nil }))
	expect(t, m, map[string]string{"a": "placed a@n1"})
	m.Set(a, node("n2", "r2", 2))
	expect(t, m, map[string]string{"a": "placed a@n2"})
	m.Set(edited(pod("b", 1), on("n2")))
	expect(t, m, map[string]string{"a": "impossible cluster-full", "b": "placed"})
	m.Delete(pod("b", 1))
	expect(t, m, map[string]string{"a": "placed a@n2", "b": "absent"})
	m.Delete(n2)
	expect(t, m, map[string]string{"a": "impossible no-matching-node"})
	m.Set(n2)
	expect(t, m, map[string]string{"a": "impossible larger-than-any-node"})
	if a.ResourceVersion+n1.ResourceVersion+n2.ResourceVersion != "" {
		t.Error("what was given was written to")
	}
}

// Nodes that turned a pod away are not held against it: what was tried leaves no trace, whatever the time.
func TestModelRemembersNoRefusals(t *testing.T) {
	a := pod("a", 1)
	m := racked(node("n1", "r1", 1), edited(a, on("n1")))
	m.settle()
	m.Set(edited(a, func(p *corev1.Pod) {
		p.Spec.NodeName, p.Status.Phase, p.Status.Reason = "n1", corev1.PodFailed, "OutOfcpu"
	}), a)
	if e, _, _ := m.Try("default/a", time.Now()); e.Verdict != why.Placed {
		t.Errorf("%s: %v", e.Verdict, e.Gates)
	}
}

func TestModelDeletesByName(t *testing.T) {
	a := edited(pod("a", 1), on("n1"))
	a.UID = "as-it-was"
	m := racked(node("n1", "r1", 1), a, pod("b", 1))
	m.Delete(pod("a", 1))
	expect(t, m, map[string]string{"a": "absent", "b": "placed b@n1"})
}

func TestModelOfNobodysLine(t *testing.T) {
	important := edited(pod("important", 4), func(p *corev1.Pod) { p.Spec.Priority = new(int32(1000)) })
	expect(t, racked(node("n1", "r1", 4), important, pod("a", 4)), map[string]string{"important": "placed important@n1", "a": "placed a@n1"})
}

// Pods of every scheduler are placed, and those of others are neither charged nor bound by what only we read.
func TestModelOfOtherSchedulers(t *testing.T) {
	theirs := func(p *corev1.Pod) *corev1.Pod {
		return edited(p, func(p *corev1.Pod) { p.Spec.SchedulerName = corev1.DefaultSchedulerName })
	}
	full := limit(v1alpha1.DefaultQueue, 1, nil)
	m := racked(node("n1", "r1", 4), full, group("g", 2),
		theirs(pod("theirs", 2, "gang", "lonely", "min", "3", "gpu-model", "none")), pod("ours", 2),
		theirs(edited(pod("held", 1, "queue", v1alpha1.DefaultQueue), on("n1"))), pod("small", 1), theirs(grouped("g-0", "g")))
	expect(t, m, map[string]string{
		"theirs": "placed theirs@n1", "ours": "blocked exceeds-queue-maximum", "small": "placed small@n1", "g-0": "blocked gang-incomplete",
	})
	m.Set(theirs(edited(grouped("g-1", "g"), on("n1"))))
	expect(t, m, map[string]string{"g-0": "placed g-0@n1"})
	m.Set(theirs(edited(pod("theirs", 2), on("n1"))))
	expect(t, m, map[string]string{"theirs": "placed", "small": "impossible cluster-full"})
}

// What the engine does not decide is left to who asks, and MIG devices are counted like any resource.
func TestModelLooksAtNoFeatures(t *testing.T) {
	slice := edited(pod("slice", 0), func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"nvidia.com/mig-1g.10gb": resource.MustParse("2")}
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: "rack"}}}}
		p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "c"}}
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: "rack", WhenUnsatisfiable: corev1.DoNotSchedule}}
	})
	few, enough := node("n1", "r1", 0), node("n2", "r1", 0)
	few.Status.Allocatable["nvidia.com/mig-1g.10gb"], enough.Status.Allocatable["nvidia.com/mig-1g.10gb"] = resource.MustParse("1"), resource.MustParse("7")
	m := racked(few, enough, slice)
	expect(t, m, map[string]string{"slice": "placed slice@n2"})
	cert, _ := m.PerNode("default/slice", noon)
	var got []string
	for _, d := range cert.Domains {
		got = append(got, fmt.Sprint(d.Name, " ", d.Fits, " ", d.Rows[0].Short))
	}
	if diff := cmp.Diff([]string{"n1 0 [{nvidia.com/mig-1g.10gb 1 1}]", "n2 3 []"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestModelOfAGangThatItsJobDescribes(t *testing.T) {
	first, second := ownedPod("train", 0), ownedPod("train", 1)
	first.CreationTimestamp = metav1.Now() // young enough to be awaited
	m := racked(first, second, node("n1", "r1", 1), node("n2", "r1", 1), node("n3", "r2", 1))
	expect(t, m, map[string]string{"train-0": "placed train-0@n1"})
	m.Set(job("train", 3, "gang", "train", "topology-required", "rack"))
	expect(t, m, map[string]string{"train-0": "blocked gang-incomplete"})
	m.Set(ownedPod("train", 2))
	expect(t, m, map[string]string{"train-1": "impossible topology-fragmented"})
	m.Set(node("n3", "r1", 1))
	expect(t, m, map[string]string{"train-1": "placed train-0@n1 train-1@n2 train-2@n3"})
	m.Delete(job("train", 3))
	expect(t, m, map[string]string{"train-1": "placed train-1@n1"})
}

func TestModelOfAPodGroup(t *testing.T) {
	a, b := grouped("a", "g"), grouped("b", "g")
	m := racked(node("n1", "r1", 1), a, b)
	expect(t, m, map[string]string{"a": "blocked gang-missing"})
	m.Set(group("g", 2))
	expect(t, m, map[string]string{"a": "impossible cluster-full"})
	m.Set(group("g", 1))
	expect(t, m, map[string]string{"a": "placed a@n1", "b": "placed a@n1"})
	m.Set(group("g", 2), node("n2", "r1", 1))
	expect(t, m, map[string]string{"a": "placed a@n1 b@n2"})
	m.Delete(group("g", 2))
	expect(t, m, map[string]string{"a": "blocked gang-missing"})
}

func TestModelOfClaims(t *testing.T) {
	use := func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
	}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data", Annotations: map[string]string{"pv.kubernetes.io/bind-completed": "yes"}}}
	claim.Spec.VolumeName = "pv"
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}}
	volume.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "default", Name: "data"}
	volume.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "rack", Operator: corev1.NodeSelectorOpIn, Values: []string{"r2"}}},
	}}}}
	a, b := edited(pod("a", 1, "gang", "g", "min", "2"), use), pod("b", 1, "gang", "g", "min", "2")
	m := racked(node("n1", "r1", 2), node("n2", "r2", 2), a, b)
	expect(t, m, map[string]string{
		"a": "blocked gang-incomplete; claim data does not exist", "b": "blocked gang-incomplete; pod a: claim data does not exist",
	})
	m.Set(claim)
	expect(t, m, map[string]string{"a": "blocked gang-incomplete; volume pv of claim data does not exist"})
	m.Set(volume)
	expect(t, m, map[string]string{"a": "placed a@n2 b@n2"})
	m.Allow("default/a", []string{"n1"})
	expect(t, m, map[string]string{"a": "impossible no-matching-node"})
	m.Set(a)
	expect(t, m, map[string]string{"a": "placed a@n2 b@n2"})
	m.Delete(claim)
	expect(t, m, map[string]string{"a": "blocked gang-incomplete; claim data does not exist"})
}

func TestModelAllows(t *testing.T) {
	m := racked(node("n1", "r1", 1), node("n2", "r1", 1), node("n3", "r1", 1), pod("a", 1))
	for _, c := range []struct {
		nodes []string
		want  string
	}{
		{[]string{"n3", "n2", "gone"}, "placed a@n2"}, {[]string{}, "impossible no-matching-node"}, {nil, "placed a@n1"}, {[]string{"n3"}, "placed a@n3"},
	} {
		m.Allow("default/a", c.nodes)
		if got := outcome(m, "a"); got != c.want {
			t.Errorf("allowed %v: %s, want %s", c.nodes, got, c.want)
		}
	}
	m.Set(node("n3", "r1", 1), job("a", 1))
	expect(t, m, map[string]string{"a": "placed a@n3"})
	m.Set(pod("a", 1))
	expect(t, m, map[string]string{"a": "placed a@n1"})
	m.Allow("default/nobody", []string{"n1"})
}

// Queues come as they are read: typed, or as anything else of a kind that another project defines.
func TestModelOfQueues(t *testing.T) {
	q := limit("team", 2, nil)
	q.Kind, q.APIVersion = v1alpha1.QueueKind, v1alpha1.GroupVersion.String()
	raw, err := runtime.DefaultUnstructuredConverter.ToUnstructured(q)
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{Object: raw}
	m := racked(node("n1", "r1", 8), pod("a", 2, "queue", "team"), &unstructured.Unstructured{Object: map[string]any{"kind": "Queue", "apiVersion": "kai.scheduler/v2"}})
	expect(t, m, map[string]string{"a": "blocked queue-missing"})
	m.Set(u)
	expect(t, m, map[string]string{"a": "placed a@n1"})
	m.Set(limit("team", 1, nil))
	expect(t, m, map[string]string{"a": "blocked exceeds-queue-maximum"})
	m.Delete(u)
	expect(t, m, map[string]string{"a": "blocked queue-missing"})
	m.Set(pod("a", 2), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default", Annotations: map[string]string{"berth.dev/queue": "team"}}})
	expect(t, m, map[string]string{"a": "blocked queue-missing"})
}

func TestModelHasTheDefaultLevels(t *testing.T) {
	m := NewModel(ModelOptions{})
	n := node("n1", "r1", 2)
	n.Labels[v1alpha1.LabelRack] = "r1"
	m.Set(n)
	for _, o := range gang("g", 2, "topology-required", "rack") {
		m.Set(o.(*corev1.Pod))
	}
	expect(t, m, map[string]string{"g-0": "placed g-0@n1 g-1@n1"})
}

// anyThings are a few nodes, queues, groups, controllers and pods of ours, in any order.
func anyThings(t *rapid.T) []metav1.Object {
	some := func(label string, most int) int { return rapid.IntRange(0, most).Draw(t, label) }
	var out []metav1.Object
	for i := range 1 + some("nodes", 3) {
		out = append(out, node(fmt.Sprint("n", i), fmt.Sprint("r", some("rack", 1)), int64(some("gpus", 4))))
	}
	if some("queue", 1) == 1 {
		out = append(out, limit("q", int64(some("limit", 4)), nil))
	}
	out = append(out, group("g", int32(1+some("minimum", 2))), job("train", int32(1+some("pods", 2)), "gang", "train", "topology-required", "rack"))
	for i := range some("pods", 6) {
		p := pod(fmt.Sprint("p", i), int64(some("asks", 3)))
		switch some("kind", 4) {
		case 0:
			p.Spec.SchedulingGroup = grouped("", rapid.SampledFrom([]string{"g", "none"}).Draw(t, "group")).Spec.SchedulingGroup
		case 1:
			p.OwnerReferences = ownedPod("train", i).OwnerReferences
		case 2:
			p.Annotations["berth.dev/queue"] = "q"
		}
		if some("bound", 2) == 0 {
			p.Spec.NodeName = "n0"
		}
		p.UID = types.UID(p.Name)
		out = append(out, p)
	}
	return rapid.Permutation(out).Draw(t, "order")
}

// Whatever is edited, once everything is set to what it was the answers are what they were.
func TestModelUndoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		things := anyThings(t)
		m := racked(things...)
		before := outcomes(m, things)
		var touched []metav1.Object
		for range rapid.IntRange(1, 6).Draw(t, "edits") {
			o := rapid.SampledFrom(things).Draw(t, "object")
			touched = append(touched, o)
			if rapid.IntRange(0, 3).Draw(t, "deleted") == 0 {
				m.Delete(o)
			} else {
				m.Set(anyEdit(t, o))
			}
			if rapid.Bool().Draw(t, "asked") {
				outcomes(m, things)
			}
		}
		m.Set(touched...)
		if diff := cmp.Diff(before, outcomes(m, things)); diff != "" {
			t.Fatalf("(-before +undone):\n%s", diff)
		}
	})
}

func anyEdit(t *rapid.T, o metav1.Object) metav1.Object {
	switch o := o.(type) {
	case *corev1.Node:
		n := node(o.Name, rapid.SampledFrom([]string{"r0", "r1", "r9"}).Draw(t, "rack"), rapid.Int64Range(0, 4).Draw(t, "gpus"))
		n.Spec.Unschedulable = rapid.Bool().Draw(t, "cordoned")
		return n
	case *corev1.Pod:
		return edited(o, func(p *corev1.Pod) {
			switch rapid.IntRange(0, 5).Draw(t, "edit") {
			case 0:
				p.Spec.NodeSelector = map[string]string{"rack": "r1"}
			case 1:
				p.Spec.NodeName = "n0"
			case 2:
				p.Status.Phase = corev1.PodFailed
				p.Status.Reason = "OutOfcpu"
			case 3:
				p.Spec.SchedulerName = corev1.DefaultSchedulerName
			case 4:
				p.Annotations["berth.dev/gang"] = "other"
			case 5:
				p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}}
			}
		})
	case *schedulingv1beta1.PodGroup:
		return group(o.Name, 4)
	case *v1alpha1.BerthQueue:
		return limit(o.Name, 9, map[string]string{"team": "x"})
	}
	return o
}

func outcomes(m *Model, things []metav1.Object) map[string]why.Explanation {
	out := make(map[string]why.Explanation)
	for _, o := range things {
		if p, ok := o.(*corev1.Pod); ok {
			out[p.Name+" "+outcome(m, p.Name)], _, _ = m.Try(keyOf(p), noon)
		}
	}
	return out
}

// A model counts its GPUs: the largest job is on the nodes that are open.
func TestModelReports(t *testing.T) {
	node := func(name string) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"rack": "r1", "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}}}
		n.Status.Allocatable = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("8"), "cpu": resource.MustParse("8"), "pods": resource.MustParse("9")}
		return n
	}
	closed := node("b")
	closed.Spec.Unschedulable = true
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", UID: "p"}}
	p.Spec.NodeName, p.Spec.SchedulerName = "a", "someone"
	p.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("3")}}}}
	got := racked(node("a"), closed, p).Report()
	want := engine.Report{All: engine.Usage{Nodes: 2, FreeNodes: 1, GPUs: 16, Allocated: 3, InUse: 8}, Largest: []engine.Largest{
		{Model: "H100", GPUs: 5}, {Model: "H100", Level: "rack", Domain: "r1", GPUs: 5}, {Model: "H100", Level: engine.NodeLevel, Domain: "a", GPUs: 5},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
