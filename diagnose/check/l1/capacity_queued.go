package l1

import (
	"cmp"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/queue"
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
	if v := queue.Kueue(c); v != nil && v.Cause == "capacity-queued" {
		message := fmt.Sprintf("Workload %s has its quota and waits for machines", v.Work.GetName())
		if !dialect.IsTrue(v.Work, "QuotaReserved") {
			message = fmt.Sprintf("Workload %s was put back, as machines did not come for it", v.Work.GetName())
		}
		return []check.Finding{capacityQueuedAt(c, queue.ProvisioningOf(c.Facts, v.Work), message, v.Message)}
	}
	if !c.Waits() {
		return nil
	}
	for _, key := range []string{"autoscaling.x-k8s.io/consume-provisioning-request", "cluster-autoscaler.kubernetes.io/consume-provisioning-request"} {
		if name := c.Pod.Annotations[key]; name != "" {
			u := c.ForeignNamed("ProvisioningRequest.autoscaling.x-k8s.io", c.Pod.Namespace, name)
			if u != nil && (!dialect.IsTrue(u, "Provisioned") || provisioningOver(u) != "") {
				return []check.Finding{capacityQueuedAt(c, u, "the pod waits for machines", "")}
			}
		}
	}
	return nil
}

// capacityQueuedAt says how far the request has come.
func capacityQueuedAt(c *check.Case, u *unstructured.Unstructured, message, said string) check.Finding {
	found := check.Finding{Message: message}
	if u == nil {
		if said != "" {
			found.Message += ": " + strings.TrimSuffix(said, ".")
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
	if over := provisioningOver(u); over != "" {
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

// provisioningOver is the condition by which what was provisioned is not there any more; "" for none.
func provisioningOver(u *unstructured.Unstructured) string {
	for _, kind := range []string{"CapacityRevoked", "BookingExpired"} {
		if dialect.IsTrue(u, kind) {
			return kind
		}
	}
	return ""
}
