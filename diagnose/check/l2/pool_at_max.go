package l2

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
	"github.com/berth-dev/berth/diagnose/internal/queue"
	"github.com/berth-dev/berth/diagnose/internal/supply"
	"github.com/berth-dev/berth/diagnose/internal/wording"
	"github.com/berth-dev/berth/engine/why"
	"github.com/berth-dev/berth/kube/dialect/clusterautoscaler"
	"github.com/berth-dev/berth/kube/dialect/karpenter"
)

var poolAtMaxCheck = check.Check{
	Cause: "pool-at-max", Layer: check.L2, Owner: check.Platform, Stage: check.Place, Rank: 58,
	Title:   "The node pool may not grow any more",
	Meaning: "A pool makes nodes that would do, and it has reached the limit that somebody set for it.",
	Remedy:  "Raise the pool's limit, after asking who pays for it, or wait until its nodes have room.",
	Not:     "The namespace's quota is too small.",
	Find:    poolAtMax,
}

func poolAtMax(c *check.Case) []check.Finding {
	if a := queue.MachinesAsked(c); a != nil && a.Failed() && supply.AtMax(a.Says) {
		return []check.Finding{requestAtMax(a)}
	}
	if supply.AutoscalerBlind(c) {
		return poolAtMaxSaid(c)
	}
	if supply.AutoscalerStuck(c) == nil {
		return nil
	}
	var out []check.Finding
	for _, s := range supply.AutoscalerSources(c) {
		switch {
		case s.Pool != nil:
			out = append(out, karpenterAtMax(c, s)...)
		case s.Group.Full():
			out = append(out, groupAtMax(c, s))
		}
	}
	said := supply.AutoscalerSaid(c)
	if len(out) > 0 || said.Refused(poolMaxWords...) == 0 {
		return out
	}
	full := slices.DeleteFunc(supply.AutoscalerMaybe(c), func(s *supply.AutoscalerSource) bool { return !s.Group.Full() })
	for _, s := range full {
		out = append(out, groupAtMax(c, s))
	}
	if len(supply.AutoscalerGroups(c.Facts)) == 0 || said.Refused(poolMaxWords[1:]...) > 0 && len(out) == 0 {
		s := &supply.AutoscalerSource{Group: &clusterautoscaler.Group{Name: "autoscaler"}, Like: supply.AutoscalerWished(c)}
		out = append(out, check.Finding{Fit: true, Probe: supply.AutoscalerProbe(c, s), Message: poolAtMaxText(said), Evidence: supply.AutoscalerEvidence(said, c)})
	}
	return out
}

// poolMaxWords are the cluster autoscaler's words for groups, and a cluster, that may not grow.
// Those of the cluster name the resource between them: "max cluster nvidia.com/gpu limit reached".
var poolMaxWords = []string{"max node group size reached", "max total nodes in cluster reached", "max cluster "}

// requestAtMax is about machines that were asked for before the work was let in, and which no pool may make.
func requestAtMax(a *queue.Asked) check.Finding {
	f := check.Finding{
		Stage:   check.Admit,
		Message: fmt.Sprintf("the machines that were asked for are more than the pool may have: %s", wording.Shortened(wording.FirstLine(a.Says), 160)),
		Advice:  "Raise the pool's limit, after asking who pays for it; then ask again for the machines, if nobody does so by itself.",
	}
	if a.Request != nil {
		f.Evidence = append(f.Evidence, facts.Evidence{Object: facts.RefTo(a.Request).In(), Field: "status.conditions[Failed]", Value: wording.Shortened(a.Says, 160)})
	} else if a.Work != nil {
		f.Evidence = append(f.Evidence, facts.Evidence{Object: facts.RefTo(a.Work).In(), Field: "status.admissionChecks", Value: wording.Shortened(a.Says, 160)})
	}
	return f
}

func groupAtMax(c *check.Case, s *supply.AutoscalerSource) check.Finding {
	n := len(supply.AutoscalerNodes(c, s))
	return check.Finding{
		Fit:      true,
		Message:  fmt.Sprintf("%s has %s, which is the most that it may have", s, wording.Number(s.Group.Target, "node")),
		Evidence: append(supply.AutoscalerEvidence(supply.AutoscalerSaid(c), c), facts.Evidence{Object: "configmap/kube-system/" + clusterautoscaler.StatusName, Field: fmt.Sprintf("nodeGroups[name=%q].health.maxSize", s.Group.Name), Value: fmt.Sprint(s.Group.Max)}),
		Edits: []edit.Edit{{
			Side: edit.Cluster, Cost: edit.CostConsent, Set: supply.AutoscalerNodes(c, s), Assumes: "the provider has the machines",
			Text: fmt.Sprintf("raise the maximum size of %s from %d to %d", s, s.Group.Max, s.Group.Max+int64(n)),
		}},
	}
}

