package cluster

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A claim whose device wants operations on the node to be left out is had on nodes that declare it, by pods that come later too.
func TestNodesThatSkipOperations(t *testing.T) {
	w := newReferee(1)
	for name, declared := range map[string][]string{"n0": {"DRAOptionalNodeOperations"}, "n1": nil, "n2": {"Other"}} {
		w.Set(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"rack": "r"}}, Status: corev1.NodeStatus{DeclaredFeatures: declared}})
	}
	claim := func(selector *corev1.NodeSelector, skip ...resourcev1.SkipNodeOperation) *resourcev1.ResourceClaim {
		c := &resourcev1.ResourceClaim{}
		c.Status.Allocation = &resourcev1.AllocationResult{NodeSelector: selector}
		c.Status.Allocation.Devices.Results = []resourcev1.DeviceRequestAllocationResult{{Device: "a"}, {Device: "b", SkipNodeOperations: skip}}
		return c
	}
	other := &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "rack", Operator: corev1.NodeSelectorOpDoesNotExist}}}}}
	for _, c := range []struct {
		claim *resourcev1.ResourceClaim
		names []string
		want  []string
	}{
		{claim(nil), nil, nil},
		{claim(nil, resourcev1.SkipNodeOperationAll), nil, []string{"n0"}},
		{claim(nil, resourcev1.SkipNodeOperationAll), []string{"n1"}, []string{}},
		{claim(other, resourcev1.SkipNodeOperationAll), nil, []string{}},
	} {
		if got := w.reaching(c.claim, c.names); !slices.Equal(got, c.want) || (got == nil) != (c.want == nil) {
			t.Errorf("%+v of %q: %q", c.claim.Status.Allocation, c.names, got)
		}
	}
}
