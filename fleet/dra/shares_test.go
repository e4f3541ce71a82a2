package dra

import (
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/fleet/gpu"
)

// HAMi's driver offers each GPU to several claims, by memory and percent of its compute.
func TestShares(t *testing.T) {
	m := Machine{Node: "n0", Shares: true, GPUs: []gpu.Device{{Index: 0, UUID: "GPU-0", MemoryMiB: 1000}, {Index: 1, UUID: "GPU-1", MemoryMiB: 1000}}}
	slices := m.Slices(metav1.OwnerReference{})
	if len(slices) != 1 || slices[0].Spec.Driver != HAMiDriver || slices[0].Name != "n0-"+HAMiDriver {
		t.Fatalf("slices %+v", slices)
	}
	d := slices[0].Spec.Devices[1]
	if d.Name != "hami-gpu-1" || d.AllowMultipleAllocations == nil || !*d.AllowMultipleAllocations || *d.Attributes["type"].StringValue != "hami-gpu" {
		t.Errorf("device %+v", d)
	}
	for name, want := range map[resourcev1.QualifiedName]string{"memory": "1000Mi", "cores": "100"} {
		c := d.Capacity[name]
		if all := resource.MustParse(want); c.Value.Cmp(all) != 0 || c.RequestPolicy.Default.Cmp(all) != 0 || c.RequestPolicy.ValidRange.Max.Cmp(all) != 0 {
			t.Errorf("%s: %+v", name, c)
		}
	}

	share := func(device, id, memory, cores string) resourcev1.DeviceRequestAllocationResult {
		return resourcev1.DeviceRequestAllocationResult{Driver: HAMiDriver, Pool: "n0", Device: device, ShareID: new(types.UID(id)),
			ConsumedCapacity: map[resourcev1.QualifiedName]resource.Quantity{"memory": resource.MustParse(memory), "cores": resource.MustParse(cores)}}
	}
	results := []resourcev1.DeviceRequestAllocationResult{share("hami-gpu-1", "a", "300Mi", "30"), share("hami-gpu-1", "b", "100Mi", "5"), {Driver: Driver, Pool: "n0", Device: "gpu-0"}}
	got, err := m.Allocated(results)
	if err != nil || len(got) != 1 || got[0].UUID != "GPU-1" {
		t.Errorf("allocated %+v %v", got, err)
	}
	limits := m.Limits(results)
	if len(limits) != 1 || limits["GPU-1"] != (Limit{Memory: 400 << 20, Cores: 35}) {
		t.Errorf("limits %+v", limits)
	}
	if _, err := m.Allocated([]resourcev1.DeviceRequestAllocationResult{share("gpu-1", "a", "1Mi", "1")}); err == nil {
		t.Error("a device of NVIDIA's name is found")
	}
	if m.Shares = false; m.Limits(results) != nil {
		t.Error("limits without HAMi's driver")
	}
}
