package doctor

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/gpustack"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

var nodesItem = Item{
	Code: "nodes", Title: "GPU nodes are Ready and open", Owner: check.Platform, Needs: []string{"nodes"}, Find: nodesFound,
	Meaning: "A node that is not Ready, cordoned or quarantined keeps its GPUs from everybody.",
}

// closed says what keeps work from a node, how much that matters, and what to do.
var closed = map[gpustack.NodeState]struct {
	severity   Severity
	text, next string
}{
	gpustack.NodeUnready:      {Fail, "not Ready", "look at the kubelet of the machine, or have the machine replaced"},
	gpustack.NodeQuarantined:  {Warn, "quarantined by a health system", "read what the health system found, repair the GPU, then release the node"},
	gpustack.NodePressed:      {Warn, "short of memory, disk or process IDs", "free some of it on the machine, or find out who uses it up"},
	gpustack.NodeCordoned:     {Warn, "cordoned", "find out who cordoned it and why, then uncordon it"},
	gpustack.NodeRepartitions: {Note, "being divided anew by the MIG manager", "wait, and read the MIG manager's log if it lasts"},
	gpustack.NodeUpgrades:     {Note, "having the GPU driver upgraded", "wait, and read the log of the upgrade if it lasts"},
	gpustack.NodeLeaving:      {Note, "being removed", "nothing: an autoscaler or the cloud takes it away"},
	gpustack.NodeStartup:      {Note, "waiting for an agent to say that it is fit", "wait, and look at the agent that removes the startup taint if it lasts"},
}

func nodesFound(c *Cluster) Result {
	r := Result{Looked: wording.Number(len(c.gpus), "node") + " with GPUs"}
	for _, nodes := range gather(c.gpus, func(n *gpuNode) string { return string(n.state) }) {
		state := nodes[0].state
		how := closed[state]
		if state == gpustack.NodeRepartitions && nodes[0].Labels[gpustack.LabelMIGState] == "failed" {
			how.severity = Warn
		}
		f := Finding{Severity: how.severity, Message: fmt.Sprintf("%s %s %s: %s", named(nodes), wording.InNumber(len(nodes), "is", "are"), how.text, gpusOf(nodes)), Next: how.next}
		if state == gpustack.NodeCordoned && len(nodes) == 1 {
			f.Command = "kubectl uncordon " + nodes[0].Name
		}
		r.Findings = append(r.Findings, nodesAs(f, nodes, stateShown))
	}
	return r
}

// stateShown is what shows that the node is closed.
func stateShown(n *gpuNode) []facts.Evidence {
	var out []facts.Evidence
	if n.Spec.Unschedulable {
		out = append(out, n.evidence("spec.unschedulable", "true"))
	}
	if s := facts.ConditionOf(n.Node, corev1.NodeReady); s != nil && s.Status != corev1.ConditionTrue {
		out = append(out, n.evidence("status.conditions[type=Ready]", string(s.Status)+" "+s.Reason))
	}
	for _, t := range n.Spec.Taints {
		if t.Effect != corev1.TaintEffectPreferNoSchedule && len(out) < 3 {
			out = append(out, n.evidence("spec.taints", t.ToString()))
		}
	}
	if s := n.Labels[gpustack.LabelMIGState]; s != "" && n.state == gpustack.NodeRepartitions {
		out = append(out, n.evidence(labelField(gpustack.LabelMIGState), s))
	}
	return out
}
