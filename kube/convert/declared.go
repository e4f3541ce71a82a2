package convert

import (
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	kubernetes "k8s.io/apimachinery/pkg/util/version"
	"k8s.io/component-helpers/nodedeclaredfeatures"
)

// declared begins the keys by which features that nodes declare become labels to the engine, and what pods need of
// them a selector: upstream's rule for them is that of a node selector.
const declared = "node-feature/"

// declaring returns the node's labels with the features that it declares.
func declaring(n *corev1.Node) map[string]string {
	if len(n.Status.DeclaredFeatures) == 0 {
		return n.Labels
	}
	out := maps.Clone(n.Labels)
	if out == nil {
		out = make(map[string]string)
	}
	for _, f := range n.Status.DeclaredFeatures {
		out[declared+f] = "true"
	}
	return out
}

// NodeFeature is the feature that a label of the engine's stands for, and whether it stands for one.
func NodeFeature(key string) (string, bool) { return strings.CutPrefix(key, declared) }

// FeaturesNeeded are the features that the pod's node must declare.
func FeaturesNeeded(p *corev1.Pod) []string {
	needs, err := nodedeclaredfeatures.DefaultFramework.InferForPodScheduling(&nodedeclaredfeatures.PodInfo{Spec: &p.Spec}, ofKubernetes)
	if err != nil || needs.IsEmpty() {
		return nil
	}
	names, err := nodedeclaredfeatures.DefaultFramework.Unmap(needs)
	if err != nil {
		return nil
	}
	return names
}

// needing returns the pod's node selector with the features that its node must declare.
func needing(p *corev1.Pod) map[string]string {
	names := FeaturesNeeded(p)
	if len(names) == 0 {
		return p.Spec.NodeSelector
	}
	out := maps.Clone(p.Spec.NodeSelector)
	if out == nil {
		out = make(map[string]string)
	}
	for _, f := range names {
		out[declared+f] = "true"
	}
	return out
}

// ofKubernetes is the version whose pods are read: what every node of it can do need not be declared.
var ofKubernetes = kubernetes.MajorMinor(1, 37)
