package fleet

import (
	"reflect"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/fleet/clock"
	"github.com/berth-dev/berth/fleet/device"
	"github.com/berth-dev/berth/fleet/fault"
	"github.com/berth-dev/berth/fleet/kubelet"
)

// machine is one simulated computer. It outlives its Node object: a deleted Node registers again.
//
//	off --boot.register--> booting --boot.ready--> running
//	 ^                        |                      |
//	 '------power lost--------+----------------------'
//
// A warm machine passes through both steps in no time.
type machine struct {
	name     string
	slot     slot
	hardware string // see hardwareID
	devices  *device.Manager
	clock    clock.Clock
	cold     bool             // plays its boots
	handle   *kubelet.Machine // for the pods; made once

	mu        sync.Mutex
	want      want
	down      bool      // no power, by the user's annotation or a fault
	kubeletAt time.Time // when the kubelet is up: registers, renews its lease, writes status
	readyAt   time.Time // when the node is Ready and its pods run
	offer     corev1.ResourceList
	mig       string // the last task that the MIG manager is through with; see syncMIG
	plugin    string // what the device plugin was configured by; see configurePlugin
	faults    *fault.Effects
}

// phase is where a machine is in its life.
type phase int

const (
	off phase = iota
	booting
	running
)

type machineOptions struct {
	Want  want
	Slot  slot
	Clock clock.Clock
	Cold  bool // a machine that is launched now, in a fleet that plays boots
	Node  func() *corev1.Node
	Now   time.Time
}

func newMachine(o machineOptions) *machine {
	m := &machine{
		name: o.Want.name(), slot: o.Slot, want: o.Want, clock: o.Clock, cold: o.Cold,
		hardware: hardwareID(o.Want.pool, o.Want.index),
		devices:  device.New(hardware(o.Want)),
		faults:   &fault.Effects{},
	}
	m.launch(o.Now)
	m.handle = &kubelet.Machine{
		Name:        m.name,
		IP:          o.Slot.nodeIP(),
		Devices:     m.devices,
		Allocatable: m.allocatable,
		Node:        o.Node,
		Down:        func() bool { return m.phase(time.Now()) != running },
		Faults:      m.effects,
	}
	if o.Cold {
		m.handle.PullTime = o.Want.pool.Spec.Boot.ImagePull.Duration
		m.handle.StartTime = m.startTime
	}
	return m
}

// launch turns the power on. The caller holds the lock, or is the only one to know m.
func (m *machine) launch(now time.Time) {
	m.kubeletAt, m.readyAt = now, now
	if m.cold {
		boot := m.want.pool.Spec.Boot
		m.kubeletAt = now.Add(m.clock.Wall(boot.Register.Duration))
		m.readyAt = m.kubeletAt.Add(m.clock.Wall(boot.Ready.Duration))
	}
}

// rebootTime is how long a machine is off when it reboots, at least: its pods must notice.
const rebootTime = time.Second

// reboot turns the machine off and on. What MIG has made of its GPUs stays.
func (m *machine) reboot(now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.launch(now)
	if up := now.Add(rebootTime); m.kubeletAt.Before(up) {
		m.kubeletAt = up
		m.readyAt = up
	}
}

// startTime is how long the pods of the GPU stack take to do their work on a cold machine.
func (m *machine) startTime(role device.Role) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch role {
	case device.Driver:
		return m.want.pool.Spec.Boot.Driver.Duration
	case device.Plugin, device.DRA, device.HAMiDRA:
		return m.want.pool.Spec.Boot.DevicePlugin.Duration
	}
	return 0
}

// phase is what the machine does at now.
func (m *machine) phase(now time.Time) phase {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.down || m.faults.NeverRegisters || now.Before(m.kubeletAt):
		return off
	case m.faults.NeverReady || now.Before(m.readyAt):
		return booting
	}
	return running
}

// next is when the phase changes by itself; zero: not before somebody does something.
func (m *machine) next(now time.Time) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.down || m.faults.NeverRegisters:
		return time.Time{}
	case now.Before(m.kubeletAt):
		return m.kubeletAt
	case now.Before(m.readyAt):
		return m.readyAt
	}
	return time.Time{}
}

// setPower takes over what the Node's annotation says, and reports whether that is news.
func (m *machine) setPower(down bool, now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.down == down {
		return false
	}
	m.down = down
	if !down {
		m.launch(now)
	}
	return true
}

// effects is what faults do to the machine now; never nil.
func (m *machine) effects() *fault.Effects {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.faults
}

// setFaults takes over what faults do to the machine, and reports what they did before and whether that is news. A machine
// that a fault has replaced boots at that fault's time, also when this process has started since.
func (m *machine) setFaults(e *fault.Effects, now time.Time) (before *fault.Effects, changed bool) {
	if e == nil {
		e = &fault.Effects{}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	before = m.faults
	if reflect.DeepEqual(before, e) {
		return before, false
	}
	m.faults = e
	switch {
	case !e.Replaced.IsZero() && (!e.Replaced.Equal(before.Replaced) || e.Slower != before.Slower):
		boot := m.want.pool.Spec.Boot
		m.kubeletAt = e.Replaced.Add(rebootTime + m.clock.Wall(e.Slower))
		if e.Slower > 0 {
			m.kubeletAt = m.kubeletAt.Add(m.clock.Wall(boot.Register.Duration))
		}
		m.readyAt = m.kubeletAt
	case e.Replaced.IsZero() && !before.Replaced.IsZero():
		m.launch(now) // the one after it boots as usual
	}
	return before, true
}

func (m *machine) wants() want {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.want
}

// usesDRA says how the machine's GPUs are offered, which is part of its hardware and never changes.
func (m *machine) usesDRA() bool { return m.wants().pool.Spec.Advertise == v1alpha1.AdvertiseDRA }

func (m *machine) setWant(w want) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.want = w
}

// allocatable is what the kubelet admits against. It is set before it is published, so that no
// pod can come for a resource that the kubelet does not know yet.
func (m *machine) allocatable() corev1.ResourceList {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.offer
}

func (m *machine) setAllocatable(list corev1.ResourceList) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.offer = list
}

func (m *machine) migTask() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mig
}

func (m *machine) setMIGTask(task string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mig = task
}

func (m *machine) pluginTask() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.plugin
}

func (m *machine) setPluginTask(task string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.plugin = task
}
