package device

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/fleet/gpu"
)

// pod is what one pod holds. Devices are positions in Config.Devices, in ascending order.
type pod struct {
	containers map[string][]int
	reusable   []int // taken by init containers that have ended when the pod's next container starts
}

// Allocate gives n GPUs to a container, or repeats what it gave before. It is for app
// containers and sidecars; see AllocateInit.
//
// Where no plugin has registered Resource and nobody holds any of it, the resource is not the
// device manager's business and the answer is no device and no error: a kubelet starts such a
// pod without GPUs.
//
// The errors are word for word those of the kubelet's device manager, because people search
// for them; fleet/kubelet adds what the kubelet adds around them.
func (m *Manager) Allocate(uid types.UID, container string, n int) ([]gpu.Device, error) {
	return m.allocate(uid, container, n, false)
}

// AllocateInit is Allocate for an init container that runs to completion: the pod's later
// containers may get the same devices again.
func (m *Manager) AllocateInit(uid types.UID, container string, n int) ([]gpu.Device, error) {
	return m.allocate(uid, container, n, true)
}

func (m *Manager) allocate(uid types.UID, container string, n int, reusable bool) ([]gpu.Device, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.held[uid]
	if have, ok := p.containers[container]; ok {
		return m.again(uid, container, have, n)
	}
	if n <= 0 || (!m.register.tracked() && len(m.held) == 0) {
		return nil, nil
	}
	got, err := m.choose(p.reusable, n)
	if err != nil {
		return nil, err
	}
	m.record(uid, container, got)
	m.setReusable(uid, got, reusable)
	return m.devices(got), nil
}

// again answers for a container that has its devices already, as when it restarts.
func (m *Manager) again(uid types.UID, container string, have []int, n int) ([]gpu.Device, error) {
	if len(have) != n {
		return nil, fmt.Errorf("pod %q container %q changed request for resource %q from %d to %d",
			uid, container, Resource, len(have), n)
	}
	return m.devices(have), nil
}

// choose picks n devices: the pod's own reusable ones first, then free ones.
func (m *Manager) choose(reusable []int, n int) ([]int, error) {
	if !m.register.tracked() {
		return nil, fmt.Errorf("cannot allocate unregistered device %s", Resource)
	}
	healthy := m.healthy()
	if len(healthy) == 0 {
		return nil, fmt.Errorf("no healthy devices present; cannot allocate unhealthy devices %s", Resource)
	}
	own := reusable[:min(n, len(reusable))]
	need := n - len(own)
	free := slices.DeleteFunc(healthy, func(i int) bool { return m.owner[i] != "" })
	if len(free) < need {
		return nil, fmt.Errorf("requested number of devices unavailable for %s. Requested: %d, Available: %d",
			Resource, need, len(free))
	}
	got := slices.Concat(own, prefer(m.cfg.Devices, free, need))
	slices.Sort(got)
	return got, nil
}

func (m *Manager) record(uid types.UID, container string, devices []int) {
	p, ok := m.held[uid]
	if !ok {
		p = pod{containers: map[string][]int{}}
	}
	p.containers[container] = devices
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

// Restore records devices that a container held before this process started. It fails when
// the machine has no such device, another pod holds it, or the container already has others;
// then nothing changes.
func (m *Manager) Restore(uid types.UID, container string, uuids []string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var devices []int
	for _, uuid := range uuids {
		i := m.position(uuid)
		if i < 0 {
			return fmt.Errorf("restore devices of pod %q container %q: no device %s in this machine", uid, container, uuid)
		}
		if o := m.owner[i]; o != "" && o != uid {
			return fmt.Errorf("restore devices of pod %q container %q: device %s is held by pod %q", uid, container, uuid, o)
		}
		devices = append(devices, i)
	}
	slices.Sort(devices)
	devices = slices.Compact(devices)
	if have, ok := m.held[uid].containers[container]; ok && !slices.Equal(have, devices) {
		return fmt.Errorf("restore devices of pod %q container %q: it already holds %d others", uid, container, len(have))
	}
	if len(devices) > 0 {
		m.record(uid, container, devices)
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

// Held lists the container's devices by index; nil when it has none.
func (m *Manager) Held(uid types.UID, container string) []gpu.Device {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.devices(m.held[uid].containers[container])
}

// position finds a device of the machine; -1: it has no such device.
func (m *Manager) position(uuid string) int {
	return slices.IndexFunc(m.cfg.Devices, func(d gpu.Device) bool { return d.UUID == uuid })
}

func (m *Manager) devices(positions []int) []gpu.Device {
	var out []gpu.Device
	for _, i := range positions {
		out = append(out, m.cfg.Devices[i])
	}
	return out
}
