package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/supply"
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
	r := Result{Looked: "no autoscaler is seen"}
	for _, m := range c.AutoscalerStatus() {
		r.Findings = append(r.Findings, c.autoscalerHealth(m)...)
		groups = append(groups, clusterautoscaler.ParseStatus(m.Data["status"])...)
	}
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
	out = append(out, c.nodeClaims(p)...)
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

// nodeClaims looks at the machines that the NodePool asked for and did not get, or that do not become nodes.
func (c *Cluster) nodeClaims(p *karpenter.Pool) (out []Finding) {
	if r, was := supply.RefusedBy(c.Facts, p); was {
		f := Finding{
			Severity: Warn, Message: fmt.Sprintf("NodePool %s got no machine for NodeClaim %s (%s): %s", p.GetName(), r.Claim, r.Cause, r.Text), Objects: []string{"nodeclaim/" + r.Claim},
			Next: "ask who owns the cloud account: it is about stock, quota or a reservation", Evidence: []facts.Evidence{{Object: "nodeclaim/" + r.Claim, Field: `status.conditions[type="Launched"]`, Value: r.Text}},
		}
		if !supply.OfSupply(r.Cause) {
			f.Owner, f.Next = check.Platform, "repair what the provider names; Karpenter asks again by itself"
		}
		out = append(out, f)
	}
	for _, claim := range p.Claims {
		if !supply.KarpenterOverdue(claim, c.At) {
			continue
		}
		object := "nodeclaim/" + claim.GetName()
		out = append(out, Finding{
			Severity: Warn, Owner: check.Platform, Message: fmt.Sprintf("the machine of NodeClaim %s of NodePool %s runs and has not become a node", claim.GetName(), p.GetName()), Objects: []string{object},
			Next: "look at the machine's console: its start script, its network's way to the API server, and its role", Evidence: []facts.Evidence{{Object: object, Field: `status.conditions[type="Registered"]`, Value: claimSays(claim, "Registered")}},
		})
	}
	return out
}

func claimSays(claim *unstructured.Unstructured, kind string) string {
	k := dialect.ConditionOf(claim, kind)
	if k == nil {
		return "not there"
	}
	return strings.TrimSpace(k.Status + " " + cmp.Or(k.Message, k.Reason))
}

// silentFor is how long the cluster autoscaler may say nothing: it writes its status every few seconds.
const silentFor = 10 * time.Minute

// autoscalerHealth is what the cluster autoscaler says of itself, or how long it has said nothing.
func (c *Cluster) autoscalerHealth(m *corev1.ConfigMap) (out []Finding) {
	h, object := clusterautoscaler.ParseHealth(m.Data["status"]), facts.RefTo(m).In()
	find := func(field, value, next, format string, args ...any) {
		out = append(out, Finding{
			Severity: Warn, Owner: check.Platform, Message: "the cluster autoscaler " + fmt.Sprintf(format, args...), Next: next,
			Objects: []string{object}, Evidence: []facts.Evidence{{Object: object, Field: "data.status " + field, Value: value}},
		})
	}
	if age := c.At.Sub(h.At); !h.At.IsZero() && age > silentFor {
		find("time", h.At.UTC().Format(time.RFC3339), "look at its Deployment, and read its log", "has said nothing since %s", wording.Minutes(age))
	} else if h.State != "" && h.State != "Running" {
		find("autoscalerStatus", h.State, "read its log", "is %s", h.State)
	}
	if h.Cluster == "Unhealthy" {
		find("clusterWide.health.status", h.Cluster, "have the nodes repaired that are not Ready", "calls the cluster unhealthy, and grows nothing until more nodes are Ready")
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
