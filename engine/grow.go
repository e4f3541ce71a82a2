package engine

import (
	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/index"
	"github.com/berth-dev/berth/engine/why"
)

// grow places members above the minimum, one by one, and groups above the minimum of groups, each whole.
// What the gang has, it keeps.
func (y *cycle) grow(g *cluster.Gang) {
	if y.isEnding(g) {
		y.wait(g, makingRoom(g))
		return
	}
	behind := y.behind(g)
	if len(behind) > 0 && y.s.m.Config.Policy == api.Strict {
		if y.starts[g] == 0 {
			y.wait(g, behind)
		}
		return
	}
	if gates := y.quota(g, ""); len(gates) > 0 {
		y.wait(g, gates)
		return
	}
	t := g.TurnNow()
	m := y.s.m.Mark()
	y.claim(g)
	x := &search{y: y, g: g, kin: y.kin(g, t, "")}
	models := y.models(g)
	if y.starts[g] > 0 && y.plan.Starts[y.starts[g]-1].Model != "" {
		models = []string{y.plan.Starts[y.starts[g]-1].Model}
	}
	for _, model := range models {
		x = &search{y: y, g: g, kin: y.kin(g, t, model), greedy: true}
		x.grow(g.Tree, index.Scope{})
		y.steps += x.steps
		if len(x.seats) > 0 && len(behind) > 0 {
			y.s.m.Rollback(m)
			if y.starts[g] == 0 {
				y.wait(g, behind)
			}
			return
		}
		if len(x.seats) > 0 {
			y.started(g, t, x.model(), m)
			return
		}
	}
	if y.starts[g] == 0 {
		y.wait(g, y.growthGates(g, x))
	}
	y.s.m.Rollback(m)
}

// growthGates says why not one more member could start.
func (y *cycle) growthGates(g *cluster.Gang, x *search) []why.Gate {
	var gates []why.Gate
	for _, f := range y.features(g) {
		gates = append(gates, why.Gate{Cause: why.UnsupportedFeature, Object: string(f), Certificate: -1})
	}
	gates = append(gates, x.quota...)
	if x.blocked.pod != nil {
		gates = append(gates, x.proveBlocked()...)
	}
	if len(gates) == 0 {
		gates = append(gates, x.failure())
	}
	return gates
}

// proveBlocked proves that the member that found no room has none, where it is bound to be: in the domain of
// its gang, of one of its groups or of its segment. It returns nothing where no one of these proves it.
func (x *search) proveBlocked() []why.Gate {
	s, b := x.y.s, x.blocked.leaf
	o := order{class: x.kin.class(x.blocked.pod), pods: []*cluster.Pod{x.blocked.pod}}
	for _, up := range x.g.Tree.Path(b) {
		o.layout.Required, o.running = up.Group.Layout.Required, up.RunningPods()
		if _, ok := s.chooseScope(o); !ok {
			return []why.Gate{x.y.prove(o)}
		}
	}
	if size := b.Group.Layout.Segment; size > 0 {
		o.layout.Required, o.running = b.Group.Layout.SegmentLevel, b.Mates(x.blocked.place)
		if _, ok := s.chooseScope(o); !ok {
			return []why.Gate{x.y.prove(o)}
		}
	}
	return nil
}

// grow adds to the branch what there is room for within the scope.
func (x *search) grow(b *cluster.Branch, sc index.Scope) {
	for _, sub := range x.scopes(b, sc) {
		had := len(x.seats)
		x.growIn(b, sub)
		if len(x.seats) > had {
			return
		}
	}
}

func (x *search) growIn(b *cluster.Branch, sc index.Scope) {
	if len(b.Children) == 0 {
		x.growLeaf(b, sc)
		return
	}
	for _, c := range b.Children {
		switch {
		case c.Satisfied():
			x.grow(c, sc)
		case c.Complete() && x.supported(c):
			x.begin(c, sc)
		}
	}
}

// begin starts a group that the minimum did not need.
func (x *search) begin(b *cluster.Branch, sc index.Scope) {
	x.greedy = true
	done := func() bool { return x.done() && x.spares(x.seats) }
	if x.branch(b, sc, done) {
		return
	}
	x.greedy = false
	if !x.spent {
		x.branch(b, sc, done)
	}
	x.greedy = true
}

// growLeaf seats the leaf's waiting pods one by one, each class until it finds no more room.
func (x *search) growLeaf(b *cluster.Branch, sc index.Scope) {
	full := make(map[*index.Class]bool)
	for i, p := range b.Pods {
		if p.Host != nil || len(x.y.undecided(p)) > 0 {
			continue
		}
		c := x.kin.class(p)
		if full[c] {
			continue
		}
		if seated, room := x.seatOne(b, i, c, sc); !seated {
			full[c] = b.Group.Layout.Segment == 0
			if x.blocked.pod == nil && !room {
				x.blocked.pod, x.blocked.leaf, x.blocked.place = p, b, i
			}
		}
	}
}

// seatOne seats the leaf's i-th pod where it may be and the queue can afford it. room says whether there was a
// node for it.
func (x *search) seatOne(b *cluster.Branch, i int, c *index.Class, sc index.Scope) (seated, room bool) {
	for _, sub := range x.segment(b, i, c, sc) {
		for _, n := range x.nodes(b, i, c, sub) {
			if x.on(b.Pods[i], n, c, func() bool { return x.affords(b.Pods[i:i+1]) && x.spares(b.Pods[i:i+1]) }) {
				return true, true
			}
			room = true
		}
	}
	return false, room
}

// supported says whether the engine decides everything that the branch's waiting pods ask for.
func (x *search) supported(b *cluster.Branch) bool {
	ok := true
	b.Each(func(b *cluster.Branch) {
		for _, p := range b.Pods {
			ok = ok && (p.Host != nil || len(x.y.undecided(p)) == 0)
		}
	})
	return ok
}
