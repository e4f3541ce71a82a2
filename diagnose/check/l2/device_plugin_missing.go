package l2

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/gpustack"
	"github.com/berth-dev/berth/diagnose/internal/place"
)

var devicePluginMissingCheck = check.Check{
	Cause: "device-plugin-missing", Layer: check.L2, Owner: check.Platform, Stage: check.Place, Rank: 35,
	Title:   "No device plugin works on the node",
	Meaning: "The GPU driver is in order, and no pod of the device plugin runs on the node or none is ready, so that the kubelet knows of no GPUs. Labels about the GPUs may well be there.",
	Remedy:  "Bring the device plugin's DaemonSet to the node: by the label it selects, or a toleration of the node's taint.",
	Not:     "The driver is broken, or the GPUs are in use.",
	Find:    devicePluginMissing,
}

func devicePluginMissing(c *check.Case) []check.Finding {
	nodes := place.Faulty(c, gpustack.FaultPlugin)
	if len(nodes) == 0 {
		return otherPluginMissing(c)
	}
	g := gpustack.NodeNamed(c.Facts, nodes[0].Name)
	stuck := func(g *gpustack.Node) *corev1.Pod { return g.Unready(gpustack.RolePlugin) }
	message := fmt.Sprintf("no device plugin runs on %s, so that %s no GPUs", place.NamesOf(nodes), place.Verb(nodes, "it offers", "they offer"))
	if stuck(g) != nil {
		message = fmt.Sprintf("the device plugin of %s is not ready, so that %s no GPUs", place.NamesOf(nodes), place.Verb(nodes, "it offers", "they offer"))
	}
	f := check.Finding{
		Fit: true, Probe: place.NodeProbe(nodes, func(n *corev1.Node) { place.Repaired(c, n) }), Message: message + ": " + lackWords(c, gpustack.RolePlugin, stuck(g), g),
		Evidence: append(place.NodesShow(nodes, place.GpusShown), lackShown(c, gpustack.RolePlugin, stuck(g), g)...),
		Healthy: place.AllNodes(nodes, func(n *corev1.Node) bool {
			p := stuck(gpustack.NodeNamed(c.Facts, n.Name))
			return p != nil && stackStarting(c, p, pluginTakes)
		}) && place.Comes(c, nodes, func(n *corev1.Node) { place.Repaired(c, n) }),
	}
	f.Advice = crashAdvice(stuck(g))
	absent := place.NodesWhere(nodes, func(n *corev1.Node) bool { return stuck(gpustack.NodeNamed(c.Facts, n.Name)) == nil })
	f.Edits = bringBack(c, gpustack.RolePlugin, absent)
	f.Edits = append(f.Edits, respell(c, nodes, stuck)...)
	if e, ok := restart(c, gpustack.RolePlugin, nodes, stuck); ok && !f.Healthy {
		f.Edits = append(f.Edits, e)
	}
	return append([]check.Finding{f}, otherPluginMissing(c)...)
}
