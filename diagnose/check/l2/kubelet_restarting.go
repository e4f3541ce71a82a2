package l2

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/gpustack"
	"github.com/berth-dev/berth/diagnose/internal/life"
	"github.com/berth-dev/berth/diagnose/internal/place"
)

var kubeletRestartingCheck = check.Check{
	Cause: "kubelet-restarting", Layer: check.L2, Owner: check.Nobody, Stage: check.Place, Rank: 44,
	Title:   "The kubelet has just started and counts GPUs again",
	Meaning: "A kubelet that starts sets the node's GPUs to zero until the device plugin has registered again. That takes less than two minutes.",
	Remedy:  "Wait a minute or two.",
	Not:     "The GPUs are gone, or the device plugin is broken.",
	Find:    kubeletRestarting,
}

func kubeletRestarting(c *check.Case) []check.Finding {
	nodes := place.Faulty(c, gpustack.FaultKubelet)
	if len(nodes) == 0 {
		return nil
	}
	f := check.Finding{
		Fit: true, Healthy: place.Comes(c, nodes, func(n *corev1.Node) { place.Repaired(c, n) }), Probe: place.NodeProbe(nodes, func(n *corev1.Node) { place.Repaired(c, n) }),
		Message:  fmt.Sprintf("the kubelet of %s has just started, and its device plugin has yet to register: no GPUs are offered for a minute or two", place.NamesOf(nodes)),
		Evidence: place.NodesShow(nodes, place.GpusShown),
		Until:    c.Now.Add(gpustack.Settling), Because: "a device plugin registers within two minutes after its kubelet has started",
	}
	if events := c.EventsNamed("Node", "", nodes[0].Name, "Starting", "Rebooted"); len(events) > 0 {
		f.Evidence = append(f.Evidence, life.Shown(events[0]))
	}
	return []check.Finding{f}
}
