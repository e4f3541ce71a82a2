package cluster

import (
	"slices"
	"strings"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/quantity"
)

// What a pod counts in the accounts of queues, in one place: for quotas, limits, fair shares, budgets and what is borrowed and lent.
//
// Accounts count GPUs in thousandths, all in all and by model, and everything else in the units of its resource, so that a part of a
// GPU is an exact number among whole ones. Nodes count GPUs whole. Two functions lead from one to the other: booked for what
// somebody said, and Told for what is said to somebody.

// InParts says whether accounts count the dimension in thousandths.
func (m *Model) InParts(dim int) bool {
	return dim == quantity.DimGPU || m.Tree.ByModel && m.OfModel(dim) || m.Tree.Flavored && inFlavor(m.Dims.Names[dim], m.Config.GPU)
}

// Unit is what one of the dimension, as nodes and queues name it, counts in accounts.
func (m *Model) Unit(dim int) int64 {
	if m.InParts(dim) {
		return api.Whole
	}
	return 1
}

// Booked is the amount as accounts count it. More GPUs than anybody has count as so many, so that no sum overflows.
func (m *Model) Booked(a api.Amount) (dim int, amount int64) {
	dim = m.Dims.ID(a.Resource)
	if a.Resource == m.Config.GPU || strings.HasPrefix(a.Resource, m.Config.GPU+"@") || inFlavor(a.Resource, m.Config.GPU) {
		return dim, GPUs(a.Value) + a.Milli
	}
	return dim, a.Value
}

// DimOf is the dimension that GPUs of the model count in, besides that of all GPUs.
func (m *Model) DimOf(model string) int {
	//mutate: charge-instances-of-model -> m.Dims.ID(api.OfModel(m.Config.GPU, model))
	return m.Dims.ID(api.OfModel(m.Config.GPU, api.CountedModel(model)))
}

// Told is the amount of an account in words.
func (m *Model) Told(dim int, amount int64) api.Amount {
	unit := m.Unit(dim)
	return api.Amount{Resource: m.Dims.Names[dim], Value: amount / unit, Milli: amount % unit}
}

// Counts is what the pod, wherever it comes to be, counts of the dimension at least, where models do not matter.
func (m *Model) Counts(p *Pod, dim int) int64 {
	if dim != quantity.DimGPU || !m.Varies(p) {
		return p.Asks(dim)
	}
	by := m.partsBy(m.queueNameOf(p))
	//mutate: charge-slices-asked -> p.Asks(dim)
	sum := m.slicedAnywhere(p, by) + p.Claimed
	//mutate: charge-parts-asked
	if p.Part != nil {
		sum += int64(p.Part.Cards) * p.Part.Charge(m.Presence.largest, by)
	}
	return sum
}

// Varies says whether the pod counts something else of GPUs than it asks for by their number: it asks for a part of one, has parts
// through claims, or asks for what is a slice of one on some node.
func (m *Model) Varies(p *Pod) bool { return p.inParts() || m.MaySlice(p) }

// inParts says whether the pod asks for parts of GPUs, by itself or through claims.
func (p *Pod) inParts() bool { return p.Part != nil || p.Claimed > 0 }

// AllCounts is Counts of all dimensions.
func (m *Model) AllCounts(p *Pod) []quantity.Demand {
	if !m.Varies(p) {
		return p.Counted
	}
	return p.countedAs(m.Counts(p, quantity.DimGPU))
}

// countedAs is what the pod counts with so much of GPUs.
func (p *Pod) countedAs(gpus int64) []quantity.Demand {
	out := make([]quantity.Demand, 0, len(p.Counted)+2)
	for _, d := range p.Counted {
		if d.Dim != quantity.DimGPU {
			out = append(out, d)
		}
	}
	if gpus == 0 {
		return out
	}
	return append(out, quantity.Demand{Dim: quantity.DimGPU, Amount: gpus})
}

// Asks is what the pod asks of the dimension as accounts count it, parts aside.
func (p *Pod) Asks(dim int) int64 {
	for _, d := range p.Counted {
		if d.Dim == dim {
			return d.Amount
		}
	}
	return 0
}

