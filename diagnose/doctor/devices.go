package doctor

import (
	"maps"
	"slices"

	"github.com/berth-dev/berth/diagnose/facts"
)

// Use is what was measured of one GPU: whether it did anything.
type Use struct {
	Node string // "": no node of the cluster has the exporter's name for it
	GPU  string // its index on the node, or its UUID where the exporter names no index
	UUID string
	Busy bool
}

// Uses says of each GPU whether it was busy, as far as samples tell. A GPU that none tells of is not among them.
func Uses(f *facts.Facts, samples []Sample) []Use {
	c := &Cluster{Facts: f, samples: samples}
	var out []Use
	for _, m := range c.measure() {
		util, ok := m.value("DCGM_FI_DEV_GPU_UTIL")
		if active, known := m.value("DCGM_FI_PROF_GR_ENGINE_ACTIVE"); known {
			util, ok = max(util, active), true
		}
		if !ok || m.node == "" {
			continue
		}
		u := Use{Node: m.node, GPU: m.gpu, Busy: util > 0}
		for _, s := range m.samples {
			u.UUID = firstOf(s.Labels, []string{"UUID", "gpu_uuid"})
			if u.UUID != "" {
				break
			}
		}
		out = append(out, u)
	}
	return out
}

// Device is a GPU that a driver offers in a ResourceSlice. Its partitions are it.
type Device struct {
	Name   string // pool/device, or pool/counters where parts share them
	Usable bool   // not tainted
	Held   bool   // a claim has it, or a part of it
}

// Devices are the GPUs that drivers offer on each node, by name.
func Devices(f *facts.Facts) map[string][]Device {
	out := make(map[string][]Device)
	claims := claimedGPUs(f)
	for _, driver := range claims.drivers() {
		for _, node := range slices.Sorted(maps.Keys(claims[driver])) {
			d := claims[driver][node]
			for _, name := range slices.Sorted(maps.Keys(d.usable)) {
				out[node] = append(out[node], Device{name, d.usable[name], d.held[name]})
			}
		}
	}
	return out
}
