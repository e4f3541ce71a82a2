package cluster

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// besides is a cluster of one node, with a device plugin or without, where drivers offer devices.
func besides(plugin int64, drivers ...*resourcev1.ResourceSlice) *claimed {
	w := newClaimed()
	for _, name := range []string{"n0", "n1"} {
		w.Remove(cardsOn(name, "a", "b"))
	}
	n := node("n0", "r1", plugin)
	n.ResourceVersion = w.next()
	w.Set(n)
	n = node("n1", "r1", 0)
	n.ResourceVersion = w.next()
	w.Remove(n)
	for _, s := range drivers {
		w.Set(s)
	}
	class := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "nics"}, Spec: resourcev1.DeviceClassSpec{
		Selectors: []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: `device.driver == "dra.net"`}}},
	}}
	w.Set(class)
	return w
}

// offered is a slice of n0 as the driver publishes it.
func offered(driver string, devices ...resourcev1.Device) *resourcev1.ResourceSlice {
	return &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: driver}, Spec: resourcev1.ResourceSliceSpec{
		Driver: driver, Pool: resourcev1.ResourcePool{Name: "n0", Generation: 1, ResourceSliceCount: 1}, NodeName: new("n0"), Devices: devices,
	}}
}

func typed(name, kind string) resourcev1.Device {
	return resourcev1.Device{Name: name, Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"type": {StringValue: new(kind)}}}
}

var (
	nics     = offered("dra.net", resourcev1.Device{Name: "eth1"}, resourcev1.Device{Name: "eth2"})
	sriov    = offered("sriovnetwork.k8snetworkplumbingwg.io", resourcev1.Device{Name: "0000-08-00-1"})
	channels = offered("compute-domain.nvidia.com", typed("channel-0", "channel"), typed("daemon-0", "daemon"))
	cards    = offered("gpu.nvidia.com", typed("gpu-0", "gpu"), typed("gpu-1", "gpu"))
	parts    = offered("gpu.nvidia.com", typed("gpu-0-mig-1g10gb-0", "mig"))
)

// Whether a pod that counts GPUs may be on a node depends on whether what drivers offer there are GPUs, and on nothing else that they offer.
func TestDevicesBesideGPUs(t *testing.T) {
	type question struct {
		asks    string // of n0
		drivers []*resourcev1.ResourceSlice
		plugin  int64
		backed  bool // a class has nvidia.com/gpu
	}
	for _, c := range []struct {
		name string
		question
		starts   bool
		extended bool // a claim is made for it
	}{
		{"network cards", question{"gpu", []*resourcev1.ResourceSlice{nics}, 8, false}, true, false},
		{"virtual functions", question{"gpu", []*resourcev1.ResourceSlice{sriov}, 8, false}, true, false},
		{"channels of NVLink", question{"gpu", []*resourcev1.ResourceSlice{channels}, 8, false}, true, false},
		{"network cards, and a class has the resource", question{"gpu", []*resourcev1.ResourceSlice{nics}, 8, true}, true, false},
		{"network cards, one of which it claims", question{"gpu nic", []*resourcev1.ResourceSlice{nics}, 8, false}, true, false},
		{"network cards, and no GPUs", question{"gpu", []*resourcev1.ResourceSlice{nics}, 0, false}, false, false},
		{"GPUs", question{"gpu", []*resourcev1.ResourceSlice{cards}, 0, false}, false, false},
		{"GPUs and network cards", question{"gpu nic", []*resourcev1.ResourceSlice{cards, nics}, 0, false}, false, false},
		{"GPUs, of which a class has the resource", question{"gpu", []*resourcev1.ResourceSlice{cards, nics}, 0, true}, true, true},
		{"GPUs in both ways", question{"gpu", []*resourcev1.ResourceSlice{cards}, 2, false}, false, false},
		{"parts of GPUs in both ways", question{"gpu", []*resourcev1.ResourceSlice{parts}, 2, false}, false, false},
		{"GPUs in both ways, of which a class has the resource", question{"gpu", []*resourcev1.ResourceSlice{cards}, 2, true}, true, true},
	} {
		w := besides(c.plugin, c.drivers...)
		if c.backed {
			class := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpus"}, Spec: resourcev1.DeviceClassSpec{ExtendedResourceName: new("nvidia.com/gpu")}}
			class.Spec.Selectors = []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: `device.driver == "gpu.nvidia.com"`}}}
			w.Set(class)
		}
		p := pod("p", 1)
		p.UID, p.ResourceVersion = types.UID("p"), w.next()
		if c.asks == "gpu nic" {
			claim := w.claim("nic", "", "")
			claim.Spec.Devices.Requests[0].Exactly.DeviceClassName = "nics"
			w.Set(claim)
			p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "nic", ResourceClaimName: new("nic")}}
		}
		w.Set(p)
		w.Settle()
		w.state.Apply(w.changes.take()...)
		plan := w.state.Plan(noon)
		if got := len(plan.Starts) == 1; got != c.starts {
			t.Errorf("%s: it starts %v, want %v: %v", c.name, got, c.starts, plan.Waiting)
			continue
		}
		if !c.starts {
			continue
		}
		r := &Reservation{}
		w.wantDevices(r, plan.Starts[0].Placements[0])
		extended := len(r.Devices) > 0 && r.Devices[0].Extended != nil
		if extended != c.extended {
			t.Errorf("%s: a claim is made for it: %v, want %v", c.name, extended, c.extended)
		}
	}
}

// A resource of network cards is had by claims where a driver offers them, and GPUs by count on the same node.
func TestResourcesByClaims(t *testing.T) {
	w := besides(8, nics)
	class := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "wide"}, Spec: resourcev1.DeviceClassSpec{ExtendedResourceName: new("example.com/nic")}}
	class.Spec.Selectors = []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: `device.driver == "dra.net"`}}}
	w.Set(class)
	for i := range 3 {
		p := pod(fmt.Sprint("p", i), 2)
		p.UID, p.ResourceVersion = types.UID(p.Name), w.next()
		p.Spec.Containers[0].Resources.Requests["example.com/nic"] = resource.MustParse("1")
		w.Set(p)
	}
	w.Settle()
	w.Settle()
	w.state.Apply(w.changes.take()...)
	n := w.nodes.given["n0"]
	if diff := cmp.Diff([]string{"deviceclass.resource.kubernetes.io/wide", "example.com/nic"}, n.ByClaims); diff != "" {
		t.Error("given by claims (-want +got):\n", diff)
	}
	plan, got := w.state.Plan(noon), 0
	for _, s := range plan.Starts {
		for _, at := range s.Placements {
			if got += len(at.Devices); len(at.Devices) != 1 {
				t.Errorf("%s has %q", at.Pod, at.Devices)
			}
		}
	}
	if got != 2 {
		t.Errorf("%d of the 2 cards are given away: %v", got, plan.Waiting)
	}
}