// counted is the demands as accounts count them.
func counted(demands []quantity.Demand) []quantity.Demand {
	out := slices.Clone(demands)
	for i := range out {
		if d := &out[i]; d.Dim == quantity.DimGPU {
			d.Amount = GPUs(d.Amount)
		}
	}
	return out
}

// GPUs is so many whole GPUs as accounts count them.
func GPUs(n int64) int64 { return max(-api.MaxGPUs, min(n, api.MaxGPUs)) * api.Whole }

// queueNameOf is the name of the queue that the pod is charged to, "" for none.
func (m *Model) queueNameOf(p *Pod) string {
	switch {
	case p.Foreign:
		return ""
	case p.Gang == "":
		return p.Queue
	}
	if g := p.In; g != nil && g.Spec != nil {
		return g.Spec.Queue
	}
	return ""
}

// partsBy is by what the queue, or the next one above it that says so, counts parts.
func (m *Model) partsBy(queue string) api.PartsBy {
	for q, steps := m.Queues[queue], 0; q != nil && steps <= len(m.Queues); q, steps = q.Parent, steps+1 {
		if q.Spec != nil && q.Spec.PartsBy != "" {
			return q.Spec.PartsBy
		}
	}
	return ""
}

// gpusOf is what the GPUs, or parts of them, that the pod has on its node count, before the rate of their model.
func (m *Model) gpusOf(p *Pod) int64 {
	if !p.inParts() && len(p.Host.Slices) == 0 {
		return p.Asks(quantity.DimGPU)
	}
	return p.has(m.partsBy(m.queueNameOf(p)))
}

// Weight is what of GPUs the pod has on its node, in thousandths, however its queue counts parts.
func (p *Pod) Weight() int64 {
	return p.has("")
}

// has is what the GPUs, slices and parts of them count that the pod has on its node.
func (p *Pod) has(by api.PartsBy) (sum int64) {
	//mutate: charge-slices -> p.Asks(quantity.DimGPU)
	sum = p.slicedOn(by)
	sum += p.Claimed
	if p.Part == nil {
		return sum
	}
	for i := range p.Part.Cards {
		id := ""
		if i < len(p.HostDevices) {
			id = p.HostDevices[i]
		}
		sum += p.Part.Charge(p.Host.cardMemory(id), by)
	}
	return sum
}

// PartsOf is by how much what the pod has of GPUs, or at least will have, counts for more than those that it asks for by their number,
// before the rate of their model: what its parts and slices count, less what replicas are not of a GPU.
func (m *Model) PartsOf(p *Pod) int64 {
	if p.Host != nil {
		return m.gpusOf(p) - p.Asks(quantity.DimGPU)
	}
	return m.Counts(p, quantity.DimGPU) - p.Asks(quantity.DimGPU)
}

// cardMemory is the memory of the card of which somebody has a part. Where nobody says which that is, or it is not here, it is the
// smallest card of the node that gives parts: 0 for none.
func (n *Node) cardMemory(id string) int64 {
	if n.Spec == nil {
		return 0
	}
	if at := n.DeviceIndex(id); at >= 0 {
		return n.Spec.Devices[at].Memory
	}
	least := int64(0)
	for j := range n.Spec.Devices {
		if d := &n.Spec.Devices[j]; d.Parts > 0 && (least == 0 || d.Memory < least) {
			least = d.Memory
		}
	}
	return least
}

// chargeOf is what a pod on its node counts in its queue: what it asks for, GPUs at the rate of their model and, where models
// matter, of their model apart, and all that its queue counts so by flavor too.
func (m *Model) chargeOf(p *Pod) []quantity.Demand {
	gpus := m.gpusOf(p)
	out := m.chargeByModel(p, gpus)
	if !m.Tree.Flavored {
		return out
	}
	return m.chargeFlavors(m.Queues[m.queueNameOf(p)], p.Host, out, gpus)
}

