package l4

import (
	"fmt"
	"strings"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/life"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

var claimPrepareFailedCheck = check.Check{
	Cause: "claim-prepare-failed", Layer: check.L4, Owner: check.Platform, Stage: check.Start, Rank: 22,
	Title:   "The node cannot prepare the pod's devices",
	Meaning: "The pod's ResourceClaims were allocated and the pod has its node, and the device driver there does not hand the devices out. The pod stays in ContainerCreating.",
	Remedy:  "Look at the DRA driver's pod on the node, and at what it says of the claim.",
	Not:     "No device is free: the claim was allocated.",
	Find:    claimPrepareFailed,
}

func claimPrepareFailed(c *check.Case) []check.Finding {
	all := life.Troubles(c, "FailedPrepareDynamicResources")
	if len(all) == 0 {
		return nil
	}
	e := all[0]
	f := check.Finding{
		Message:  fmt.Sprintf("node %s cannot prepare the devices of pod %s: %s", c.Pod.Spec.NodeName, c.Pod.Name, wording.Shortened(strings.TrimPrefix(e.Message, "Failed to prepare dynamic resources: "), 200)),
		Evidence: []facts.Evidence{life.Shown(e)},
	}
	if wording.Mentions(e.Message, "is not registered", "not found in the list of registered") {
		f.Layer = check.L2
		f.Advice = fmt.Sprintf("Have the DRA driver's pod on node %s repaired: the kubelet does not know the driver.", c.Pod.Spec.NodeName)
	}
	return []check.Finding{f}
}
