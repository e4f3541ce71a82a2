package conformance

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

// fleet is nodes and who has, or was promised, room on them.
type fleet struct {
	nodes     []*corev1.Node
	bound     []*corev1.Pod
	nominated []*corev1.Pod // by others, as far as Berth is concerned
}

// The generators draw from few names, few values and tight amounts, so that about half of the pairs of a pod
// and a node fit and every rule has its say. The first of the values is what a failure shrinks to.

func pick[E any](t *rapid.T, what string, of ...E) E { return rapid.SampledFrom(of).Draw(t, what) }

// chance is true once in n. Unlike a drawn number, a sample has no favourites.
func chance(t *rapid.T, n int, what string) bool {
	of := make([]bool, n)
	of[n-1] = true
	return rapid.SampledFrom(of).Draw(t, what)
}

func anyFleet(t *rapid.T) fleet {
	var f fleet
	for i := range rapid.IntRange(2, 6).Draw(t, "nodes") {
		n := anyNode(t, fmt.Sprintf("n%d", i))
		f.nodes = append(f.nodes, n)
		for j := range pick(t, "bound pods", 0, 1, 2) {
			f.bound = append(f.bound, anyBound(t, fmt.Sprintf("bound-%d-%d", i, j), n.Name))
		}
		if chance(t, 8, "nominated") {
			f.nominated = append(f.nominated, anyNominee(t, fmt.Sprintf("nominee-%d", i), n.Name))
		}
	}
	return f
}

// Node labels that pods and volumes ask about.
var nodeLabels = map[string][]string{
	"disk":                            {"ssd", "hdd"},
	"cores":                           {"8", "16", "-3", "many"},
	corev1.LabelTopologyZone:          {"za", "zb"},
	corev1.LabelTopologyRegion:        {"ra", "rb"},
	corev1.LabelFailureDomainBetaZone: {"za", "zb"},
	"nvidia.com/gpu.product":          {"NVIDIA-H100-80GB-HBM3", "NVIDIA-A100-SXM4-40GB-SHARED"},
	"nvidia.com/gpu.count":            {"4", "8"},
}

// Features that nodes declare and that some pods need.
const (
	featureOfRestarts = "RestartAllContainersOnContainerExits"
	featureOfUsers    = "UserNamespacesHostNetworkSupport"
)

func anyNode(t *rapid.T, name string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}}}
	for _, key := range sortedKeys(nodeLabels) {
		if !chance(t, 4, "no "+key) {
			n.Labels[key] = pick(t, key, nodeLabels[key]...)
		}
	}
	n.Spec.Unschedulable = chance(t, 24, "unschedulable")
	for range pick(t, "taints", 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2) {
		n.Spec.Taints = append(n.Spec.Taints, anyTaint(t))
	}
	for _, feature := range []string{featureOfRestarts, featureOfUsers, "Unheard"} {
		if !chance(t, 3, "lacks "+feature) {
			n.Status.DeclaredFeatures = append(n.Status.DeclaredFeatures, feature)
		}
	}
	n.Status.Allocatable = anyAllocatable(t)
	n.Status.Capacity = corev1.ResourceList{"cpu": resource.MustParse("1k"), "pods": resource.MustParse("1k")} // not what counts
	return n
}

func anyTaint(t *rapid.T) corev1.Taint {
	return corev1.Taint{
		Key:    pick(t, "taint", "team", "old", corev1.TaintNodeNotReady, corev1.TaintNodeUnschedulable),
		Value:  pick(t, "value", "a", "b", "", "7"),
		Effect: pick(t, "effect", corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute, corev1.TaintEffectPreferNoSchedule),
	}
}

// amounts of what nodes have; absent and zero are among them.
var allocatable = map[string][]string{
	"cpu": {"64", "64", "8", "8", "4", "1500m"}, "memory": {"1Ti", "1Ti", "16Gi", "16G", "8Gi", "2Gi"}, "pods": {"110", "110", "110", "110", "110", "110", "110", "3", "2", "1"},
	"ephemeral-storage": {"100Gi", "100Gi", "10Gi", "1Gi"}, "hugepages-2Mi": {"64Mi", "8Mi", "0"},
	"nvidia.com/gpu": {"8", "8", "4", "1", "0"}, "example.com/fpga": {"4", "2", "0"},
}

func anyAllocatable(t *rapid.T) corev1.ResourceList {
	out := corev1.ResourceList{}
	for _, name := range sortedKeys(allocatable) {
		usual := name == "cpu" || name == "memory" || name == "pods"
		if usual && chance(t, 64, "no "+name) || !usual && chance(t, 4, "no "+name) {
			continue
		}
		out[corev1.ResourceName(name)] = resource.MustParse(pick(t, name, allocatable[name]...))
	}
	return out
}

// anyBound is a pod on the node, with all that takes room there: requests, what a resize gave it, ports.
func anyBound(t *rapid.T, name, node string) *corev1.Pod {
	p := blank(name)
	p.Spec.NodeName = node
	p.Spec.SchedulerName = pick(t, "of", "", "another")
	p.Spec.Priority = new(pick[int32](t, "priority", 0, 1000))
	draw{t, modest}.containers(p)
	anyPorts(t, p)
	if chance(t, 4, "resized") {
		anyResize(t, p)
	}
	if chance(t, 6, "terminating") {
		p.DeletionTimestamp = &metav1.Time{Time: noon}
	}
	return p
}

// anyResize gives the pod's containers other amounts than they ask for, as a resize on its way does.
func anyResize(t *rapid.T, p *corev1.Pod) {
	for _, c := range p.Spec.Containers {
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, AllocatedResources: draw{t, modest}.list(), Resources: &corev1.ResourceRequirements{Requests: draw{t, modest}.list()},
		})
	}
	if chance(t, 2, "infeasible") {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: corev1.PodReasonInfeasible}}
	}
}

// anyNominee is another scheduler's pod that waits for room on the node.
func anyNominee(t *rapid.T, name, node string) *corev1.Pod {
	p := blank(name)
	p.Spec.SchedulerName = "another"
	p.Status.NominatedNodeName = node
	p.Spec.Priority = new(pick[int32](t, "priority", 0, 5, 1000))
	draw{t, modest}.containers(p)
	anyPorts(t, p)
	return p
}

func blank(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)}}
}

func sortedKeys[K ~string, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
