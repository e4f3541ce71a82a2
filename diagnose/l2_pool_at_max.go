package diagnose

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
	"github.com/berth-dev/berth/diagnose/internal/wording"
	"github.com/berth-dev/berth/engine/why"
)

var poolAtMaxCheck = Check{
	Cause: "pool-at-max", Layer: L2, Owner: Platform, Stage: Place, Rank: 58,
	Title:   "The node pool may not grow any more",
	Meaning: "A pool makes nodes that would do, and it has reached the limit that somebody set for it.",
	Remedy:  "Raise the pool's limit, after asking who pays for it, or wait until its nodes have room.",
	Not:     "The namespace's quota is too small.",
	Find:    poolAtMax,
}

func poolAtMax(c *Case) []Finding {
	if c.autoscalerBlind() {
		return poolAtMaxSaid(c)
	}
	if c.autoscalerStuck() == nil {
		return nil
	}
	var out []Finding
	for _, s := range c.autoscalerSources() {
		switch {
		case s.pool != nil:
			out = append(out, karpenterAtMax(c, s)...)
		case s.group.full():
			out = append(out, groupAtMax(c, s))
		}
	}
	said := c.autoscalerSaid()
	if len(out) > 0 || said.refused(poolMaxWords...) == 0 {
		return out
	}
	full := slices.DeleteFunc(c.autoscalerMaybe(), func(s *autoscalerSource) bool { return !s.group.full() })
	for _, s := range full {
		out = append(out, groupAtMax(c, s))
	}
	if len(autoscalerGroups(c.Facts)) == 0 || said.refused(poolMaxWords[1:]...) > 0 && len(out) == 0 {
		s := &autoscalerSource{group: &autoscalerGroup{Name: "autoscaler"}, like: c.autoscalerWished()}
		out = append(out, Finding{Fit: true, Probe: c.autoscalerProbe(s), Message: poolAtMaxText(said), Evidence: said.evidence(c)})
	}
	return out
}

// poolMaxWords are the cluster autoscaler's words for groups, and a cluster, that may not grow.
var poolMaxWords = []string{"max node group size reached", "max total nodes in cluster reached", "max cluster limit reached"}

func groupAtMax(c *Case, s *autoscalerSource) Finding {
	n := len(c.autoscalerNodes(s))
	return Finding{
		Fit:      true,
		Message:  fmt.Sprintf("%s has %s, which is the most that it may have", s, wording.Number(s.group.Target, "node")),
		Evidence: append(c.autoscalerSaid().evidence(c), facts.Evidence{Object: "configmap/kube-system/" + autoscalerStatusName, Field: fmt.Sprintf("nodeGroups[name=%q].health.maxSize", s.group.Name), Value: fmt.Sprint(s.group.Max)}),
		Edits: []edit.Edit{{
			Side: edit.Cluster, Cost: edit.CostConsent, Set: c.autoscalerNodes(s), Assumes: "the provider has the machines",
			Text: fmt.Sprintf("raise the maximum size of %s from %d to %d", s, s.group.Max, s.group.Max+int64(n)),
		}},
	}
}

