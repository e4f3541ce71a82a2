package l2

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/gpustack"
	"github.com/berth-dev/berth/diagnose/internal/place"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

var gpuOperatorNotReadyCheck = check.Check{
	Cause: "gpu-operator-not-ready", Layer: check.L2, Owner: check.Platform, Stage: check.Place, Rank: 34,
	Title:   "The GPU Operator has not deployed its software",
	Meaning: "The GPU Operator's ClusterPolicy says that something is wrong, and neither drivers nor device plugins run on the nodes.",
	Remedy:  "Do what the ClusterPolicy's condition says; `kubectl describe clusterpolicy` shows it.",
	Not:     "The cluster has no GPUs.",
	Find:    gpuOperatorNotReady,
}

func gpuOperatorNotReady(c *check.Case) []check.Finding {
	if !gpustack.WantsGPU(c.Pod) {
		return nil
	}
	reason, message, e := gpustack.OperatorSays(c.Facts)
	if reason == "" {
		return nil
	}
	nodes := place.Faulty(c, gpustack.FaultOperator)
	mend := func(n *corev1.Node) { place.Repaired(c, n) }
	if len(nodes) == 0 && reason == "NFDLabelsMissing" && len(gpustack.Of(c.Facts).Nodes) == 0 {
		nodes, mend = unlabelled(c), func(n *corev1.Node) { place.Grant(c, n) }
	}
	if len(nodes) == 0 {
		return nil
	}
	e.Value = strings.TrimSpace(reason + " " + message)
	return []check.Finding{{
		Fit: true, Probe: place.NodeProbe(nodes, mend),
		Message:  fmt.Sprintf("the GPU Operator has deployed nothing on %s: %s %s", place.NamesOf(nodes), reason, wording.Shortened(wording.FirstLine(message), 120)),
		Evidence: append([]facts.Evidence{e}, place.NodesShow(nodes, place.GpusShown)...),
	}}
}

// unlabelled are the nodes that could have the pod if they had GPUs: while no label says what is in machines, any may.
func unlabelled(c *check.Case) []*check.NodeFit {
	f := place.Stuck(c)
	if f == nil || !check.AboutPlaces(f) {
		return nil
	}
	var out []*check.NodeFit
	for i := range f.Nodes {
		if n := &f.Nodes[i]; n.Open() {
			out = append(out, n)
		}
	}
	return out
}
