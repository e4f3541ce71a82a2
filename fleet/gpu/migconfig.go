package gpu

import (
	"fmt"
	"slices"
	"strings"
)

// MIGSpec is one entry of a configuration of mig-parted: what becomes of the GPUs that it is about.
type MIGSpec struct {
	Filter  []string       // PCI IDs of models, such as 0x233010DE; nil: every model
	All     bool           // all GPUs of the machine
	Devices []int          // those with these indices, unless All
	Enabled bool           // MIG mode
	Counts  map[string]int // instances by profile
}

// ApplyMIG is the GPUs of a machine after a configuration. A GPU that no entry is about stays as it is; of several entries
// the last one counts. The error names the GPU that cannot be cut so.
func ApplyMIG(specs []MIGSpec, devices []Device, have []Partition) ([]Partition, error) {
	out := slices.Clone(have)
	for _, s := range specs {
		for i, d := range devices {
			if !s.about(d) {
				continue
			}
			p, err := s.partition(d.Model)
			if err != nil {
				return nil, fmt.Errorf("GPU %d (%s): %w", d.Index, d.Model.Product, err)
			}
			out[i] = p
		}
	}
	return out, nil
}

func (s MIGSpec) about(d Device) bool {
	fits := func(id string) bool { return id != "" && strings.EqualFold(id, pciIDs[d.Model.Name]) }
	return (s.All || slices.Contains(s.Devices, d.Index)) && (s.Filter == nil || slices.ContainsFunc(s.Filter, fits))
}

func (s MIGSpec) partition(m Model) (Partition, error) {
	if !s.Enabled {
		return Partition{}, nil
	}
	if !m.MIG {
		return Partition{}, fmt.Errorf("the model has no MIG: %w", ErrInvalid)
	}
	list, err := m.Layout(s.Counts)
	return Partition{Enabled: true, Instances: list}, err
}

// NamedMIG is one of the configurations that mig-parted brings along, for the GPUs of a machine: all-disabled, all-enabled,
// all-balanced, or all-PROFILE with as many instances of it as a GPU has room for. False: it has none of that name for any
// of the models.
func NamedMIG(name string, devices []Device) ([]MIGSpec, bool) {
	rest, ok := strings.CutPrefix(name, "all-")
	if !ok {
		return nil, false
	}
	switch rest {
	case "disabled":
		return []MIGSpec{{All: true}}, true
	case "enabled":
		return []MIGSpec{{All: true, Enabled: true}}, true
	}
	var specs []MIGSpec
	found := false
	for _, d := range devices {
		counts := named(d.Model, rest)
		found = found || counts != nil
		if counts == nil {
			counts = map[string]int{rest: 1} // which this GPU does not have, and that is an error when it is applied
		}
		specs = append(specs, MIGSpec{Devices: []int{d.Index}, Enabled: true, Counts: counts})
	}
	return specs, found
}

// named is what all-REST makes of one GPU; nil: nothing.
func named(m Model, rest string) map[string]int {
	if rest == "balanced" {
		return balanced(m)
	}
	for _, p := range m.Profiles() {
		if p.ResourceName() == rest {
			return map[string]int{p.Name: p.Max}
		}
	}
	return nil
}

// balanced is one large instance, a middle one and two small ones, as far as the model has them.
func balanced(m Model) map[string]int {
	want := map[int]int{1: 2, 2: 1, 3: 1}
	if m.Slices() == 4 {
		want = map[int]int{1: 2, 2: 1}
	}
	var counts map[string]int
	for _, p := range m.Profiles() {
		n := want[p.Slices]
		if n == 0 || p.media() {
			continue
		}
		if counts == nil {
			counts = map[string]int{}
		}
		counts[p.Name] = n
		delete(want, p.Slices) // the profile with the least memory, which comes first
	}
	return counts
}

// pciIDs are device and vendor, as configurations filter by them.
var pciIDs = map[string]string{
	"A30":            "0x20B710DE",
	"A100-SXM4-40GB": "0x20B010DE",
	"A100-PCIE-40GB": "0x20F110DE",
	"A100-SXM4-80GB": "0x20B210DE",
	"A100-PCIE-80GB": "0x20B510DE",
	"H100-SXM5-80GB": "0x233010DE",
	"H100-PCIE-80GB": "0x233110DE",
	"H100-NVL-94GB":  "0x232110DE",
	"H200":           "0x233510DE",
	"B200":           "0x290110DE",
	"GB200":          "0x294110DE",
}
