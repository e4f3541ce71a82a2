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

var nodeQuarantinedCheck = check.Check{
	Cause: "node-quarantined", Layer: check.L2, Owner: check.Platform, Stage: check.Place, Rank: 39,
	Title:   "A health system has closed the node",
	Meaning: "Something that watches the hardware has found the node unwell and keeps new work off it, by a cordon or a taint.",
	Remedy:  "Have the node repaired; the health system opens it again when its checks pass.",
	Not:     "An uncordon or a toleration: the work would land on hardware that is known to be bad.",
	Find:    nodeQuarantinedFound,
}

func nodeQuarantinedFound(c *check.Case) []check.Finding {
	nodes := place.InState(c, gpustack.NodeQuarantined)
	if len(nodes) == 0 {
		return nil
	}
	why := "because of bad health"
	advice := ""
	w := gpustack.WorkerOn(c.Facts, nodes[0].Node)
	switch {
	case w != nil:
		why, advice = "for "+w.Ref().String(), fmt.Sprintf("Look at %s and at the controller that reports it: whoever works on the node opens it when that is done.", w.Ref())
	case len(gpustack.ExcludingTaints(nodes[0].Node, func(key string) bool { return key == corev1.TaintNodeOutOfService })) > 0:
		why, advice = "by hand", fmt.Sprintf("Ask who put the node out of service. Once its machine is known to be well, take the taint away (kubectl taint node %s %s-): no controller does.", nodes[0].Name, corev1.TaintNodeOutOfService)
	case gpustack.Maintained(nodes[0].Node):
		why, advice = "for maintenance", "Wait until the maintenance is over, or ask who does it how long it lasts; whoever closed the node opens it again."
	}
	return []check.Finding{{
		Advice: advice,
		Fit:    true, Probe: place.NodeProbe(nodes, func(n *corev1.Node) { gpustack.ClearState(c.Facts, n); gpustack.Uncordon(n); place.Repaired(c, n) }),
		Message: fmt.Sprintf("%s %s closed %s: %s", place.NamesOf(nodes), place.Verb(nodes, "is", "are"), why, quarantineWordsOf(c, nodes[0].Node)),
		Evidence: place.NodesShow(nodes, func(n *corev1.Node) []facts.Evidence {
			out := quarantineShown(n)
			if w := gpustack.WorkerOn(c.Facts, n); w != nil {
				out = append(out, facts.Evidence{Object: w.Ref().In(), Field: w.Field, Value: wording.Shortened(w.Says, 200)})
			}
			return out
		}),
	}}
}

// quarantineWordsOf is what the health system says.
func quarantineWordsOf(c *check.Case, n *corev1.Node) string {
	if w := gpustack.WorkerOn(c.Facts, n); w != nil {
		return wording.Shortened(wording.FirstLine(w.Says), 200)
	}
	if s := gpustack.Sickness(n); s != nil {
		return fmt.Sprintf("condition %s is %s, %s", s.Type, s.Status, s.Reason)
	}
	if keys := append(gpustack.ExcludingTaints(n, gpustack.QuarantineTaint), gpustack.ExcludingTaints(n, gpustack.AppliedTaint(n))...); len(keys) > 0 {
		return "taint " + keys[0]
	}
	if key, value := gpustack.MaintainedBy(n); key != "" && n.Annotations[gpustack.SentinelEvent] == "" {
		return fmt.Sprintf("%s is %s there", key, wording.Shortened(value, 80))
	}
	return "annotation " + gpustack.SentinelEvent
}

func quarantineShown(n *corev1.Node) []facts.Evidence {
	var out []facts.Evidence
	if n.Spec.Unschedulable {
		out = append(out, facts.Evidence{Field: "spec.unschedulable", Value: "true"})
	}
	if s := gpustack.Sickness(n); s != nil {
		out = append(out, facts.Evidence{Field: "status.conditions[type=" + string(s.Type) + "]", Value: string(s.Status) + " " + s.Reason})
	}
	if key, value := gpustack.MaintainedBy(n); key != "" {
		out = append(out, facts.Evidence{Field: fmt.Sprintf("metadata[%q]", key), Value: wording.Shortened(value, 80)})
	}
	for _, key := range []string{gpustack.SentinelEvent, gpustack.SentinelCordon} {
		if v := n.Annotations[key]; v != "" {
			out = append(out, facts.Evidence{Field: fmt.Sprintf("metadata.annotations[%q]", key), Value: wording.Shortened(v, 80)})
		}
	}
	return append(out, place.TaintsShown(n, gpustack.QuarantineTaint)...)
}
