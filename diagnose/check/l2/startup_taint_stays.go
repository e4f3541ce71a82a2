package l2

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/gpustack"
	"github.com/berth-dev/berth/diagnose/internal/place"
	"github.com/berth-dev/berth/diagnose/internal/wording"
	"github.com/berth-dev/berth/kube/dialect"
)

var startupTaintStaysCheck = check.Check{
	Cause: "startup-taint-stays", Layer: check.L2, Owner: check.Platform, Stage: check.Place, Rank: 38,
	Title:   "A startup taint is still on the node",
	Meaning: "The node is Ready, and carries a taint that some agent takes away once the node is fit for work. The agent has not done so.",
	Remedy:  "Find the agent that removes the taint, and what it waits for.",
	Not:     "A toleration for the taint: the pod would land on a node that is half ready.",
	Find:    startupTaintStays,
}

func startupTaintStays(c *check.Case) []check.Finding {
	nodes := place.InState(c, gpustack.NodeStartup)
	if len(nodes) == 0 {
		return nil
	}
	s := gpustack.Of(c.Facts)
	mend := func(n *corev1.Node) { gpustack.DropTaints(n, s.StartupTaint) }
	key := gpustack.ExcludingTaints(nodes[0].Node, s.StartupTaint)[0]
	rule, wants := readinessRule(c, key)
	f := check.Finding{
		Fit: true, Probe: place.NodeProbe(nodes, mend),
		Message:  fmt.Sprintf("%s still %s startup taint %s, %s after registering", place.NamesOf(nodes), place.Verb(nodes, "has", "have"), key, wording.Minutes(c.Now.Sub(nodes[0].CreationTimestamp.Time))),
		Evidence: place.NodesShow(nodes, func(n *corev1.Node) []facts.Evidence { return place.TaintsShown(n, s.StartupTaint) }),
		Healthy: place.AllNodes(nodes, func(n *corev1.Node) bool {
			return c.Now.Sub(n.CreationTimestamp.Time) < gpustack.YoungNode && !settledSince(c, n)
		}) && place.Comes(c, nodes, mend),
	}
	if rule != "" {
		f.Message += fmt.Sprintf("; readiness rule %s waits for %s", rule, wants)
		f.Evidence = append(f.Evidence, facts.Evidence{Object: "nodereadinessrule/" + rule, Field: "spec.conditions", Value: wants})
	}
	for _, claim := range c.Foreign["NodeClaim.karpenter.sh"] {
		if i := dialect.ConditionOf(claim, "Initialized"); dialect.Text(claim.Object, "status", "nodeName") == nodes[0].Name && i != nil && i.Status != "True" {
			f.Evidence = append(f.Evidence, facts.Evidence{Object: facts.RefTo(claim).In(), Field: "status.conditions[type=Initialized]", Value: strings.TrimSpace(i.Reason + " " + i.Message)})
		}
	}
	return []check.Finding{f}
}

// settledSince says whether the node has been Ready for so long that agents on it, which come up with it, have had their time.
func settledSince(c *check.Case, n *corev1.Node) bool {
	k := facts.ConditionOf(n, corev1.NodeReady)
	return k != nil && k.Status == corev1.ConditionTrue && !k.LastTransitionTime.IsZero() && c.Now.Sub(k.LastTransitionTime.Time) > time.Minute
}

// readinessRule is the rule that sets the taint, and the conditions that it waits for.
func readinessRule(c *check.Case, key string) (name, wants string) {
	for _, r := range c.Foreign["NodeReadinessRule.readiness.node.x-k8s.io"] {
		if dialect.Text(r.Object, "spec", "taint", "key") != key {
			continue
		}
		var words []string
		for _, o := range dialect.Items(r.Object, "spec", "conditions") {
			words = append(words, dialect.Text(o, "type")+"="+dialect.Text(o, "requiredStatus"))
		}
		return r.GetName(), strings.Join(words, ", ")
	}
	return "", ""
}
