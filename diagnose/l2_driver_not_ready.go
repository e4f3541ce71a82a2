package diagnose

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
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
	nodes := c.faulty(faultDriver)
	if len(nodes) == 0 {
		return nil
	}
	g := gpuNodeNamed(c.Facts, nodes[0].Name)
	role, pod := lackingDriver(g)
	f := Finding{
		Fit: true, Probe: nodeProbe(nodes, c.repaired),
		Message:  fmt.Sprintf("%s %s no GPUs, because the %s is not ready: %s", namesOf(nodes), verb(nodes, "offers", "offer"), role, c.lackWords(role, pod, g)),
		Evidence: append(nodesShow(nodes, gpusShown), c.lackShown(role, pod, g)...),
	}
	young := func(g *gpuNode) bool {
		_, p := lackingDriver(g)
		return p != nil && c.stackStarting(p, driverTakes)
	}
	f.Calm = allNodes(nodes, func(n *corev1.Node) bool { return young(gpuNodeNamed(c.Facts, n.Name)) }) && c.comes(nodes, c.repaired)
	for _, r := range []stackRole{roleDriver, roleToolkit} {
		mine := func(g *gpuNode) bool { role, _ := lackingDriver(g); return role == r }
		absent := nodesWhere(nodes, func(n *corev1.Node) bool {
			g := gpuNodeNamed(c.Facts, n.Name)
			return mine(g) && len(g.Pods[r]) == 0
		})
		f.Edits = append(f.Edits, c.bringBack(r, absent)...)
		if e, ok := c.restart(r, nodesWhere(nodes, func(n *corev1.Node) bool { return mine(gpuNodeNamed(c.Facts, n.Name)) }), func(g *gpuNode) *corev1.Pod { return g.unready(r) }); ok && !f.Calm {
			f.Edits = append(f.Edits, e)
		}
	}
	return []Finding{f}
}

// lackingDriver is which of the two is not ready, and its pod where there is one.
func lackingDriver(g *gpuNode) (stackRole, *corev1.Pod) {
	if len(g.ready(roleDriver)) == 0 {
		if p := g.unready(roleDriver); p != nil {
			return roleDriver, p
		}
		if p := g.unready(roleToolkit); p != nil {
			return roleToolkit, p
		}
		return roleDriver, nil
	}
	return roleToolkit, g.unready(roleToolkit)
}
