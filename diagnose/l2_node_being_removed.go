package diagnose

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/gpustack"
)

var nodeBeingRemovedCheck = Check{
	Cause: "node-being-removed", Layer: L2, Owner: Platform, Stage: Place, Rank: 41,
	Title:   "The node is being taken away",
	Meaning: "An autoscaler, or the cloud, is about to remove the node. It is Ready and may have free GPUs, and takes no new work.",
	Remedy:  "Wait for the node that comes instead, or keep the autoscaler from removing nodes that are needed.",
	Not:     "A toleration for the taint: the pod would be gone with the node.",
	Find:    nodeBeingRemoved,
}

func nodeBeingRemoved(c *Case) []Finding {
	nodes := c.inState(gpustack.NodeLeaving)
	if len(nodes) == 0 {
		return nil
	}
	return []Finding{{
		Fit: true, Probe: nodeProbe(nodes, func(n *corev1.Node) {
			gpustack.ClearState(c.Facts, n)
			gpustack.Uncordon(n)
			gpustack.Wake(n)
			c.repaired(n)
		}),
		Message: fmt.Sprintf("%s %s being removed by %s", namesOf(nodes), verb(nodes, "is", "are"), remover(nodes[0].Node)),
		Evidence: nodesShow(nodes, func(n *corev1.Node) []facts.Evidence {
			out := taintsShown(n, gpustack.LeavingTaint)
			if n.DeletionTimestamp != nil {
				out = append(out, facts.Evidence{Field: "metadata.deletionTimestamp", Value: n.DeletionTimestamp.UTC().Format("2006-01-02T15:04:05Z")})
			}
			return out
		}),
	}}
}

// remover is who takes the node away.
func remover(n *corev1.Node) string {
	if keys := gpustack.BarringTaints(n, gpustack.LeavingTaint); len(keys) > 0 {
		switch keys[0] {
		case "ToBeDeletedByClusterAutoscaler":
			return "the cluster autoscaler"
		case "karpenter.sh/disrupted", "karpenter.sh/disruption":
			return "Karpenter"
		}
		return "the cloud"
	}
	if n.Labels["karpenter.sh/nodepool"] != "" {
		return "Karpenter"
	}
	return "somebody who deleted it"
}
