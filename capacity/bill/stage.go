package bill

import (
	"slices"
	"strings"

	"github.com/berth-dev/berth/capacity"
	"github.com/berth-dev/berth/engine"
)

// beforeHeld is how many stages there are before a pod holds a GPU.
const beforeHeld = int(capacity.Allocated)

// stagesOf says how far so many thousandths of a machine's GPUs have come that nobody holds, by stage. A history tells less than a cluster:
// whether a provider has given a machine that is no node is not known (Paid has those), and whether a GPU is sick only where the node
// names its devices. A held GPU is Allocated whatever its node is.
func stagesOf(n *engine.Node, gpus, free int64, resource string) (out [beforeHeld]int64) {
	take := func(stage capacity.Stage, most int64) {
		part := max(0, min(free, most))
		out[stage] += part
		free -= part
	}
	closed := n.Cordoned || n.Quarantine != "" || slices.ContainsFunc(n.Taints, func(t engine.Taint) bool {
		return keepsOut(t) && strings.HasPrefix(t.Key, "node.kubernetes.io/") // pressure, no network, out of service
	})
	if !ready(n) {
		take(capacity.Registered, free)
	}
	offered, sick := offeredBy(n, gpus, resource)
	take(capacity.Advertised, sick*whole)
	take(capacity.Ready, (gpus-offered-sick)*whole)
	if closed {
		take(capacity.Healthy, free)
	}
	take(capacity.Schedulable, free)
	return out
}

// ready says whether the node's kubelet reports, and that it is well.
func ready(n *engine.Node) bool {
	return !slices.ContainsFunc(n.Taints, func(t engine.Taint) bool {
		return keepsOut(t) && (t.Key == "node.kubernetes.io/not-ready" || t.Key == "node.kubernetes.io/unreachable")
	})
}

func keepsOut(t engine.Taint) bool {
	return t.Effect == engine.NoSchedule || t.Effect == engine.NoExecute
}

// offeredBy is how many of its GPUs the node offers, and how many it found sick. Which GPU parts of GPUs are of is not told: a node with
// parts offers all of them.
func offeredBy(n *engine.Node, gpus int64, resource string) (offered, sick int64) {
	for i := range n.Devices {
		if n.Devices[i].Unhealthy {
			sick++
		}
	}
	whole, parts := n.Allocatable.Get(resource), false
	for _, a := range n.Allocatable {
		parts = parts || strings.HasPrefix(a.Resource, migResource) && a.Value > 0
	}
	if strings.Contains(n.Labels[labelProduct], "-MIG-") {
		parts = parts || whole > 0
	}
	if replicas := number(n.Labels[labelReplicas]); replicas > 1 {
		whole = (whole + replicas - 1) / replicas
	}
	if slices.Contains(n.ByClaims, resource) || whole == 0 {
		for _, o := range n.Offers {
			if strings.Contains(lastPart(o.ID), "gpu-") {
				if strings.Contains(lastPart(o.ID), "-mig-") {
					parts = true
				} else {
					whole++
				}
			}
		}
	}
	if parts {
		whole = gpus
	}
	offered = min(whole, gpus)
	return offered, min(sick, gpus-offered)
}
