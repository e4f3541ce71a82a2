package l4

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/gpustack"
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
	if how, _ := waitsForDomain(c); how != "" && (len(waitingPeers(c.Facts, c.Pod)) > 0 || domainTooLarge(c) != nil) {
		return nil // waiting-for-peer
	}
	all := life.Troubles(c, "FailedPrepareDynamicResources")
	if len(all) == 0 {
		return standingClaims(c)
	}
	e := all[0]
	f := check.Finding{
		Message:  fmt.Sprintf("node %s cannot prepare the devices of pod %s: %s", c.Pod.Spec.NodeName, c.Pod.Name, wording.Shortened(strings.TrimPrefix(e.Message, "Failed to prepare dynamic resources: "), 200)),
		Evidence: []facts.Evidence{life.Shown(e)},
	}
	if why, advice, more := brokenDomain(c); why != "" && ofDomain(e.Message) {
		f.Message = fmt.Sprintf("node %s cannot prepare the devices of pod %s: %s", c.Pod.Spec.NodeName, c.Pod.Name, why)
		f.Advice, f.Evidence = advice, append(more, f.Evidence...)
	}
	if wording.Mentions(e.Message, "is not registered", "not found in the list of registered") {
		f.Layer = check.L2
		f.Advice = fmt.Sprintf("Have the DRA driver's pod on node %s repaired: the kubelet does not know the driver.", c.Pod.Spec.NodeName)
	}
	return []check.Finding{f}
}

// standingClaims are what objects say of devices that the pod has been given and waits for, once the events about it are gone: a condition of
// the device in its claim, or a pod of the device's driver on the node that is not well.
func standingClaims(c *check.Case) []check.Finding {
	if !life.AwaitsContainers(c) || len(drivenVolumes(c)) > 0 || c.Now.Sub(life.Since(c.Pod)) < attachTakes {
		return nil
	}
	for _, s := range c.Pod.Status.ResourceClaimStatuses {
		for _, claim := range c.ResourceClaims {
			if s.ResourceClaimName == nil || claim.Name != *s.ResourceClaimName || claim.Namespace != c.Pod.Namespace || claim.Status.Allocation == nil {
				continue
			}
			if why, advice, more := brokenDomain(c); why != "" {
				return []check.Finding{{Message: fmt.Sprintf("node %s has not prepared the devices of claim %s for pod %s: %s", c.Pod.Spec.NodeName, claim.Name, c.Pod.Name, why), Evidence: more, Advice: advice}}
			}
			message := fmt.Sprintf("node %s has not prepared the devices of claim %s for pod %s", c.Pod.Spec.NodeName, claim.Name, c.Pod.Name)
			for _, k := range facts.ConditionsOf(claim) {
				if k.Bad() {
					return []check.Finding{{Message: message + ": " + cmp.Or(k.Message, k.Reason, k.Type+" is "+k.Status), Evidence: []facts.Evidence{{Object: facts.RefTo(claim).In(), Field: "status.devices.conditions[" + k.Type + "]", Value: cmp.Or(k.Message, k.Reason, k.Status)}}}}
				}
			}
			for _, r := range claim.Status.Allocation.Devices.Results {
				if p := driverPod(c, r.Driver); p != nil {
					return []check.Finding{{
						Message:  fmt.Sprintf("%s: pod %s of its driver is %s there", message, p.Name, gpustack.Trouble(p)),
						Evidence: []facts.Evidence{{Object: facts.RefTo(claim).In(), Field: "status.allocation.devices.results", Value: r.Driver}, {Object: facts.RefTo(p).In(), Field: "status", Value: gpustack.Trouble(p)}},
					}}
				}
			}
		}
	}
	return nil
}

// driverPod is a pod on the pod's node that a DaemonSet made, that is not ready, and that has the name of the driver in its labels, its
// node selector or its own name: compute-domain.nvidia.com and resource.nvidia.com/computeDomain.
func driverPod(c *check.Case, driver string) *corev1.Pod {
	name, _, _ := strings.Cut(driver, ".")
	_, domain, _ := strings.Cut(driver, ".")
	plain := func(s string) string {
		return strings.ToLower(strings.NewReplacer("-", "", "_", "", ".", "", "/", "").Replace(s))
	}
	if len(plain(name)) < 3 {
		return nil
	}
	for _, p := range c.PodsOn(c.Pod.Spec.NodeName) {
		if d, ok := c.Controller(p).(*appsv1.DaemonSet); !ok || d == nil || readyNow(p) || p.DeletionTimestamp != nil {
			continue
		}
		said := append([]string{p.Namespace + p.Name}, slices.Sorted(maps.Keys(p.Labels))...)
		for i := range p.Spec.Containers {
			said = append(said, p.Spec.Containers[i].Name, p.Spec.Containers[i].Image)
		}
		if slices.ContainsFunc(said, func(s string) bool {
			return strings.Contains(plain(s), plain(name)) && (len(plain(name)) > 4 || strings.Contains(s, domain))
		}) {
			return p
		}
	}
	return nil
}
