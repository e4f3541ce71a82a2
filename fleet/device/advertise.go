package device

import (
	"time"

	"github.com/berth-dev/berth/fleet/gpu"
)

// Advertisement is what the node's status and labels should say about its GPUs. While no plugin
// is Registered and Changes is zero, Resource is not the device manager's: what somebody else
// wrote into the node's status stays, and a plugin that was there before leaves zeros, once.
type Advertisement struct {
	Registered  bool // a device plugin is connected now
	Capacity    int64
	Allocatable int64
	Labels      map[string]string // GFD's labels; nil while no GFD pod is ready
	// Changes is when the answer changes without an event; zero: never.
	Changes time.Time
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
		out[i] = Place{d, m.unwell[i]}
	}
	return out
}

// registration is the kubelet's view of a plugin's endpoint.
//
//	unknown --plugin connects--> connected --plugin goes--> stopped --grace period--> unknown
//	                                 ^------plugin connects-----'
type registration struct {
	connected bool      // now
	stopped   time.Time // when the plugin went; zero while connected, never connected or forgotten
}

func (r *registration) set(connected bool, now time.Time) {
	switch {
	case connected:
		*r = registration{connected: true}
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
	m.register.expire(now, GracePeriod)
	a := Advertisement{Registered: m.register.connected, Labels: m.labels()}
	if m.register.tracked() {
		a.Capacity = int64(len(m.cfg.Devices))
	}
	if m.register.connected {
		a.Allocatable = int64(len(m.healthy()))
	} else if m.register.tracked() {
		a.Changes = m.register.stopped.Add(GracePeriod)
	}
	return a
}

// healthy lists the positions of the devices that a connected plugin reports as healthy.
func (m *Manager) healthy() []int {
	var out []int
	if !m.register.connected {
		return nil
	}
	for i := range m.cfg.Devices {
		if !m.unwell[i] {
			out = append(out, i)
		}
	}
	return out
}
