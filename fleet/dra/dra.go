// Package dra says in Kubernetes' words what NVIDIA's driver for Dynamic Resource Allocation says
// about the GPUs of a machine: the ResourceSlice that offers them, and which of them an allocated
// ResourceClaim names.
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

// Driver is the name of NVIDIA's driver, in slices, claims and device classes.
const Driver = "gpu.nvidia.com"

// Machine is a node as its driver sees it.
type Machine struct {
	Node   string // also the name of the pool that its devices form
	GPUs   []gpu.Device
	Driver gpu.Driver
}

// Name is what a GPU is called in slices and claims.
func Name(d gpu.Device) string { return fmt.Sprintf("gpu-%d", d.Index) }

// Allocated lists the GPUs that the results name, in order of index and each once. Results of other
// drivers are passed over; one that names no GPU of this machine is an error, in the driver's words.
func (m Machine) Allocated(results []resourcev1.DeviceRequestAllocationResult) ([]gpu.Device, error) {
	taken := make([]bool, len(m.GPUs))
	for _, r := range results {
		if r.Driver != Driver {
			continue
		}
		i := slices.IndexFunc(m.GPUs, func(d gpu.Device) bool { return Name(d) == r.Device })
		if i < 0 || r.Pool != m.Node {
			return nil, fmt.Errorf("requested device is not allocatable: %s", r.Device)
		}
		taken[i] = true
	}
	var out []gpu.Device
	for i, d := range m.GPUs {
		if taken[i] {
			out = append(out, d)
		}
	}
	return out, nil
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
