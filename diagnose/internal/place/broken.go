package place

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/gpustack"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
	"github.com/berth-dev/berth/engine/why"
	"github.com/berth-dev/berth/internal/spelling"
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

// Nowhere says whether the pod asks for a resource that no node has any of, by its very name, and that nothing else, such as
// a driver's class or a way to divide GPUs, could bring. It is about what nodes are, not about how much they have.
func Nowhere(c *check.Case, name string) bool {
	if podspec.Requested(c.Pod, name) == 0 || !c.Sees("nodes", "") || len(c.Nodes) == 0 || StandsFor(c.Facts, corev1.ResourceName(name)) != nil {
		return false
	}
	if !podspec.Extended(corev1.ResourceName(name)) && !strings.HasPrefix(name, corev1.ResourceHugePagesPrefix) || name == string(gpustack.WholeGPU) && slices.ContainsFunc(c.Nodes, inParts) || strings.HasPrefix(name, "nvidia.com/mig-") || strings.HasPrefix(name, "nvidia.com/gpumem") || name == "nvidia.com/gpucores" { // the last are HAMi's, whose scheduler counts them
		return false
	}
	return !slices.ContainsFunc(c.Nodes, func(n *corev1.Node) bool {
		will := n.Status.Allocatable[corev1.ResourceName(name)]
		if name != string(gpustack.WholeGPU) && podspec.Extended(corev1.ResourceName(name)) {
			return !will.IsZero() // what a node has and does not offer is a plugin's matter, and not the pod's size
		}
		has := n.Status.Capacity[corev1.ResourceName(name)]
		return !has.IsZero() || !will.IsZero() || CouldHave(n, name) > 0
	})
}

// inParts says whether the node offers GPUs of NVIDIA in parts or shares, or has some whose number is unknown.
func inParts(n *corev1.Node) bool {
	for _, list := range []corev1.ResourceList{n.Status.Capacity, n.Status.Allocatable} {
		for name := range list {
			if strings.HasPrefix(string(name), "nvidia.com/mig-") || strings.HasPrefix(string(name), "nvidia.com/gpu.") || strings.HasPrefix(string(name), "nvidia.com/gpumem") {
				return true
			}
		}
	}
	return false
}

// Renamed asks for a resource that nodes have under a name much like the one that none has.
func Renamed(c *check.Case, name string) (near string, e edit.Edit, ok bool) {
	have := make(map[string]bool)
	for _, n := range c.Nodes {
		for r, q := range n.Status.Allocatable {
			if !q.IsZero() && (podspec.Extended(r) || strings.HasPrefix(string(r), corev1.ResourceHugePagesPrefix)) {
				have[string(r)] = true
			}
		}
	}
	near, ok = spelling.Closest(name, slices.Sorted(maps.Keys(have)))
	if !ok {
		return "", e, false
	}
	e = edit.Edit{Side: edit.Workload, Cost: edit.CostWord, Text: fmt.Sprintf("ask for %s, which nodes have, in place of %s", near, name)}
	for i := range c.Pod.Spec.Containers {
		if i >= len(Written(c).Spec.Containers) {
			break
		}
		r := Written(c).Spec.Containers[i].Resources.DeepCopy()
		changed := false
		for _, list := range []corev1.ResourceList{r.Requests, r.Limits} {
			if q, there := list[corev1.ResourceName(name)]; there {
				delete(list, corev1.ResourceName(name))
				list[corev1.ResourceName(near)] = q
				changed = true
			}
		}
		if changed {
			e.Ops = append(e.Ops, edit.Op{Op: "replace", Path: edit.Pointer("spec", "containers", fmt.Sprint(i), "resources"), Value: r})
		}
	}
	return near, e, len(e.Ops) > 0
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
