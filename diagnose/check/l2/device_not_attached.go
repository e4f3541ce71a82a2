package l2

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/place"
	"github.com/berth-dev/berth/kube/convert"
	"github.com/berth-dev/berth/kube/report"
)

var deviceNotAttachedCheck = check.Check{
	Cause: report.DeviceNotAttached, Layer: check.L2, Owner: check.Platform, Stage: check.Place, Rank: 1,
	Title:   "A device that it was given is not attached to the node",
	Meaning: "The scheduler has chosen a node and allocated devices, one of which has binding conditions: its driver first attaches it to the node, or makes it ready some other way, and says so in the status of the claim. The pod is bound then, and not before. If the driver reports a failure, or the scheduler's time for it is over (ten minutes, unless configured otherwise), the claim gives its devices back and others are looked for.",
	Remedy:  "Look at the controller of the device's driver, which sets the condition, and at what it attaches: a fabric, a switch or a pool of devices.",
	Not:     "No node has room, or no device is free: both have been found.",
	Find:    deviceNotAttached,
}

// attachTakes is how long the attachment of a device may take before it should be looked into: fabrics take seconds.
const attachTakes = time.Minute

func deviceNotAttached(c *check.Case) []check.Finding {
	if c.State != facts.Pending || c.Pod == nil || c.Pod.Spec.NodeName != "" {
		return nil
	}
	for _, claim := range place.ClaimsOf(c.Facts, c.Pod) {
		if claim.ResourceClaim != nil && keptFor(c.Pod, claim.ResourceClaim) {
			if a := convert.Attached(claim.ResourceClaim); a != nil {
				return []check.Finding{attachFinding(c, claim.ResourceClaim, a, "")}
			}
		}
	}
	said, ok := report.PendingOf(c.Pod)
	if !ok {
		return nil
	}
	if d := said.Device; d != nil && said.Cause == report.DeviceNotAttached {
		return toldOfDevice(c, d)
	}
	return nil
}

// toldOfDevice goes by what Berth's scheduler wrote on the pod: its gang waits for the device of another member, or the claim has given the
// device back.
func toldOfDevice(c *check.Case, d *report.Device) []check.Finding {
	if d.State != report.DeviceAttaching {
		return []check.Finding{{Message: d.Sentence(), Evidence: []facts.Evidence{told(c.Pod)}}}
	}
	if d.Member == "" {
		return nil // its own claims say otherwise
	}
	for _, claim := range c.ResourceClaims {
		if claim.Namespace+"/"+claim.Name == d.Claim {
			if a := convert.Attached(claim); a != nil {
				return []check.Finding{attachFinding(c, claim, a, d.Member)}
			}
		}
	}
	return nil
}

// keptFor says whether the claim has devices and is reserved for the pod, or for its group.
func keptFor(p *corev1.Pod, claim *resourcev1.ResourceClaim) bool {
	return claim.Status.Allocation != nil && slices.ContainsFunc(claim.Status.ReservedFor, func(r resourcev1.ResourceClaimConsumerReference) bool {
		return r.UID == p.UID || r.Resource == "podgroups" && p.Spec.SchedulingGroup != nil && p.Spec.SchedulingGroup.PodGroupName != nil && *p.Spec.SchedulingGroup.PodGroupName == r.Name
	})
}

// attachFinding words a device of the claim, which another pod of the gang has where member names it.
func attachFinding(c *check.Case, claim *resourcev1.ResourceClaim, a *convert.Attachment, member string) check.Finding {
	at := claim.Status.Allocation.AllocationTimestamp
	state, since := "has not set condition "+a.Condition, ""
	if a.Failed {
		state = "set condition " + a.Condition
	}
	if at != nil {
		since = fmt.Sprintf(", allocated %s ago,", c.Now.Sub(at.Time).Round(time.Second))
	}
	whose := ""
	if member != "" {
		whose = ", which pod " + member + " of the gang has,"
	}
	f := check.Finding{
		Message: fmt.Sprintf("device %s of claim %s%s%s is not attached to its node: its driver %s%s", a.Device, claim.Name, whose, since, state, convert.DriverSays(a.Says)),
		Evidence: []facts.Evidence{
			{Object: facts.RefTo(claim).In(), Field: "status.allocation.devices.results", Value: a.Device},
			{Object: facts.RefTo(claim).In(), Field: fmt.Sprintf("status.devices[device=%q].conditions[%s]", a.Device, a.Condition), Value: valueOf(a)},
		},
		Healthy: !a.Failed && a.Says == "" && at != nil && c.Now.Sub(at.Time) < attachTakes,
	}
	return f
}

func valueOf(a *convert.Attachment) string {
	switch {
	case a.Says != "":
		return a.Says
	case a.Failed:
		return "True"
	}
	return "not set"
}

// told is the condition in which Berth's scheduler says what the pod waits for.
func told(p *corev1.Pod) facts.Evidence {
	for _, s := range p.Status.Conditions {
		if s.Type == corev1.PodScheduled {
			return facts.Evidence{Object: facts.RefTo(p).In(), Field: "status.conditions[PodScheduled]", Value: s.Reason + ": " + s.Message}
		}
	}
	return facts.Evidence{Object: facts.RefTo(p).In(), Field: "status.conditions"}
}
