package diagnose

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/gpustack"
)

var devicePluginMissingCheck = Check{
	Cause: "device-plugin-missing", Layer: L2, Owner: Platform, Stage: Place, Rank: 35,
	Title:   "No device plugin works on the node",
	Meaning: "The GPU driver is in order, and no pod of the device plugin runs on the node or none is ready, so that the kubelet knows of no GPUs. Labels about the GPUs may well be there.",
	Remedy:  "Bring the device plugin's DaemonSet to the node: by the label it selects, or a toleration of the node's taint.",
	Not:     "The driver is broken, or the GPUs are in use.",
	Find:    devicePluginMissing,
}

func devicePluginMissing(c *Case) []Finding {
	nodes := c.faulty(gpustack.FaultPlugin)
	if len(nodes) == 0 {
		return nil
	}
	g := gpustack.NodeNamed(c.Facts, nodes[0].Name)
	stuck := func(g *gpustack.Node) *corev1.Pod { return g.Unready(gpustack.RolePlugin) }
	message := fmt.Sprintf("no device plugin runs on %s, so that %s no GPUs", namesOf(nodes), verb(nodes, "it offers", "they offer"))
	if stuck(g) != nil {
		message = fmt.Sprintf("the device plugin of %s is not ready, so that %s no GPUs", namesOf(nodes), verb(nodes, "it offers", "they offer"))
	}
	f := Finding{
		Fit: true, Probe: nodeProbe(nodes, func(n *corev1.Node) { c.repaired(n) }), Message: message + ": " + c.lackWords(gpustack.RolePlugin, stuck(g), g),
		Evidence: append(nodesShow(nodes, gpusShown), c.lackShown(gpustack.RolePlugin, stuck(g), g)...),
		Calm: allNodes(nodes, func(n *corev1.Node) bool {
			p := stuck(gpustack.NodeNamed(c.Facts, n.Name))
			return p != nil && c.stackStarting(p, pluginTakes)
		}) && c.comes(nodes, func(n *corev1.Node) { c.repaired(n) }),
	}
	absent := nodesWhere(nodes, func(n *corev1.Node) bool { return stuck(gpustack.NodeNamed(c.Facts, n.Name)) == nil })
	f.Edits = c.bringBack(gpustack.RolePlugin, absent)
	if e, ok := c.restart(gpustack.RolePlugin, nodes, stuck); ok && !f.Calm {
		f.Edits = append(f.Edits, e)
	}
	return []Finding{f}
}
