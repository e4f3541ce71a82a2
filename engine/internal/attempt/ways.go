package attempt

import (
	"slices"

	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/index"
	"github.com/berth-dev/berth/engine/internal/place"
	"github.com/berth-dev/berth/engine/why"
)

// Way is one way to serve a gang: the GPU model and the flavors that it is tried with.
type Way struct {
	Model   string          // of its GPUs; "": any
	Flavors *cluster.Choice // nil: they do not matter
}

// ways lists each model with each choice of flavors, the first flavors with all models first: flavors are in the
// order in which the queue is to be filled, so a second model of the first flavors comes before any model of the
// second.
func ways(models []string, flavors []*cluster.Choice) []Way {
	out := make([]Way, 0, len(models)*len(flavors))
	for _, f := range flavors {
		for _, m := range models {
			out = append(out, Way{m, f})
		}
	}
	return out
}

// flavors lists the flavors to try, the best first: in the order of the queue or, where it says so, those first for
// which the queue need not borrow.
func (a *Attempts) flavors(g *cluster.Gang) []*cluster.Choice {
	out := a.m.Choices(g)
	if len(out) < 2 || g.Payer == nil || g.Payer.Spec == nil || !g.Payer.Spec.QuotaFirst {
		return out
	}
	var within, borrow []*cluster.Choice
	for _, c := range out {
		//mutate: flavor-quota-first -> false
		if a.limits.Borrows(g, c) {
			borrow = append(borrow, c)
		} else {
			within = append(within, c)
		}
	}
	return append(within, borrow...)
}

// modelsApart says whether it matters to the gang's queue which GPU model its members get.
func (a *Attempts) modelsApart(g *cluster.Gang) bool {
	return a.m.Tree.ByModel && g.Queue() != "" && slices.ContainsFunc(g.All(), (*cluster.Pod).HasGPU)
}

// AllModels lists the GPU models that nodes have, by name; one "" where none is known. Kinds are kept when their last
// node is gone, so the nodes are asked, once in a cycle.
func (a *Attempts) AllModels() []string {
	if a.every != nil {
		return a.every
	}
	seen := make(map[*index.NodeKind]bool)
	for _, sh := range a.m.Topology.Buckets {
		for _, n := range sh.Nodes {
			if k := a.ix.Kind(n); !seen[k] {
				seen[k] = true
				a.every = append(a.every, k.Models...)
			}
		}
	}
	if len(a.every) == 0 {
		a.every = []string{""}
	}
	slices.Sort(a.every)
	a.every = slices.Compact(a.every)
	return a.every
}

// Models lists the GPU models to try, those first that the gang wants most. They are the ones that the first waiting
// member to name any names, in its order, less those that another member which names some does not. Where a member
// runs on one of those that it named, it is that one alone. Where no waiting member names a model it is one "", or
// all that there are if its queue counts them apart.
func (a *Attempts) Models(g *cluster.Gang) []string {
	var out []string
	asked, pinned := false, ""
	left := make(map[string]bool)
	for _, p := range g.All() {
		if p.Terminating || !p.AsksModel() {
			continue
		}
		switch {
		case p.Host != nil:
			if m := p.GPUModel(); pinned == "" && slices.Contains(p.GPU.Models, m) {
				pinned = m
			}
		case !asked:
			out, asked = slices.Clone(p.GPU.Models), true
		default:
			clear(left)
			for _, m := range p.GPU.Models {
				left[m] = true
			}
			out = slices.DeleteFunc(out, func(m string) bool { return !left[m] })
		}
	}
	if !asked && a.modelsApart(g) {
		return a.AllModels()
	}
	if !asked {
		return []string{""}
	}
	return a.offered(slices.DeleteFunc(out, func(m string) bool { return pinned != "" && m != pinned }))
}

// offered are those of the models that some node has. Where none has any of them the first stands for all: what keeps
// the gang from one that does not exist keeps it from all.
func (a *Attempts) offered(models []string) []string {
	var out []string
	for _, m := range models {
		//mutate: filter-model-exists
		if a.m.Presence.Models[m] > 0 {
			out = append(out, m)
		}
	}
	if len(out) == 0 && len(models) > 0 {
		return models[:1]
	}
	return out
}

// Kin makes the gang's members into classes for one way to serve it.
func (a *Attempts) Kin(g *cluster.Gang, t cluster.Turn, w Way) place.Kin {
	return a.placer.NewKin(g, t, w.Model, a.modelsApart(g), w.Flavors, a.refusals(g))
}

// Matches returns which nodes the first member of the gang that waits may be on, whatever is free there, with any GPU model that
// the gang may have; nil: no member waits.
func (a *Attempts) Matches(g *cluster.Gang) func(*cluster.Node) bool {
	i := slices.IndexFunc(g.All(), (*cluster.Pod).Waits)
	if i < 0 {
		return nil
	}
	c := a.Kin(g, g.TurnNow(), Way{}).Class(g.All()[i])
	return func(n *cluster.Node) bool { return n.Bucket != nil && a.ix.Matches(c, n) }
}

// PerNode counts how many pods like this one of the gang would fit on each node, each as a domain of its own, with the first GPU
// model that the gang may have.
func (a *Attempts) PerNode(g *cluster.Gang, p *cluster.Pod) why.Certificate {
	model := slices.Concat(a.Models(g), p.GPU.Models, []string{""})[0]
	c := a.Kin(g, g.TurnNow(), Way{Model: model}).Class(p)
	cert, _ := a.ix.Certify(c, index.Question{Class: c.ClassKey, Need: 1, Level: cluster.NodeLevel})
	return cert
}

// Kins returns how the gang's members are made into classes, once for each GPU model and choice of flavors that is tried.
func (a *Attempts) Kins(g *cluster.Gang, t cluster.Turn) (kins []place.Kin, apart bool) {
	apart = a.modelsApart(g)
	models := []string{""}
	if apart || slices.ContainsFunc(g.All(), (*cluster.Pod).AsksModel) {
		models = a.Models(g)
	}
	for _, w := range ways(models, a.flavors(g)) {
		kins = append(kins, a.Kin(g, t, w))
	}
	return kins, apart || a.m.HasFlavors(g)
}
