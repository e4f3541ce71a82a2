package convert

import (
	"fmt"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
)

// TakenAlternatives says, of each request of the claim that lists alternatives, which one its devices were allocated for. The pod calls the
// claim by the name.
func TakenAlternatives(called string, c *resourcev1.ResourceClaim) (out []string) {
	if c.Status.Allocation == nil {
		return nil
	}
	taken := make(map[string]bool)
	for i := range c.Status.Allocation.Devices.Results {
		taken[c.Status.Allocation.Devices.Results[i].Request] = true
	}
	for i := range c.Spec.Devices.Requests {
		r := &c.Spec.Devices.Requests[i]
		for k := range r.FirstAvailable {
			if name := r.FirstAvailable[k].Name; len(r.FirstAvailable) > 1 && taken[resourceclaim.CreateSubRequestRef(r.Name, name)] {
				out = append(out, fmt.Sprintf("claim %s has alternative %s of request %s, number %d of %d",
					clipped(called, MaxQuoteBytes), clipped(name, MaxQuoteBytes), clipped(r.Name, MaxQuoteBytes), k+1, len(r.FirstAvailable)))
			}
		}
	}
	return out
}
