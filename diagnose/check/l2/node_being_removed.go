package l2

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/gpustack"
	"github.com/berth-dev/berth/diagnose/internal/place"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

var nodeBeingRemovedCheck = check.Check{
	Cause: "node-being-removed", Layer: check.L2, Owner: check.Platform, Stage: check.Place, Rank: 41,
	Title:   "The node is being taken away",
	Meaning: "An autoscaler, or the cloud, is about to remove the node. It is Ready and may have free GPUs, and takes no new work.",
	Remedy:  "Wait for the node that comes instead, or keep the autoscaler from removing nodes that are needed.",
	Not:     "A toleration for the taint: the pod would be gone with the node.",
	Find:    nodeBeingRemoved,
}

func nodeBeingRemoved(c *check.Case) []check.Finding {
	nodes := place.InState(c, gpustack.NodeLeaving)
	if len(nodes) == 0 {
		return nil
	}
	return []check.Finding{{
		Fit: true, Probe: place.NodeProbe(nodes, func(n *corev1.Node) {
			gpustack.ClearState(c.Facts, n)
			gpustack.Uncordon(n)
			gpustack.Wake(n)
			place.Repaired(c, n)
		}),
		Message: fmt.Sprintf("%s %s being removed by %s", place.NamesOf(nodes), place.Verb(nodes, "is", "are"), remover(c, nodes[0].Node)) + removalWaits(c, nodes),
		Evidence: place.NodesShow(nodes, func(n *corev1.Node) []facts.Evidence {
			out := place.TaintsShown(n, gpustack.LeavingTaint)
			if n.DeletionTimestamp != nil {
				out = append(out, facts.Evidence{Field: "metadata.deletionTimestamp", Value: n.DeletionTimestamp.UTC().Format("2006-01-02T15:04:05Z")})
			}
			if h := holdsDrain(c, n, drainerOf(n)); h != nil {
				out = append(out, h.evidence)
			}
			if w := gpustack.WorkerOn(c.Facts, n); w != nil && w.Leaves {
				out = append(out, facts.Evidence{Object: w.Ref().In(), Field: w.Field, Value: wording.Shortened(w.Says, 200)})
			}
			return out
		}),
	}}
}

// removalWaits is the pod, in words, for which the removal of one of the nodes waits.
func removalWaits(c *check.Case, nodes []*check.NodeFit) string {
	for _, n := range nodes {
		if h := holdsDrain(c, n.Node, drainerOf(n.Node)); h != nil {
			return "; that waits for this: " + h.says()
		}
	}
	return ""
}

// drainerOf is how the node is emptied before it goes.
func drainerOf(n *corev1.Node) drainer {
	if n.Labels["karpenter.sh/nodepool"] != "" {
		return asKarpenter
	}
	return evicts
}

// remover is the component that takes the node away.
func remover(c *check.Case, n *corev1.Node) string {
	if keys := gpustack.ExcludingTaints(n, gpustack.LeavingTaint); len(keys) > 0 {
		switch keys[0] {
		case "ToBeDeletedByClusterAutoscaler":
			return "the cluster autoscaler"
		case "karpenter.sh/disrupted", "karpenter.sh/disruption":
			return "Karpenter"
		}
		return "the cloud"
	}
	if w := gpustack.WorkerOn(c.Facts, n); w != nil && w.Leaves {
		return fmt.Sprintf("whoever deleted %s: %s", w.Ref(), wording.Shortened(wording.FirstLine(w.Says), 160))
	}
	if n.Labels["karpenter.sh/nodepool"] != "" {
		return "Karpenter"
	}
	return "somebody who deleted it"
}
