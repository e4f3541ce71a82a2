package device

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/fleet/gpu"
)

// Parts of GPUs are given by somebody whom the scheduler tells which: HAMi's device plugin, or an agent that honours
// berth.dev/wanted-gpus. Each holder of a part has a unit of its own, as with time-slicing; how much of the GPU goes with it is
// written on the pod, and fleet/kubelet keeps programs to it.

// HAMiSplit is how often HAMi's plugin offers each GPU (deviceSplitCount of its chart).
const HAMiSplit = 10

// PartResource stands for parts that the agent gives. Nodes do not advertise it: pods ask for parts with annotations.
const PartResource = "part of a GPU"

// Who gives parts of GPUs on a machine.
const (
	ByHAMi    = "hami"
	ByVolcano = "volcano"
	ByAgent   = "berth"
)

// What Volcano's plugin for vGPUs, which is HAMi's under other names, registers.
const (
	VGPUNumber = "volcano.sh/vgpu-number"
	vgpuMemory = "volcano.sh/vgpu-memory" // MiB
	vgpuCores  = "volcano.sh/vgpu-cores"  // percent
)

// PartsBy is who gives parts of GPUs here; "": nobody.
func (m *Manager) PartsBy() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch by := m.partsPlugin(); {
	case by != "":
		return by
	case m.cfg.Parts > 0 && m.driverReady():
		return ByAgent
	}
	return ""
}

// PartsOf is how many pods the agent gives parts of one GPU; 0: there is no agent.
func (m *Manager) PartsOf() int { return m.cfg.Parts }

// partsPlugin is whose device plugin gives parts of GPUs here, in place of NVIDIA's; "": nobody's.
func (m *Manager) partsPlugin() string {
	switch {
	case slices.ContainsFunc(m.stack.ready(HAMi), StackPod.reachesKubelet):
		return ByHAMi
	case slices.ContainsFunc(m.stack.ready(VGPU), StackPod.reachesKubelet):
		return ByVolcano
	}
	return ""
}

// listedInParts is what such a plugin registers. It knows nothing of NVIDIA's configurations.
func (m *Manager) listedInParts(by string) map[string][]int {
	resource := Resource
	if by == ByVolcano {
		resource = VGPUNumber
	}
	var all []int
	for i, d := range m.cfg.Devices {
		all = append(all, m.intern(d, i))
	}
	all = m.replicas(all, HAMiSplit)
	for _, i := range all {
		m.units[i].resource = resource
	}
	return map[string][]int{resource: all}
}

// amounts are the memory and the compute of all GPUs, which Volcano's plugin registers as resources besides, where it has registered
// so many vGPUs.
func (m *Manager) amounts(number Offer) []Offer {
	if number.Name != VGPUNumber {
		return nil
	}
	memory, cores := number, number
	memory.Name, memory.Capacity, memory.Allocatable = vgpuMemory, 0, 0
	cores.Name, cores.Capacity, cores.Allocatable = vgpuCores, number.Capacity/HAMiSplit*100, number.Allocatable/HAMiSplit*100
	for i, d := range m.cfg.Devices {
		if number.Capacity > 0 {
			memory.Capacity += int64(d.MemoryMiB)
		}
		if number.Allocatable > 0 && !m.reportedUnhealthy(i) {
			memory.Allocatable += int64(d.MemoryMiB)
		}
	}
	return []Offer{cores, memory}
}

// AllocateNamed gives the container one device of the resource on each of these GPUs, or repeats what it gave before. The first
// errors are the kubelet's, which asks nobody for devices that it does not have.
func (m *Manager) AllocateNamed(uid types.UID, container, resource string, uuids []string) ([]gpu.Device, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := request{container, resource}
	if have, ok := m.held[uid].containers[r]; ok {
		return m.again(uid, r, have, len(uuids))
	}
	var got []int
	for _, uuid := range uuids {
		at := m.position(uuid)
		if at < 0 {
			return nil, fmt.Errorf("rpc error: code = Unknown desc = no device %.80q in this machine", uuid)
		}
		i := m.freeOn(at, resource, got)
		if i < 0 {
			return nil, fmt.Errorf("requested number of devices unavailable for %s. Requested: %d, Available: %d", resource, len(uuids), len(got))
		}
		got = append(got, i)
	}
	slices.Sort(got)
	if len(got) > 0 {
		m.record(uid, r, got)
	}
	return m.devices(got), nil
}

// freeOn is a unit of the resource on the GPU that nobody has and that is not among taken; -1: there is none.
func (m *Manager) freeOn(at int, resource string, taken []int) int {
	var units []int
	if resource == PartResource {
		units = m.partUnits(at)
	} else if m.tracked(resource) {
		units = m.healthy(resource)
	}
	for _, i := range units {
		if m.units[i].gpu == at && m.owner[i] == "" && !slices.Contains(taken, i) && (resource == PartResource || !m.divided(i)) {
			return i
		}
	}
	return -1
}

// partUnits are the parts that the agent may give of a GPU: none while somebody has it whole, or while it is not well.
func (m *Manager) partUnits(at int) []int {
	d := m.cfg.Devices[at]
	if m.owner[m.intern(d, at)] != "" || m.reportedUnhealthy(at) {
		return nil
	}
	var out []int
	for n := range m.cfg.Parts {
		d.Replica = n + 1
		i := m.intern(d, at)
		m.units[i].resource = PartResource
		out = append(out, i)
	}
	return out
}

// divided says whether the agent has given parts of the unit's GPU, which then nobody gets whole.
func (m *Manager) divided(unit int) bool {
	if m.cfg.Parts == 0 {
		return false
	}
	for i := range m.owner {
		if m.units[i].gpu == m.units[unit].gpu && m.units[i].device.Replica > 0 {
			return true
		}
	}
	return false
}
