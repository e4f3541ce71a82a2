package diagnose

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/gpustack"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
	"github.com/berth-dev/berth/engine/why"
)

// faulty are the nodes with the fault that would have room for the pod if nothing were wrong with them.
func (c *Case) faulty(fault gpustack.Fault) []*NodeFit {
	if !gpustack.WantsGPU(c.Pod) || c.stuck() == nil {
		return nil
	}
	s := gpustack.Of(c.Facts)
	return c.barredNodes(func(n *corev1.Node) bool { return s.Faults[n.Name] == fault })
}

// inState are the nodes in the state that would have room for the pod if nothing were wrong with them.
func (c *Case) inState(state gpustack.NodeState) []*NodeFit {
	if c.stuck() == nil {
		return nil
	}
	s := gpustack.Of(c.Facts)
	return c.barredNodes(func(n *corev1.Node) bool { return s.States[n.Name] == state })
}

// repaired is the node with its GPUs, and nothing else changed.
func (c *Case) repaired(n *corev1.Node) {
	gpustack.GiveGPUs(c.Facts, n)
	c.wish(n)
}

// gap says whether the pod asks for the device and no node advertises it, nor is there hardware of which the size is known
// to be too small.
func (c *Case) gap(device string) bool {
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

// saidOfNone says whether Berth wrote of the pod that the largest node has none of what it asks for.
func (c *Case) saidOfNone() bool {
	return slices.ContainsFunc(c.Pod.Status.Conditions, func(s corev1.PodCondition) bool {
		return s.Type == corev1.PodScheduled && s.Status == corev1.ConditionFalse && berthMeans(&s, why.LargerThanAnyNode) && strings.Contains(s.Message+";", "; the largest node has 0;")
	})
}

// wishParts gives a node that is being divided by a configuration of somebody's own what the pod asks for: nobody can
// tell yet that it will offer something else.
func (c *Case) wishParts(n *corev1.Node) {
	g := gpustack.NodeNamed(c.Facts, n.Name)
	if g == nil || !gpustack.Repartitions(g.Node) || gpustack.PartitionAs(c.Facts, n.DeepCopy(), g.Labels[gpustack.LabelMIG]) {
		return
	}
	c.grant(n)
}
