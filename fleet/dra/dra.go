// Package dra says in Kubernetes' words what NVIDIA's driver for Dynamic Resource Allocation says
// about the GPUs of a machine: the ResourceSlices that offer them and the parts that MIG could make of them,
// which of these an allocated ResourceClaim names, and what its ComputeDomains consist of.
//
// It holds values only: no client, no clock, no state. Package fleet publishes the slices where
// the driver's pod runs (fleet/device decides that), fleet/kubelet looks up what a pod's claims were
// given.
package dra

import (
	"fmt"
	"slices"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"

	"github.com/berth-dev/berth/fleet/gpu"
)

// Driver is the name of NVIDIA's driver, in slices, claims and device classes. HAMi's offers the same GPUs for shares (Project-HAMi/k8s-dra-driver
// 008d0e19, cmd/hami-kubelet-plugin/hami_core.go).
const (
	Driver     = "gpu.nvidia.com"
	HAMiDriver = "hami-core-gpu.project-hami.io"
)

// Machine is a node as its driver sees it.
type Machine struct {
	Node   string // also the name of the pool that its devices form
	GPUs   []gpu.Device
	Driver gpu.Driver
	// Dynamic is that claims cut GPUs by MIG, which the driver has as its feature DynamicMIG.
	Dynamic bool
	// Shares is that HAMi's driver offers the GPUs, of which claims have shares.
	Shares bool
	Clique string // the NVLink domain that the GPUs are in; "": none
	// Trouble is what the driver sees that is wrong with GPUs, by index: nothing, unless it looks, which is its feature NVMLDeviceHealthCheck.
	Trouble map[int]gpu.Trouble
}

// DriverName is that of the driver on the machine.
func (m Machine) DriverName() string {
	if m.Shares {
		return HAMiDriver
	}
	return Driver
}

// Name is what a GPU, or a part of one, is called in slices and claims.
func (m Machine) Name(d gpu.Device) string {
	if m.Shares {
		return "hami-" + Name(d)
	}
	return Name(d)
}

// Name is what NVIDIA's driver calls a GPU, or a part of one.
func Name(d gpu.Device) string {
	if d.MIG != nil {
		return partName(d)
	}
	return fmt.Sprintf("gpu-%d", d.Index)
}

// Allocated lists the devices that the results name, by index of the GPU, then by name, and each once. Results of
// other drivers are passed over; one that names no device of this machine is an error, in the driver's words.
func (m Machine) Allocated(results []resourcev1.DeviceRequestAllocationResult) ([]gpu.Device, error) {
	taken := make(map[string]bool)
	for _, r := range results {
		if r.Driver == m.DriverName() {
			taken[r.Device] = true
		}
	}
	found := make(map[string]bool)
	var out []gpu.Device
	if len(taken) > 0 {
		for _, d := range m.Devices() {
			if name := m.Name(d); taken[name] {
				found[name] = true
				out = append(out, d)
			}
		}
	}
	for _, r := range results {
		if r.Driver == m.DriverName() && (!found[r.Device] || r.Pool != m.Node) {
			return nil, fmt.Errorf("requested device is not allocatable: %s", r.Device)
		}
	}
	return out, nil
}

// Devices lists all that the machine offers: by index of the GPU, then by name.
func (m Machine) Devices() []gpu.Device {
	var out []gpu.Device
	for _, d := range m.GPUs {
		out = append(out, m.offered(d)...)
	}
	return out
}

// Limit is how much of a GPU a claim has.
type Limit struct {
	Memory int64 // bytes
	Cores  int   // percent
}

// Limits are what the results give of each GPU that is shared, by UUID: of one that is there several times, all together.
func (m Machine) Limits(results []resourcev1.DeviceRequestAllocationResult) map[string]Limit {
	if !m.Shares {
		return nil
	}
	out := make(map[string]Limit)
	for _, d := range m.Devices() {
		for i := range results {
			r := &results[i]
			if r.Driver != HAMiDriver || r.Device != m.Name(d) || r.ShareID == nil {
				continue
			}
			memory, cores, l := r.ConsumedCapacity["memory"], r.ConsumedCapacity["cores"], out[d.UUID]
			out[d.UUID] = Limit{l.Memory + memory.Value(), l.Cores + int(cores.Value())}
		}
	}
	return out
}

// OfRequest narrows the results to those of one request of the claim; "" means all. A result for
// "main/sub" is one for main, by its alternative sub.
func OfRequest(results []resourcev1.DeviceRequestAllocationResult, request string) []resourcev1.DeviceRequestAllocationResult {
	return slices.DeleteFunc(slices.Clone(results), func(r resourcev1.DeviceRequestAllocationResult) bool {
		main, _, _ := strings.Cut(r.Request, "/")
		return request != "" && request != main
	})
}

// Exclusive drops the results that only look on: admin access takes nothing from anybody.
func Exclusive(results []resourcev1.DeviceRequestAllocationResult) []resourcev1.DeviceRequestAllocationResult {
	return slices.DeleteFunc(slices.Clone(results), func(r resourcev1.DeviceRequestAllocationResult) bool {
		return r.AdminAccess != nil && *r.AdminAccess
	})
}
