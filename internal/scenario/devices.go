package scenario

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/engine"
)

// maxDevices bounds the devices of one node; above it only their number is known.
const maxDevices = 64

// devices makes n devices as described.
func (m *machine) devices(n int64) []engine.Device {
	if n > maxDevices {
		return nil
	}
	out := []engine.Device{}
	for i := range int(n) {
		d := engine.Device{ID: fmt.Sprintf("%s/gpu-%d", m.Name, i), Model: m.model(i), Clique: m.clique, Memory: int64(m.memory), Parts: m.parts}
		if i < len(m.ids) {
			d.ID = m.ids[i]
		}
		if m.cliques > 0 {
			d.Clique = fmt.Sprintf("%s/%d", m.Name, i*m.cliques/int(n))
		}
		if m.numa > 0 {
			d.NUMA = i * m.numa / int(n)
		}
		out = append(out, d)
	}
	return out
}

func (m *machine) model(i int) string {
	for _, part := range m.models {
		if part.count == 0 || i < part.count {
			return part.model
		}
		i -= part.count
	}
	return ""
}

// parseModels reads "H100" or "H100:4,A100:4".
func parseModels(text string) ([]models, error) {
	var out []models
	for _, part := range strings.Split(text, ",") {
		model, n, counted := strings.Cut(part, ":")
		m := models{model: model}
		if counted {
			var err error
			if m.count, err = strconv.Atoi(n); err != nil || m.count < 1 {
				return nil, fmt.Errorf("expected MODEL, or MODEL:COUNT,MODEL:COUNT")
			}
		}
		out = append(out, m)
	}
	return out, nil
}

// lose reads "lose n01 2", so many GPUs of its last, or "lose n01 gpu-3": devices fail and the node offers
// fewer.
func (s *Story) lose(args []string) (func(*world) error, error) {
	if len(args) != 2 {
		return nil, fmt.Errorf("expected lose NODES COUNT, or lose NODES gpu-3,gpu-4")
	}
	gpu, _ := resourceName("gpus", &s.Config)
	if n, err := strconv.Atoi(args[1]); err == nil {
		return eachNode(args[0], func(m *machine) error {
			m.Allocatable = withAmount(m.Allocatable, engine.Amount{Resource: gpu, Value: m.Allocatable.Get(gpu) - int64(n)})
			m.fail(func(i int) bool { return i >= len(m.Devices)-n })
			return nil
		})
	}
	ids, err := texts(args[1])
	if err != nil {
		return nil, err
	}
	return eachNode(args[0], func(m *machine) error {
		for _, id := range ids {
			at := slices.IndexFunc(m.Devices, func(d engine.Device) bool { return d.ID == id || d.ID == m.Name+"/"+id })
			if at < 0 {
				return fmt.Errorf("%s: expected a device of %s", id, m.Name)
			}
			m.Allocatable = withAmount(m.Allocatable, engine.Amount{Resource: gpu, Value: m.Allocatable.Get(gpu) - 1})
			m.fail(func(i int) bool { return i == at })
		}
		return nil
	})
}

// fail marks devices as unhealthy.
func (m *machine) fail(which func(i int) bool) {
	m.Devices = slices.Clone(m.Devices)
	for i := range m.Devices {
		m.Devices[i].Unhealthy = m.Devices[i].Unhealthy || which(i)
	}
}
