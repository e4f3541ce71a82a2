package cluster

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/engine/why"
)

// A pod that waits for a resource which device classes alone have waits as one with claims: no node that is bought would
// help. Where a node offers the resource by itself, it is a resource like any other.
func TestResourceOfADeviceClass(t *testing.T) {
	f := newClock()
	class := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpus"}, Spec: resourcev1.DeviceClassSpec{ExtendedResourceName: new("nvidia.com/gpu")}}
	bare, plugin := node("n1", "r1", 0), node("n2", "r1", 8)
	bare.ResourceVersion, plugin.ResourceVersion = "1", "2"
	p := pod("p", 1)
	p.UID, p.ResourceVersion = "p", "3"
	f.Set(bare)
	f.Set(p)
	step := func(what string, want ...why.Feature) {
		t.Helper()
		f.Settle()
		var last []why.Feature
		given := false
		for _, c := range f.changes.take() {
			if c.Pod != nil {
				last, given = c.Pod.Features, true
			}
		}
		if !given || len(last) != len(want) {
			t.Errorf("%s: given %v, features %v, want %v", what, given, last, want)
		}
	}
	step("as it comes")
	f.Set(class)
	step("a class comes", why.Claims)
	f.Set(plugin)
	step("a node offers it")
	plugin.ResourceVersion = "9"
	f.Remove(plugin)
	step("the node goes", why.Claims)
	f.Remove(class)
	step("the class goes")
	q := pod("q", 0)
	q.UID, q.ResourceVersion = "q", "4"
	q.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"deviceclass.resource.kubernetes.io/gpus": resource.MustParse("1")}
	f.Set(q)
	step("by the name of the class", why.Claims)
}
