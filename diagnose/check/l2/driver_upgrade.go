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

var driverUpgradeCheck = check.Check{
	Cause: "driver-upgrade", Layer: check.L2, Owner: check.Platform, Stage: check.Place, Rank: 32,
	Title:   "The GPU driver is being upgraded",
	Meaning: "The GPU Operator upgrades the driver of the node and keeps new work off it until that is done. Where the upgrade failed, it stays so.",
	Remedy:  "Wait for the upgrade; where it failed, read the driver pod's log, and have the Operator try again.",
	Not:     "An uncordon: the Operator cordoned the node, and the driver is being swapped.",
	Find:    driverUpgrade,
}

func driverUpgrade(c *check.Case) []check.Finding {
	nodes := place.InState(c, gpustack.NodeUpgrades)
	if len(nodes) == 0 {
		return nil
	}
	done := func(n *corev1.Node) { gpustack.ClearState(c.Facts, n); gpustack.Uncordon(n); place.Repaired(c, n) }
	failed := place.NodesWhere(nodes, func(n *corev1.Node) bool { return n.Labels[gpustack.LabelUpgrade] == "upgrade-failed" })
	f := check.Finding{
		Fit: true, Probe: place.NodeProbe(nodes, done),
		Message: fmt.Sprintf("the GPU driver of %s is being upgraded: %s", place.NamesOf(nodes), upgradeWords(c, nodes[0].Node)),
		Evidence: place.NodesShow(nodes, func(n *corev1.Node) []facts.Evidence {
			out := []facts.Evidence{{Field: fmt.Sprintf("metadata.labels[%q]", gpustack.LabelUpgrade), Value: n.Labels[gpustack.LabelUpgrade]}, {Field: "spec.unschedulable", Value: fmt.Sprint(n.Spec.Unschedulable)}}
			if h := upgradeWaitsFor(c, n); h != nil {
				out = append(out, h.evidence)
			}
			return out
		}),
		Advice: "Wait until the upgrade is done; nothing needs to be changed.",
	}
	if h := upgradeWaitsFor(c, nodes[0].Node); h != nil && len(failed) == 0 {
		f.Advice = fmt.Sprintf("Have whoever runs pod %s of namespace %s let it go, or delete it: the upgrade goes on then.", h.pod.Name, h.pod.Namespace)
	}
	if len(failed) > 0 {
		few := place.Fewest(c, failed, done)
		f.Message = fmt.Sprintf("the upgrade of the GPU driver of %s has failed, and the Operator keeps work off", place.NamesOf(failed))
		f.Advice = "Read the log of the driver's pod on the node, repair it, and have the Operator try again."
		f.Edits = []edit.Edit{{
			Side: edit.Cluster, Cost: 4, Set: place.Mended(few, done), Assumes: "the upgrade succeeds this time",
			Text:    "have the Operator try the upgrade of " + place.NamesOf(few) + " again",
			Command: fmt.Sprintf("kubectl label node %s %s=upgrade-required --overwrite", place.NodeWords(few), gpustack.LabelUpgrade),
		}}
	}
	return []check.Finding{f}
}

// upgradeWaitsFor is the pod that the Operator does not get off the node; nil: none is known.
func upgradeWaitsFor(c *check.Case, n *corev1.Node) *holder {
	switch n.Labels[gpustack.LabelUpgrade] {
	case "pod-deletion-required", "drain-required", "upgrade-failed":
		return holdsDrain(c, n, asKubectl)
	}
	return nil
}

// upgradeWords is what the upgrade does now.
func upgradeWords(c *check.Case, n *corev1.Node) string {
	state := n.Labels[gpustack.LabelUpgrade]
	holders := 0
	for _, p := range c.PodsOn(n.Name) {
		if gpustack.WantsGPU(p) {
			holders++
		}
	}
	switch state {
	case "wait-for-jobs-required", "pod-deletion-required", "drain-required":
		out := fmt.Sprintf("it is at %s, and %s with GPUs %s still there", state, wording.Number(holders, "pod"), wording.InNumber(holders, "is", "are"))
		if h := upgradeWaitsFor(c, n); h != nil {
			out += "; " + h.says()
		}
		return out
	}
	return "it is at " + state
}
