package doctor

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/wording"
	"github.com/berth-dev/berth/kube/dialect"
	"github.com/berth-dev/berth/kube/dialect/clusterautoscaler"
	"github.com/berth-dev/berth/kube/dialect/karpenter"
)

var autoscalerItem = Item{
	Code: "autoscaler", Title: "autoscalers have limits, and room below them", Owner: check.Capacity, Find: autoscalerFound,
	Meaning: "Without a limit one mistyped replica count buys GPUs until the cloud has none; at the limit, work waits and nothing is bought.",
}

func autoscalerFound(c *Cluster) Result {
	pools := karpenter.ReadPools(c.Foreign["NodePool.karpenter.sh"], c.Foreign["NodeClaim.karpenter.sh"], c.Nodes, func(kind, name string) *unstructured.Unstructured { return c.ForeignNamed(kind, "", name) })
	var groups []*clusterautoscaler.Group
	for _, m := range c.AutoscalerStatus() {
		groups = append(groups, clusterautoscaler.ParseStatus(m.Data["status"])...)
	}
	r := Result{Looked: "no autoscaler is seen"}
	if n := len(pools) + len(groups); n > 0 {
		r.Looked = wording.Number(len(pools), "NodePool") + ", " + wording.Number(len(groups), "node group")
	}
	for _, p := range pools {
		r.Findings = append(r.Findings, c.nodePool(p)...)
	}
	for _, g := range groups[:min(len(groups), 1000)] {
		r.Findings = append(r.Findings, c.nodeGroup(g)...)
	}
	for _, kind := range []string{"nodepools.karpenter.sh", "configmaps"} {
		if !c.Sees(kind, "") && len(pools)+len(groups) == 0 {
			r.Blind = "you may not list " + kind
		}
	}
	return r
}

// nodePool looks at a NodePool of Karpenter that may make GPU nodes.
func (c *Cluster) nodePool(p *karpenter.Pool) (out []Finding) {
	object := "nodepool/" + p.GetName()
	if s := dialect.ConditionOf(p.Unstructured, "Ready"); s != nil && s.Status == "False" {
		out = append(out, Finding{
			Severity: Warn, Message: fmt.Sprintf("NodePool %s is not Ready: %s", p.GetName(), wording.Shortened(s.Message, 160)), Next: "read its conditions, and repair what they name",
			Objects: []string{object}, Evidence: []facts.Evidence{{Object: object, Field: "status.conditions[type=Ready]", Value: s.Reason}},
		})
	}
	if p.WithoutGPUs() {
		return out
	}
	limits := karpenter.ResourceList(p.Object, "spec", "limits")
	if len(limits) == 0 {
		return append(out, Finding{
			Severity: Warn, Message: fmt.Sprintf("NodePool %s has no limits: it buys machines for whatever waits", p.GetName()), Next: `set spec.limits, such as "nvidia.com/gpu": 64`,
			Objects: []string{object}, Evidence: []facts.Evidence{{Object: object, Field: "spec.limits", Value: ""}},
		})
	}
	used := karpenter.ResourceList(p.Object, "status", "resources")
	for _, name := range sortedNames(limits) {
		limit, have := limits[corev1.ResourceName(name)], used[corev1.ResourceName(name)]
		if have.Cmp(limit) < 0 || !slices.ContainsFunc(c.pods, func(p gpuPod) bool { return p.Spec.NodeName == "" }) {
			continue
		}
		out = append(out, Finding{
			Severity: Warn, Message: fmt.Sprintf("NodePool %s is at its limit of %s %s, and GPU work waits", p.GetName(), limit.String(), name), Next: "raise the limit, or free machines",
			Objects: []string{object}, Evidence: []facts.Evidence{{Object: object, Field: `spec.limits["` + name + `"]`, Value: limit.String()}, {Object: object, Field: `status.resources["` + name + `"]`, Value: have.String()}},
		})
	}
	return out
}

// nodeGroup looks at a group of the cluster autoscaler.
func (c *Cluster) nodeGroup(g *clusterautoscaler.Group) []Finding {
	const object = "configmap/kube-system/" + clusterautoscaler.StatusName
	find := func(s Severity, next, format string, args ...any) []Finding {
		return []Finding{{
			Severity: s, Message: "node group " + g.Short() + " " + fmt.Sprintf(format, args...), Next: next, Objects: []string{object},
			Evidence: []facts.Evidence{{Object: object, Field: "nodeGroups[" + g.Short() + "].health", Value: fmt.Sprintf("minSize %d, maxSize %d, target %d", g.Min, g.Max, g.Target)}},
		}}
	}
	waiting := slices.ContainsFunc(c.pods, func(p gpuPod) bool { return p.Spec.NodeName == "" })
	switch {
	case g.Max == 0 && g.Target > 0:
		return find(Warn, "set the group's maximum size", "has no maximum")
	case g.Max > 0 && g.Min > g.Max:
		return find(Warn, "set the minimum below the maximum", "has a minimum of %d above its maximum of %d", g.Min, g.Max)
	case g.ScaleUp == "Backoff":
		return find(Warn, "read the error, and ask who owns the cloud account", "does not grow: %s", wording.Shortened(g.ErrorCode+" "+g.ErrorMessage, 160))
	case g.LongUnregistered > 0:
		return find(Warn, "look at the machines in the cloud's console: they run and do not join", "has %s that did not become nodes", wording.Number(g.LongUnregistered, "machine"))
	case g.Full() && waiting:
		return find(Note, "raise the maximum if the work is for this group", "is at its maximum of %d, and GPU work waits", g.Max)
	}
	return nil
}
