package l2

import (
	"fmt"
	"slices"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
	"github.com/berth-dev/berth/diagnose/internal/supply"
	"github.com/berth-dev/berth/kube/dialect/clusterautoscaler"
)

var autoscalerTemplateWithoutGpuCheck = check.Check{
	Cause: "autoscaler-template-without-gpu", Layer: check.L2, Owner: check.Platform, Stage: check.Place, Rank: 59,
	Title:   "The autoscaler does not know that the pool's machines have GPUs",
	Meaning: "A node group has no nodes, so that the cluster autoscaler goes by a description of its machines, and that description names no GPUs. It finds that a new node would not help.",
	Remedy:  "Add the tag or label that tells the autoscaler of the GPUs to the group, such as k8s.io/cluster-autoscaler/node-template/resources/nvidia.com/gpu, or start one node of it by hand.",
	Not:     "The pod asks for too much.",
	Find:    templateWithoutGPU,
}

func templateWithoutGPU(c *check.Case) []check.Finding {
	said := supply.AutoscalerSaid(c)
	device, ask := podspec.Device(c.Pod)
	if supply.AutoscalerStuck(c) == nil || device == "" || said.Refused("Insufficient "+device) == 0 {
		return nil
	}
	sources := supply.AutoscalerSources(c)
	if slices.ContainsFunc(sources, func(s *supply.AutoscalerSource) bool { return s.Group != nil && len(s.Group.Nodes) > 0 }) {
		return nil // its description is made of nodes that have the device
	}
	var out []check.Finding
	for _, s := range sources {
		if s.Group == nil || s.Group.Full() || s.Group.Target > 0 || s.Group.ScaleUp == "Backoff" {
			continue
		}
		out = append(out, check.Finding{
			Fit: true, Probe: supply.AutoscalerProbe(c, s),
			Message:  fmt.Sprintf("%s is empty, and the cluster autoscaler believes that its nodes would have too few %s for the pod, which asks for %d", s, device, ask),
			Evidence: append(supply.AutoscalerEvidence(said, c), facts.Evidence{Object: "configmap/kube-system/" + clusterautoscaler.StatusName, Field: fmt.Sprintf("nodeGroups[name=%q].health.cloudProviderTarget", s.Group.Name), Value: "0"}),
		})
	}
	return out
}
