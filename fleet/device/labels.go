package device

import (
	"slices"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/fleet/gpu"
)

// labels are those GPU Feature Discovery writes for the machine, or nil while it does not run.
//
// With several models in one machine GFD lets one of them win without a rule. Here it is the
// most numerous, then the one with the lowest index; gpu.count counts that model alone, as
// GFD does.
func (m *Manager) labels() map[string]string {
	since := m.stack.gfdSince
	if since.IsZero() || len(m.cfg.Devices) == 0 {
		return nil
	}
	dev, count := predominant(m.cfg.Devices)
	out := map[string]string{
		"gfd.timestamp": strconv.FormatInt(since.Unix(), 10),
		"gpu.machine":   machineLabel(m.cfg.Machine),
		"gpu.memory":    strconv.Itoa(dev.MemoryMiB),
		"gpu.family":    dev.Model.Family,
		"gpu.mode":      mode(dev.Model),
		"mig.capable":   strconv.FormatBool(anyMIG(m.cfg.Devices)),
		"mps.capable":   strconv.FormatBool(m.plugin.Sharing.Strategy == MPS && !m.anyInMIGMode()),
		"vgpu.present":  "false",
	}
	sharing := m.plugin.Sharing
	sharing.label(out, Resource, count, dev.Model.Label())
	if !m.anyWhole(dev.Model) {
		Sharing{}.label(out, Resource, count, dev.Model.Label())
		out["gpu.replicas"] = "0" // GFD's way to say that none of them is offered as a whole
	}
	out["gpu.compute.major"], out["gpu.compute.minor"], _ = strings.Cut(dev.Model.Compute, ".")
	addVersions(out, m.cfg.Driver)
	if m.cfg.Clique != "" {
		out["gpu.clique"] = m.cfg.Clique
	}
	switch strategy := m.strategy(GFD); strategy {
	case StrategySingle:
		out["mig.strategy"] = strategy
		m.labelSingle(out, sharing)
	case StrategyMixed:
		out["mig.strategy"] = strategy
		m.labelMixed(out, sharing)
	}
	return qualify(out)
}

// label writes what GFD says of a resource: the product of its devices, how many there are, and how often each is offered.
func (s Sharing) label(out map[string]string, resource string, count int, product string) {
	key := strings.TrimPrefix(resource, "nvidia.com/")
	replicas, strategy := 1, "none"
	if n := s.Replicas[resource]; n > 1 {
		replicas, strategy = n, s.Strategy
		if !s.Rename {
			product += "-SHARED"
		}
	}
	out[key+".product"], out[key+".count"] = product, strconv.Itoa(count)
	out[key+".replicas"], out[key+".sharing-strategy"] = strconv.Itoa(replicas), strategy
}

// labelSingle writes the labels of the strategy single over those of the GPUs: nvidia.com/gpu means MIG devices there. Where
// the GPUs are not all cut alike it says so, and that there are none.
func (m *Manager) labelSingle(out map[string]string, s Sharing) {
	if !m.anyInMIGMode() {
		return
	}
	if m.invalid() != "" {
		at := slices.IndexFunc(m.parts, func(p gpu.Partition) bool { return p.Enabled })
		out["gpu.product"] = m.cfg.Devices[at].Model.Label() + "-MIG-INVALID"
		out["gpu.count"], out["gpu.replicas"], out["gpu.sharing-strategy"], out["gpu.memory"] = "0", "0", "", "0"
		return
	}
	all := m.migDevices()
	s.labelMIG(out, Resource, all[0].Device, len(all))
}

// labelMixed writes the labels of each profile that is there.
func (m *Manager) labelMixed(out map[string]string, s Sharing) {
	first, counts := map[string]gpu.Device{}, map[string]int{}
	for _, d := range m.migDevices() {
		name := migResource(d.MIG.Profile)
		if counts[name]++; counts[name] == 1 {
			first[name] = d.Device
		}
	}
	for name, d := range first {
		s.labelMIG(out, name, d, counts[name])
	}
}

func (s Sharing) labelMIG(out map[string]string, resource string, d gpu.Device, count int) {
	p := d.MIG.Profile
	s.label(out, resource, count, d.Model.Label()+"-MIG-"+p.ResourceName())
	key := strings.TrimPrefix(resource, "nvidia.com/")
	for name, n := range map[string]int{
		"memory": p.MemoryMiB, "multiprocessors": p.SMs, "slices.gi": p.Slices, "slices.ci": p.Slices,
		"engines.copy": p.Engines.Copy, "engines.decoder": p.Engines.Decoder, "engines.encoder": p.Engines.Encoder,
		"engines.jpeg": p.Engines.JPEG, "engines.ofa": p.Engines.OFA,
	} {
		out[key+"."+name] = strconv.Itoa(n)
	}
}

func (m *Manager) anyInMIGMode() bool {
	return slices.ContainsFunc(m.parts, func(p gpu.Partition) bool { return p.Enabled })
}

// anyWhole says whether a GPU of the model is not in MIG mode.
func (m *Manager) anyWhole(model gpu.Model) bool {
	for i, d := range m.cfg.Devices {
		if d.Model.Product == model.Product && !m.parts[i].Enabled {
			return true
		}
	}
	return false
}

// addVersions writes the driver's and CUDA's version, under the current keys and under those
// that GFD still writes for older users.
func addVersions(out map[string]string, d gpu.Driver) {
	driver := strings.SplitN(d.Version, ".", 3)
	for len(driver) < 3 {
		driver = append(driver, "")
	}
	cudaMajor, cudaMinor, _ := strings.Cut(d.CUDA, ".")
	out["cuda.driver-version.full"] = d.Version
	out["cuda.driver-version.major"], out["cuda.driver.major"] = driver[0], driver[0]
	out["cuda.driver-version.minor"], out["cuda.driver.minor"] = driver[1], driver[1]
	out["cuda.driver-version.revision"], out["cuda.driver.rev"] = driver[2], driver[2]
	out["cuda.runtime-version.full"] = d.CUDA
	out["cuda.runtime-version.major"], out["cuda.runtime.major"] = cudaMajor, cudaMajor
	out["cuda.runtime-version.minor"], out["cuda.runtime.minor"] = cudaMinor, cudaMinor
}

// predominant is the first device of the most numerous model, and how many there are of it.
func predominant(devices []gpu.Device) (gpu.Device, int) {
	counts := map[string]int{}
	for _, d := range devices {
		counts[d.Model.Product]++
	}
	best := devices[0]
	for _, d := range devices {
		if counts[d.Model.Product] > counts[best.Model.Product] {
			best = d
		}
	}
	return best, counts[best.Model.Product]
}

// anyMIG is GFD's rule: one capable GPU makes the node capable.
func anyMIG(devices []gpu.Device) bool {
	for _, d := range devices {
		if d.Model.MIG {
			return true
		}
	}
	return false
}

// mode is what GFD reads from the PCI class: a display controller or a 3D controller.
func mode(m gpu.Model) string {
	if m.Consumer {
		return "graphics"
	}
	return "compute"
}

func machineLabel(machine string) string {
	if machine == "" {
		return "unknown"
	}
	return strings.ReplaceAll(machine, " ", "-")
}

func qualify(short map[string]string) map[string]string {
	out := make(map[string]string, len(short))
	for k, v := range short {
		out["nvidia.com/"+k] = v
	}
	return out
}
