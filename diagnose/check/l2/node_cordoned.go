package l2

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/gpustack"
	"github.com/berth-dev/berth/diagnose/internal/place"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

var nodeCordonedCheck = check.Check{
	Cause: "node-cordoned", Layer: check.L2, Owner: check.Platform, Stage: check.Place, Rank: 43,
	Title:   "Nodes that would do are cordoned",
	Meaning: "Somebody has marked the node unschedulable. No health system, upgrade or autoscaler says that it was them, so that it was done by hand, and perhaps forgotten.",
	Remedy:  "Ask who cordoned the node, and uncordon it.",
	Not:     "The cluster is full.",
	Find:    nodeCordonedFound,
}

func nodeCordonedFound(c *check.Case) []check.Finding {
	nodes := place.InState(c, gpustack.NodeCordoned)
	if len(nodes) == 0 {
		return cordonedAsSaid(c)
	}
	few := place.Fewest(c, nodes, gpustack.Uncordon)
	message := fmt.Sprintf("%s %s cordoned, and nothing else says why", place.NamesOf(nodes), place.Verb(nodes, "is", "are"))
	for _, n := range nodes {
		if h := holdsDrain(c, n.Node, asKubectl); h != nil {
			message += fmt.Sprintf("; if it is to be emptied, that waits for this: %s", h.says())
			break
		}
	}
	return []check.Finding{{
		Fit: true, Probe: place.NodeProbe(nodes, gpustack.Uncordon),
		Message: message,
		Evidence: place.NodesShow(nodes, func(n *corev1.Node) []facts.Evidence {
			out := []facts.Evidence{{Field: "spec.unschedulable", Value: "true"}}
			if h := holdsDrain(c, n, asKubectl); h != nil {
				out = append(out, h.evidence)
			}
			return out
		}),
		Edits: []edit.Edit{{
			Side: edit.Cluster, Cost: edit.CostWord, Set: place.Mended(few, gpustack.Uncordon), Assumes: "whoever cordoned " + place.Verb(few, "it", "them") + " is done",
			Text: "uncordon " + place.NamesOf(few), Command: "kubectl uncordon " + place.NodeWords(few),
		}},
	}}
}

// cordonedAsSaid goes by the scheduler's words where nodes cannot be seen.
func cordonedAsSaid(c *check.Case) []check.Finding {
	if c.State != facts.Pending || c.Sees("nodes", "") {
		return nil
	}
	_, cordons := place.ClosedAsSaid(c)
	if cordons == 0 {
		return nil
	}
	return []check.Finding{{
		Message:  fmt.Sprintf("%s that the pod could have %s cordoned, says its scheduler, and no other would do; which they are cannot be seen", wording.Number(cordons, "node"), wording.InNumber(cordons, "is", "are")),
		Evidence: place.SaidEvidence(c),
		Advice:   "Ask who runs the nodes why they are cordoned, and to uncordon them once that is over.",
	}}
}
