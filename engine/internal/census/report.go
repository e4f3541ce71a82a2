package census

import (
	"maps"
	"slices"

	"github.com/berth-dev/berth/engine/internal/cluster"
)

// Report is how full and how broken up the cluster is, as of the last Apply.
type Report struct {
	All     Usage     `json:"all"`
	Pools   []Usage   `json:"pools,omitempty"`   // by name
	Largest []Largest `json:"largest,omitempty"` // by model, then level from the widest to the node
}

// Usage counts the GPUs of a pool, or of all ("").
type Usage struct {
	Pool      string `json:"pool,omitempty"`
	Nodes     int    `json:"nodes"`
	FreeNodes int    `json:"freeNodes"` // nodes with GPUs and none of them given away
	GPUs      int64  `json:"gpus"`      // G: allocatable
	Allocated int64  `json:"allocated"` // g: given away
	InUse     int64  `json:"inUse"`     // G over the nodes with g > 0; g where G fell under it
}

// Utilisation is sum g / sum G; 0 without GPUs.
func (u Usage) Utilisation() float64 { return ratio(u.Allocated, u.GPUs) }

// Fragmentation is 1 - sum g / sum G over the nodes in use; 0 where none is.
func (u Usage) Fragmentation() float64 {
	if u.InUse == 0 {
		return 0
	}
	return 1 - ratio(u.Allocated, u.InUse)
}

func ratio(a, b int64) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}

// Largest is the most GPUs of one model that a job could get at once inside one domain of a level:
// on one node, in one rack, and so on.
type Largest struct {
	Model  string `json:"model,omitempty"` // "": model not known
	Level  string `json:"level"`           // NodeLevel, a name of Config.Levels, or "" for the whole cluster
	Domain string `json:"domain"`          // where; the first by name
	GPUs   int64  `json:"gpus"`
}

// Count counts GPUs and finds the largest jobs that could start, over nodes that are not cordoned.
func Count(m *cluster.Model) Report {
	pools := make(map[string]*Usage)
	var r Report
	for _, n := range m.SortedNodes() {
		if n.Spec == nil {
			continue
		}
		p := pools[n.Spec.Pool]
		if p == nil {
			p = &Usage{Pool: n.Spec.Pool}
			pools[n.Spec.Pool] = p
		}
		p.count(n, m.Config.GPU)
		r.All.count(n, m.Config.GPU)
	}
	for _, name := range slices.Sorted(maps.Keys(pools)) {
		if name != "" {
			r.Pools = append(r.Pools, *pools[name])
		}
	}
	r.Largest = largest(m)
	return r
}

func (u *Usage) count(n *cluster.Node, gpu string) {
	gpus := n.Spec.Allocatable.Get(gpu)
	given := n.GPUsInUse()
	u.Nodes++
	u.GPUs += gpus
	u.Allocated += given
	if given > 0 {
		u.InUse += max(gpus, given)
	} else if gpus > 0 {
		u.FreeNodes++
	}
}

// largest finds, per model and level, the domain with the most free GPUs.
func largest(m *cluster.Model) []Largest {
	best := make(map[string]map[int]Largest)
	sums := make(map[string]map[string]int64)
	for _, sh := range m.Topology.Buckets {
		for _, n := range sh.Nodes {
			if n.Spec.Cordoned {
				continue
			}
			for model, free := range n.FreeByModel() {
				if free <= 0 {
					continue
				}
				addFree(m, best, sums, sh, n, model, free)
			}
		}
	}
	var out []Largest
	for _, model := range slices.Sorted(maps.Keys(best)) {
		for _, level := range reportLevels(m) {
			if l, ok := best[model][level]; ok {
				out = append(out, l)
			}
		}
	}
	return out
}

// reportLevels lists the whole cluster, Config.Levels and the node.
func reportLevels(m *cluster.Model) []int {
	out := []int{cluster.AnyLevel}
	for i := range m.Config.Levels {
		out = append(out, i)
	}
	return append(out, cluster.NodeLevel)
}

// addFree adds a node's free GPUs of a model to every domain it is in.
func addFree(m *cluster.Model, best map[string]map[int]Largest, sums map[string]map[string]int64, sh *cluster.Bucket, n *cluster.Node, model string, free int64) {
	if best[model] == nil {
		best[model], sums[model] = make(map[int]Largest), make(map[string]int64)
	}
	for _, level := range reportLevels(m) {
		name := ""
		switch {
		case level == cluster.NodeLevel:
			name = n.Name
		case level >= 0 && sh.Domains[level] == nil:
			continue
		case level >= 0:
			name = sh.Domains[level].Name
		}
		key := m.Topology.LevelName(level) + "\x00" + name
		sums[model][key] += free
		if now, had := sums[model][key], best[model][level]; now > had.GPUs || now == had.GPUs && now > 0 && name < had.Domain {
			best[model][level] = Largest{Model: model, Level: m.Topology.LevelName(level), Domain: name, GPUs: now}
		}
	}
}
