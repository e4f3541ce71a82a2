package diagnose

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/gpustack"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

var gpuUnhealthyCheck = Check{
	Cause: "gpu-unhealthy", Layer: L2, Owner: Platform, Stage: Place, Rank: 37,
	Title:   "GPUs of the node are unhealthy",
	Meaning: "The device plugin has found errors (XIDs) on some GPUs, and the node offers fewer than it has. Smaller pods still run there.",
	Remedy:  "Drain the node and have its GPUs reset or replaced; the device plugin's log names the GPU and the XID.",
	Not:     "The missing GPUs are in use, or the request is larger than any node.",
	Find:    gpuUnhealthy,
}

func gpuUnhealthy(c *Case) []Finding {
	nodes := c.faulty(gpustack.FaultUnhealthy)
	if len(nodes) == 0 {
		return nil
	}
	first := gpustack.NodeNamed(c.Facts, nodes[0].Name)
	f := Finding{
		Fit: true, Probe: nodeProbe(nodes, func(n *corev1.Node) { gpustack.ClearState(c.Facts, n); c.repaired(n) }),
		Message: fmt.Sprintf("node %s has %s, and %d of them unhealthy", first.Name, wording.Number(first.Units, "GPU"), first.Units-gpustack.Offers(first.Node, gpustack.WholeGPU)),
		Evidence: nodesShow(nodes, func(n *corev1.Node) []facts.Evidence {
			out := gpusShown(n)
			if s := gpustack.Sickness(n); s != nil {
				out = append(out, facts.Evidence{Field: "status.conditions[type=" + string(s.Type) + "]", Value: string(s.Status) + " " + s.Reason})
			}
			return out
		}),
	}
	if e, ok := c.askHealthy(nodes); ok {
		f.Edits = append(f.Edits, e)
	}
	if more := len(nodes) - 1; more > 0 {
		f.Message += fmt.Sprintf(", and some of %s", namesOf(nodes[1:]))
	}
	if s := gpustack.Sickness(first.Node); s != nil && s.Reason != "" {
		f.Message += ": " + s.Reason
	}
	return []Finding{f}
}

// askHealthy has the pod ask for as many GPUs as are well, to the power of two that work is usually divided by.
func (c *Case) askHealthy(nodes []*NodeFit) (edit.Edit, bool) {
	well := int64(0)
	for _, n := range nodes {
		well = max(well, gpustack.Offers(n.Node, gpustack.WholeGPU))
	}
	half := int64(1)
	for half*2 <= well {
		half *= 2
	}
	ask := gpustack.GpuAsk(c.Pod, gpustack.WholeGPU)
	op, ok := c.askLess(string(gpustack.WholeGPU), half)
	if !ok || well == 0 || half >= ask {
		return edit.Edit{}, false
	}
	return edit.Edit{
		Side: edit.Workload, Cost: 4, Ops: []edit.Op{op}, Text: fmt.Sprintf("ask for %s instead of %d", wording.Number(half, "GPU"), ask), Assumes: "the work can do with fewer",
	}, true
}
