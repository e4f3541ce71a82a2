package convert

import (
	"slices"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
)

func TestTakenAlternatives(t *testing.T) {
	list := func(name string, of ...string) resourcev1.DeviceRequest {
		r := resourcev1.DeviceRequest{Name: name}
		for _, o := range of {
			r.FirstAvailable = append(r.FirstAvailable, resourcev1.DeviceSubRequest{Name: o})
		}
		return r
	}
	c := &resourcev1.ResourceClaim{}
	c.Spec.Devices.Requests = []resourcev1.DeviceRequest{
		list("card", "large", "small"), list("only", "one"), {Name: "plain", Exactly: &resourcev1.ExactDeviceRequest{}}, list("nic", "fast", "slow", "any"),
	}
	if got := TakenAlternatives("gpu", c); got != nil {
		t.Errorf("without an allocation: %q", got)
	}
	c.Status.Allocation = &resourcev1.AllocationResult{}
	for _, r := range []string{"card/small", "card/small", "only/one", "plain", "nic/fast"} {
		c.Status.Allocation.Devices.Results = append(c.Status.Allocation.Devices.Results, resourcev1.DeviceRequestAllocationResult{Request: r})
	}
	want := []string{"claim gpu has alternative small of request card, number 2 of 2", "claim gpu has alternative fast of request nic, number 1 of 3"}
	if got := TakenAlternatives("gpu", c); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}
