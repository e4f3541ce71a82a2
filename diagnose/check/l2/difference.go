package l2

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
)

// difference is what a node lacks of what its pool, or all its siblings, have.
type difference struct {
	from   string // "pool a", "the other nodes of a"
	labels map[string]string
	drop   []corev1.Taint // on the node
	add    []corev1.Taint // of the pool
}

// poolLabels name a node's group, at the providers that have such groups.
var poolLabels = []string{v1alpha1.LabelPool, "cloud.google.com/gke-nodepool", "eks.amazonaws.com/nodegroup", "karpenter.sh/nodepool", "agentpool", "kubernetes.azure.com/agentpool"}

func (d difference) mend(n *corev1.Node) {
	if n.Labels == nil && len(d.labels) > 0 {
		n.Labels = make(map[string]string)
	}
	for k, v := range d.labels {
		n.Labels[k] = v
	}
	n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool {
		return slices.ContainsFunc(d.drop, func(o corev1.Taint) bool { return o.MatchTaint(&t) && o.Value == t.Value })
	})
	n.Spec.Taints = append(n.Spec.Taints, d.add...)
}

func (d difference) text() string {
	var words []string
	for _, k := range sortedLabels(d.labels) {
		words = append(words, fmt.Sprintf("label %s=%s, which the pod asks for and %s has, is missing", k, d.labels[k], d.from))
	}
	for i, t := range d.drop {
		words = append(words, fmt.Sprintf("taint %s is not the one of %s, %s, which the pod is written for", podspec.TaintText(t), d.from, podspec.TaintText(d.add[i])))
	}
	return strings.Join(words, "; ")
}

func (d difference) wanted() string {
	var words []string
	for _, k := range sortedLabels(d.labels) {
		words = append(words, "label "+k+"="+d.labels[k])
	}
	for i, t := range d.add {
		words = append(words, fmt.Sprintf("taint %s in place of %s", podspec.TaintText(t), podspec.TaintText(d.drop[i])))
	}
	return strings.Join(words, ", ")
}

func (d difference) evidence(n *corev1.Node) (out []facts.Evidence) {
	for _, k := range sortedLabels(d.labels) {
		value := n.Labels[k]
		if value == "" {
			value = "absent"
		}
		out = append(out, facts.Evidence{Field: fmt.Sprintf("metadata.labels[%q]", k), Value: fmt.Sprintf("%s, where %s has %s", value, d.from, d.labels[k])})
	}
	for i, t := range d.drop {
		out = append(out, facts.Evidence{Field: fmt.Sprintf("spec.taints[key=%q]", t.Key), Value: fmt.Sprintf("%s, where %s has %s", podspec.TaintText(t), d.from, podspec.TaintText(d.add[i]))})
	}
	return out
}

func sortedLabels(m map[string]string) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// commandsFor are the commands for each node, joined.
func commandsFor(nodes []*check.NodeFit, differs map[string]difference) string {
	var out []string
	for _, n := range nodes {
		d := differs[n.Name]
		for _, k := range sortedLabels(d.labels) {
			out = append(out, fmt.Sprintf("kubectl label node %s %s=%s --overwrite", n.Name, k, d.labels[k]))
		}
		for i, t := range d.drop {
			if t.Effect != d.add[i].Effect {
				out = append(out, fmt.Sprintf("kubectl taint node %s %s:%s-", n.Name, t.Key, t.Effect))
			}
			out = append(out, fmt.Sprintf("kubectl taint node %s %s --overwrite", n.Name, podspec.TaintText(d.add[i])))
		}
	}
	return strings.Join(out, " && ")
}
