package convert

import (
	"fmt"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/meta"
)

// Attachment is how far the devices of a claim are that must be attached to the node, or made ready some other way, before a pod that has
// them is bound: those whose driver named binding conditions. It is as upstream's isClaimReadyForBinding decides (k8s.io/kubernetes v1.37.1,
// pkg/scheduler/framework/plugins/dynamicresources).
type Attachment struct {
	Pending string // a device and the condition that it lacks; "": none
	Failed  string // what its driver says went wrong; "": nothing
}

// Attached looks at the devices of the claim, which has some.
func Attached(c *resourcev1.ResourceClaim) (out Attachment) {
	if c.Status.Allocation == nil {
		return Attachment{}
	}
	for i := range c.Status.Allocation.Devices.Results {
		r := &c.Status.Allocation.Devices.Results[i]
		if len(r.BindingConditions) == 0 {
			continue
		}
		status := statusOf(c, r)
		if status == nil {
			return Attachment{Pending: r.Device + ": " + r.BindingConditions[0]}
		}
		for _, name := range r.BindingFailureConditions {
			if is := meta.FindStatusCondition(status.Conditions, name); is != nil && is.Status == "True" {
				return Attachment{Failed: clipped(fmt.Sprintf("device %s: %s (%s): %s", r.Device, name, is.Reason, is.Message), MaxQuoteBytes)}
			}
		}
		for _, name := range r.BindingConditions {
			if !meta.IsStatusConditionTrue(status.Conditions, name) {
				return Attachment{Pending: r.Device + ": " + name}
			}
		}
	}
	return Attachment{}
}

// statusOf is what the driver says of an allocated device; nil: nothing yet.
func statusOf(c *resourcev1.ResourceClaim, r *resourcev1.DeviceRequestAllocationResult) *resourcev1.AllocatedDeviceStatus {
	for i := range c.Status.Devices {
		s := &c.Status.Devices[i]
		share := ""
		if r.ShareID != nil {
			share = string(*r.ShareID)
		}
		if s.Driver == r.Driver && s.Pool == r.Pool && s.Device == r.Device && deref(s.ShareID) == share {
			return s
		}
	}
	return nil
}

// Attaches says whether devices of the allocation are to be attached.
func Attaches(a *resourcev1.AllocationResult) bool {
	for i := range a.Devices.Results {
		if len(a.Devices.Results[i].BindingConditions) > 0 {
			return true
		}
	}
	return false
}
