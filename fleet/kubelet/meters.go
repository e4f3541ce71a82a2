package kubelet

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/fleet/gpu"
	"github.com/berth-dev/berth/fleet/workload"
)

// contextMiB is what a CUDA context takes of a device before the program has allocated anything.
const contextMiB = 518

// use is what a holder of GPUs does to each of them.
type use struct {
	holding
	loads []workload.Load
	bytes int64 // held on each device
	busy  bool
}

// read is what all GPUs of the machine show now, for whoever asks: nvidia-smi and the DCGM exporter show the same.
// Processes belong to pods by their names, until visibleTo takes out those of others.
func (k *Kubelet) read(h *host, m *Machine) []gpu.Reading {
	uses := k.uses(h)
	parts := m.Devices.Partitions()
	devices := m.Devices.Devices()
	all := make([]gpu.Reading, len(devices))
	h.mu.Lock()
	defer h.mu.Unlock()
	now := k.clock.Simulated(time.Since(h.since))
	for i, d := range devices {
		r := &all[i]
		*r = gpu.Reading{Device: d, MIGEnabled: parts[i].Enabled, Trouble: m.Devices.Trouble(i)}
		meter := h.meter(k, d, now, uses)
		meter.Suffer(r.Trouble)
		meter.Read(r)
		for _, in := range parts[i].Instances {
			part := d
			part.MIG = &in
			r.Parts = append(r.Parts, gpu.Part{Instance: in, Activity: h.meter(k, part, now, uses).Activity()})
		}
		for _, u := range uses {
			occupy(r, u)
		}
	}
	return all
}

// settle brings the meters of a pod's machine up to now, and notes its processor time, before what one of its programs did is forgotten.
func (k *Kubelet) settle(pod string) {
	namespace, name, _ := strings.Cut(pod, "/")
	k.mu.Lock()
	w := k.byName[types.NamespacedName{Namespace: namespace, Name: name}]
	k.mu.Unlock()
	if w == nil {
		return
	}
	w.noteEffort(k.workloads.Loads(pod))
	if m := k.machine(w.host.name); m != nil && len(m.Devices.Devices()) > 0 {
		k.read(w.host, m)
	}
}

// uses are the holdings on the machine with what their programs do.
func (k *Kubelet) uses(h *host) []use {
	var all []use
	for _, holding := range h.holdings() {
		u := use{holding: holding, loads: k.workloads.Loads(holding.name)}
		util, bytes := k.workloads.Use(holding.name)
		u.busy, u.bytes = util > 0, bytes
		all = append(all, u)
	}
	return all
}

// meter is that of a GPU, or of an instance of it, brought up to now. The caller holds h.mu.
func (h *host) meter(k *Kubelet, d gpu.Device, now time.Duration, uses []use) *gpu.Meter {
	m := h.meters[d.Visible()]
	if m == nil {
		if h.meters == nil {
			h.meters = map[string]*gpu.Meter{}
		}
		m = gpu.NewMeter(d)
		h.meters[d.Visible()] = m
	}
	var loads []gpu.Load
	for _, u := range uses {
		share := shareOf(d, u.devices)
		if share == 0 {
			continue
		}
		for _, l := range u.loads {
			load := gpu.Load{From: k.clock.Simulated(l.From.Sub(h.since)), To: gpu.Still, Share: share * float64(u.limits.capped(d.UUID, l.GPUUtil)) / 100, Linked: linked(d, u.devices)}
			if !l.To.IsZero() {
				load.To = k.clock.Simulated(l.To.Sub(h.since))
			}
			loads = append(loads, load)
		}
	}
	m.Advance(now, loads)
	return m
}

// shareOf is how much of d a program keeps busy that works on all of has: all of a GPU or instance that it has, however many
// shares of it, and of a GPU of which it has instances their part of its compute slices.
func shareOf(d gpu.Device, has []gpu.Device) float64 {
	share, seen := 0.0, map[int]bool{}
	for _, h := range has {
		switch {
		case h.UUID != d.UUID:
		case h.MIG == nil:
			return 1
		case d.MIG != nil && h.MIG.Start == d.MIG.Start:
			return 1
		case d.MIG == nil && !seen[h.MIG.Start]:
			seen[h.MIG.Start] = true
			share += float64(h.MIG.Profile.Slices) / float64(max(d.Model.Slices(), 1))
		}
	}
	return min(share, 1)
}

// linked says whether a program that has these devices reaches another of them from d over NVLink.
func linked(d gpu.Device, has []gpu.Device) bool {
	return d.Linked() && d.MIG == nil && slices.ContainsFunc(has, func(o gpu.Device) bool {
		return o.UUID != d.UUID && o.NVLink == d.NVLink && o.MIG == nil
	})
}

// occupy adds the memory and the process that a holder of the GPU, or of instances of it, has on it.
func occupy(r *gpu.Reading, u use) {
	seen := map[int]bool{}
	for _, d := range u.devices {
		if d.UUID != r.UUID {
			continue
		}
		at, limit := -1, r.MemoryMiB
		if d.MIG != nil {
			at = slices.IndexFunc(r.Parts, func(p gpu.Part) bool { return p.Start == d.MIG.Start })
			limit = d.MIG.Profile.MemoryMiB
		}
		if seen[at] || d.MIG != nil && at < 0 {
			continue // one more share of the same, or an instance that is gone
		}
		seen[at] = true
		used := min(int(u.bytes>>20), limit)
		if used == 0 && u.busy {
			used = contextMiB
		}
		r.MemUsedMiB = min(r.MemUsedMiB+used, r.MemoryMiB)
		var on *gpu.Instance
		if at >= 0 {
			r.Parts[at].UsedMiB = min(r.Parts[at].UsedMiB+used, limit)
			on = &r.Parts[at].Instance
		}
		if (u.busy || used > 0) && len(u.argv) > 0 {
			r.Processes = append(r.Processes, gpu.Process{PID: len(r.Processes) + 1, Name: u.argv[0], UsedMiB: used, MIG: on, Pod: u.name})
		}
	}
}

// visibleTo leaves what a container of the pod sees that has these devices: the GPUs of which it has anything, of those in MIG
// mode its instances alone, and its own processes.
func visibleTo(all []gpu.Reading, has []gpu.Device, pod string) []gpu.Reading {
	var out []gpu.Reading
	for _, r := range all {
		seen, whole := false, false
		for _, d := range has {
			seen = seen || d.UUID == r.UUID
			whole = whole || d.UUID == r.UUID && d.MIG == nil
		}
		if !seen {
			continue
		}
		r.Parts = slices.DeleteFunc(r.Parts, func(p gpu.Part) bool {
			return !whole && !slices.ContainsFunc(has, func(d gpu.Device) bool { return d.UUID == r.UUID && d.MIG != nil && d.MIG.Start == p.Start })
		})
		r.Processes = slices.DeleteFunc(r.Processes, func(p gpu.Process) bool { return p.Pod != pod })
		for i := range r.Processes {
			r.Processes[i].PID = i + 1
		}
		if !whole {
			r.MemUsedMiB = 0
			for _, p := range r.Parts {
				r.MemUsedMiB += p.UsedMiB
			}
		}
		out = append(out, r)
	}
	return out
}
