package device

import (
	"maps"
	"slices"
	"time"

	"github.com/berth-dev/berth/fleet/gpu"
)

// Advertisement is what the node's status and labels should say about its GPUs. A resource that is not
// among Resources is not the device manager's: what somebody else wrote into the node's status stays, and
// a plugin that was there before leaves zeros, once.
type Advertisement struct {
	Resources []Offer           // in order of name
	Labels    map[string]string // GFD's labels; nil while no GFD pod is ready
	// Changes is when the answer changes without an event; zero: never.
	Changes time.Time
	// Registers is whose device plugin registers the GPUs on the node besides: ByHAMi, ByVolcano; "": nobody's does.
	Registers string
	// Partitions is what MIG has made of the GPUs, for Recall; empty: nothing.
	Partitions string
}

// Offer is one resource that a device plugin has registered, or had until a short while ago.
type Offer struct {
	Name                  string
	Connected             bool // a device plugin is there now
	Capacity, Allocatable int64
}

// Place is a GPU in its machine, and whether the plugin offers it.
type Place struct {
	gpu.Device
	Unhealthy bool
}

// Places lists the machine's GPUs.
func (m *Manager) Places() []Place {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]Place, len(m.cfg.Devices))
	for i, d := range m.cfg.Devices {
		out[i] = Place{d, m.reportedUnhealthy(i)}
	}
	return out
}

// registration is the kubelet's view of a plugin's endpoint.
//
//	unknown --plugin connects--> connected --plugin goes--> stopped --grace period--> unknown
//	                                 ^------plugin connects-----'
type registration struct {
	units     []int     // what the plugin listed last, by position in Manager.units
	connected bool      // now
	stopped   time.Time // when the plugin went; zero while connected, never connected or forgotten
}

func (r *registration) set(connected bool, now time.Time) {
	switch {
	case connected:
		r.connected, r.stopped = true, time.Time{}
	case r.connected:
		r.connected, r.stopped = false, now
	}
}

// expire forgets a plugin that has been gone for the grace period.
func (r *registration) expire(now time.Time, grace time.Duration) {
	if !r.stopped.IsZero() && !now.Before(r.stopped.Add(grace)) {
		r.stopped = time.Time{}
	}
}

// tracked says whether the kubelet still counts on the plugin.
func (r registration) tracked() bool { return r.connected || !r.stopped.IsZero() }

// Advertise says what the node advertises at now. Like the kubelet's own status update, it is
// also the moment at which a plugin that stayed away too long is forgotten.
func (m *Manager) Advertise(now time.Time) Advertisement {
	m.mu.Lock()
	defer m.mu.Unlock()
	a := Advertisement{Labels: m.labels()}
	if m.pluginServes() {
		a.Registers = m.partsPlugin()
	}
	if !m.cfg.DynamicMIG {
		a.Partitions = formatPartitions(m.parts)
	}
	for _, name := range slices.Sorted(maps.Keys(m.register)) {
		r := m.register[name]
		r.expire(now, GracePeriod)
		if !r.tracked() {
			delete(m.register, name)
			continue
		}
		offer := Offer{Name: name, Connected: r.connected, Capacity: int64(len(r.units)), Allocatable: int64(len(m.healthy(name)))}
		if m.restarting {
			offer.Capacity = 0 // a kubelet that starts knows the resource from its checkpoint, and no device
		}
		a.Resources = append(append(a.Resources, m.amounts(offer)...), offer)
		if ends := r.stopped.Add(GracePeriod); !r.connected && (a.Changes.IsZero() || ends.Before(a.Changes)) {
			a.Changes = ends
		}
	}
	return a
}

// healthy lists the devices of a resource that a connected plugin reports as healthy.
func (m *Manager) healthy(resource string) []int {
	r := m.register[resource]
	if r == nil || !r.connected || m.restarting {
		return nil
	}
	var out []int
	for _, i := range r.units {
		if !m.reportedUnhealthy(m.units[i].gpu) {
			out = append(out, i)
		}
	}
	return out
}

// relist follows the device plugin: which resources it has registered, and with which devices. A resource that
// it no longer serves stays known for the grace period, as when the plugin goes.
func (m *Manager) relist(now time.Time) {
	serves := m.pluginServes()
	var lists map[string][]int
	if serves {
		lists = m.listing()
	}
	for name, r := range m.register {
		r.set(lists[name] != nil, now)
	}
	for name, units := range lists {
		if m.register[name] == nil {
			m.register[name] = &registration{connected: true}
		}
		m.register[name].units = units
	}
}

// connected says whether the device plugin has registered anything.
func (m *Manager) connected() bool {
	for _, r := range m.register {
		if r.connected {
			return true
		}
	}
	return false
}
