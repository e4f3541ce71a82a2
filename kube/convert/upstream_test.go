package convert

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	helper "k8s.io/component-helpers/resource"
	schedulinghelper "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
	"pgregory.net/rapid"

	"github.com/berth-dev/berth/engine"
)

var (
	resourceNames = []string{"cpu", "memory", "nvidia.com/gpu", "ephemeral-storage", "hugepages-2Mi", "example.com/fpga"}
	quantities    = map[string][]string{
		"cpu": {"0", "100u", "1m", "100m", "0.25", "1", "2"}, "memory": {"0", "1", "0.5", "100M", "128Mi", "1Gi", "1.5Gi"},
		"nvidia.com/gpu": {"0", "1", "2"}, "ephemeral-storage": {"1Gi", "1k"}, "hugepages-2Mi": {"2Mi", "4Mi"}, "example.com/fpga": {"1", "3"},
	}
)

func pick(t *rapid.T, what string, of ...string) string { return rapid.SampledFrom(of).Draw(t, what) }

// chance is true once in n.
func chance(t *rapid.T, n int, what string) bool { return rapid.IntRange(1, n).Draw(t, what) == 1 }

func drawList(t *rapid.T) corev1.ResourceList {
	out := corev1.ResourceList{}
	for _, name := range resourceNames {
		if chance(t, 3, "has "+name) {
			out[corev1.ResourceName(name)] = resource.MustParse(pick(t, name, quantities[name]...))
		}
	}
	return out
}

func drawContainers(t *rapid.T, kind string, from, to int) []corev1.Container {
	var out []corev1.Container
	for i := range rapid.IntRange(from, to).Draw(t, kind) {
		c := corev1.Container{Name: fmt.Sprintf("%s-%d", kind, i), Resources: corev1.ResourceRequirements{Requests: drawList(t)}}
		if kind == "init" && rapid.Bool().Draw(t, "sidecar") {
			c.RestartPolicy = ptr(corev1.ContainerRestartPolicyAlways)
		}
		out = append(out, c)
	}
	return out
}

// drawResources fills in everything that upstream's formula looks at.
func drawResources(t *rapid.T, p *corev1.Pod) {
	p.Spec.InitContainers = drawContainers(t, "init", 0, 2)
	p.Spec.Containers = drawContainers(t, "main", 1, 2)
	if chance(t, 4, "overhead") {
		p.Spec.Overhead = drawList(t)
	}
	if chance(t, 4, "of the pod") {
		p.Spec.Resources = &corev1.ResourceRequirements{Requests: drawList(t)}
	}
	for _, c := range p.Spec.Containers {
		if chance(t, 2, "resized") {
			p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{Name: c.Name, AllocatedResources: drawList(t)})
		}
	}
	if chance(t, 4, "pod resized") {
		p.Status.AllocatedResources = drawList(t)
		p.Status.Resources = &corev1.ResourceRequirements{Requests: drawList(t)}
	}
}

// TestRequestsAsUpstream compares with the formula as upstream's scheduler applies it, with and without a
// node, in upstream's units.
func TestRequestsAsUpstream(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := &corev1.Pod{}
		drawResources(t, p)
		if rapid.Bool().Draw(t, "bound") {
			p.Spec.NodeName = "n"
		} else {
			p.Status = corev1.PodStatus{} // nothing reports on a pod that is nowhere
		}
		want := map[string]int64{}
		for name, q := range helper.PodRequests(p.DeepCopy(), helper.PodResourcesOptions{UseStatusResources: true, InPlacePodLevelResourcesVerticalScalingEnabled: true}) {
			v := q.Value()
			if name == corev1.ResourceCPU {
				v = q.MilliValue()
			}
			if v > 0 {
				want[string(name)] = v
			}
		}
		got, before := map[string]int64{}, p.DeepCopy()
		for _, a := range Pod(p, Options{}).Requests {
			got[a.Resource] = a.Value
		}
		if !equality.Semantic.DeepEqual(before, p) {
			t.Fatal("the pod has changed")
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("-upstream +ours:\n%s", diff)
		}
	})
}

func drawRequirement(t *rapid.T) corev1.NodeSelectorRequirement {
	op := pick(t, "operator", "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Like")
	r := corev1.NodeSelectorRequirement{Key: pick(t, "key", "a", "b", "x.io/c", "a", "b", "not a key"), Operator: corev1.NodeSelectorOperator(op)}
	n := map[string]int{"In": 2, "NotIn": 2, "Gt": 1, "Lt": 1}[op]
	if chance(t, 10, "odd") {
		n = 3 - n
	}
	for range n {
		r.Values = append(r.Values, pick(t, "value", "1", "2", "3", "1", "2", "3", "no label value"))
	}
	return r
}

func drawNodeSelector(t *rapid.T) *corev1.NodeSelector {
	s := &corev1.NodeSelector{}
	for range rapid.IntRange(0, 3).Draw(t, "terms") {
		var term corev1.NodeSelectorTerm
		for range rapid.IntRange(0, 2).Draw(t, "expressions") {
			term.MatchExpressions = append(term.MatchExpressions, drawRequirement(t))
		}
		if chance(t, 3, "field") {
			term.MatchFields = []corev1.NodeSelectorRequirement{{
				Key:      "metadata.name",
				Operator: corev1.NodeSelectorOperator(pick(t, "operator", "In", "NotIn", "In", "NotIn", "Exists")),
				Values:   strings.Split(pick(t, "names", "n", "m", "n", "m", "n,m"), ","),
			}}
		}
		s.NodeSelectorTerms = append(s.NodeSelectorTerms, term)
	}
	return s
}