func karpenterAtMax(c *Case, s *autoscalerSource) []Finding {
	nodes := c.autoscalerNodes(s)
	over := s.pool.excess(s.like, len(nodes))
	said := c.karpenterSaid()
	if len(over) == 0 && said.about(s.pool.GetName(), karpenterAtLimit...) {
		return []Finding{{
			Fit: true, Probe: c.autoscalerProbe(s), Evidence: said.evidence(c),
			Message: fmt.Sprintf("the limits of %s leave too little for any machine that it may make: %s", s, karpenterLimitsText(s.pool)),
		}}
	}
	if len(over) == 0 {
		return nil
	}
	var evidence []facts.Evidence
	var has, to, values []string
	grown := s.pool.DeepCopy()
	for _, x := range over {
		need := x.used + int64(len(nodes))*x.node
		has = append(has, fmt.Sprintf("%s of %s %s", why.Quantity(x.resource, x.used), why.Quantity(x.resource, x.limit), x.resource))
		to = append(to, fmt.Sprintf("%s to %s", x.resource, why.Quantity(x.resource, need)))
		q := podspec.Quantity(x.resource, need)
		values = append(values, fmt.Sprintf("%q:%q", x.resource, q.String()))
		_ = unstructured.SetNestedField(grown.Object, q.String(), "spec", "limits", x.resource)
		evidence = append(evidence, facts.Evidence{Object: facts.RefTo(s.pool.Unstructured).In(), Field: fmt.Sprintf("status.resources[%q]", x.resource), Value: why.Quantity(x.resource, x.used)})
	}
	more := ""
	if first := over[0]; first.resource != "nodes" {
		more = fmt.Sprintf(", and one node more takes %s", why.Quantity(first.resource, first.node))
		if n := len(nodes); n > 1 {
			more = fmt.Sprintf(", and the %s that the pods need %s %s", wording.Number(n, "node"), wording.InNumber(n, "takes", "take"), why.Quantity(first.resource, int64(n)*first.node))
		}
	}
	assumes := "the provider has the machines"
	if len(s.pool.shapes()) == 0 {
		assumes += ", and they are no larger than one pod needs"
	}
	return []Finding{{
		Fit: true, Evidence: append(evidence, said.evidence(c)...),
		Message: fmt.Sprintf("%s may not grow: it has %s%s", s, strings.Join(has, " and "), more),
		Edits: []edit.Edit{{
			Side: edit.Cluster, Cost: edit.CostConsent, Set: append([]facts.Object{grown}, nodes...), Assumes: assumes,
			Text:    fmt.Sprintf("raise the limit of %s for %s", s, strings.Join(to, " and ")),
			Command: fmt.Sprintf("kubectl patch nodepool %s --type=merge -p '{\"spec\":{\"limits\":{%s}}}'", s.pool.GetName(), strings.Join(values, ",")),
		}},
	}}
}

// karpenterLimitsText is the pool's limits and what is used of them.
func karpenterLimitsText(p *karpenterPool) string {
	limits, used := karpenterList(p.Object, "spec", "limits"), karpenterList(p.Object, "status", "resources")
	var out []string
	for _, name := range podspec.Names(limits) {
		l, u := limits[name], used[name]
		out = append(out, fmt.Sprintf("%s of %s %s are used", u.String(), l.String(), name))
	}
	return strings.Join(out, ", ")
}

// poolAtMaxSaid goes by the words of whoever makes nodes.
func poolAtMaxSaid(c *Case) []Finding {
	if w := c.autoscalerSaid(); w.refused(poolMaxWords...) > 0 {
		return c.autoscalerHeard(Finding{Message: poolAtMaxText(w), Evidence: w.evidence(c)})
	}
	w := c.karpenterSaid()
	if w == nil {
		return nil
	}
	for _, p := range w.parts {
		if p.has(karpenterAtLimit...) {
			who := "a NodePool"
			if p.pool != "" {
				who = "NodePool " + p.pool
			}
			return c.autoscalerHeard(Finding{Message: fmt.Sprintf("Karpenter makes no node for the pod: %s has reached its limits", who), Evidence: w.evidence(c)})
		}
	}
	return nil
}

func poolAtMaxText(w *autoscalerWord) string {
	if w.refused(poolMaxWords[1:]...) > 0 {
		return "the cluster autoscaler makes no node for the pod: the cluster has as many nodes as it may have"
	}
	n := w.refused(poolMaxWords[0])
	if n == 1 {
		return "the cluster autoscaler makes no node for the pod: a node group has as many nodes as it may have"
	}
	return fmt.Sprintf("the cluster autoscaler makes no node for the pod: %d node groups have as many nodes as they may have", n)
}
