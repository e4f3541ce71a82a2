package gpu

import (
	"slices"
	"strings"
)

// Model is one product as NVML and GPU Feature Discovery describe it.
type Model struct {
	Name      string // short key, unique: "H100-SXM5-80GB"
	Product   string // NVML's name: "NVIDIA H100 80GB HBM3"
	Family    string // as GFD spells it: "hopper"
	Compute   string // CUDA compute capability: "9.0"
	MemoryMiB int    // NVML's total
	NVLinks   int    // links of one GPU; 0: the board has none
	MIG       bool   // can be partitioned

	PowerWatts int // default power limit
	IdleWatts  int // draw with no process

	SMClockMHz  int    // highest SM clock
	MemClockMHz int    // highest memory clock
	LinkMBps    int    // speed of one NVLink as `nvidia-smi nvlink -s` shows it; 0 without NVLink
	IdleState   string // performance state at rest, "P0" or "P8"
	Consumer    bool   // a GeForce board: own fan, no ECC, drives displays
}

// Label is the product as GFD writes it into nvidia.com/gpu.product.
func (m Model) Label() string { return strings.ReplaceAll(m.Product, " ", "-") }

// Models lists every known model, sorted by Name.
func Models() []Model {
	all := make([]Model, 0, len(catalog))
	for _, e := range catalog {
		all = append(all, e.Model)
	}
	slices.SortFunc(all, func(a, b Model) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// Lookup finds a model by its short key, an alias ("h100"), its NVML product name or its
// GFD label. Case does not matter, nor whether words are joined by spaces, dashes or
// underscores.
func Lookup(name string) (Model, bool) {
	i, ok := called[fold(name)]
	if !ok {
		return Model{}, false
	}
	return catalog[i].Model, true
}

// called are the places in the catalog, by every name of a model. A fleet asks several times for every node.
var called = func() map[string]int {
	out := make(map[string]int)
	for i, e := range catalog {
		for _, name := range append([]string{fold(e.Name), fold(e.Product)}, e.aliases...) {
			if _, taken := out[name]; !taken && name != "" {
				out[name] = i
			}
		}
	}
	return out
}()

// entry is a model with the other short names people write for it.
type entry struct {
	Model
	aliases []string
}

// fold brings spellings of one name together: "NVIDIA H100 PCIe" and "nvidia-h100-pcie".
func fold(s string) string {
	return dashes.Replace(strings.ToLower(strings.TrimSpace(s)))
}

var dashes = strings.NewReplacer(" ", "-", "_", "-")

// Architecture is the family as NVML spells it: "ada-lovelace" is "Ada Lovelace".
func (m Model) Architecture() string {
	words := strings.Split(m.Family, "-")
	for i, w := range words {
		if w != "" {
			words[i] = strings.ToUpper(w[:1]) + w[1:]
		}
	}
	return strings.Join(words, " ")
}

// MIGNeedsReset says whether the GPU has to be reset to enter or leave MIG mode, as all before Hopper.
func (m Model) MIGNeedsReset() bool { return m.MIG && m.Family == "ampere" }
