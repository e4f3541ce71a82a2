package place

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/gpustack"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
	"github.com/berth-dev/berth/engine/why"
	"github.com/berth-dev/berth/kube/report"
)

// Faulty are the nodes with the fault that would have room for the pod if nothing were wrong with them.
func Faulty(c *check.Case, fault gpustack.Fault) []*check.NodeFit {
	if !gpustack.WantsGPU(c.Pod) || Stuck(c) == nil {
		return nil
	}
	s := gpustack.Of(c.Facts)
	return excludedNodes(c, func(n *corev1.Node) bool { return s.Faults[n.Name] == fault })
}

// InState are the nodes in the state that would have room for the pod if nothing were wrong with them.
func InState(c *check.Case, state gpustack.NodeState) []*check.NodeFit {
	if Stuck(c) == nil {
		return nil
	}
	s := gpustack.Of(c.Facts)
	return excludedNodes(c, func(n *corev1.Node) bool { return s.States[n.Name] == state })
}

// Repaired is the node with its GPUs, and nothing else changed.
func Repaired(c *check.Case, n *corev1.Node) {
	gpustack.GiveGPUs(c.Facts, n)
	Wish(c, n)
}

// Gap says whether the pod asks for the device and no node advertises it, nor is there hardware of which the size is known
// to be too small.
func Gap(c *check.Case, device string) bool {
	ask := podspec.Requested(c.Pod, device)
	if ask == 0 || !podspec.Extended(corev1.ResourceName(device)) || !gpustack.Unadvertised(c.Facts, device) {
		return false
	}
	known, large := false, false
	for _, n := range c.Nodes {
		if g := gpustack.NodeNamed(c.Facts, n.Name); g != nil && g.Says != "" && device == string(gpustack.WholeGPU) {
			known, large = true, large || g.Units >= ask
		}
	}
	for _, p := range c.Foreign[gpustack.BerthPools] {
		if units, _ := gpustack.PooledGPUs(c.Facts, p.GetName()); units > 0 && device == string(gpustack.WholeGPU) {
			known, large = true, large || units >= ask
		}
	}
	return !known || large
}

// SaidOfNone says whether Berth wrote of the pod that the largest node has none of what it asks for.
func SaidOfNone(c *check.Case) bool {
	_, said, ok := BerthSaid(c, why.LargerThanAnyNode)
	return ok && slices.ContainsFunc(said.Gates, func(g report.Gate) bool {
		return slices.ContainsFunc(g.Lacks, func(l why.Lack) bool { return l.Largest == 0 })
	})
}

// wishParts gives a node that is being divided by a configuration of somebody's own what the pod asks for: nobody can
// tell yet that it will offer something else.
func wishParts(c *check.Case, n *corev1.Node) {
	g := gpustack.NodeNamed(c.Facts, n.Name)
	if g == nil || !gpustack.Repartitions(g.Node) || gpustack.PartitionAs(c.Facts, n.DeepCopy(), g.Labels[gpustack.LabelMIG]) {
		return
	}
	Grant(c, n)
}
