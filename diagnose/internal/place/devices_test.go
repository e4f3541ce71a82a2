package place

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/kube/devices"
)

const driver = "gpu.example.com"

// begins selects devices by how their names begin.
func begins(with string) string {
	return fmt.Sprintf("device.attributes[%q].name.startsWith(%q)", driver, with)
}

// offering is a node with devices, two to a root, and a class of them.
func offering(gpus int) (*facts.Facts, *corev1.Node) {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	s := &resourcev1.ResourceSlice{Spec: resourcev1.ResourceSliceSpec{Driver: driver, NodeName: &n.Name, Pool: resourcev1.ResourcePool{Name: "n", Generation: 2, ResourceSliceCount: 1}}}
	for i := range gpus {
		s.Spec.Devices = append(s.Spec.Devices, resourcev1.Device{Name: fmt.Sprint("gpu-", i), Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{
			"name": {StringValue: new(fmt.Sprint("gpu-", i))}, "root": {StringValue: new(fmt.Sprint("root-", i/2))}, "index": {IntValue: new(int64(i))},
		}})
	}
	old := s.DeepCopy()
	old.Spec.Pool.Generation, old.Spec.Devices = 1, append(old.Spec.Devices, resourcev1.Device{Name: "gone", Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"name": {StringValue: new("gone")}}})
	f := &facts.Facts{Matches: devices.NewMatcher(), NewAllocator: devices.NewAllocator()}
	f.Nodes, f.ResourceSlices = []*corev1.Node{n}, []*resourcev1.ResourceSlice{old, s}
	f.DeviceClasses = []*resourcev1.DeviceClass{{ObjectMeta: metav1.ObjectMeta{Name: "class"}, Spec: resourcev1.DeviceClassSpec{Selectors: []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: begins("gpu")}}}}}}
	return f, n
}

func wants(count int64, change ...func(*resourcev1.ExactDeviceRequest)) resourcev1.DeviceRequest {
	r := &resourcev1.ExactDeviceRequest{DeviceClassName: "class", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: count}
	for _, c := range change {
		c(r)
	}
	return resourcev1.DeviceRequest{Name: fmt.Sprint("r", count), Exactly: r}
}

func holding(names ...string) *resourcev1.ResourceClaim {
	c := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "held"}}
	c.Status.Allocation = &resourcev1.AllocationResult{}
	for _, name := range names {
		c.Status.Allocation.Devices.Results = append(c.Status.Allocation.Devices.Results, resourcev1.DeviceRequestAllocationResult{Driver: driver, Pool: "n", Device: name})
	}
	return c
}

func TestDevicesForClaims(t *testing.T) {
	only := func(name string) func(*resourcev1.ExactDeviceRequest) {
		return func(r *resourcev1.ExactDeviceRequest) {
			r.Selectors = []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: begins(name)}}}
		}
	}
	all := func(r *resourcev1.ExactDeviceRequest) {
		r.AllocationMode, r.Count = resourcev1.DeviceAllocationModeAll, 0
	}
	admin := func(r *resourcev1.ExactDeviceRequest) { r.AdminAccess = new(true) }
	root := resourcev1.FullyQualifiedName(driver + "/root")
	index := resourcev1.FullyQualifiedName(driver + "/index")
	same := []resourcev1.DeviceConstraint{{MatchAttribute: &root}}
	for _, c := range []struct {
		name string
		held []string
		spec resourcev1.DeviceClaim
		want bool
	}{
		{"all four", nil, resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{wants(4)}}, true},
		{"five of four", nil, resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{wants(5)}}, false},
		{"what is left", []string{"gpu-0"}, resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{wants(3)}}, true},
		{"more than is left", []string{"gpu-0"}, resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{wants(4)}}, false},
		{"every one, and one is held", []string{"gpu-0"}, resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{wants(1, all)}}, false},
		{"to look on", []string{"gpu-0", "gpu-1", "gpu-2", "gpu-3"}, resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{wants(4, admin)}}, true},
		{"two requests for one device", nil, resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{wants(1, only("gpu-0")), wants(1, only("gpu-0"))}}, false},
		{"the first request must leave the one that the second needs", nil, resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{wants(3), wants(1, only("gpu-1"))}}, true},
		{"two of one root", []string{"gpu-0"}, resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{wants(2)}, Constraints: same}, true},
		{"two of one root, each of which has one left", []string{"gpu-0", "gpu-2"}, resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{wants(2)}, Constraints: same}, false},
		{"all different", nil, resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{wants(4)}, Constraints: []resourcev1.DeviceConstraint{{DistinctAttribute: &index}}}, true},
		{"three of different roots", nil, resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{wants(3)}, Constraints: []resourcev1.DeviceConstraint{{DistinctAttribute: &root}}}, false},
		{"of an old generation", nil, resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{wants(1, only("gone"))}}, false},
		{"the second of two that would do", nil, resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{Name: "r", FirstAvailable: []resourcev1.DeviceSubRequest{
			{Name: "big", DeviceClassName: "class", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 8},
			{Name: "small", DeviceClassName: "class", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 2},
		}}}}, true},
	} {
		f, n := offering(4)
		f.ResourceClaims = []*resourcev1.ResourceClaim{holding(c.held...)}
		for range 2 { // looking changes nothing
			if got := OffersOf(f).refuse(n, []PodClaim{{Name: "c", spec: &c.spec}}); (got == "") != c.want {
				t.Errorf("%s: %q", c.name, got)
			}
		}
	}
}

// Parts of a GPU share its counters.
func TestDevicesThatShareCounters(t *testing.T) {
	f, n := offering(3)
	s := f.ResourceSlices[1]
	counters := s.DeepCopy() // counters are in a slice of their own
	s.Spec.Pool.ResourceSliceCount, counters.Spec.Pool.ResourceSliceCount, counters.Spec.Devices = 2, 2, nil
	f.ResourceSlices = append(f.ResourceSlices, counters)
	counters.Spec.SharedCounters = []resourcev1.CounterSet{{Name: "gpu", Counters: map[string]resourcev1.Counter{"memory": {Value: resource.MustParse("80Gi")}}}}
	for i, takes := range []string{"80Gi", "40Gi", "40Gi"} {
		s.Spec.Devices[i].ConsumesCounters = []resourcev1.DeviceCounterConsumption{{CounterSet: "gpu", Counters: map[string]resourcev1.Counter{"memory": {Value: resource.MustParse(takes)}}}}
	}
	spec := func(count int64) []PodClaim {
		return []PodClaim{{Name: "c", spec: &resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{wants(count)}}}}
	}
	if got := OffersOf(f).refuse(n, spec(2)); got != "" {
		t.Errorf("two halves: %s", got)
	}
	if got := OffersOf(f).refuse(n, spec(3)); got == "" {
		t.Error("the whole and two halves of it")
	}
	f = f.After([]facts.Change{{Now: holding("gpu-1")}})
	if got := OffersOf(f).refuse(n, spec(2)); got == "" {
		t.Error("two of what is left of one half")
	}
	if got := OffersOf(f).refuse(n, spec(1)); got != "" {
		t.Errorf("the other half: %s", got)
	}
}

func TestIncompletePoolOffersNothing(t *testing.T) {
	f, n := offering(2)
	f.ResourceSlices[1].Spec.Pool.ResourceSliceCount = 2
	if got := OffersOf(f).reach(n); len(got) != 0 {
		t.Errorf("%d devices of half a pool", len(got))
	}
}
