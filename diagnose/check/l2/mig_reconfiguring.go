package l2

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/gpustack"
	"github.com/berth-dev/berth/diagnose/internal/place"
)

var migReconfiguringCheck = check.Check{
	Cause: "mig-reconfiguring", Layer: check.L2, Owner: check.Platform, Stage: check.Place, Rank: 31,
	Title:   "The node's GPUs are being divided anew",
	Meaning: "The MIG manager changes how the GPUs of the node are divided, and until it is done the node offers none, or the old ones. It may also have failed.",
	Remedy:  "Wait for the MIG manager; where it failed, its log on the node says why: work that still holds a GPU is the usual reason.",
	Not:     "The GPUs are in use.",
	Find:    migReconfiguring,
}

// migTakes is more than the MIG manager takes to stop what uses the GPUs, to reboot the node where it has to, and to divide them.
const migTakes = 30 * time.Minute

func migReconfiguring(c *check.Case) []check.Finding {
	if !gpustack.WantsGPU(c.Pod) {
		return nil
	}
	nodes := place.InState(c, gpustack.NodeRepartitions)
	if len(nodes) == 0 {
		return nil
	}
	mend := func(n *corev1.Node) {
		gpustack.Partition(c.Facts, n)
		gpustack.ClearState(c.Facts, n)
		gpustack.Uncordon(n)
		gpustack.Wake(n)
		place.Repaired(c, n)
	}
	first := nodes[0].Node
	f := check.Finding{
		Fit: true, Probe: place.NodeProbe(nodes, mend),
		Message: fmt.Sprintf("the GPUs of %s are being divided as %s: the MIG manager's state is %s", place.NamesOf(nodes), first.Labels[gpustack.LabelMIG], first.Labels[gpustack.LabelMIGState]),
		Evidence: place.NodesShow(nodes, func(n *corev1.Node) []facts.Evidence {
			return append([]facts.Evidence{
				{Field: fmt.Sprintf("metadata.labels[%q]", gpustack.LabelMIG), Value: n.Labels[gpustack.LabelMIG]}, {Field: fmt.Sprintf("metadata.labels[%q]", gpustack.LabelMIGState), Value: n.Labels[gpustack.LabelMIGState]},
			}, place.GpusShown(n)...)
		}),
		Advice: "Wait until the MIG manager is done: the label " + gpustack.LabelMIGState + " turns to success.",
	}
	if c.Age() > migTakes {
		f.Advice = "Read the log of the MIG manager's pod on the node: to divide GPUs takes minutes, and the pod has been waiting for longer. If it has stopped, it begins again when its pod is made anew, or when the label " + gpustack.LabelMIG + " changes."
	}
	if first.Labels[gpustack.LabelMIGState] == "failed" {
		f.Message = fmt.Sprintf("the MIG manager could not divide the GPUs of %s as %s", place.NamesOf(nodes), first.Labels[gpustack.LabelMIG])
		f.Advice = "Read the log of the MIG manager's pod on the node; work that still holds a GPU of it is the usual reason."
	}
	if pods := gpustack.NodeNamed(c.Facts, first.Name).Pods[gpustack.RoleMIG]; len(pods) > 0 {
		f.Evidence = append(f.Evidence, facts.Evidence{Object: facts.RefTo(pods[0]).In(), Field: "status.phase", Value: string(pods[0].Status.Phase)})
	}
	return []check.Finding{f}
}
