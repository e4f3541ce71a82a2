package engine

import (
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/place"
	"github.com/berth-dev/berth/engine/why"
)

// grow places members above the minimum, one by one, and groups above the minimum of groups, each whole.
// What the gang has, it keeps.
func (y *cycle) grow(g *cluster.Gang) {
	if y.isEnding(g) {
		y.wait(g, makingRoom(g))
		return
	}
	behind := y.times.Behind(g, y.rank)
	if len(behind) > 0 && y.times.Strict(g.Queue()) {
		if y.starts[g] == 0 {
			y.wait(g, behind)
		}
		return
	}
	if gates := y.limits.Gates(g, "", nil); len(gates) > 0 {
		y.wait(g, gates)
		return
	}
	t := g.TurnNow()
	m := y.s.m.Mark()
	y.claim(g)
	x := y.newSearch(g, y.kin(g, t, way{}))
	models := y.models(g)
	if y.starts[g] > 0 && y.Plan.Starts[y.starts[g]-1].Model != "" {
		models = []string{y.Plan.Starts[y.starts[g]-1].Model}
	}
	for _, w := range ways(models, y.flavors(g)) {
		x = y.newSearch(g, y.kin(g, t, w))
		x.Grow()
		y.steps += x.Steps
		if len(x.Placed) > 0 && len(behind) > 0 {
			y.s.m.Rollback(m)
			if y.starts[g] == 0 {
				y.wait(g, behind)
			}
			return
		}
		if len(x.Placed) > 0 {
			y.started(g, t, x.Model(), m)
			return
		}
	}
	if y.starts[g] == 0 {
		y.wait(g, y.growthGates(g, x))
	}
	y.s.m.Rollback(m)
}

// growthGates says why not one more member could start.
func (y *cycle) growthGates(g *cluster.Gang, x *place.Search) []why.Gate {
	var gates []why.Gate
	for _, f := range y.features(g) {
		gates = append(gates, why.Gate{Cause: why.UnsupportedFeature, Object: string(f), Certificate: -1})
	}
	gates = append(gates, x.Quota...)
	if x.Blocked.Pod != nil {
		gates = append(gates, y.proveBlocked(x)...)
	}
	if len(gates) == 0 {
		gates = append(gates, x.Failure())
	}
	return gates
}

// proveBlocked proves that the member that found no room has none, where it is bound to be: in the domain of
// its gang, of one of its groups or of its segment. It returns nothing where no one of these proves it.
func (y *cycle) proveBlocked(x *place.Search) []why.Gate {
	s, b := y.s, x.Blocked.Leaf
	o := place.Order{Class: x.Kin.Class(x.Blocked.Pod), Pods: []*cluster.Pod{x.Blocked.Pod}}
	for _, up := range x.G.Tree.Path(b) {
		o.Layout.Required, o.Running = up.Group.Layout.Required, up.RunningPods()
		if _, ok := s.placer.ChooseScope(o); !ok {
			return []why.Gate{y.prove(o)}
		}
	}
	if size := b.Group.Layout.Segment; size > 0 {
		o.Layout.Required, o.Running = b.Group.Layout.SegmentLevel, b.Mates(x.Blocked.Place)
		if _, ok := s.placer.ChooseScope(o); !ok {
			return []why.Gate{y.prove(o)}
		}
	}
	return nil
}
