package diagnose

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/gpustack"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

var nodeNotReadyCheck = Check{
	Cause: "node-not-ready", Layer: L2, Owner: Platform, Stage: Place, Rank: 30,
	Title:   "Nodes that would do are not Ready",
	Meaning: "The node is registered, and its kubelet, its network or its machine does not work. Kubernetes keeps new pods off it with a taint.",
	Remedy:  "Look at the node's conditions and at its kubelet; restart or replace the machine.",
	Not:     "A toleration for node.kubernetes.io/not-ready or unreachable: the pod would land on a machine that cannot run it.",
	Find:    nodeNotReady,
}

// powerless is the annotation with which the simulated fleet takes a machine's power away.
const powerless = "sim.berth.dev/down"

func nodeNotReady(c *Case) []Finding {
	nodes := c.inState(gpustack.NodeUnready)
	if len(nodes) == 0 {
		return nil
	}
	mend := func(n *corev1.Node) { gpustack.ClearState(c.Facts, n); gpustack.Wake(n); c.repaired(n) }
	first := nodes[0].Node
	f := Finding{
		Fit: true, Probe: nodeProbe(nodes, mend),
		Message:  fmt.Sprintf("%s %s not been Ready%s: %s", namesOf(nodes), verb(nodes, "has", "have"), c.unreadyFor(first), unreadyWords(first)),
		Evidence: nodesShow(nodes, unreadyShown),
		Calm: allNodes(nodes, func(n *corev1.Node) bool {
			return c.Now.Sub(n.CreationTimestamp.Time) < gpustack.YoungNode && !facts.Silent(n)
		}) && c.comes(nodes, mend),
	}
	down := nodesWhere(nodes, func(n *corev1.Node) bool { return n.Annotations[powerless] == "true" })
	if len(down) > 0 {
		on := func(n *corev1.Node) { mend(n); delete(n.Annotations, powerless) }
		few := c.fewest(down, on)
		f.Edits = []edit.Edit{{
			Side: edit.Cluster, Cost: 3, Set: mended(few, on), Assumes: verb(few, "the machine boots and registers again", "the machines boot and register again"),
			Text:    "give " + namesOf(few) + " power again",
			Command: fmt.Sprintf("kubectl annotate node %s %s-", nodeWords(few), powerless),
		}}
	}
	return []Finding{f}
}

func (c *Case) unreadyFor(n *corev1.Node) string {
	if ready := facts.ConditionOf(n, corev1.NodeReady); ready != nil && ready.Status != corev1.ConditionTrue {
		return c.lasting(ready.LastTransitionTime)
	}
	return ""
}

// unreadyWords is what the node says of itself.
func unreadyWords(n *corev1.Node) string {
	ready := facts.ConditionOf(n, corev1.NodeReady)
	switch {
	case ready == nil || ready.Status == corev1.ConditionTrue:
		return "taint " + strings.Join(gpustack.BarringTaints(n, gpustack.UnreadyTaint), ", ") + " keeps pods off"
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
	return append(out, taintsShown(n, gpustack.UnreadyTaint)...)
}
