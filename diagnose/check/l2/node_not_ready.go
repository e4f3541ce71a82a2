package l2

import (
	"cmp"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/gpustack"
	"github.com/berth-dev/berth/diagnose/internal/place"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

var nodeNotReadyCheck = check.Check{
	Cause: "node-not-ready", Layer: check.L2, Owner: check.Platform, Stage: check.Place, Rank: 30,
	Title:   "Nodes that would do are not Ready",
	Meaning: "The node is registered, and its kubelet, its network or its machine does not work. Kubernetes keeps new pods off it with a taint.",
	Remedy:  "Look at the node's conditions and at its kubelet; restart or replace the machine.",
	Not:     "A toleration for node.kubernetes.io/not-ready or unreachable: the pod would land on a machine that cannot run it.",
	Find:    nodeNotReady,
}

// powerless is the annotation with which the simulated fleet takes a machine's power away.
const powerless = "sim.berth.dev/down"

func nodeNotReady(c *check.Case) []check.Finding {
	nodes := place.InState(c, gpustack.NodeUnready)
	if len(nodes) == 0 {
		return nil
	}
	mend := func(n *corev1.Node) { gpustack.ClearState(c.Facts, n); gpustack.Wake(n); place.Repaired(c, n) }
	f := check.Finding{
		Fit: true, Probe: place.NodeProbe(nodes, mend),
		Message:  unreadyMessage(c, nodes),
		Evidence: place.NodesShow(nodes, unreadyShown),
		Healthy: place.AllNodes(nodes, func(n *corev1.Node) bool {
			return c.Now.Sub(n.CreationTimestamp.Time) < gpustack.YoungNode && !facts.Silent(n)
		}) && place.Comes(c, nodes, mend),
	}
	down := place.NodesWhere(nodes, func(n *corev1.Node) bool { return n.Annotations[powerless] == "true" })
	if len(down) > 0 {
		on := func(n *corev1.Node) { mend(n); delete(n.Annotations, powerless) }
		few := place.Fewest(c, down, on)
		f.Edits = []edit.Edit{{
			Side: edit.Cluster, Cost: 3, Set: place.Mended(few, on), Assumes: place.Verb(few, "the machine boots and registers again", "the machines boot and register again"),
			Text:    "give " + place.NamesOf(few) + " power again",
			Command: fmt.Sprintf("kubectl annotate node %s %s-", place.NodeWords(few), powerless),
		}}
	}
	return []check.Finding{f}
}

func unreadyMessage(c *check.Case, nodes []*check.NodeFit) string {
	first := nodes[0].Node
	if facts.NodeReady(first) {
		return fmt.Sprintf("%s %s Ready, and %s", place.NamesOf(nodes), place.Verb(nodes, "is", "are"), unreadyWords(first))
	}
	return fmt.Sprintf("%s %s not been Ready%s: %s", place.NamesOf(nodes), place.Verb(nodes, "has", "have"), unreadyFor(c, first), unreadyWords(first))
}

func unreadyFor(c *check.Case, n *corev1.Node) string {
	if ready := facts.ConditionOf(n, corev1.NodeReady); ready != nil && ready.Status != corev1.ConditionTrue {
		return place.Lasting(c, ready.LastTransitionTime)
	}
	return ""
}

// unreadyWords is what the node says of itself.
func unreadyWords(n *corev1.Node) string {
	ready := facts.ConditionOf(n, corev1.NodeReady)
	switch {
	case ready == nil || ready.Status == corev1.ConditionTrue:
		out := "taint " + strings.Join(gpustack.ExcludingTaints(n, gpustack.UnreadyTaint), ", ") + " keeps pods off"
		if k := facts.ConditionOf(n, corev1.NodeNetworkUnavailable); k != nil && k.Status == corev1.ConditionTrue {
			out += ": condition NetworkUnavailable is True, " + wording.Shortened(wording.FirstLine(cmp.Or(k.Message, k.Reason)), 120)
		}
		return out
	case ready.Status == corev1.ConditionUnknown:
		return "its kubelet has stopped answering"
	case ready.Message != "":
		return wording.Shortened(wording.FirstLine(ready.Message), 120)
	}
	return ready.Reason
}

func unreadyShown(n *corev1.Node) []facts.Evidence {
	var out []facts.Evidence
	if ready := facts.ConditionOf(n, corev1.NodeReady); ready != nil {
		out = append(out, facts.Evidence{Field: "status.conditions[type=Ready]", Value: string(ready.Status) + " " + ready.Reason})
	}
	return append(out, place.TaintsShown(n, gpustack.UnreadyTaint)...)
}
