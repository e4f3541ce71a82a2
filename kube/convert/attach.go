package convert

import (
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Attachment is a device of a claim that must be attached to the node, or made ready some other way, before a pod that has it is bound, and is
// not: one whose driver named binding conditions. It is as upstream's isClaimReadyForBinding decides (k8s.io/kubernetes v1.37.1,
// pkg/scheduler/framework/plugins/dynamicresources).
type Attachment struct {
	Device    string // driver/pool/device
	Condition string // that its driver has not set yet; where it failed, the failure condition that its driver has set
	Failed    bool
	Says      string // the driver's words, in that condition; "": none
}

// DriverSays is what a driver says of its device, as the end of a sentence; "" where it says nothing.
func DriverSays(words string) string {
	if words == "" {
		return ""
	}
	return " (" + words + ")"
}

// Attached is the first device of the claim that is not attached, one whose driver says that it failed before others; nil: there is none.
func Attached(c *resourcev1.ResourceClaim) (lacking *Attachment) {
	if c.Status.Allocation == nil {
		return nil
	}
	for i := range c.Status.Allocation.Devices.Results {
		r := &c.Status.Allocation.Devices.Results[i]
		a := attachmentOf(r, statusOf(c, r))
		switch {
		case a == nil:
		case a.Failed:
			return a
		case lacking == nil:
			lacking = a
		}
	}
	return lacking
}

// attachmentOf is what an allocated device lacks, of which its driver says that, nil for nothing yet.
func attachmentOf(r *resourcev1.DeviceRequestAllocationResult, status *resourcev1.AllocatedDeviceStatus) *Attachment {
	if len(r.BindingConditions) == 0 {
		return nil
	}
	out := &Attachment{Device: r.Driver + "/" + r.Pool + "/" + r.Device}
	var told []metav1.Condition
	if status != nil {
		told = status.Conditions
	}
	for _, name := range r.BindingFailureConditions {
		if meta.IsStatusConditionTrue(told, name) {
			out.Condition, out.Failed, out.Says = name, true, wordsOf(meta.FindStatusCondition(told, name))
			return out
		}
	}
	for _, name := range r.BindingConditions {
		if !meta.IsStatusConditionTrue(told, name) {
			out.Condition, out.Says = name, wordsOf(meta.FindStatusCondition(told, name))
			return out
		}
	}
	return nil
}

// wordsOf is what a driver says in a condition, which may be missing.
func wordsOf(c *metav1.Condition) string {
	if c == nil {
		return ""
	}
	return clipped(strings.Trim(c.Reason+": "+c.Message, ": "), MaxQuoteBytes)
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
