package l3

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/place"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
	"github.com/berth-dev/berth/engine/why"
)

// freeEvidence is what the node has too little free of; where one pod more would fit, what it has of the device.
func freeEvidence(c *check.Case, n *check.NodeFit) []facts.Evidence {
	short := n.Short[:min(len(n.Short), 2)]
	if device, _ := podspec.Device(c.Pod); len(short) == 0 && device != "" {
		short = []why.Short{{Resource: device}}
	}
	var out []facts.Evidence
	for _, s := range short {
		out = append(out, facts.Evidence{
			Object: "node/" + n.Name, Field: fmt.Sprintf("status.allocatable[%q], less what its pods request", s.Resource),
			Value: why.Quantity(s.Resource, leftFor(c, n, s.Resource)),
		})
	}
	return out
}

// leftFor is how much of the resource the node has free.
func leftFor(c *check.Case, n *check.NodeFit, resource string) int64 {
	if by := n.ShortOf(resource); by > 0 {
		return max(0, podspec.Requested(c.Pod, resource)-by) // what is kept for others is not free
	}
	return podspec.Amount(resource, place.FreeOn(c.Facts, n.Node)[corev1.ResourceName(resource)])
}
