package cluster

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/engine"
)

// A pod with alternatives counts, while it waits, as the least of those that there are devices for, whichever come and go.
func TestAlternativesCountWhatThereIs(t *testing.T) {
	f := newClock()
	decideClaims(f.Feed)
	selected := func(expression string) []resourcev1.DeviceSelector {
		return []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: expression}}}
	}
	f.Set(&resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "all"}, Spec: resourcev1.DeviceClassSpec{Selectors: selected("true")}})
	slice := func(node, kind, profile string, devices ...string) *resourcev1.ResourceSlice {
		s := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: node}, Spec: resourcev1.ResourceSliceSpec{
			Driver: refereeDriver, Pool: resourcev1.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1}, NodeName: &node,
		}}
		for _, name := range devices {
			d := resourcev1.Device{Name: name, Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"type": {StringValue: &kind}}}
			if profile != "" {
				d.Attributes["profile"], d.Attributes["productName"] = resourcev1.DeviceAttribute{StringValue: &profile}, resourcev1.DeviceAttribute{StringValue: new("NVIDIA A100-SXM4-80GB")}
			}
			s.Spec.Devices = append(s.Spec.Devices, d)
		}
		return s
	}
	option := func(kind string, count int64) resourcev1.DeviceSubRequest {
		return resourcev1.DeviceSubRequest{Name: kind, DeviceClassName: "all", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: count,
			Selectors: selected(`device.attributes["` + refereeDriver + `"].type == "` + kind + `"`)}
	}
	claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c", UID: "c", ResourceVersion: "1"}}
	claim.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "r", FirstAvailable: []resourcev1.DeviceSubRequest{option("mig", 1), option("gpu", 2)}}}
	p := pod("p", 0)
	p.UID, p.ResourceVersion = "p", "2"
	p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "c", ResourceClaimName: &claim.Name}}
	bare := node("n0", "r1", 0)
	bare.ResourceVersion = "3"
	f.Set(bare)
	f.Set(claim)
	f.Set(p)
	step := func(what string, whole, parts int64) {
		t.Helper()
		f.Settle()
		f.changes.take()
		v := f.members.pods["default/p"].value
		if v == nil || v.Requests.Get("nvidia.com/gpu") != whole || v.Claimed != parts {
			t.Errorf("%s: %+v, want %d GPUs and %d thousandths", what, v, whole, parts)
		}
	}
	step("without devices", 0, 0)
	f.Set(slice("n0", "gpu", "", "a", "b"))
	step("with those of the second alternative", 2, 0)
	part := slice("n1", "mig", "1g.10gb", "m")
	f.Set(part)
	v := f.devices.Device(refereeDriver + "/n1/m").OfGPU()
	if v == 0 || v >= engine.Whole {
		t.Fatalf("a part is %d", v)
	}
	step("with a device of the first", 0, v)
	f.Remove(part)
	step("when that has gone", 2, 0)
}
