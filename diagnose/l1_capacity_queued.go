package diagnose

import (
	"cmp"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

var capacityQueuedCheck = Check{
	Cause: "capacity-queued", Layer: L1, Owner: Capacity, Stage: Admit, Rank: 26,
	Title:   "Machines were asked for, and the provider has not given them yet",
	Meaning: "A ProvisioningRequest for the work is accepted and stands in the provider's queue for capacity. Quotas are not what is missing.",
	Remedy:  "Wait for the provider, or use capacity that is there already.",
	Not:     "The quota is used up.",
	Find:    capacityQueued,
}

func capacityQueued(c *Case) []Finding {
	if v := c.kueue(); v != nil && v.cause == "capacity-queued" {
		return []Finding{capacityQueuedAt(c, c.provisioningOf(v.work), fmt.Sprintf("Workload %s has its quota and waits for machines", v.work.GetName()), v.message)}
	}
	if !c.Waits() {
		return nil
	}
	for _, key := range []string{"autoscaling.x-k8s.io/consume-provisioning-request", "cluster-autoscaler.kubernetes.io/consume-provisioning-request"} {
		if name := c.Pod.Annotations[key]; name != "" {
			u := c.foreignNamed("ProvisioningRequest.autoscaling.x-k8s.io", c.Pod.Namespace, name)
			if u != nil && !holds(u, "Provisioned") {
				return []Finding{capacityQueuedAt(c, u, "the pod waits for machines", "")}
			}
		}
	}
	return nil
}

// capacityQueuedAt says how far the request has come.
func capacityQueuedAt(c *Case, u *unstructured.Unstructured, message, said string) Finding {
	found := Finding{Message: message}
	if u == nil {
		if said != "" {
			found.Message += ": " + strings.TrimSuffix(said, ".")
		}
		return found
	}
	class := textAt(u.Object, "spec", "provisioningClassName")
	state, what := "not accepted yet", says(u, "Accepted")
	if holds(u, "Accepted") {
		state, what = "accepted and not provisioned", says(u, "Provisioned")
	}
	if holds(u, "Failed") {
		state, what = "failed", says(u, "Failed")
	}
	found.Message += fmt.Sprintf(": ProvisioningRequest %s of class %s is %s", u.GetName(), class, state)
	if what != nil && what.message != "" {
		found.Message += ": " + strings.TrimSuffix(what.message, ".")
	}
	if what != nil {
		found.Evidence = []Evidence{{Object: RefTo(u).In(), Field: "status.conditions", Value: cmp.Or(what.reason, state)}}
	}
	return found
}
