package device

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/fleet/gpu"
)

// unit is one thing that can be handed to a container: a GPU, a MIG device, or one of the times that either is offered.
type unit struct {
	device   gpu.Device
	gpu      int    // its GPU, by position in Config.Devices
	resource string // under which it was last listed
}

// intern is the position of the device among all units. A device has one for ever, so that whoever holds it can be told of
// it however the GPUs are cut and shared later.
func (m *Manager) intern(d gpu.Device, of int) int {
	id := d.ID()
	if i, known := m.byID[id]; known {
		return i
	}
	m.units = append(m.units, unit{device: d, gpu: of})
	m.byID[id] = len(m.units) - 1
	return len(m.units) - 1
}

// PluginConfig is how the device plugin and GFD on the node are configured. The zero value is their default.
type PluginConfig struct {
	MIGStrategy string // none, single or mixed; empty: as the pod's environment says, else none
	Sharing     Sharing
}

// Sharing is how often each device is offered.
type Sharing struct {
	Strategy string         // time-slicing or mps; empty: none
	Replicas map[string]int // by resource; each at least 2
	Rename   bool           // replicas are offered as RESOURCE.shared
	FailMany bool           // a container may have one replica at most
}

// Strategies of MIG, as NVIDIA's device plugin names them.
const (
	StrategyNone   = "none"
	StrategySingle = "single"
	StrategyMixed  = "mixed"
)

// Strategies of sharing.
const (
	TimeSlicing = "time-slicing"
	MPS         = "mps"
)

// migResource is the resource of a profile under the strategy mixed.
func migResource(p gpu.Profile) string { return "nvidia.com/mig-" + p.ResourceName() }

// IsResource says whether the resource can be one of the device plugin's.
func IsResource(name string) bool {
	base := strings.TrimSuffix(name, ".shared")
	return base == Resource || base == VGPUNumber || strings.HasPrefix(base, "nvidia.com/mig-")
}

// strategy is the MIG strategy that a program of the stack follows: its environment comes before its configuration.
func (m *Manager) strategy(role Role) string {
	for _, p := range m.stack.ready(role) {
		if s := p.Env["MIG_STRATEGY"]; s != "" {
			return s
		}
	}
	if s := m.plugin.MIGStrategy; s != "" {
		return s
	}
	return StrategyNone
}

// listing is what the device plugin registers: devices by resource, in the order of the machine. It is empty where the
// plugin refuses to start, as with the strategy single on GPUs that are not all cut alike.
func (m *Manager) listing() map[string][]int { return m.listed(m.strategy(Plugin)) }

// Offers is how many devices a plugin with that MIG strategy would register.
func (m *Manager) Offers(strategy string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for _, list := range m.listed(strategy) {
		n += len(list)
	}
	return n
}

func (m *Manager) listed(strategy string) map[string][]int {
	plain := map[string][]int{}
	if by := m.partsPlugin(); by != "" {
		return m.listedInParts(by)
	}
	for i, d := range m.cfg.Devices {
		if m.parts[i].Enabled && strategy != StrategyNone {
			continue
		}
		plain[Resource] = append(plain[Resource], m.intern(d, i))
	}
	if strategy == StrategyNone {
		return m.replicate(plain)
	}
	if strategy == StrategySingle && m.invalid() != "" {
		return nil
	}
	for _, d := range m.migDevices() {
		name := Resource
		if strategy == StrategyMixed {
			name = migResource(d.MIG.Profile)
		}
		plain[name] = append(plain[name], m.intern(d.Device, d.at))
	}
	return m.replicate(plain)
}

// migDevice is a MIG device and the GPU it is on.
type migDevice struct {
	gpu.Device
	at int // position in Config.Devices
}

// migDevices lists the MIG devices of the machine: by GPU, and on one GPU by number, as nvidia-smi -L does. An instance
// without its compute instance is none.
func (m *Manager) migDevices() []migDevice {
	var out []migDevice
	for i, d := range m.cfg.Devices {
		for _, in := range byNumber(d, m.parts[i].Instances) {
			if in.Compute {
				d.MIG = &in
				out = append(out, migDevice{d, i})
			}
		}
	}
	return out
}

func byNumber(d gpu.Device, list []gpu.Instance) []gpu.Instance {
	return slices.SortedFunc(slices.Values(list), func(a, b gpu.Instance) int { return d.GPUInstance(a) - d.GPUInstance(b) })
}

