package cluster

import (
	"slices"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/quantity"
)

// ModelledCapacity is what all nodes have as accounts count it, GPUs at the rate of their model and, apart, of their model.
func (m *Model) ModelledCapacity() quantity.Vector {
	out := slices.Clone(m.Capacity)
	gpus := out.At(quantity.DimGPU)
	out.Add(quantity.DimGPU, GPUs(gpus)-gpus+m.Sliced)
	//archtest:any-order sums are the same in any order
	for _, n := range m.Nodes {
		if n.Spec == nil {
			continue
		}
		gpus, models := n.Spec.Allocatable.Get(m.Config.GPU), ModelsOf(n.Spec)
		if len(models) == 1 { // as Pod.GPUModel has it
			sliced := m.inSlices(n.Spec)
			out.Add(quantity.DimGPU, sliced*(m.Rate(models[0])-1))
			out.Add(m.DimOf(models[0]), sliced)
		}
		for i, model := range models {
			of := gpus // that are not of the models before
			if i < len(models)-1 {
				of = min(of, devicesOf(n.Spec, model))
			}
			gpus -= of
			of = GPUs(of)
			out.Add(quantity.DimGPU, of*(m.Rate(model)-1))
			if model != "" {
				out.Add(m.DimOf(model), of)
			}
		}
	}
	return out
}

func devicesOf(n *api.Node, model string) (count int64) {
	for i := range n.Devices {
		if n.Devices[i].Model == model {
			count++
		}
	}
	return count
}

// want enters in the account of its queue what the gang, which is in line, lacks by now.
func (m *Model) want(g *Gang) {
	m.unwant(g)
	g.lacks = true
	if g.Payer == nil {
		return
	}
	g.wanting, g.wantedOf = m.asks(g), g.Payer
	for _, d := range g.wanting {
		//mutate: index-wanted
		g.wantedOf.Wanted.Add(d.Dim, d.Amount)
	}
}

// unwant takes the same back.
func (m *Model) unwant(g *Gang) {
	g.lacks = false
	if g.wantedOf == nil {
		return
	}
	for _, d := range g.wanting {
		g.wantedOf.Wanted.Add(d.Dim, -d.Amount)
	}
	g.wantedOf = nil
}

// wantAgain is want, after the accounts of all queues were made anew.
func (m *Model) wantAgain(g *Gang) {
	if !g.lacks {
		return
	}
	g.Payer, g.wantedOf = m.Queues[g.Queue()], nil
	m.want(g)
}

// AskAgain lets the gang ask for what it lacks in this cycle, where that is not what was told. Queue.Asked has what was told:
// for a gang of 4 GPUs of which 3 were wanting, 3 are taken out, and with a member more without a node 4 come in. A gang that
// lacked nothing as of what was told is in no Wanted, and has nothing to be taken out.
func (m *Model) AskAgain(g *Gang) {
	if g.wantedOf != nil {
		for _, d := range g.wanting {
			g.wantedOf.Asked.Add(d.Dim, -d.Amount)
		}
	}
	if g.Payer == nil {
		return
	}
	for _, d := range m.asks(g) {
		g.Payer.Asked.Add(d.Dim, d.Amount)
	}
}

// asks is what the gang lacks, as queues count it. What cannot start asks for nothing.
func (m *Model) asks(g *Gang) []quantity.Demand {
	if !g.Tree.Complete() || g.Lone == nil && m.IsRejected(api.KindGang, g.Key) {
		return nil
	}
	out := m.lacking(g)
	for i := range out {
		if d := &out[i]; d.Dim == quantity.DimGPU && m.Tree.ByModel {
			if model := g.wish(); model != "" {
				out = append(out, quantity.Demand{Dim: m.DimOf(model), Amount: d.Amount})
				out[i].Amount *= m.Rate(model)
			}
		}
	}
	return out
}

// lacking is what the members without an allocation ask for together.
func (m *Model) lacking(g *Gang) []quantity.Demand {
	var sum quantity.Vector
	for _, p := range g.All() {
		if p.Waits() {
			for _, d := range m.AllCounts(p) {
				sum.Add(d.Dim, d.Amount)
			}
		}
	}
	out := make([]quantity.Demand, 0, 4)
	for dim, amount := range sum {
		if amount > 0 {
			out = append(out, quantity.Demand{Dim: dim, Amount: amount})
		}
	}
	return out
}

// wish is the GPU model that the gang would like best, "" for any.
func (g *Gang) wish() string {
	for _, p := range g.All() {
		if p.Waits() && len(p.GPU.Models) > 0 {
			return p.GPU.Models[0]
		}
	}
	return ""
}
