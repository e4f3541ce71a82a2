package attempt

import (
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/place"
	"github.com/berth-dev/berth/engine/why"
)

// Grow places members above the gang's minimum, with the GPU model, or with any for "": what it placed is in the search.
func (a *Attempts) Grow(g *cluster.Gang, t cluster.Turn, model string) *place.Search {
	models := []string{model}
	if model == "" {
		models = a.Models(g)
	}
	x := a.newSearch(g, a.Kin(g, t, Way{}))
	for _, w := range ways(models, a.flavors(g)) {
		x = a.newSearch(g, a.Kin(g, t, w))
		x.Grow()
		a.Steps += x.Steps
		if len(x.Placed) > 0 {
			break
		}
	}
	return x
}

// GrowthGates says why not one more member could start.
func (a *Attempts) GrowthGates(g *cluster.Gang, x *place.Search) []why.Gate {
	var gates []why.Gate
	for _, f := range a.features(g) {
		gates = append(gates, why.Gate{Cause: why.UnsupportedFeature, Object: string(f), Certificate: -1})
	}
	gates = append(gates, x.Quota...)
	if x.Blocked.Pod != nil {
		gates = append(gates, a.proveBlocked(x)...)
	}
	if len(gates) == 0 {
		gates = append(gates, a.notBegun(g, x))
	}
	return gates
}

// notBegun says why no group above the minimum of groups could start: there is no room, or it has too few members.
func (a *Attempts) notBegun(g *cluster.Gang, x *place.Search) why.Gate {
	gate := x.Failure()
	if gate.Need > 0 {
		return gate
	}
	whole, lacks := g.Tree.NotBegun()
	switch {
	case whole != nil:
		gate.Need = int64(whole.Need())
	case lacks != nil:
		return incomplete(lacks)
	}
	return gate
}

// incomplete is the gate of the branch, which lacks members or groups.
func incomplete(b *cluster.Branch) why.Gate {
	out := why.Gate{Cause: why.GangIncomplete, Object: b.Group.Name, Need: int64(b.Min()), Have: int64(len(b.Pods)), Certificate: -1}
	if len(b.Children) > 0 { // fewer groups are there than must start
		out.Resource, out.Need, out.Have = why.Groups, int64(b.KeepGroups()), int64(len(b.Children))
	}
	return out
}

// proveBlocked proves that the member that found no room has none, where it is bound to be: in the domain of its
// gang, of one of its groups or of its segment, from the widest to the narrowest. It returns nothing where no one of
// these proves it.
func (a *Attempts) proveBlocked(x *place.Search) []why.Gate {
	b := x.Blocked.Leaf
	o := place.Order{Class: x.Kin.Class(x.Blocked.Pod), Pods: []*cluster.Pod{x.Blocked.Pod}}
	for _, up := range x.G.Tree.Path(b) {
		o.Layout.Required, o.Running = up.Group.Layout.Required, up.RunningPods()
		if _, ok := a.placer.ChooseScope(o); !ok {
			return []why.Gate{a.prove(o)}
		}
	}
	if size := b.Group.Layout.Segment; size > 0 {
		o.Layout.Required, o.Running = b.Group.Layout.SegmentLevel, b.Mates(x.Blocked.Place)
		if _, ok := a.placer.ChooseScope(o); !ok {
			return []why.Gate{a.prove(o)}
		}
	}
	return nil
}
