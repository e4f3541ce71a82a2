package device

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/fleet/gpu"
)

// pod is what one pod holds. Devices are positions in Manager.units, in ascending order.
type pod struct {
	containers map[request][]int
	reusable   []int // taken by init containers that have ended when the pod's next container starts
}

// request is one resource that one container asks for.
type request struct{ container, resource string }

// Allocate gives n devices of a resource to a container, or repeats what it gave before. It is for app
// containers and sidecars; see AllocateInit.
//
// Where no plugin has registered the resource and nobody holds any of it, it is not the
// device manager's business and the answer is no device and no error: a kubelet starts such a
// pod without GPUs.
//
// The errors are word for word those of the kubelet's device manager, because people search
// for them; fleet/kubelet adds what the kubelet adds around them.
func (m *Manager) Allocate(uid types.UID, container, resource string, n int) ([]gpu.Device, error) {
	return m.allocate(uid, request{container, resource}, n, false)
}

// AllocateInit is Allocate for an init container that runs to completion: the pod's later
// containers may get the same devices again.
func (m *Manager) AllocateInit(uid types.UID, container, resource string, n int) ([]gpu.Device, error) {
	return m.allocate(uid, request{container, resource}, n, true)
}

func (m *Manager) allocate(uid types.UID, r request, n int, reusable bool) ([]gpu.Device, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.held[uid]
	if have, ok := p.containers[r]; ok {
		return m.again(uid, r, have, n)
	}
	if n <= 0 || !m.tracked(r.resource) && !m.anyHeld(r.resource) {
		return nil, nil
	}
	got, err := m.choose(p.reusable, r.resource, n)
	if err != nil {
		return nil, err
	}
	m.record(uid, r, got)
	m.setReusable(uid, got, reusable)
	return m.devices(got), nil
}

// again answers for a container that has its devices already, as when it restarts.
func (m *Manager) again(uid types.UID, r request, have []int, n int) ([]gpu.Device, error) {
	if len(have) != n {
		return nil, fmt.Errorf("pod %q container %q changed request for resource %q from %d to %d",
			uid, r.container, r.resource, len(have), n)
	}
	return m.devices(have), nil
}

func (m *Manager) tracked(resource string) bool {
	r := m.register[resource]
	return r != nil && r.tracked()
}

// anyHeld says whether any pod has devices of the resource.
func (m *Manager) anyHeld(resource string) bool {
	for _, p := range m.held {
		for r := range p.containers {
			if r.resource == resource {
				return true
			}
		}
	}
	return false
}

// choose picks n devices: the pod's own reusable ones first, then free ones.
func (m *Manager) choose(reusable []int, resource string, n int) ([]int, error) {
	if !m.tracked(resource) {
		return nil, fmt.Errorf("cannot allocate unregistered device %s", resource)
	}
	healthy := m.healthy(resource)
	if len(healthy) == 0 {
		return nil, fmt.Errorf("no healthy devices present; cannot allocate unhealthy devices %s", resource)
	}
	reusable = slices.DeleteFunc(slices.Clone(reusable), func(i int) bool { return m.units[i].resource != resource })
	own := reusable[:min(n, len(reusable))]
	need := n - len(own)
	free := slices.DeleteFunc(slices.Clone(healthy), func(i int) bool { return m.owner[i] != "" || m.divided(i) })
	if len(free) < need {
		return nil, fmt.Errorf("requested number of devices unavailable for %s. Requested: %d, Available: %d",
			resource, need, len(free))
	}
	got := slices.Concat(own, m.preferred(resource, free, need))
	slices.Sort(got)
	return got, m.plugin.refuses(m.devices(got), resource)
}

func (m *Manager) record(uid types.UID, r request, devices []int) {
	p, ok := m.held[uid]
	if !ok {
		p = pod{containers: map[request][]int{}}
	}
	p.containers[r] = devices
	m.held[uid] = p
	for _, i := range devices {
		m.owner[i] = uid
	}
}

// setReusable adds devices to what the pod's next containers may take over, or removes them.
func (m *Manager) setReusable(uid types.UID, devices []int, reusable bool) {
	p := m.held[uid]
	p.reusable = slices.DeleteFunc(slices.Clone(p.reusable), func(i int) bool { return slices.Contains(devices, i) })
	if reusable {
		p.reusable = append(p.reusable, devices...)
		slices.Sort(p.reusable)
	}
	m.held[uid] = p
}

// Restore records devices of a resource, by ID, that a container held before this process started. It fails when
// the machine has no such device, another pod holds it, or the container already has others;
// then nothing changes.
func (m *Manager) Restore(uid types.UID, container, resource string, ids []string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := request{container, resource}
	var devices []int
	for _, id := range ids {
		i := m.restorable(id)
		if i < 0 {
			return fmt.Errorf("restore devices of pod %q container %q: no device %s in this machine", uid, container, id)
		}
		if o := m.owner[i]; o != "" && o != uid {
			return fmt.Errorf("restore devices of pod %q container %q: device %s is held by pod %q", uid, container, id, o)
		}
		devices = append(devices, i)
	}
	slices.Sort(devices)
	devices = slices.Compact(devices)
	if have, ok := m.held[uid].containers[r]; ok && !slices.Equal(have, devices) {
		return fmt.Errorf("restore devices of pod %q container %q: it already holds %d others", uid, container, len(have))
	}
	if len(devices) > 0 {
		m.record(uid, r, devices)
	}
	return nil
}

// Release frees everything the pod holds. A claim that other pods use stays theirs.
func (m *Manager) Release(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.held, uid)
	m.disown(uid)
	m.unprepare(uid)
}

// disown frees the devices of a pod or a claim.
func (m *Manager) disown(holder types.UID) {
	for i, o := range m.owner {
		if o == holder {
			delete(m.owner, i)
		}
	}
}

// Allocation is what a container has of one resource.
type Allocation struct {
	Resource string
	Devices  []gpu.Device // in the order of the machine
}

// Allocations lists what the container has from the device plugin, by resource.
func (m *Manager) Allocations(uid types.UID, container string) []Allocation {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []Allocation
	for r, devices := range m.held[uid].containers {
		if r.container == container && len(devices) > 0 {
			out = append(out, Allocation{r.resource, m.devices(devices)})
		}
	}
	slices.SortFunc(out, func(a, b Allocation) int { return strings.Compare(a.Resource, b.Resource) })
	return out
}

// Held lists the container's devices, by resource and then in the order of the machine; nil when it has none.
func (m *Manager) Held(uid types.UID, container string) []gpu.Device {
	var out []gpu.Device
	for _, a := range m.Allocations(uid, container) {
		out = append(out, a.Devices...)
	}
	return out
}

// position finds a GPU of the machine; -1: it has no such GPU.
func (m *Manager) position(uuid string) int {
	return slices.IndexFunc(m.cfg.Devices, func(d gpu.Device) bool { return d.UUID == uuid })
}

func (m *Manager) devices(positions []int) []gpu.Device {
	var out []gpu.Device
	for _, i := range positions {
		out = append(out, m.units[i].device)
	}
	return out
}
