package diagnose

import (
	"fmt"
	"time"

	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/wording"
	"github.com/berth-dev/berth/kube/dialect"
)

var nodeComingCheck = Check{
	Cause: "node-coming", Layer: L2, Owner: Nobody, Stage: Place, Rank: 2,
	Title:   "A node is being made for it",
	Meaning: "The provisioner has asked for a machine for this pod, and it has not been waiting for longer than machines take.",
	Remedy:  "Nothing has to be done: it starts when the node is there.",
	Not:     "The cluster is full.",
	Find:    nodeComing,
}

func nodeComing(c *Case) []Finding {
	if c.State != facts.Pending || c.Hypothetical() || !c.autoscalerBlind() && c.autoscalerStuck() == nil {
		return nil
	}
	if f, ok := c.karpenterComing(); ok {
		return []Finding{f}
	}
	if f, ok := c.autoscalerComing(); ok {
		return []Finding{f}
	}
	return justMade(c)
}

// justMade is about a pod that those who make nodes have not had time to look at.
func justMade(c *Case) []Finding {
	if c.Fit == nil || c.Age() > patience || c.karpenterSaid() != nil || c.autoscalerSaid() != nil {
		return nil
	}
	for _, s := range c.autoscalerSources() {
		if c.autoscalerWilling(s) {
			return []Finding{{Calm: true, Fit: true, Message: fmt.Sprintf("it is %s old, and %s may make a node for it", c.Age().Round(time.Second), s)}}
		}
	}
	return nil
}

// karpenterComing goes by the NodeClaim that Karpenter named for the pod.
func (c *Case) karpenterComing() (Finding, bool) {
	w := c.karpenterSaid()
	if w == nil || w.claim == "" {
		return Finding{}, false
	}
	f := Finding{Calm: true, Fit: true, Evidence: w.evidence(c)}
	claim := c.ForeignNamed("NodeClaim.karpenter.sh", "", w.claim)
	if claim == nil {
		f.Message = fmt.Sprintf("Karpenter makes a node for it, NodeClaim %s, since %s", w.claim, wording.Minutes(c.Now.Sub(facts.EventTime(w.event))))
		unseen := !c.Sees("nodeclaims.karpenter.sh", "")
		return f, unseen && c.Now.Sub(facts.EventTime(w.event)) < karpenterRegisters
	}
	age := c.Now.Sub(claim.GetCreationTimestamp().Time)
	launched, registered := dialect.IsTrue(claim, "Launched"), dialect.IsTrue(claim, "Registered")
	switch {
	case claim.GetDeletionTimestamp() != nil || dialect.IsTrue(claim, "Initialized") || karpenterOverdue(claim, c.Now):
		return f, false
	case registered:
		f.Message = fmt.Sprintf("node %s was made for it %s ago and is being prepared", dialect.Text(claim.Object, "status", "nodeName"), wording.Minutes(age))
		return f, age < karpenterRegisters
	case launched:
		f.Message = fmt.Sprintf("a machine is starting for it, as NodeClaim %s, since %s", w.claim, wording.Minutes(age))
		f.Until, f.Because = c.karpenterUsual(claim.GetLabels()[karpenterPoolLabel], claim.GetCreationTimestamp().Time)
		return f, c.karpenterWell(claim.GetLabels()[karpenterPoolLabel])
	}
	f.Message = fmt.Sprintf("Karpenter has asked the provider for a machine for it, as NodeClaim %s, %s ago", w.claim, wording.Minutes(age))
	return f, age < karpenterLaunches && c.karpenterWell(claim.GetLabels()[karpenterPoolLabel])
}

// karpenterUsual is when a machine is a node, by how long the last one of its pool took; zero where there was none.
func (c *Case) karpenterUsual(pool string, from time.Time) (time.Time, string) {
	for _, p := range karpenterPools(c.Facts) {
		if p.GetName() != pool {
			continue
		}
		for _, claim := range p.claims {
			ready := dialect.ConditionOf(claim, "Initialized")
			if ready == nil || ready.Status != "True" || ready.At.IsZero() {
				continue
			}
			took := ready.At.Sub(claim.GetCreationTimestamp().Time)
			if at := from.Add(took); took > 0 && took < karpenterRegisters && at.After(c.Now) {
				return at, fmt.Sprintf("NodeClaim %s of the same pool took %s", claim.GetName(), wording.Minutes(took))
			}
		}
	}
	return time.Time{}, ""
}

// autoscalerComing goes by the autoscaler's word that groups grow for the pod.
func (c *Case) autoscalerComing() (Finding, bool) {
	w := c.autoscalerSaid()
	if w == nil || len(w.grows) == 0 {
		return Finding{}, false
	}
	age := c.Now.Sub(facts.EventTime(w.event))
	if age > autoscalerProvisions {
		return Finding{}, false
	}
	g := w.grows[0]
	for _, have := range autoscalerGroups(c.Facts) {
		if have.Name == g.group && (have.ScaleUp == "Backoff" || have.LongUnregistered > 0 || have.Ready >= g.to && have.ScaleUp != "InProgress") {
			return Finding{}, false
		}
	}
	short := (&autoscalerGroup{Name: g.group}).short()
	return Finding{
		Calm: true, Fit: true, Evidence: w.evidence(c),
		Message: fmt.Sprintf("node group %s grows for it from %d to %s since %s", short, g.from, wording.Number(g.to, "node"), wording.Minutes(age)),
	}, true
}
