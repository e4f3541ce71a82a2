package l1

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/place"
	"github.com/berth-dev/berth/diagnose/internal/queue"
	"github.com/berth-dev/berth/diagnose/internal/supply"
	"github.com/berth-dev/berth/kube/dialect"
)

var capacityQueuedCheck = check.Check{
	Cause: "capacity-queued", Layer: check.L1, Owner: check.Capacity, Stage: check.Admit, Rank: 26,
	Title:   "Machines were asked for, and the provider has not given them yet",
	Meaning: "A ProvisioningRequest for the work is accepted and stands in the provider's queue for capacity. Quotas are not what is missing.",
	Remedy:  "Wait for the provider, or use capacity that is there already.",
	Not:     "The quota is used up.",
	Find:    capacityQueued,
}

func capacityQueued(c *check.Case) []check.Finding {
	a := queue.MachinesAsked(c)
	switch {
	case a == nil || a.Failed() && supply.AtMax(a.Says):
		return nil
	case a.Work != nil:
		message := fmt.Sprintf("Workload %s has its quota and waits for machines", a.Work.GetName())
		if !dialect.IsTrue(a.Work, "QuotaReserved") {
			message = fmt.Sprintf("Workload %s was put back, as machines did not come for it", a.Work.GetName())
		}
		return []check.Finding{capacityQueuedAt(a, message)}
	case a.Request == nil:
		return requestMissing(c, a)
	}
	return []check.Finding{capacityQueuedAt(a, "the pod waits for machines")}
}

// requestMissing is about a pod that names a request which is not there: the autoscaler makes nothing for it, and gives it nothing that was made.
func requestMissing(c *check.Case, a *queue.Asked) []check.Finding {
	if supply.AutoscalerStuck(c) == nil {
		return nil
	}
	f := check.Finding{
		Owner: check.User, Fit: true, Probe: supply.AutoscalerProbe(c, supply.Makes(c)),
		Message:  fmt.Sprintf("the pod is to have the machines of ProvisioningRequest %s, and there is none of that name in namespace %s", a.Named, c.Pod.Namespace),
		Evidence: []facts.Evidence{{Object: facts.RefTo(c.Pod).In(), Field: fmt.Sprintf("metadata.annotations[%q]", a.Key(c)), Value: a.Named}},
		Advice:   "Make the ProvisioningRequest, or name one that is there: an autoscaler makes no node for the pod otherwise.",
	}
	names := make(map[string]int)
	for _, name := range c.ForeignNames(queue.ProvisioningRequests, c.Pod.Namespace) {
		names[name]++
	}
	if near := place.ByDistance(a.Named, names); len(near) > 0 {
		f.Message += "; there is " + near[0]
		f.Evidence = append(f.Evidence, facts.Evidence{Object: facts.Ref{Kind: "ProvisioningRequest", Namespace: c.Pod.Namespace, Name: near[0]}.In(), Field: "metadata.name", Value: near[0]})
	}
	return []check.Finding{f}
}

// capacityQueuedAt says how far the request has come.
func capacityQueuedAt(a *queue.Asked, message string) check.Finding {
	found := check.Finding{Message: message}
	u := a.Request
	if u == nil {
		if a.Says != "" {
			found.Message += ": " + strings.TrimSuffix(a.Says, ".")
		}
		return found
	}
	class := dialect.Text(u.Object, "spec", "provisioningClassName")
	state, what := "not accepted yet", dialect.ConditionOf(u, "Accepted")
	if dialect.IsTrue(u, "Accepted") {
		state, what = "accepted and not provisioned", dialect.ConditionOf(u, "Provisioned")
	}
	if dialect.IsTrue(u, "Failed") {
		state, what = "failed", dialect.ConditionOf(u, "Failed")
	}
	if over := a.Over(); over != "" {
		state, what = "over ("+over+")", dialect.ConditionOf(u, over)
		found.Advice = "Ask for machines again with a new ProvisioningRequest: this one is over and gets no more."
	}
	found.Message += fmt.Sprintf(": ProvisioningRequest %s of class %s is %s", u.GetName(), class, state)
	if what != nil && what.Message != "" {
		found.Message += ": " + strings.TrimSuffix(what.Message, ".")
	}
	if what != nil {
		found.Evidence = []facts.Evidence{{Object: facts.RefTo(u).In(), Field: "status.conditions", Value: cmp.Or(what.Reason, state)}}
	}
	return found
}
