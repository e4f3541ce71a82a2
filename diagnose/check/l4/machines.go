package l4

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
)

// wrongMachine says that an image was built for machines of another kind than the pod's node.
func wrongMachine(c *check.Case) string {
	if n := c.NodeNamed(c.Pod.Spec.NodeName); n != nil && archOf(n) != "" {
		return fmt.Sprintf("its image was not built for the node's architecture, kubernetes.io/arch=%s", archOf(n))
	}
	return "its image was not built for the node's architecture"
}

func archOf(n *corev1.Node) string { return n.Labels[corev1.LabelArchStable] }

// otherMachines ask for nodes of each other architecture that the cluster has.
func otherMachines(c *check.Case) (out []edit.Edit) {
	own := c.NodeNamed(c.Pod.Spec.NodeName)
	if own == nil || archOf(own) == "" || c.Pod.Spec.NodeSelector[corev1.LabelArchStable] != "" {
		return nil
	}
	var others []string
	for _, n := range c.Nodes {
		if a := archOf(n); a != "" && a != archOf(own) && !slices.Contains(others, a) {
			others = append(others, a)
		}
	}
	slices.Sort(others)
	for _, a := range others {
		out = append(out, edit.Edit{
			Side: edit.Workload, Cost: 2, Text: fmt.Sprintf("ask for nodes with %s=%s", corev1.LabelArchStable, a),
			Ops:     []edit.Op{{Op: "add", Path: edit.Pointer("spec", "nodeSelector", corev1.LabelArchStable), Value: a}},
			Assumes: fmt.Sprintf("the image was built for %s", a),
		})
	}
	return out
}