func karpenterAtMax(c *check.Case, s *supply.AutoscalerSource) []check.Finding {
	nodes := supply.AutoscalerNodes(c, s)
	over := supply.Excess(s.Pool, s.Like, len(nodes))
	said := supply.KarpenterSaid(c)
	if len(over) == 0 && said.About(s.Pool.GetName(), karpenter.AtLimit...) {
		return []check.Finding{{
			Fit: true, Probe: supply.AutoscalerProbe(c, s), Evidence: supply.KarpenterEvidence(said, c),
			Message: fmt.Sprintf("the limits of %s leave too little for any machine that it may make: %s", s, karpenterLimitsText(s.Pool)),
		}}
	}
	if len(over) == 0 {
		return nil
	}
	var evidence []facts.Evidence
	var has, to, values []string
	grown := s.Pool.DeepCopy()
	for _, x := range over {
		need := x.Used + int64(len(nodes))*x.Node
		has = append(has, fmt.Sprintf("%s of %s %s", why.Quantity(x.Resource, x.Used), why.Quantity(x.Resource, x.Limit), x.Resource))
		to = append(to, fmt.Sprintf("%s to %s", x.Resource, why.Quantity(x.Resource, need)))
		q := podspec.Quantity(x.Resource, need)
		values = append(values, fmt.Sprintf("%q:%q", x.Resource, q.String()))
		_ = unstructured.SetNestedField(grown.Object, q.String(), "spec", "limits", x.Resource)
		evidence = append(evidence, facts.Evidence{Object: facts.RefTo(s.Pool.Unstructured).In(), Field: fmt.Sprintf("status.resources[%q]", x.Resource), Value: why.Quantity(x.Resource, x.Used)})
	}
	more := ""
	if first := over[0]; first.Resource != "nodes" {
		more = fmt.Sprintf(", and one node more takes %s", why.Quantity(first.Resource, first.Node))
		if n := len(nodes); n > 1 {
			more = fmt.Sprintf(", and the %s that the pods need %s %s", wording.Number(n, "node"), wording.InNumber(n, "takes", "take"), why.Quantity(first.Resource, int64(n)*first.Node))
		}
	}
	assumes := "the provider has the machines"
	if len(s.Pool.Shapes()) == 0 {
		assumes += ", and they are no larger than one pod needs"
	}
	return []check.Finding{{
		Fit: true, Evidence: append(evidence, supply.KarpenterEvidence(said, c)...),
		Message: fmt.Sprintf("%s may not grow: it has %s%s", s, strings.Join(has, " and "), more),
		Edits: []edit.Edit{{
			Side: edit.Cluster, Cost: edit.CostConsent, Set: append([]facts.Object{grown}, nodes...), Assumes: assumes,
			Text:    fmt.Sprintf("raise the limit of %s for %s", s, strings.Join(to, " and ")),
			Command: fmt.Sprintf("kubectl patch nodepool %s --type=merge -p '{\"spec\":{\"limits\":{%s}}}'", s.Pool.GetName(), strings.Join(values, ",")),
		}},
	}}
}

// karpenterLimitsText is the pool's limits and what is used of them.
func karpenterLimitsText(p *karpenter.Pool) string {
	limits, used := karpenter.ResourceList(p.Object, "spec", "limits"), karpenter.ResourceList(p.Object, "status", "resources")
	var out []string
	for _, name := range podspec.Names(limits) {
		l, u := limits[name], used[name]
		out = append(out, fmt.Sprintf("%s of %s %s are used", u.String(), l.String(), name))
	}
	return strings.Join(out, ", ")
}

// poolAtMaxSaid goes by the words of the component that makes nodes.
func poolAtMaxSaid(c *check.Case) []check.Finding {
	if w := supply.AutoscalerSaid(c); w.Refused(poolMaxWords...) > 0 {
		return supply.AutoscalerHeard(c, check.Finding{Message: poolAtMaxText(w), Evidence: supply.AutoscalerEvidence(w, c)})
	}
	w := supply.KarpenterSaid(c)
	if w == nil {
		return nil
	}
	for _, p := range w.Parts {
		if p.Has(karpenter.AtLimit...) {
			who := "a NodePool"
			if p.Pool != "" {
				who = "NodePool " + p.Pool
			}
			return supply.AutoscalerHeard(c, check.Finding{Message: fmt.Sprintf("Karpenter makes no node for the pod: %s has reached its limits", who), Evidence: supply.KarpenterEvidence(w, c)})
		}
	}
	return nil
}

func poolAtMaxText(w *clusterautoscaler.Message) string {
	if what, ok := w.ClusterLimit(); ok {
		return fmt.Sprintf("the cluster autoscaler makes no node for the pod: the cluster has as much %s as it may have", what)
	}
	if w.Refused(poolMaxWords[1:]...) > 0 {
		return "the cluster autoscaler makes no node for the pod: the cluster has as many nodes as it may have"
	}
	n := w.Refused(poolMaxWords[0])
	if n == 1 {
		return "the cluster autoscaler makes no node for the pod: a node group has as many nodes as it may have"
	}
	return fmt.Sprintf("the cluster autoscaler makes no node for the pod: %d node groups have as many nodes as they may have", n)
}
