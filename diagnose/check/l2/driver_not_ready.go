package l2

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/gpustack"
	"github.com/berth-dev/berth/diagnose/internal/place"
)

var driverNotReadyCheck = check.Check{
	Cause: "driver-not-ready", Layer: check.L2, Owner: check.Platform, Stage: check.Place, Rank: 33,
	Title:   "The GPU driver is not ready on the node",
	Meaning: "The node is Ready and has GPUs, and the pod that installs their driver, or the container toolkit after it, has not got there. Until then no device plugin can offer them.",
	Remedy:  "Read the log of the driver's pod on the node: the kernel, Secure Boot or an old driver that is still loaded are the usual reasons.",
	Not:     "The cluster is full, or the request is larger than any node.",
	Find:    driverNotReady,
}

func driverNotReady(c *check.Case) []check.Finding {
	nodes := place.Faulty(c, gpustack.FaultDriver)
	if len(nodes) == 0 {
		return nil
	}
	g := gpustack.NodeNamed(c.Facts, nodes[0].Name)
	role, pod := lackingDriver(g)
	f := check.Finding{
		Fit: true, Probe: place.NodeProbe(nodes, func(n *corev1.Node) { place.Repaired(c, n) }),
		Message:  fmt.Sprintf("%s %s no GPUs, because the %s is not ready: %s", place.NamesOf(nodes), place.Verb(nodes, "offers", "offer"), role, lackWords(c, role, pod, g)),
		Evidence: append(place.NodesShow(nodes, place.GpusShown), lackShown(c, role, pod, g)...),
	}
	f.Advice = crashAdvice(pod)
	if _, e := driverObject(c, role); e.Object != "" && pod == nil {
		f.Advice = fmt.Sprintf("Mend what %s reports in %s: until then the GPU Operator deploys no driver there.", e.Object, e.Field)
	}
	young := func(g *gpustack.Node) bool {
		_, p := lackingDriver(g)
		return p != nil && stackStarting(c, p, driverTakes)
	}
	f.Healthy = place.AllNodes(nodes, func(n *corev1.Node) bool { return young(gpustack.NodeNamed(c.Facts, n.Name)) }) && place.Comes(c, nodes, func(n *corev1.Node) { place.Repaired(c, n) })
	for _, r := range []gpustack.Role{gpustack.RoleDriver, gpustack.RoleToolkit} {
		mine := func(g *gpustack.Node) bool { role, _ := lackingDriver(g); return role == r }
		absent := place.NodesWhere(nodes, func(n *corev1.Node) bool {
			g := gpustack.NodeNamed(c.Facts, n.Name)
			return mine(g) && len(g.Pods[r]) == 0
		})
		f.Edits = append(f.Edits, bringBack(c, r, absent)...)
		stuck := func(g *gpustack.Node) *corev1.Pod { return g.Unready(r) }
		own := place.NodesWhere(nodes, func(n *corev1.Node) bool { return mine(gpustack.NodeNamed(c.Facts, n.Name)) })
		f.Edits = append(f.Edits, respell(c, own, stuck)...)
		if e, ok := restart(c, r, own, stuck); ok && !f.Healthy {
			f.Edits = append(f.Edits, e)
		}
	}
	return []check.Finding{f}
}

// lackingDriver is which of the two is not ready, and its pod where there is one.
func lackingDriver(g *gpustack.Node) (gpustack.Role, *corev1.Pod) {
	if len(g.Ready(gpustack.RoleDriver)) == 0 {
		if p := g.Unready(gpustack.RoleDriver); p != nil {
			return gpustack.RoleDriver, p
		}
		if p := g.Unready(gpustack.RoleToolkit); p != nil {
			return gpustack.RoleToolkit, p
		}
		return gpustack.RoleDriver, nil
	}
	return gpustack.RoleToolkit, g.Unready(gpustack.RoleToolkit)
}
