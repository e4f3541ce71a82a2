package diagnose

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/gpustack"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

var gpuOperatorNotReadyCheck = Check{
	Cause: "gpu-operator-not-ready", Layer: L2, Owner: Platform, Stage: Place, Rank: 34,
	Title:   "The GPU Operator has not deployed its software",
	Meaning: "The GPU Operator's ClusterPolicy says that something is wrong, and neither drivers nor device plugins run on the nodes.",
	Remedy:  "Do what the ClusterPolicy's condition says; `kubectl describe clusterpolicy` shows it.",
	Not:     "The cluster has no GPUs.",
	Find:    gpuOperatorNotReady,
}

func gpuOperatorNotReady(c *Case) []Finding {
	if !gpustack.WantsGPU(c.Pod) {
		return nil
	}
	reason, message, e := gpustack.OperatorSays(c.Facts)
	if reason == "" {
		return nil
	}
	nodes := c.faulty(gpustack.FaultOperator)
	mend := func(n *corev1.Node) { c.repaired(n) }
	if len(nodes) == 0 && reason == "NFDLabelsMissing" && len(gpustack.Of(c.Facts).Nodes) == 0 {
		nodes, mend = c.unlabelled(), func(n *corev1.Node) { c.grant(n) }
	}
	if len(nodes) == 0 {
		return nil
	}
	e.Value = strings.TrimSpace(reason + " " + message)
	return []Finding{{
		Fit: true, Probe: nodeProbe(nodes, mend),
		Message:  fmt.Sprintf("the GPU Operator has deployed nothing on %s: %s %s", namesOf(nodes), reason, wording.Shortened(wording.FirstLine(message), 120)),
		Evidence: append([]facts.Evidence{e}, nodesShow(nodes, gpusShown)...),
	}}
}

// unlabelled are the nodes that could have the pod if they had GPUs: while nobody labels what is in machines, any may.
func (c *Case) unlabelled() []*NodeFit {
	f := c.stuck()
	if f == nil || !aboutPlaces(f) {
		return nil
	}
	var out []*NodeFit
	for i := range f.Nodes {
		if n := &f.Nodes[i]; n.Open() {
			out = append(out, n)
		}
	}
	return out
}
