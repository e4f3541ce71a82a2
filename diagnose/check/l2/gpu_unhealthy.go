package l2

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/gpustack"
	"github.com/berth-dev/berth/diagnose/internal/life"
	"github.com/berth-dev/berth/diagnose/internal/place"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

var gpuUnhealthyCheck = check.Check{
	Cause: "gpu-unhealthy", Layer: check.L2, Owner: check.Platform, Stage: check.Place, Rank: 37,
	Title:   "GPUs of the node are unhealthy",
	Meaning: "The device plugin has found errors (XIDs) on some GPUs, and the node offers fewer than it has: smaller pods still run there. Or DCGM shows errors on GPUs that the plugin still offers: the kubelet may give such a GPU to any pod, so Berth places no pods with GPUs on the node.",
	Remedy:  "Drain the node and have its GPUs reset or replaced; the device plugin's log, or the node's annotation berth.dev/unhealthy-gpus, names the GPU and the error. The annotation berth.dev/trusted-gpus on the node has a GPU used in spite of it.",
	Not:     "The missing GPUs are in use, or the request is larger than any node.",
	Find:    gpuUnhealthy,
}

func gpuUnhealthy(c *check.Case) []check.Finding {
	if f := unhealthyInUse(c); f != nil {
		return []check.Finding{*f}
	}
	nodes := slices.DeleteFunc(place.Faulty(c, gpustack.FaultUnhealthy), func(n *check.NodeFit) bool { return unheeded(c, n) })
	if len(nodes) == 0 {
		return nil
	}
	first := gpustack.NodeNamed(c.Facts, nodes[0].Name)
	f := check.Finding{
		Fit: true, Probe: place.NodeProbe(nodes, func(n *corev1.Node) {
			gpustack.ClearState(c.Facts, n)
			delete(n.Annotations, v1alpha1.KeyUnhealthyGPUs)
			place.Repaired(c, n)
		}),
		Message: brokenWords(first),
		Evidence: place.NodesShow(nodes, func(n *corev1.Node) []facts.Evidence {
			out := place.GpusShown(n)
			if listed := n.Annotations[v1alpha1.KeyUnhealthyGPUs]; listed != "" {
				out = append(out, facts.Evidence{Field: "metadata.annotations[" + v1alpha1.KeyUnhealthyGPUs + "]", Value: listed})
			}
			if s := gpustack.Sickness(n); s != nil {
				out = append(out, facts.Evidence{Field: "status.conditions[type=" + string(s.Type) + "]", Value: string(s.Status) + " " + s.Reason})
			}
			return out
		}),
	}
	if e, ok := askHealthy(c, nodes); ok {
		f.Edits = append(f.Edits, e)
	}
	if more := len(nodes) - 1; more > 0 {
		f.Message += fmt.Sprintf(", and some of %s", place.NamesOf(nodes[1:]))
	}
	if s := gpustack.Sickness(first.Node); s != nil && s.Reason != "" {
		f.Message += ": " + s.Reason
	}
	return []check.Finding{f}
}

// unhealthyInUse is about devices that containers have and that the kubelet knows to be unhealthy (ResourceHealthStatus, 1.31 and later).
// What the program does then says nothing of the program.
func unhealthyInUse(c *check.Case) *check.Finding {
	if !c.Exists || c.Pod.Spec.NodeName == "" || facts.Ended(c.Pod) && c.State != facts.Failed || c.WasEdited(c.Pod) {
		return nil
	}
	for _, k := range life.ContainersOf(c.Pod) {
		for _, r := range k.Status.AllocatedResourcesStatus {
			for _, d := range r.Resources {
				if d.Health != corev1.ResourceHealthStatusUnhealthy {
					continue
				}
				return &check.Finding{
					Stage:    check.Start,
					Message:  fmt.Sprintf("%s %s, which %s of pod %s has on node %s, is unhealthy", r.Name, d.ResourceID, k.Noun(), c.Pod.Name, c.Pod.Spec.NodeName),
					Evidence: []facts.Evidence{{Object: facts.RefTo(c.Pod).In(), Field: fmt.Sprintf("status.containerStatuses[%q].allocatedResourcesStatus[%q]", k.Name, r.Name), Value: fmt.Sprintf("%s %s", d.ResourceID, d.Health)}},
					Advice:   fmt.Sprintf("Cordon node %s, delete the pod so that it is made anew elsewhere, and have the device reset or replaced.", c.Pod.Spec.NodeName),
				}
			}
		}
	}
	return lostInUse(c)
}

