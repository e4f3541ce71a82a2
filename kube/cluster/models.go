package cluster

import (
	"maps"
	"slices"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/convert"
)

// models are the GPU models of the nodes. Pods that ask for GPUs of one model, whichever it is, name all of them: of alternatives the engine
// gives a gang one (engine.GPU.Models).
type models struct {
	gpu   string         // what GPUs are called as a resource
	nodes map[string]int // by model, "" for GPUs of an unknown model
}

func newModels(gpu string) *models { return &models{gpu: gpu, nodes: make(map[string]int)} }

// of are those of a node's GPUs, each once.
func (m *models) of(n *engine.Node) (out []string) {
	if n == nil {
		return nil
	}
	for i := range n.Devices {
		out = append(out, n.Devices[i].Model)
	}
	if n.Model != "" || len(out) == 0 && n.Allocatable.Get(m.gpu) > 0 {
		out = append(out, n.Model)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// changed counts another version of a node, and says whether other models are there now.
func (m *models) changed(old, node *engine.Node) (yes bool) {
	before, after := m.of(old), m.of(node)
	if slices.Equal(before, after) {
		return false
	}
	for _, name := range after {
		yes = yes || m.nodes[name] == 0
		m.nodes[name]++
	}
	for _, name := range before {
		if m.nodes[name]--; m.nodes[name] == 0 {
			delete(m.nodes, name)
			yes = true
		}
	}
	return yes
}

// alternatives are the models to name, nil for none: where there is one, or a model is not known, which all would leave out.
func (m *models) alternatives() []string {
	if len(m.nodes) < 2 || len(m.nodes) > convert.MaxGPUModels || m.nodes[""] > 0 {
		return nil
	}
	return slices.Sorted(maps.Keys(m.nodes))
}

// anyModel says whether the pod asks for GPUs of one model, whichever it is.
func anyModel(v *engine.Pod) bool {
	return len(v.GPU.Models) == 1 && v.GPU.Models[0] == v1alpha1.SameGPUModel
}

// nameModels has pods that ask for one model, whichever it is, name those that there are now.
func (f *Feed) nameModels() {
	for _, key := range slices.Sorted(maps.Keys(f.members.pods)) {
		if m := f.members.pods[key]; m.oneModel {
			f.reenter(m)
		}
	}
}
