package device

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/fleet/gpu"
)

// WipingDelay is how long the kubelet leaves the ResourceSlices of a DRA driver that went away.
const WipingDelay = 30 * time.Second

// SliceState says what should become of the ResourceSlices of a driver on the node.
type SliceState struct {
	Publish bool // the driver is connected and offers its devices: the slices have to be there
	Keep    bool // those that are there stay: the driver runs, or may only be restarting
	// Changes is when the answer changes without an event; zero: never.
	Changes time.Time
}

// Slices says what becomes of the slices with the node's GPUs at now.
func (m *Manager) Slices(now time.Time) SliceState {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.dra.slices(m.draServes(), now)
}

// ChannelSlices says what becomes of the slice with the node's channels of compute domains at now.
func (m *Manager) ChannelSlices(now time.Time) SliceState {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.channels.slices(m.channelsServe(), now)
}

// slices is what becomes of the slices of the driver, which serves or not.
func (r *registration) slices(serves bool, now time.Time) SliceState {
	r.expire(now, WipingDelay)
	s := SliceState{Publish: serves, Keep: r.tracked()}
	if !r.stopped.IsZero() {
		s.Changes = r.stopped.Add(WipingDelay)
	}
	return s
}

// DRAReady says whether a DRA driver on this node can prepare claims of GPUs now.
func (m *Manager) DRAReady() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.draServes()
}

// ChannelsReady says whether a DRA driver on this node can prepare claims of channels now.
func (m *Manager) ChannelsReady() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.channelsServe()
}

// draServes says whether a DRA driver for the GPUs of this node is registered with the kubelet. It needs no
// toolkit: it describes its devices to the container runtime itself.
func (m *Manager) draServes() bool {
	return m.cfg.Advertise == ByDRA && len(m.cfg.Devices) > 0 && m.driverReady() && m.registered(DRA, HAMiDRA)
}

// channelsServe says the same of the driver for compute domains. Who gives out the GPUs is no matter: NVIDIA supports this half beside
// a device plugin.
func (m *Manager) channelsServe() bool {
	return m.cfg.Clique != "" && len(m.cfg.Devices) > 0 && m.driverReady() && m.registered(DRA, Channels)
}

// registered says whether the kubelet finds a ready pod of one of the roles.
func (m *Manager) registered(roles ...Role) bool {
	return slices.ContainsFunc(roles, func(r Role) bool { return slices.ContainsFunc(m.stack.ready(r), StackPod.reachesRegistry) })
}

// Seen is what is wrong with the GPUs, by position, as far as the DRA driver sees it: by default it does not look.
func (m *Manager) Seen() map[int]gpu.Trouble {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.stack.ready(DRA) {
		if slices.Contains(strings.Split(p.Env["FEATURE_GATES"], ","), "NVMLDeviceHealthCheck=true") {
			return maps.Clone(m.trouble)
		}
	}
	return nil
}

// SharesGPUs says whether claims have shares of the GPUs here.
func (m *Manager) SharesGPUs() bool { return m.cfg.Shares }

// claim is a ResourceClaim that pods on this machine use.
type claim struct {
	devices []int // positions in Manager.units
	pods    map[types.UID]bool
}

// Prepare gives a pod the devices that its claim was allocated; doing it again changes nothing. Parts of GPUs are cut for
// it. Pods may share a claim, but a device is never under two claims, nor under a claim and a container that has it from
// the device plugin. On an error nothing changes.
func (m *Manager) Prepare(pod, uid types.UID, devices []gpu.Device) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if have, ok := m.claims[uid]; ok {
		same := func(i int, d gpu.Device) bool {
			if m.cfg.Shares {
				return m.units[i].device.UUID == d.UUID
			}
			return m.units[i].device.ID() == d.ID()
		}
		if !slices.EqualFunc(have.devices, devices, same) {
			return fmt.Errorf("claim %s is already prepared with other devices", uid)
		}
		have.pods[pod] = true
		return nil
	}
	if m.cfg.Shares {
		return m.prepareShares(pod, uid, devices)
	}
	next := clonePartitions(m.parts)
	for _, d := range devices {
		i := m.position(d.UUID)
		if i < 0 || d.Replica > 0 || d.MIG != nil && !m.cfg.DynamicMIG {
			return fmt.Errorf("requested device is not allocatable: %s", d.ID())
		}
		if o := m.overlaps(i, d); o != "" {
			return fmt.Errorf("device %s is already in use by %s", d.ID(), m.describe(o))
		}
		if err := carve(&next[i], d); err != nil {
			return err
		}
	}
	m.parts = next
	var units []int
	for _, d := range devices {
		units = append(units, m.intern(d, m.position(d.UUID)))
	}
	m.note(pod, uid, units)
	return nil
}

