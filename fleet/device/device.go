// Package device is the device side of one simulated node as plain in-memory state: the GPUs
// in the machine, what the GPU software stack on it makes of them, and the kubelet's managers of
// devices, which hand GPUs and parts of them to containers and to ResourceClaims.
//
// It has no API client and no clock: time is an argument, and what a node should advertise is
// an answer (Advertise, Slices, ChannelSlices), not a write. Package fleet tells it which GPU-stack pods stand on the
// node and publishes the answer; fleet/kubelet asks it for devices at pod admission. Two pods
// never hold one device unless they share a claim: every end-to-end test leans on that.
package device

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/fleet/gpu"
)

// Resource is the extended resource that whole GPUs are advertised as; see listing for the others.
const Resource = "nvidia.com/gpu"

// ByDRA offers a machine's GPUs to the scheduler as a ResourceSlice, which package fleet writes: no device plugin registers.
const ByDRA = "dra"

// GracePeriod is how long the kubelet keeps the capacity of a device plugin that went away.
const GracePeriod = 5 * time.Minute

// Config describes the machine. It does not change while the machine lives.
type Config struct {
	Devices    []gpu.Device
	Driver     gpu.Driver // the driver that is in the image, or that the driver pod loads
	HostDriver bool       // the driver is part of the machine image: no driver pod is needed
	Advertise  string     // ByDRA; anything else: as a count of Resource, by the device plugin
	DynamicMIG bool       // with ByDRA: claims cut GPUs by MIG
	Shares     bool       // with ByDRA: claims have shares of GPUs, by HAMi's driver
	Parts      int        // how many pods an agent on the machine gives parts of one GPU; 0: there is none
	Clique     string     // NVLink domain, "<cluster uuid>.<clique id>"; empty: the GPUs are not on a fabric
	Machine    string     // the machine type for nvidia.com/gpu.machine; empty: "unknown", as GFD says it
}

// Manager is one node's device manager. It is safe for concurrent use.
type Manager struct {
	cfg Config

	mu         sync.Mutex
	stack      stack
	unwell     map[int]bool // GPUs that report unhealthy, by position in cfg.Devices
	trouble    map[int]gpu.Trouble
	restarting bool   // the kubelet has just restarted: no plugin has registered yet
	units      []unit // all that was ever offered here; the first are cfg.Devices, and none goes away
	byID       map[string]int
	parts      []gpu.Partition   // by position in cfg.Devices
	recalled   bool              // parts is as an earlier process left it; see Recall
	plugin     PluginConfig      // of the device plugin and of GFD
	owner      map[int]types.UID // unit -> the one pod or claim that holds it
	held       map[types.UID]pod // pod -> its containers' devices, from the device plugin
	claims     map[types.UID]claim
	register   map[string]*registration // of the device plugin, by resource
	dra        registration             // of the DRA driver for GPUs
	channels   registration             // of the DRA driver for compute domains
}

// New makes the manager of a machine on which no GPU-stack pod runs yet.
func New(cfg Config) *Manager {
	m := &Manager{
		cfg:      cfg,
		unwell:   map[int]bool{},
		byID:     map[string]int{},
		parts:    make([]gpu.Partition, len(cfg.Devices)),
		owner:    map[int]types.UID{},
		held:     map[types.UID]pod{},
		claims:   map[types.UID]claim{},
		register: map[string]*registration{},
		// A kubelet that starts waits for the drivers it may have known before as for one it lost.
		dra:      registration{connected: true},
		channels: registration{connected: true},
	}
	for i, d := range cfg.Devices {
		m.intern(d, i)
		m.parts[i].Enabled = m.alwaysMIG(i)
	}
	return m
}

// Devices lists the machine's GPUs by index, healthy or not.
func (m *Manager) Devices() []gpu.Device {
	return append([]gpu.Device(nil), m.cfg.Devices...)
}

// Clique is the NVLink domain that the GPUs are in; "": none.
func (m *Manager) Clique() string { return m.cfg.Clique }

// Driver is the loaded driver; its Version is empty while none is loaded.
func (m *Manager) Driver() gpu.Driver {
	if !m.DriverReady() {
		return gpu.Driver{}
	}
	return m.cfg.Driver
}

// DriverReady says whether the GPUs can be used: the image brings a driver, or a driver pod is
// ready.
func (m *Manager) DriverReady() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.driverReady()
}
