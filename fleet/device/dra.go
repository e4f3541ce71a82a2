package device

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// WipingDelay is how long the kubelet leaves the ResourceSlices of a DRA driver that went away.
const WipingDelay = 30 * time.Second

// SliceState says what should become of the node's ResourceSlice.
type SliceState struct {
	Publish bool // the driver is connected and offers the GPUs: the slice has to be there
	Keep    bool // one that is there stays: the driver runs, or may only be restarting
	// Changes is when the answer changes without an event; zero: never.
	Changes time.Time
}

// Slices says what the node offers through DRA at now.
func (m *Manager) Slices(now time.Time) SliceState {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dra.expire(now, WipingDelay)
	s := SliceState{Publish: m.draServes(), Keep: m.dra.tracked()}
	if !m.dra.stopped.IsZero() {
		s.Changes = m.dra.stopped.Add(WipingDelay)
	}
	return s
}

// DRAReady says whether a DRA driver on this node can prepare claims now.
func (m *Manager) DRAReady() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.draServes()
}

// draServes says whether a DRA driver on this node is registered with the kubelet. It needs no
// toolkit: it describes its devices to the container runtime itself.
func (m *Manager) draServes() bool {
	return m.cfg.Advertise == ByDRA && len(m.cfg.Devices) > 0 && m.driverReady() &&
		slices.ContainsFunc(m.stack.ready(DRA), StackPod.reachesRegistry)
}

// claim is a ResourceClaim that pods on this machine use.
type claim struct {
	devices []int // positions in Config.Devices
	pods    map[types.UID]bool
}

// Prepare gives a pod the devices that its claim was allocated; doing it again changes nothing. Pods
// may share a claim, but a device is never under two claims, nor under a claim and a container that
// has it from the device plugin. On an error nothing changes.
func (m *Manager) Prepare(pod, uid types.UID, uuids []string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var devices []int
	for _, uuid := range uuids {
		i := m.position(uuid)
		if i < 0 {
			return fmt.Errorf("requested device is not allocatable: %s", uuid)
		}
		if o := m.owner[i]; o != "" && o != uid {
			return fmt.Errorf("device %s is already in use by %s", uuid, m.describe(o))
		}
		devices = append(devices, i)
	}
	if have, ok := m.claims[uid]; ok && !slices.Equal(have.devices, devices) {
		return fmt.Errorf("claim %s is already prepared with other devices", uid)
	}
	m.note(pod, uid, devices)
	return nil
}

func (m *Manager) note(pod, uid types.UID, devices []int) {
	if _, ok := m.claims[uid]; !ok {
		m.claims[uid] = claim{devices: devices, pods: map[types.UID]bool{}}
	}
	m.claims[uid].pods[pod] = true
	for _, i := range devices {
		m.owner[i] = uid
	}
}

func (m *Manager) describe(holder types.UID) string {
	if _, ok := m.claims[holder]; ok {
		return fmt.Sprintf("claim %s", holder)
	}
	return fmt.Sprintf("pod %s", holder)
}

// unprepare takes the pod off its claims; the last one to go frees the claim's devices.
func (m *Manager) unprepare(pod types.UID) {
	for uid, c := range m.claims {
		delete(c.pods, pod)
		if len(c.pods) == 0 {
			delete(m.claims, uid)
			m.disown(uid)
		}
	}
}
