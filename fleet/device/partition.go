package device

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/berth-dev/berth/fleet/gpu"
)

// Partitions is what MIG has made of each GPU, in the order of Devices. The caller owns it.
func (m *Manager) Partitions() []gpu.Partition {
	m.mu.Lock()
	defer m.mu.Unlock()
	return clonePartitions(m.parts)
}

func clonePartitions(parts []gpu.Partition) []gpu.Partition {
	out := slices.Clone(parts)
	for i := range out {
		out[i].Instances = slices.Clone(out[i].Instances)
	}
	return out
}

// Repartition cuts the GPUs anew, all or none: next has an entry for each of Devices. A GPU that somebody holds, as a whole
// or in part, cannot be cut another way, nor can one without MIG be cut at all. The device plugin and GFD see the change
// with the next SetStack.
func (m *Manager) Repartition(next []gpu.Partition) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(next) != len(m.parts) {
		return fmt.Errorf("%d partitions for %d GPUs", len(next), len(m.parts))
	}
	for i, p := range next {
		switch {
		case samePartition(m.parts[i], p):
			continue
		case m.busy(i):
			return fmt.Errorf("GPU %d: %w", m.cfg.Devices[i].Index, gpu.ErrInUse)
		case !possible(m.cfg.Devices[i].Model, p):
			return fmt.Errorf("GPU %d: %w", m.cfg.Devices[i].Index, gpu.ErrInvalid)
		}
	}
	m.parts = clonePartitions(next)
	m.recalled = true
	return nil
}

// Cut changes one GPU as nvidia-smi does: instances that somebody holds have to stay, the others may change.
func (m *Manager) Cut(uuid string, next gpu.Partition) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := m.position(uuid)
	if i < 0 {
		return gpu.ErrNotFound
	}
	if !possible(m.cfg.Devices[i].Model, next) {
		return gpu.ErrInvalid
	}
	for k := range m.owner {
		if u := m.units[k]; u.gpu == i && !keeps(next, u.device) {
			return gpu.ErrInUse
		}
	}
	m.parts[i] = clonePartitions([]gpu.Partition{next})[0]
	m.recalled = true
	return nil
}

// keeps says whether the device is still there after the change.
func keeps(next gpu.Partition, d gpu.Device) bool {
	if d.MIG == nil {
		return !next.Enabled
	}
	return slices.ContainsFunc(next.Instances, func(in gpu.Instance) bool {
		return in.Profile.ID == d.MIG.Profile.ID && in.Start == d.MIG.Start && in.Compute
	})
}

// NeedsReset says whether the change switches the MIG mode of a GPU that has to be reset for it, as all before Hopper.
func (m *Manager) NeedsReset(next []gpu.Partition) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, p := range next {
		if i < len(m.parts) && p.Enabled != m.parts[i].Enabled && m.cfg.Devices[i].Model.MIGNeedsReset() {
			return true
		}
	}
	return false
}

// busy says whether a pod or a claim holds the GPU or a part of it.
func (m *Manager) busy(at int) bool {
	for i := range m.owner {
		if m.units[i].gpu == at {
			return true
		}
	}
	return false
}

// SamePartitions says whether the GPUs are cut alike.
func SamePartitions(a, b []gpu.Partition) bool { return slices.EqualFunc(a, b, samePartition) }

func samePartition(a, b gpu.Partition) bool {
	return a.Enabled == b.Enabled && slices.EqualFunc(a.Instances, b.Instances, func(x, y gpu.Instance) bool {
		return x.Profile.ID == y.Profile.ID && x.Start == y.Start && x.Compute == y.Compute
	})
}

// possible says whether the model can be cut so.
func possible(model gpu.Model, p gpu.Partition) bool {
	if !p.Enabled {
		return len(p.Instances) == 0
	}
	var have []gpu.Instance
	for _, in := range p.Instances {
		var err error
		if have, _, err = model.Create(have, in.Profile, max(in.Start, 0), in.Compute); err != nil {
			return false
		}
	}
	return model.MIG
}

// written is a partition as text: whether MIG mode is on follows from its being there.
type written struct {
	Instances []string `json:"instances"`           // PROFILE@START
	Idle      []string `json:"noCompute,omitempty"` // likewise, without a compute instance
}

// formatPartitions writes the GPUs in MIG mode as JSON, by index; "" where there are none.
func formatPartitions(parts []gpu.Partition) string {
	out := map[string]written{}
	for i, p := range parts {
		if !p.Enabled {
			continue
		}
		w := written{Instances: []string{}}
		for _, in := range p.Instances {
			text := fmt.Sprintf("%s@%d", in.Profile.Name, in.Start)
			if in.Compute {
				w.Instances = append(w.Instances, text)
			} else {
				w.Idle = append(w.Idle, text)
			}
		}
		out[strconv.Itoa(i)] = w
	}
	if len(out) == 0 {
		return ""
	}
	text, _ := json.Marshal(out) // strings only
	return string(text)
}

// Recall brings the GPUs back to what an earlier process made of them, as MIG survives a restart of everything but the
// machine. Only the first call, and none after Repartition, does anything. What cannot be read or cannot be is left out.
// Where claims cut the GPUs there is nothing to recall: those that are in use are prepared again, and make the same parts.
func (m *Manager) Recall(text string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.recalled || m.cfg.DynamicMIG {
		return
	}
	m.recalled = true
	var in map[string]written
	if text == "" || json.Unmarshal([]byte(text), &in) != nil {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(in)) {
		i, err := strconv.Atoi(key)
		if err != nil || i < 0 || i >= len(m.parts) {
			continue
		}
		if p, ok := in[key].partition(m.cfg.Devices[i].Model); ok {
			m.parts[i] = p
		}
	}
}

// maxInstances is the most that any GPU can be cut into.
const maxInstances = 7

func (w written) partition(model gpu.Model) (gpu.Partition, bool) {
	p := gpu.Partition{Enabled: true}
	if len(w.Instances)+len(w.Idle) > maxInstances || !model.MIG {
		return p, false
	}
	for k, text := range slices.Concat(w.Instances, w.Idle) {
		name, start, err := splitInstance(text)
		profile, known := model.Profile(name)
		if err != nil || !known {
			return p, false
		}
		if p.Instances, _, err = model.Create(p.Instances, profile, start, k < len(w.Instances)); err != nil {
			return p, false
		}
	}
	return p, true
}

func splitInstance(text string) (profile string, start int, err error) {
	for i := len(text) - 1; i >= 0; i-- {
		if text[i] == '@' {
			start, err = strconv.Atoi(text[i+1:])
			if err == nil && start < 0 {
				err = strconv.ErrRange
			}
			return text[:i], start, err
		}
	}
	return "", 0, strconv.ErrSyntax
}
