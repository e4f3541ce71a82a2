package cluster

import (
	"fmt"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A Job whose pods have claims of a template is let in when the claims that they will have can be met, and not before. What stood for
// its claims is gone with the expected pods.
func TestKueueWaitsForClaims(t *testing.T) {
	s := kueueing(t)
	decideClaims(s.Feed)
	claiming := func(name string, pods int32) *batchv1.Job {
		j := queued(name, "q", pods)
		spec := &j.Spec.Template.Spec
		spec.Containers[0].Resources = corev1.ResourceRequirements{Claims: []corev1.ResourceClaim{{Name: "card"}}}
		spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "card", ResourceClaimTemplateName: new("one-card")}}
		return j
	}
	waits := func(what, why string) {
		t.Helper()
		if got := s.starts(t); len(got) != 0 {
			t.Fatalf("%s: it is let in: %+v", what, got)
		}
		if said := s.foreignWaits(); why != "" && said != why {
			t.Errorf("%s: it says %q, want %q", what, said, why)
		}
	}
	s.Set(claiming("three", 3))
	waits("without the template", "resource claim template one-card does not exist")
	template := &resourcev1.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "one-card", UID: "t"}}
	template.Spec.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "r", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "cards", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1}}}
	s.Set(template)
	waits("without the class", "device class cards, which claim card names, does not exist")
	s.Set(&resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "cards"}, Spec: resourcev1.DeviceClassSpec{Selectors: []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: "true"}}}}})
	waits("without devices", "")
	for i := range 2 {
		node := fmt.Sprint("n", i)
		s.Set(&resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: node}, Spec: resourcev1.ResourceSliceSpec{
			Driver: refereeDriver, Pool: resourcev1.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1}, NodeName: &node, Devices: []resourcev1.Device{{Name: "card"}},
		}})
	}
	waits("with two devices for three pods", "")

	two := claiming("two", 2)
	s.Set(two)
	got := s.starts(t)
	if len(got) != 1 || len(got[0].Placements) != 2 || got[0].Placements[0].Node == got[0].Placements[1].Node || s.Entry(&got[0]) == nil {
		t.Fatalf("with two for two: %+v", got)
	}
	s.Entered(&got[0])
	s.Remove(two)
	s.starts(t)
	for key := range s.devices.claims {
		if m := s.members.pods["default/three:0"]; m == nil || ExpectedKey(key) && key[:len("default/three")] != "default/three" {
			t.Errorf("claim %s is left", key)
		}
	}
	s.Remove(template)
	waits("without the template again", "resource claim template one-card does not exist")
	if n := len(s.devices.claims); n != 0 {
		t.Errorf("%d claims are left", n)
	}
}

// foreignWaits is what keeps the first group from the engine.
func (s *speaking) foreignWaits() string {
	if lacks := s.ForeignGroups()[0].Lacks; len(lacks) > 0 {
		return lacks[0]
	}
	return ""
}
