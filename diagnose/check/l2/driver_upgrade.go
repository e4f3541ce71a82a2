package l2

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

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
			return []facts.Evidence{{Field: fmt.Sprintf("metadata.labels[%q]", gpustack.LabelUpgrade), Value: n.Labels[gpustack.LabelUpgrade]}, {Field: "spec.unschedulable", Value: fmt.Sprint(n.Spec.Unschedulable)}}
		}),
		Advice: "Wait until the upgrade is done; nothing needs to be changed.",
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
		if p, b := kept(c, n); b != nil && state == "drain-required" {
			out += fmt.Sprintf("; PodDisruptionBudget %s of namespace %s keeps pod %s from being evicted", b.Name, b.Namespace, p.Name)
		}
		return out
	}
	return "it is at " + state
}

// kept is a pod on the node that a budget keeps from being evicted now, and the budget; nil: there is none.
func kept(c *check.Case, n *corev1.Node) (*corev1.Pod, *policyv1.PodDisruptionBudget) {
	for _, p := range c.PodsOn(n.Name) {
		for _, b := range c.PodDisruptionBudgets {
			s, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
			if err == nil && b.Namespace == p.Namespace && b.Status.DisruptionsAllowed < 1 && !s.Empty() && s.Matches(labels.Set(p.Labels)) {
				return p, b
			}
		}
	}
	return nil, nil
}
