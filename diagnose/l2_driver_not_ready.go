package diagnose

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/gpustack"
)

var driverNotReadyCheck = Check{
	Cause: "driver-not-ready", Layer: L2, Owner: Platform, Stage: Place, Rank: 33,
	Title:   "The GPU driver is not ready on the node",
	Meaning: "The node is Ready and has GPUs, and the pod that installs their driver, or the container toolkit after it, has not got there. Until then no device plugin can offer them.",
	Remedy:  "Read the log of the driver's pod on the node: the kernel, Secure Boot or an old driver that is still loaded are the usual reasons.",
	Not:     "The cluster is full, or the request is larger than any node.",
	Find:    driverNotReady,
}

func driverNotReady(c *Case) []Finding {
	nodes := c.faulty(gpustack.FaultDriver)
	if len(nodes) == 0 {
		return nil
	}
	g := gpustack.NodeNamed(c.Facts, nodes[0].Name)
	role, pod := lackingDriver(g)
	f := Finding{
		Fit: true, Probe: nodeProbe(nodes, func(n *corev1.Node) { c.repaired(n) }),
		Message:  fmt.Sprintf("%s %s no GPUs, because the %s is not ready: %s", namesOf(nodes), verb(nodes, "offers", "offer"), role, c.lackWords(role, pod, g)),
		Evidence: append(nodesShow(nodes, gpusShown), c.lackShown(role, pod, g)...),
	}
	young := func(g *gpustack.Node) bool {
		_, p := lackingDriver(g)
		return p != nil && c.stackStarting(p, driverTakes)
	}
	f.Calm = allNodes(nodes, func(n *corev1.Node) bool { return young(gpustack.NodeNamed(c.Facts, n.Name)) }) && c.comes(nodes, func(n *corev1.Node) { c.repaired(n) })
	for _, r := range []gpustack.Role{gpustack.RoleDriver, gpustack.RoleToolkit} {
		mine := func(g *gpustack.Node) bool { role, _ := lackingDriver(g); return role == r }
		absent := nodesWhere(nodes, func(n *corev1.Node) bool {
			g := gpustack.NodeNamed(c.Facts, n.Name)
			return mine(g) && len(g.Pods[r]) == 0
		})
		f.Edits = append(f.Edits, c.bringBack(r, absent)...)
		if e, ok := c.restart(r, nodesWhere(nodes, func(n *corev1.Node) bool { return mine(gpustack.NodeNamed(c.Facts, n.Name)) }), func(g *gpustack.Node) *corev1.Pod { return g.Unready(r) }); ok && !f.Calm {
			f.Edits = append(f.Edits, e)
		}
	}
	return []Finding{f}
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