// chargeByModel is chargeOf, flavors aside.
func (m *Model) chargeByModel(p *Pod, gpus int64) []quantity.Demand {
	model := ""
	if m.Tree.ByModel && gpus > 0 {
		model = p.GPUModel()
	}
	if !p.inParts() && model == "" && len(p.Host.Slices) == 0 {
		return p.Counted
	}
	out := p.countedAs(gpus * m.Rate(model))
	if model != "" {
		out = append(out, quantity.Demand{Dim: m.DimOf(model), Amount: gpus})
	}
	return out
}

// chargeOfHold is what the hold counts in queues: as much as the pods that it is for once they are on its node, where that
// has GPUs of one model.
func (m *Model) chargeOfHold(h *Hold) []quantity.Demand {
	out := make([]quantity.Demand, 0, len(h.Requests)+2)
	//mutate: pledge-parts -> int64(0)
	gpus := m.partsHeld(h)
	by := m.partsBy(h.payer())
	for _, a := range h.Requests {
		dim, amount := m.Booked(a)
		//mutate: pledge-slices
		if len(h.On.Slices) > 0 {
			gpus += inGPUs(a.Value, h.On.unit(dim, by))
		} else if dim == quantity.DimGPU {
			gpus += amount
		}
		if dim != quantity.DimGPU {
			out = append(out, quantity.Demand{Dim: dim, Amount: amount})
		}
	}
	if gpus == 0 {
		return m.chargeFlavors(h.Payer, h.On, out, 0)
	}
	unrated := gpus
	//mutate: pledge-rated
	if models := h.On.Models; m.Tree.ByModel && len(models) == 1 {
		out = append(out, quantity.Demand{Dim: m.DimOf(models[0]), Amount: gpus})
		gpus *= m.Rate(models[0])
	}
	return m.chargeFlavors(h.Payer, h.On, append(out, quantity.Demand{Dim: quantity.DimGPU, Amount: gpus}), unrated)
}

// surplusOf is by how much the GPUs that the pod has on its node count for more than those that it takes off it: because of
// their model, or because they are parts and slices, which take none. Replicas count for less.
func (m *Model) surplusOf(p *Pod) int64 {
	if len(m.Config.Rates) == 0 && !p.inParts() && len(p.Host.Slices) == 0 {
		return 0
	}
	gpus := m.gpusOf(p)
	if gpus > 0 && len(m.Config.Rates) > 0 {
		gpus *= m.Rate(p.GPUModel())
	}
	return gpus - p.Asks(quantity.DimGPU)
}

// revalue works out anew by how much what the pod has counts for more than it takes: its queue says by what parts count.
func (m *Model) revalue(p *Pod) {
	now := m.surplusOf(p)
	m.Surplus += now - p.surplus
	p.surplus = now
}

// Surplus is by how much what the pod has on its node counts for more than the GPUs that it takes off it.
func (p *Pod) Surplus() int64 { return p.surplus }

// InAll is what there is in all, and what of it is taken, as queues count it.
func (m *Model) InAll(dim int) (capacity, taken int64) {
	if dim != quantity.DimGPU {
		return m.Capacity.At(dim), m.Taken.At(dim)
	}
	taken = GPUs(m.Taken.At(dim)) + m.Surplus
	if len(m.Config.Rates) == 0 {
		return GPUs(m.Capacity.At(dim)) + m.Sliced, taken
	}
	if m.Tree.rated == 0 {
		all := m.ModelledCapacity()
		m.Tree.rated = all.At(quantity.DimGPU)
	}
	return m.Tree.rated, taken
}

// Take lets so much more of the dimension, as accounts count it, be taken by nobody in particular.
func (m *Model) Take(dim int, amount int64) {
	if dim == quantity.DimGPU {
		m.Surplus += amount
		return
	}
	m.Taken.Add(dim, amount)
}

// Least is the least of the dimension that the gang can ask for to have its minimum, as accounts count it, where models do not
// matter.
func (m *Model) Least(g *Gang, dim int) int64 {
	return g.Tree.Least(func(p *Pod) int64 { return m.Counts(p, dim) })
}

// GangVaries says whether what members of the gang count depends on their nodes.
func (m *Model) GangVaries(g *Gang) bool { return slices.ContainsFunc(g.All(), m.Varies) }
