package kueue

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/berth-dev/berth/kube/dialect"
)

// UnmetAffinity is a key of the required node affinity that the labels do not satisfy, "" where they do.
func UnmetAffinity(spec *corev1.PodSpec, keys map[string]bool, have map[string]string) string {
	if spec.Affinity == nil || spec.Affinity.NodeAffinity == nil || spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return ""
	}
	first := ""
	var terms []corev1.NodeSelectorTerm
	for _, term := range spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		term.MatchFields = nil
		term.MatchExpressions = slices.DeleteFunc(slices.Clone(term.MatchExpressions), func(r corev1.NodeSelectorRequirement) bool { return !keys[r.Key] })
		if len(term.MatchExpressions) == 0 {
			return ""
		}
		if first == "" {
			first = term.MatchExpressions[0].Key
		}
		terms = append(terms, term)
	}
	s, err := nodeaffinity.NewNodeSelector(&corev1.NodeSelector{NodeSelectorTerms: terms})
	if err != nil || s.Match(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: have}}) {
		return ""
	}
	return first
}

func Cohort(cluster *unstructured.Unstructured) string {
	if name := dialect.Text(cluster.Object, "spec", "cohortName"); name != "" {
		return name
	}
	return dialect.Text(cluster.Object, "spec", "cohort")
}

// QuotaAt finds a quota, and its path.
func QuotaAt(cluster *unstructured.Unstructured, flavor, resource string) (string, map[string]any) {
	for g, group := range dialect.Items(cluster.Object, "spec", "resourceGroups") {
		for i, fl := range dialect.Items(group, "flavors") {
			for j, r := range dialect.Items(fl, "resources") {
				if dialect.Text(fl, "name") == flavor && dialect.Text(r, "name") == resource {
					return fmt.Sprintf("/spec/resourceGroups/%d/flavors/%d/resources/%d", g, i, j), r
				}
			}
		}
	}
	return "", nil
}
