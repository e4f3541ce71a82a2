package l2

import (
	"fmt"
	"time"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/life"
	"github.com/berth-dev/berth/diagnose/internal/supply"
	"github.com/berth-dev/berth/diagnose/internal/wording"
	"github.com/berth-dev/berth/kube/dialect"
	"github.com/berth-dev/berth/kube/dialect/clusterautoscaler"
	"github.com/berth-dev/berth/kube/dialect/karpenter"
)

var nodeComingCheck = check.Check{
	Cause: "node-coming", Layer: check.L2, Owner: check.Nobody, Stage: check.Place, Rank: 2,
	Title:   "A node is being made for it",
	Meaning: "The provisioner has asked for a machine for this pod, and it has not been waiting for longer than machines take.",
	Remedy:  "Nothing has to be done: it starts when the node is there.",
	Not:     "The cluster is full.",
	Find:    nodeComing,
}

func nodeComing(c *check.Case) []check.Finding {
	if c.State != facts.Pending || c.Hypothetical() || !supply.AutoscalerBlind(c) && supply.AutoscalerStuck(c) == nil {
		return nil
	}
	if f, ok := karpenterComing(c); ok {
		return []check.Finding{f}
	}
	if f, ok := autoscalerComing(c); ok {
		return []check.Finding{f}
	}
	return justMade(c)
}

// justMade is about a pod that the makers of nodes have not had time to look at.
func justMade(c *check.Case) []check.Finding {
	if c.Fit == nil || c.Age() > life.Patience || supply.KarpenterSaid(c) != nil || supply.AutoscalerSaid(c) != nil {
		return nil
	}
	for _, s := range supply.AutoscalerSources(c) {
		if supply.AutoscalerWilling(c, s) {
			return []check.Finding{{Healthy: true, Fit: true, Message: fmt.Sprintf("it is %s old, and %s may make a node for it", c.Age().Round(time.Second), s)}}
		}
	}
	return nil
}

// karpenterComing goes by the NodeClaim that Karpenter named for the pod.
func karpenterComing(c *check.Case) (check.Finding, bool) {
	w := supply.KarpenterSaid(c)
	if w == nil || w.Claim == "" {
		return check.Finding{}, false
	}
	f := check.Finding{Healthy: true, Fit: true, Evidence: supply.KarpenterEvidence(w, c)}
	claim := c.ForeignNamed("NodeClaim.karpenter.sh", "", w.Claim)
	if claim == nil {
		f.Message = fmt.Sprintf("Karpenter makes a node for it, NodeClaim %s, since %s", w.Claim, wording.Minutes(c.Now.Sub(facts.EventTime(w.Event))))
		unseen := !c.Sees("nodeclaims.karpenter.sh", "")
		return f, unseen && c.Now.Sub(facts.EventTime(w.Event)) < supply.KarpenterRegisters
	}
	age := c.Now.Sub(claim.GetCreationTimestamp().Time)
	launched, registered := dialect.IsTrue(claim, "Launched"), dialect.IsTrue(claim, "Registered")
	switch {
	case claim.GetDeletionTimestamp() != nil || dialect.IsTrue(claim, "Initialized") || supply.KarpenterOverdue(claim, c.Now):
		return f, false
	case registered:
		f.Message = fmt.Sprintf("node %s was made for it %s ago and is being prepared", dialect.Text(claim.Object, "status", "nodeName"), wording.Minutes(age))
		return f, age < supply.KarpenterRegisters
	case launched:
		f.Message = fmt.Sprintf("a machine is starting for it, as NodeClaim %s, since %s", w.Claim, wording.Minutes(age))
		f.Until, f.Because = karpenterUsual(c, claim.GetLabels()[karpenter.PoolLabel], claim.GetCreationTimestamp().Time)
		return f, supply.KarpenterWell(c, claim.GetLabels()[karpenter.PoolLabel])
	}
	f.Message = fmt.Sprintf("Karpenter has asked the provider for a machine for it, as NodeClaim %s, %s ago", w.Claim, wording.Minutes(age))
	return f, age < supply.KarpenterLaunches && supply.KarpenterWell(c, claim.GetLabels()[karpenter.PoolLabel])
}

// karpenterUsual is when a machine is a node, by how long the last one of its pool took; zero where there was none.
func karpenterUsual(c *check.Case, pool string, from time.Time) (time.Time, string) {
	for _, p := range supply.KarpenterPools(c.Facts) {
		if p.GetName() != pool {
			continue
		}
		for _, claim := range p.Claims {
			ready := dialect.ConditionOf(claim, "Initialized")
			if ready == nil || ready.Status != "True" || ready.At.IsZero() {
				continue
			}
			took := ready.At.Sub(claim.GetCreationTimestamp().Time)
			if at := from.Add(took); took > 0 && took < supply.KarpenterRegisters && at.After(c.Now) {
				return at, fmt.Sprintf("NodeClaim %s of the same pool took %s", claim.GetName(), wording.Minutes(took))
			}
		}
	}
	return time.Time{}, ""
}

// autoscalerComing goes by the autoscaler's word that groups grow for the pod.
func autoscalerComing(c *check.Case) (check.Finding, bool) {
	w := supply.AutoscalerSaid(c)
	if w == nil || len(w.Grows) == 0 {
		return check.Finding{}, false
	}
	age := c.Now.Sub(facts.EventTime(w.Event))
	if age > supply.AutoscalerProvisions {
		return check.Finding{}, false
	}
	g := w.Grows[0]
	for _, have := range supply.AutoscalerGroups(c.Facts) {
		if have.Name == g.Group && (have.ScaleUp == "Backoff" || have.LongUnregistered > 0 || have.Ready >= g.To && have.ScaleUp != "InProgress") {
			return check.Finding{}, false
		}
	}
	short := (&clusterautoscaler.Group{Name: g.Group}).Short()
	return check.Finding{
		Healthy: true, Fit: true, Evidence: supply.AutoscalerEvidence(w, c),
		Message: fmt.Sprintf("node group %s grows for it from %d to %s since %s", short, g.From, wording.Number(g.To, "node"), wording.Minutes(age)),
	}, true
}
