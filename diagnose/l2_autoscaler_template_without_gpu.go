package diagnose

import (
	"fmt"
	"slices"

	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
)

var autoscalerTemplateWithoutGpuCheck = Check{
	Cause: "autoscaler-template-without-gpu", Layer: L2, Owner: Platform, Stage: Place, Rank: 59,
	Title:   "The autoscaler does not know that the pool's machines have GPUs",
	Meaning: "A node group has no nodes, so that the cluster autoscaler goes by a description of its machines, and that description names no GPUs. It finds that a new node would not help.",
	Remedy:  "Add the tag or label that tells the autoscaler of the GPUs to the group, such as k8s.io/cluster-autoscaler/node-template/resources/nvidia.com/gpu, or start one node of it by hand.",
	Not:     "The pod asks for too much.",
	Find:    templateWithoutGPU,
}

func templateWithoutGPU(c *Case) []Finding {
	said := c.autoscalerSaid()
	device, ask := podspec.Device(c.Pod)
	if c.autoscalerStuck() == nil || device == "" || said.refused("Insufficient "+device) == 0 {
		return nil
	}
	sources := c.autoscalerSources()
	if slices.ContainsFunc(sources, func(s *autoscalerSource) bool { return s.group != nil && len(s.group.nodes) > 0 }) {
		return nil // its description is made of nodes that have the device
	}
	var out []Finding
	for _, s := range sources {
		if s.group == nil || s.group.full() || s.group.Target > 0 || s.group.ScaleUp == "Backoff" {
			continue
		}
		out = append(out, Finding{
			Fit: true, Probe: c.autoscalerProbe(s),
			Message:  fmt.Sprintf("%s is empty, and the cluster autoscaler believes that its nodes would have too few %s for the pod, which asks for %d", s, device, ask),
			Evidence: append(said.evidence(c), facts.Evidence{Object: "configmap/kube-system/" + autoscalerStatusName, Field: fmt.Sprintf("nodeGroups[name=%q].health.cloudProviderTarget", s.group.Name), Value: "0"}),
		})
	}
	return out
}
