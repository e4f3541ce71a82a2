package device

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/fleet/gpu"
)

// SetTrouble records what is wrong with the machine's GPUs, by position, and whether the kubelet has just restarted, so that
// no plugin has registered with it yet. Whoever holds a device keeps it.
func (m *Manager) SetTrouble(gpus map[int]gpu.Trouble, restarting bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.trouble, m.restarting = maps.Clone(gpus), restarting
}

// Trouble is what is wrong with the GPU at a position.
func (m *Manager) Trouble(i int) gpu.Trouble {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.trouble[i]
}

// Troubled is what is wrong with any of the devices, by what is worst for a program on them.
func (m *Manager) Troubled(devices []gpu.Device) (gpu.Trouble, gpu.Device) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, d := range m.cfg.Devices {
		if t := m.trouble[i]; t.Dead && slices.ContainsFunc(devices, func(o gpu.Device) bool { return o.UUID == d.UUID }) {
			return t, d
		}
	}
	return gpu.Trouble{}, gpu.Device{}
}

// Joined says whether NVSwitches join the GPUs of the machine, which then need a fabric manager.
func (m *Manager) Joined() bool {
	return slices.ContainsFunc(m.cfg.Devices, func(d gpu.Device) bool { return d.Linked() && len(m.cfg.Devices) > 2 })
}

// reportedUnhealthy says whether the plugin has marked the GPU: it does so for a GPU that is lost and for every Xid that
// is not on its list of errors of programs. DP_DISABLE_HEALTHCHECKS of its pod adds to that list, or ends the checks.
func (m *Manager) reportedUnhealthy(i int) bool {
	t := m.trouble[i]
	if m.unwell[i] {
		return true
	}
	if t.Xid == 0 || gpu.ApplicationXid(t.Xid) {
		return false
	}
	for _, p := range m.stack.ready(Plugin) {
		if ignores(p.Env["DP_DISABLE_HEALTHCHECKS"], t.Xid) {
			return false
		}
	}
	return true
}

func ignores(disabled string, xid int) bool {
	disabled = strings.ToLower(disabled)
	if disabled == "all" || strings.Contains(disabled, "xids") {
		return true
	}
	for number := range strings.SplitSeq(disabled, ",") {
		if n, err := strconv.Atoi(strings.TrimSpace(number)); err == nil && n == xid {
			return true
		}
	}
	return false
}