func drawNode(t *rapid.T) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{}}}
	for _, key := range []string{"a", "b", "x.io/c"} {
		if !chance(t, 3, "no "+key) {
			n.Labels[key] = pick(t, key, "1", "2", "3")
		}
	}
	n.Spec.Unschedulable = chance(t, 6, "cordoned")
	for range rapid.IntRange(0, 2).Draw(t, "taints") {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{
			Key: pick(t, "key", "a", "b"), Value: pick(t, "value", "", "1"),
			Effect: corev1.TaintEffect(pick(t, "effect", "NoSchedule", "PreferNoSchedule", "PreferNoSchedule", "NoExecute")),
		})
	}
	n.Status.Allocatable = list("cpu", pick(t, "cpu", "100m", "4", "16"), "memory", pick(t, "memory", "128Mi", "8Gi"),
		"nvidia.com/gpu", pick(t, "gpus", "0", "4", "4"), "pods", pick(t, "pods", "0", "110", "110", "110"), "hugepages-2Mi", "16Mi", "ephemeral-storage", "8Gi")
	if !chance(t, 3, "no fpga") {
		n.Status.Allocatable["example.com/fpga"] = resource.MustParse("9")
	}
	return n
}

// drawPod is a pod that the API server, of today or of before, could hold.
func drawPod(t *rapid.T) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}, Spec: corev1.PodSpec{SchedulerName: "berth"}}
	drawResources(t, p)
	p.Status = corev1.PodStatus{}
	if chance(t, 3, "selector") {
		p.Spec.NodeSelector = map[string]string{pick(t, "key", "a", "b"): pick(t, "value", "1", "2", "no label value")}
	}
	if chance(t, 2, "affinity") {
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}}
		if !chance(t, 4, "nothing required") {
			p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = drawNodeSelector(t)
		}
	}
	for range rapid.IntRange(0, 3).Draw(t, "tolerations") {
		o := corev1.Toleration{
			Key:      pick(t, "key", "", "a", "b", corev1.TaintNodeUnschedulable),
			Operator: corev1.TolerationOperator(pick(t, "operator", "", "Equal", "Exists", "Exists", "Gt", "Lt")),
			Effect:   corev1.TaintEffect(pick(t, "effect", "", "", "NoSchedule", "NoExecute")),
		}
		if o.Key == "" {
			o.Operator = corev1.TolerationOpExists
		}
		if o.Operator != corev1.TolerationOpExists {
			o.Value = pick(t, "value", "", "1", "2", "01")
		}
		p.Spec.Tolerations = append(p.Spec.Tolerations, o)
	}
	return p
}

// fits is upstream's answer for one pod on one empty node.
func fits(p *corev1.Pod, n *corev1.Node) bool {
	if ok, err := nodeaffinity.GetRequiredNodeAffinity(p).Match(n); err != nil || !ok {
		return false
	}
	taints := n.Spec.Taints
	if n.Spec.Unschedulable {
		taints = append([]corev1.Taint{{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}}, taints...)
	}
	hard := func(taint *corev1.Taint) bool { return taint.Effect != corev1.TaintEffectPreferNoSchedule }
	if _, bad := schedulinghelper.FindMatchingUntoleratedTaint(klog.Background(), taints, p.Spec.Tolerations, hard, true); bad {
		return false
	}
	for name, q := range helper.PodRequests(p.DeepCopy(), helper.PodResourcesOptions{}) {
		if have := n.Status.Allocatable[name]; q.Cmp(have) > 0 {
			return false
		}
	}
	return n.Status.Allocatable.Pods().Value() > 0
}

// TestPlacedAsUpstream gives the engine one pod and one node: it must start the pod exactly when upstream's
// helpers say that it fits.
func TestPlacedAsUpstream(t *testing.T) {
	answers := map[bool]int{}
	rapid.Check(t, func(t *rapid.T) {
		p, n := drawPod(t), drawNode(t)
		snapshot := engine.Snapshot{
			Version: engine.SnapshotVersion, Nodes: []engine.Node{Node(n, Options{})}, Pods: []engine.Pod{Pod(p, Options{})},
		}
		if bad := engine.Load(snapshot, engine.Config{}).Rejected(); len(bad) > 0 {
			t.Fatalf("rejected: %v", bad)
		}
		plan := engine.Schedule(snapshot, noon, engine.Config{})
		want := fits(p, n)
		if got := len(plan.Starts) == 1; got != want {
			t.Fatalf("started: %v, upstream says %v\n%s", got, want, engine.Describe(plan))
		}
		answers[want]++
	})
	if total := answers[true] + answers[false]; answers[true] < total/20 || answers[false] < total/20 {
		t.Errorf("the cases are too much alike to tell anything: %v", answers)
	}
}
