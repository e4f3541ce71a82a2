package diagnose

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/gpustack"
)

var kubeletRestartingCheck = Check{
	Cause: "kubelet-restarting", Layer: L2, Owner: Nobody, Stage: Place, Rank: 44,
	Title:   "The kubelet has just started and counts GPUs again",
	Meaning: "A kubelet that starts sets the node's GPUs to zero until the device plugin has registered again. That takes less than two minutes.",
	Remedy:  "Wait a minute or two.",
	Not:     "The GPUs are gone, or the device plugin is broken.",
	Find:    kubeletRestarting,
}

func kubeletRestarting(c *Case) []Finding {
	nodes := c.faulty(gpustack.FaultKubelet)
	if len(nodes) == 0 {
		return nil
	}
	f := Finding{
		Fit: true, Calm: c.comes(nodes, func(n *corev1.Node) { c.repaired(n) }), Probe: nodeProbe(nodes, func(n *corev1.Node) { c.repaired(n) }),
		Message:  fmt.Sprintf("the kubelet of %s has just started, and its device plugin has yet to register: no GPUs are offered for a minute or two", namesOf(nodes)),
		Evidence: nodesShow(nodes, gpusShown),
		Until:    c.Now.Add(gpustack.Settling), Because: "a device plugin registers within two minutes after its kubelet has started",
	}
	if events := c.EventsNamed("Node", "", nodes[0].Name, "Starting", "Rebooted"); len(events) > 0 {
		f.Evidence = append(f.Evidence, shown(events[0]))
	}
	return []Finding{f}
}
