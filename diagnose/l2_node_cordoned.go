package diagnose

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/gpustack"
)

var nodeCordonedCheck = Check{
	Cause: "node-cordoned", Layer: L2, Owner: Platform, Stage: Place, Rank: 43,
	Title:   "Nodes that would do are cordoned",
	Meaning: "Somebody has marked the node unschedulable. No health system, upgrade or autoscaler says that it was them, so that it was done by hand, and perhaps forgotten.",
	Remedy:  "Ask who cordoned the node, and uncordon it.",
	Not:     "The cluster is full.",
	Find:    nodeCordonedFound,
}

func nodeCordonedFound(c *Case) []Finding {
	nodes := c.inState(gpustack.NodeCordoned)
	if len(nodes) == 0 {
		return nil
	}
	few := c.fewest(nodes, gpustack.Uncordon)
	return []Finding{{
		Fit: true, Probe: nodeProbe(nodes, gpustack.Uncordon),
		Message: fmt.Sprintf("%s %s cordoned, and nothing else says why", namesOf(nodes), verb(nodes, "is", "are")),
		Evidence: nodesShow(nodes, func(n *corev1.Node) []facts.Evidence {
			return []facts.Evidence{{Field: "spec.unschedulable", Value: "true"}}
		}),
		Edits: []edit.Edit{{
			Side: edit.Cluster, Cost: 3, Set: mended(few, gpustack.Uncordon), Assumes: "whoever cordoned " + verb(few, "it", "them") + " is done",
			Text: "uncordon " + namesOf(few), Command: "kubectl uncordon " + nodeWords(few),
		}},
	}}
}
