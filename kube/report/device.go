package report

import (
	"fmt"
	"time"

	"github.com/berth-dev/berth/engine/why"
	"github.com/berth-dev/berth/kube/convert"
)

// DeviceState is how far the attachment of a device is.
type DeviceState string

const (
	DeviceAttaching DeviceState = "attaching" // its driver has not set a binding condition yet
	DeviceFailed    DeviceState = "failed"    // its driver has set a binding failure condition
	DeviceLate      DeviceState = "late"      // the binding timeout has passed
)

// Device is a device that was allocated to a pod and is not attached to the node, so that the pod is not bound.
type Device struct {
	Node      string      `json:"node"`
	Claim     string      `json:"claim"` // namespace/name
	Device    string      `json:"device"`
	Condition string      `json:"condition"` // that is not set; with the state failed, that is
	State     DeviceState `json:"state"`
	Says      string      `json:"says,omitempty"`   // the driver's words, in that condition
	Since     time.Time   `json:"since,omitzero"`   // when it was allocated
	Until     time.Time   `json:"until,omitzero"`   // when it is given up
	Member    string      `json:"member,omitempty"` // pod of the gang whose device it is; "": this one
}

// Sentence says it in one line.
func (d *Device) Sentence() string {
	says := convert.DriverSays(d.Says)
	whose := ""
	if d.Member != "" {
		whose = ", which pod " + d.Member + " of the gang has,"
	}
	switch d.State {
	case DeviceFailed:
		return fmt.Sprintf("device %s of resource claim %s%s could not be attached to node %s: its driver set condition %s%s; the claim gives its devices back, and others are looked for",
			d.Device, d.Claim, whose, d.Node, d.Condition, says)
	case DeviceLate:
		return fmt.Sprintf("device binding timeout: device %s of resource claim %s%s was not attached to node %s in %s: its driver has not set condition %s%s; the claim gives its devices back, and others are looked for",
			d.Device, d.Claim, whose, d.Node, d.Until.Sub(d.Since), d.Condition, says)
	}
	out := fmt.Sprintf("has its place, and waits until device %s of resource claim %s%s is attached to node %s: its driver has not set condition %s%s", d.Device, d.Claim, whose, d.Node, d.Condition, says)
	if !d.Since.IsZero() {
		out += fmt.Sprintf("; allocated at %s, and given up at %s", clock(d.Since), clock(d.Until))
	}
	return out
}

func clock(t time.Time) string { return t.UTC().Format("15:04:05 UTC") }

// OfDevice is what is to be said of a pod that has a place and waits for a device: the condition's reason and sentence, and the same as
// data.
func OfDevice(d Device) (reason, text string, p Pending) {
	d.Since, d.Until = d.Since.UTC(), d.Until.UTC()
	return CauseReason(DeviceNotAttached), d.Sentence(), Pending{Cause: DeviceNotAttached, Verdict: why.Blocked, Device: &d}
}
