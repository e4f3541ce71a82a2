package device

import (
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
		"gfd.timestamp":        strconv.FormatInt(since.Unix(), 10),
		"gpu.machine":          machineLabel(m.cfg.Machine),
		"gpu.product":          dev.Model.Label(),
		"gpu.count":            strconv.Itoa(count),
		"gpu.replicas":         "1",
		"gpu.sharing-strategy": "none",
		"gpu.memory":           strconv.Itoa(dev.MemoryMiB),
		"gpu.family":           dev.Model.Family,
		"gpu.mode":             mode(dev.Model),
		"mig.capable":          strconv.FormatBool(anyMIG(m.cfg.Devices)),
		"mps.capable":          "false",
		"vgpu.present":         "false",
	}
	out["gpu.compute.major"], out["gpu.compute.minor"], _ = strings.Cut(dev.Model.Compute, ".")
	addVersions(out, m.cfg.Driver)
	if m.cfg.Clique != "" {
		out["gpu.clique"] = m.cfg.Clique
	}
	if s := m.stack.ready(GFD)[0].Env["MIG_STRATEGY"]; s != "" && s != "none" {
		out["mig.strategy"] = s
	}
	return qualify(out)
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