// prepareShares gives a claim a share of each of the GPUs: how much it is, whoever allocated it has counted.
func (m *Manager) prepareShares(pod, uid types.UID, devices []gpu.Device) error {
	var units []int
	for _, d := range devices {
		at := m.position(d.UUID)
		if at < 0 {
			return fmt.Errorf("requested device is not allocatable: %s", d.ID())
		}
		unit := -1
		for d.Replica = 1; unit < 0; d.Replica++ {
			if i := m.intern(d, at); m.owner[i] == "" && !slices.Contains(units, i) {
				unit = i
			}
		}
		units = append(units, unit)
	}
	m.note(pod, uid, units)
	return nil
}

// overlaps is who holds the device, or anything of its GPU where one of both is the whole; of several the first by UID, "" for
// nobody.
func (m *Manager) overlaps(at int, d gpu.Device) (first types.UID) {
	for i, holder := range m.owner {
		u := m.units[i]
		if u.gpu == at && (d.MIG == nil || u.device.MIG == nil || u.device.Visible() == d.Visible()) && (first == "" || holder < first) {
			first = holder
		}
	}
	return first
}

// carve makes the part that the device is, in the words of NVIDIA's driver where that cannot be. A whole GPU cannot be had
// while it is cut.
func carve(p *gpu.Partition, d gpu.Device) error {
	if d.MIG == nil {
		if p.Enabled {
			return fmt.Errorf("device %s: %w", d.ID(), gpu.ErrInUse)
		}
		return nil
	}
	list, _, err := d.Model.Create(p.Instances, d.MIG.Profile, d.MIG.Start, true)
	if err != nil {
		return fmt.Errorf("prepare devices failed: error creating MIG device: error creating GPU instance for %s on %s: %w", d.MIG.Profile.Name, d.UUID, err)
	}
	*p = gpu.Partition{Enabled: true, Instances: list}
	return nil
}

// mend takes away the part that the device is, and leaves MIG mode with the last one where that needs no reset.
func (m *Manager) mend(i int) {
	u := m.units[i]
	if u.device.MIG == nil || !m.cfg.DynamicMIG {
		return
	}
	p := &m.parts[u.gpu]
	p.Instances = slices.DeleteFunc(slices.Clone(p.Instances), func(in gpu.Instance) bool {
		return in.Start == u.device.MIG.Start && in.Profile.ID == u.device.MIG.Profile.ID
	})
	p.Enabled = len(p.Instances) > 0 || m.alwaysMIG(u.gpu)
}

// alwaysMIG says whether the GPU is in MIG mode from the start, since claims cut it and it cannot change the mode for them.
func (m *Manager) alwaysMIG(at int) bool {
	return m.cfg.DynamicMIG && m.cfg.Devices[at].Model.MIGNeedsReset()
}

// DynamicMIG says whether claims cut the machine's GPUs.
func (m *Manager) DynamicMIG() bool { return m.cfg.DynamicMIG }

func (m *Manager) note(pod, uid types.UID, devices []int) {
	m.claims[uid] = claim{devices: devices, pods: map[types.UID]bool{pod: true}}
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
			for _, i := range c.devices {
				m.mend(i)
			}
		}
	}
}
