package l4

import (
	"fmt"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/life"
)

var numaMisfitCheck = check.Check{
	Cause: "numa-misfit", Layer: check.L4, Owner: check.User, Stage: check.Start, Rank: 12,
	Title:   "CPUs and GPUs of the pod do not lie on one NUMA node",
	Meaning: "The kubelet's Topology Manager refuses the pod, because what it asks for cannot be had close together on the node. The scheduler does not know of it and may choose the same node again.",
	Remedy:  "Ask for fewer CPUs or GPUs per pod, so that they fit into one NUMA node, or use a scheduler that knows NUMA nodes.",
	Not:     "The node is full: it has enough, only not in one place.",
	Find:    numaMisfit,
}

func numaMisfit(c *check.Case) []check.Finding {
	if c.State != facts.Failed || c.Pod.Status.Reason != "TopologyAffinityError" {
		return nil
	}
	return []check.Finding{{
		Message:  fmt.Sprintf("node %s refused %s: the CPUs and GPUs that it asks for cannot be had on one NUMA node there", c.Pod.Spec.NodeName, life.Refused(c)),
		Evidence: []facts.Evidence{life.Failure(c)},
	}}
}