// invalid is why the strategy single cannot be followed; empty: it can, or no GPU is in MIG mode.
func (m *Manager) invalid() string {
	on := 0
	for i := range m.parts {
		if m.parts[i].Enabled {
			on++
			if !slices.ContainsFunc(m.parts[i].Instances, func(in gpu.Instance) bool { return in.Compute }) {
				return "at least one MIG device is enabled but empty"
			}
		}
	}
	if on > 0 && on < len(m.parts) {
		return "devices with MIG enabled and disable detected"
	}
	kinds := map[string]bool{}
	for _, d := range m.migDevices() {
		kinds[d.MIG.Profile.Name] = true
	}
	if len(kinds) > 1 {
		return "more than one MIG device type present on node"
	}
	return ""
}

// replicate offers devices as often as the plugin's configuration says, and notes under which resource each is listed.
func (m *Manager) replicate(plain map[string][]int) map[string][]int {
	out := map[string][]int{}
	for name, list := range plain {
		if n := m.plugin.Sharing.Replicas[name]; n > 1 {
			list = m.replicas(list, n)
		}
		out[m.plugin.Sharing.offered(name)] = list
	}
	for name, list := range out {
		for _, i := range list {
			m.units[i].resource = name
		}
	}
	return out
}

// offered is the resource under which replicas of another are offered.
func (s Sharing) offered(name string) string {
	if s.Rename && s.Replicas[name] > 1 {
		return name + ".shared"
	}
	return name
}

func (m *Manager) replicas(list []int, n int) []int {
	var out []int
	for _, i := range list {
		d := m.units[i].device
		for r := range n {
			d.Replica = r + 1
			out = append(out, m.intern(d, m.units[i].gpu))
		}
	}
	return out
}

// refuses is the plugin's answer to a request that it does not allow, in the words in which the kubelet passes it on; nil:
// it allows it.
func (c PluginConfig) refuses(got []gpu.Device, resource string) error {
	shared := slices.ContainsFunc(got, func(d gpu.Device) bool { return d.Replica > 0 })
	if !shared || len(got) < 2 || !c.Sharing.FailMany {
		return nil
	}
	return fmt.Errorf("rpc error: code = Unknown desc = invalid allocation request for %q: invalid request: "+
		"maximum request size for shared resources is 1; found %d", resource, len(got))
}

// preferred picks n of the free devices of a resource, ascending. Whole GPUs that are not shared go by their links; of
// others the plugin takes those whose GPU or MIG device has the fewest holders, the first of equals.
func (m *Manager) preferred(resource string, free []int, n int) []int {
	if !slices.ContainsFunc(free, func(i int) bool { d := m.units[i].device; return d.MIG != nil || d.Replica > 0 }) {
		return prefer(m.cfg.Devices, free, n)
	}
	holders := map[string]int{}
	for _, i := range m.register[resource].units {
		if m.owner[i] != "" {
			holders[m.units[i].device.Visible()]++
		}
	}
	left := slices.Clone(free)
	var got []int
	for range n {
		best := 0
		for k, i := range left {
			if holders[m.units[i].device.Visible()] < holders[m.units[left[best]].device.Visible()] {
				best = k
			}
		}
		holders[m.units[left[best]].device.Visible()]++
		got = append(got, left[best])
		left = slices.Delete(left, best, best+1)
	}
	slices.Sort(got)
	return got
}

// maxReplicas bounds what a restored ID may claim to be.
const maxReplicas = 10_000

// restorable is the unit of an ID that was given out before, whether it is listed now or not; -1: there is none.
func (m *Manager) restorable(id string) int {
	if i, known := m.byID[id]; known {
		return i
	}
	base, number, shared := strings.Cut(id, "::")
	n, err := strconv.Atoi(number)
	i, known := m.byID[base]
	if !known {
		i = m.recallMIG(base)
	}
	switch {
	case i < 0:
		return -1
	case !shared:
		return i
	case err != nil || n < 0 || n >= maxReplicas || number != strconv.Itoa(n):
		return -1
	}
	d := m.units[i].device
	d.Replica = n + 1
	return m.intern(d, m.units[i].gpu)
}

// recallMIG is the unit of a MIG device that is there and was not listed yet; -1: there is none.
func (m *Manager) recallMIG(id string) int {
	for _, d := range m.migDevices() {
		if d.Visible() == id {
			return m.intern(d.Device, d.at)
		}
	}
	return -1
}

// SetPluginConfig tells how the device plugin and GFD on the node are configured; it takes effect with the next SetStack.
func (m *Manager) SetPluginConfig(c PluginConfig) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c.Sharing.Replicas = maps.Clone(c.Sharing.Replicas)
	m.plugin = c
}

// Sharing is how often each device is offered.
func (m *Manager) Sharing() Sharing {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.plugin.Sharing
}