// lostInUse is about a pod that runs and has more devices than its node has healthy ones: some of its own are not. A node that offers none
// at all says nothing of them: its device plugin may only be away.
func lostInUse(c *check.Case) *check.Finding {
	device, has, well, all := life.MoreThanHealthy(c)
	if device == "" {
		return nil
	}
	n := c.NodeNamed(c.Pod.Spec.NodeName)
	sick := gpustack.Sickness(n)
	f := &check.Finding{
		Stage:    check.Start,
		Message:  fmt.Sprintf("pod %s has %d %s on node %s, of whose %d only %d are healthy", c.Pod.Name, has, device, n.Name, all, well),
		Evidence: []facts.Evidence{{Object: facts.RefTo(n).In(), Field: fmt.Sprintf("status.allocatable[%q]", device), Value: fmt.Sprintf("%d of %d", well, all)}},
		Advice:   fmt.Sprintf("Cordon node %s, delete the pod so that it is made anew elsewhere, and have the device reset or replaced.", n.Name),
	}
	if sick != nil {
		f.Message += ": " + wording.Shortened(cmp.Or(sick.Message, sick.Reason), 140)
		f.Evidence = append(f.Evidence, facts.Evidence{Object: facts.RefTo(n).In(), Field: fmt.Sprintf("status.conditions[%s]", sick.Type), Value: fmt.Sprintf("%s %s", sick.Status, sick.Reason)})
	}
	return f
}

// unheeded says whether nothing but DCGM's word speaks against the node, and the pod's scheduler does not listen to that: the node is
// as open to it as any.
func unheeded(c *check.Case, n *check.NodeFit) bool {
	g := gpustack.NodeNamed(c.Facts, n.Name)
	return !c.Ours(c.Pod) && g != nil && gpustack.Offers(g.Node, gpustack.WholeGPU) >= g.Units
}

// brokenWords say how many GPUs of the node are unhealthy, and what DCGM shows where the device plugin has noticed nothing.
func brokenWords(n *gpustack.Node) string {
	broken := v1alpha1.OfferedUnhealthy(n.Node)
	if len(broken) == 0 {
		return fmt.Sprintf("node %s has %s, and %d of them unhealthy", n.Name, wording.Number(n.Units, "GPU"), n.Units-gpustack.Offers(n.Node, gpustack.WholeGPU))
	}
	return fmt.Sprintf("DCGM shows %s of node %s to be broken (%s), and the device plugin still offers it: no pod with GPUs is placed on the node", wording.Number(int64(len(broken)), "GPU"), n.Name, broken[0].Why)
}

// askHealthy has the pod ask for as many GPUs as are well, to the power of two that work is usually divided by.
func askHealthy(c *check.Case, nodes []*check.NodeFit) (edit.Edit, bool) {
	well := int64(0)
	for _, n := range nodes {
		if len(v1alpha1.OfferedUnhealthy(n.Node)) > 0 {
			continue // it is not known which of them a pod would get
		}
		well = max(well, gpustack.Offers(n.Node, gpustack.WholeGPU))
	}
	half := int64(1)
	for half*2 <= well {
		half *= 2
	}
	ask := gpustack.GPURequest(c.Pod, gpustack.WholeGPU)
	op, ok := place.AskLess(c, string(gpustack.WholeGPU), half)
	if !ok || well == 0 || half >= ask {
		return edit.Edit{}, false
	}
	return edit.Edit{
		Side: edit.Workload, Cost: 4, Ops: []edit.Op{op}, Text: fmt.Sprintf("ask for %s instead of %d", wording.Number(half, "GPU"), ask), Assumes: "the work can do with fewer",
	}, true
}
