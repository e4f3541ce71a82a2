package l2

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/gpustack"
	"github.com/berth-dev/berth/diagnose/internal/place"
)

var nodePressureCheck = check.Check{
	Cause: "node-pressure", Layer: check.L2, Owner: check.Platform, Stage: check.Place, Rank: 42,
	Title:   "The node is short of disk, memory or process IDs",
	Meaning: "The kubelet has found the node under pressure, evicts pods, and keeps new ones off until that is over.",
	Remedy:  "Clear the node's disk or find what eats its memory: images and logs are the usual reasons.",
	Not:     "A toleration for the taint: the pod would be evicted again.",
	Find:    nodePressure,
}

func nodePressure(c *check.Case) []check.Finding {
	nodes := place.InState(c, gpustack.NodePressed)
	if len(nodes) == 0 {
		return nil
	}
	key := gpustack.ExcludingTaints(nodes[0].Node, gpustack.PressureTaint)[0]
	what := map[string]string{corev1.TaintNodeDiskPressure: "disk", corev1.TaintNodeMemoryPressure: "memory", corev1.TaintNodePIDPressure: "process IDs"}[key]
	f := check.Finding{
		Fit: true, Probe: place.NodeProbe(nodes, gpustack.Wake),
		Message: fmt.Sprintf("%s %s short of %s", place.NamesOf(nodes), place.Verb(nodes, "is", "are"), what),
		Evidence: place.NodesShow(nodes, func(n *corev1.Node) []facts.Evidence {
			out := place.TaintsShown(n, gpustack.PressureTaint)
			for _, o := range n.Status.Conditions {
				if strings.HasSuffix(string(o.Type), "Pressure") && o.Status == corev1.ConditionTrue {
					out = append(out, facts.Evidence{Field: "status.conditions[type=" + string(o.Type) + "]", Value: "True " + o.Reason})
				}
			}
			return out
		}),
	}
	return []check.Finding{f}
}
