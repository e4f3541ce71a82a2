package convert

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// What is said of a pod that is too large, and what is left of it, is the same each time.
func TestLimitsAreTheSameEachTime(t *testing.T) {
	selector, requests := map[string]string{}, corev1.ResourceList{}
	for i := range 2 * MaxSelectorLabels {
		selector[fmt.Sprintf("example.com/%0*d", 1+i%50, i)] = strings.Repeat("v", i%60)
	}
	for i := range 2 * MaxResources {
		requests[corev1.ResourceName(fmt.Sprintf("example.com/%0*d", 1+i%50, i))] = resource.MustParse("1")
	}
	var first string
	for range 20 {
		p := &corev1.Pod{Spec: corev1.PodSpec{NodeSelector: maps.Clone(selector), Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: requests}}}}}
		trimLists(&p.Spec)
		counted := &tally{}
		counted.resources(&p.Spec)
		got := fmt.Sprint(p.Spec.NodeSelector, overLimits(p), counted.bytes)
		if first == "" {
			first = got
		}
		if got != first {
			t.Fatalf("%s, and then %s", first, got)
		}
	}
}
