package cluster

import (
	"cmp"
	"slices"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/quantity"
)

// Slice is an api.Slice with the dimension of its resource.
type Slice struct {
	Dim int
	api.Slice
}

func slicesOf(n *api.Node) []api.Slice {
	if n == nil {
		return nil
	}
	return n.Slices
}

// slice notes which resources of the node are parts of GPUs, and what its GPUs are as accounts count them.
func (m *Model) slice(n *Node, old, got *api.Node) {
	m.Sliced += m.inSlices(got) - m.inSlices(old)
	n.Slices = nil
	for _, s := range slicesOf(got) {
		n.Slices = append(n.Slices, Slice{Dim: m.Dims.ID(s.Resource), Slice: s})
	}
	m.countSlices(old, -1)
	m.countSlices(got, 1)
	if len(slicesOf(old)) == 0 && len(n.Slices) == 0 && m.Presence.kinds == nil {
		return
	}
	m.meetSlices()
}

// countSlices counts the node among those with its slices. A node with whole GPUs counts too: what a pod may come to have of a GPU,
// where others have slices under the same name, is all of it.
func (m *Model) countSlices(n *api.Node, by int) {
	if n == nil {
		return
	}
	count := func(s api.Slice) {
		if m.Presence.sliced == nil {
			m.Presence.sliced = make(map[api.Slice]int)
		}
		if m.Presence.sliced[s] += by; m.Presence.sliced[s] == 0 {
			delete(m.Presence.sliced, s)
		}
	}
	for _, s := range n.Slices {
		count(s)
	}
	if n.Allocatable.Get(m.Config.GPU) > 0 && !slices.ContainsFunc(n.Slices, func(s api.Slice) bool { return s.Resource == m.Config.GPU }) {
		count(m.wholeGPU())
	}
}

// wholeGPU is a GPU as a slice of one.
func (m *Model) wholeGPU() api.Slice {
	return api.Slice{Resource: m.Config.GPU, Memory: api.Whole, Compute: api.Whole}
}

// meetSlices notes which kinds of slices there are. What pods that wait will count at least follows from them.
func (m *Model) meetSlices() {
	var kinds []Slice
	whole := m.wholeGPU()
	for s := range m.Presence.sliced { //archtest:any-order sorted below
		kinds = append(kinds, Slice{Dim: m.Dims.ID(s.Resource), Slice: s})
	}
	if len(kinds) == 1 && kinds[0].Slice == whole {
		kinds = nil
	}
	slices.SortFunc(kinds, func(a, b Slice) int {
		return cmp.Or(cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Memory, b.Memory), cmp.Compare(a.Compute, b.Compute))
	})
	if !slices.Equal(kinds, m.Presence.kinds) {
		m.Presence.kinds = kinds
		//mutate: index-kinds-of-slices
		m.Tree.Stale = true
	}
}

// inSlices is by how much the GPUs of the node, as accounts count them, are more than its GPUs by their number; less for replicas.
func (m *Model) inSlices(n *api.Node) (sum int64) {
	for _, s := range slicesOf(n) {
		count := n.Allocatable.Get(s.Resource)
		sum += inGPUs(count, s.Charge(""))
		if s.Resource == m.Config.GPU {
			sum -= GPUs(count)
		}
	}
	return sum
}

// inGPUs is what so many slices count that count so much each. More than anybody has count as so many.
func inGPUs(count, each int64) int64 { return max(-api.MaxGPUs, min(count, api.MaxGPUs)) * each }

// unit is what one of the dimension counts of GPUs on the node.
func (n *Node) unit(dim int, by api.PartsBy) int64 {
	for i := range n.Slices {
		if s := &n.Slices[i]; s.Dim == dim {
			return s.Charge(by)
		}
	}
	if dim == quantity.DimGPU {
		return api.Whole
	}
	return 0
}

// leastUnit is what one of the dimension counts of GPUs at least, wherever it is.
func (m *Model) leastUnit(dim int, by api.PartsBy) (least int64) {
	for i := range m.Presence.kinds {
		if s := &m.Presence.kinds[i]; s.Dim == dim && (least == 0 || s.Charge(by) < least) {
			least = s.Charge(by)
		}
	}
	if least == 0 && dim == quantity.DimGPU {
		return api.Whole
	}
	return least
}

// MaySlice says whether what the pod has, or will have, of GPUs depends on its node: something that it asks for is a slice somewhere.
func (m *Model) MaySlice(p *Pod) bool {
	return len(m.Presence.kinds) > 0 && slices.ContainsFunc(p.Demands, func(d quantity.Demand) bool {
		return slices.ContainsFunc(m.Presence.kinds, func(s Slice) bool { return s.Dim == d.Dim })
	})
}

// slicedOn is what the pod's whole GPUs and slices count on its node.
func (p *Pod) slicedOn(by api.PartsBy) (sum int64) {
	for _, d := range p.Demands {
		sum += inGPUs(d.Amount, p.Host.unit(d.Dim, by))
	}
	return sum
}

// slicedAnywhere is what they count at least, wherever the pod comes to be.
func (m *Model) slicedAnywhere(p *Pod, by api.PartsBy) (sum int64) {
	for _, d := range p.Demands {
		sum += inGPUs(d.Amount, m.leastUnit(d.Dim, by))
	}
	return sum
}

// HasSlices says whether some node has slices of GPUs.
func (m *Model) HasSlices() bool { return len(m.Presence.kinds) > 0 }
