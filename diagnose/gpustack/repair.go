package gpustack

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-dev/berth/diagnose/facts"
)

// This file has nodes as they would be without a fault, and finds those that could matter to a pod.

// Repaired is the node with everything that is wrong with itself repaired: open, Ready, and with all its GPUs.
func Repaired(f *facts.Facts, n *corev1.Node) *corev1.Node {
	return ChangedNode(n, func(n *corev1.Node) { Partition(f, n) }, func(n *corev1.Node) { ClearState(f, n) }, Uncordon, Wake, func(n *corev1.Node) { GiveGPUs(f, n) })
}

// ChangedNode is a copy of the node on which the changes are made.
func ChangedNode(n *corev1.Node, changes ...func(*corev1.Node)) *corev1.Node {
	n = n.DeepCopy()
	for _, change := range changes {
		change(n)
	}
	return n
}

// Uncordon lets pods onto the node again.
func Uncordon(n *corev1.Node) {
	n.Spec.Unschedulable = false
	DropTaints(n, func(key string) bool { return key == corev1.TaintNodeUnschedulable })
}

// DropTaints removes the taints whose keys are of the kind.
func DropTaints(n *corev1.Node, kind func(key string) bool) {
	n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return kind(t.Key) })
}

// ClearState takes taints, conditions, labels and annotations of a state from the node. The cordon stays.
func ClearState(f *facts.Facts, n *corev1.Node) {
	applied := AppliedTaint(n)
	DropTaints(n, func(key string) bool {
		return key != corev1.TaintNodeUnschedulable && (IsStateTaint(f, key) || applied(key))
	})
	n.DeletionTimestamp = nil
	for _, key := range []string{SentinelEvent, SentinelCordon, sentinelTaints} {
		delete(n.Annotations, key)
	}
	if upgrades(n) {
		n.Labels[LabelUpgrade] = "upgrade-done"
	}
	if Repartitions(n) {
		n.Labels[LabelMIGState] = "success"
	}
	for c := Sickness(n); c != nil; c = Sickness(n) {
		c.Reason = ""
		if c.Status == corev1.ConditionFalse {
			c.Status = corev1.ConditionTrue
		} else {
			c.Status = corev1.ConditionFalse
		}
	}
}

// Wake gives the node a kubelet that is content.
func Wake(n *corev1.Node) {
	for i := range n.Status.Conditions {
		switch c := &n.Status.Conditions[i]; c.Type {
		case corev1.NodeReady:
			c.Status, c.Reason = corev1.ConditionTrue, "KubeletReady"
		case corev1.NodeDiskPressure, corev1.NodeMemoryPressure, corev1.NodePIDPressure, corev1.NodeNetworkUnavailable:
			c.Status = corev1.ConditionFalse
		}
	}
	DropTaints(n, func(key string) bool { return UnreadyTaint(key) || PressureTaint(key) })
}

// GiveGPUs is the work of GPU software that is well: the node offers what it should, and has the labels that nodes of
// its make have. A node that offers parts of GPUs stays as it is.
func GiveGPUs(f *facts.Facts, n *corev1.Node) {
	g := NodeNamed(f, n.Name)
	if g == nil || OffersMIG(n) || Of(f).byClaim(n) {
		return
	}
	units := *resource.NewQuantity(max(g.Units, Offers(n, WholeGPU)), resource.DecimalSI)
	n.Status.Capacity, n.Status.Allocatable = WithQuantity(n.Status.Capacity, WholeGPU, units), WithQuantity(n.Status.Allocatable, WholeGPU, units)
	if n.Labels[LabelProduct] == "" {
		labelLike(f, n)
	}
}

// WithQuantity is a copy of the list with one resource set.
func WithQuantity(list corev1.ResourceList, name corev1.ResourceName, q resource.Quantity) corev1.ResourceList {
	list = maps.Clone(list)
	if list == nil {
		list = corev1.ResourceList{}
	}
	list[name] = q
	return list
}

// labelLike gives the node the labels of feature discovery that a node of the same make has.
func labelLike(f *facts.Facts, n *corev1.Node) {
	for _, pool := range poolsOf(n) {
		kin := Of(f).kin[pool]
		if kin == nil {
			continue
		}
		//archtest:any-order each label is set once
		for key, value := range kin.Labels {
			if (strings.HasPrefix(key, "nvidia.com/gpu.") || strings.HasPrefix(key, "nvidia.com/cuda.")) && !strings.HasPrefix(key, LabelDeploy) && n.Labels[key] == "" && key != "nvidia.com/gpu.clique" {
				n.Labels = WithLabel(n.Labels, key, value)
			}
		}
		return
	}
}

// WithLabel is a copy of the labels with one set.
func WithLabel(labels map[string]string, key, value string) map[string]string {
	labels = maps.Clone(labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[key] = value
	return labels
}
