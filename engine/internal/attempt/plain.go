package attempt

import (
	"slices"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/index"
	"github.com/berth-dev/berth/engine/internal/order"
	"github.com/berth-dev/berth/engine/internal/quantity"
)

// Plain returns the gang's question. What of it is the gang's alone is kept with its entry in line, and holds until
// the gang, its priority, a rule between pods, an image or how its queue packs nodes changes; what is around the gang is looked at each time.
func (a *Attempts) Plain(g *cluster.Gang, t cluster.Turn) *order.Plain {
	return a.plainOf(a.line.Entry(g), g, t)
}

// plainOf is Plain for the gang with that entry in line.
func (a *Attempts) plainOf(e *order.Entry, g *cluster.Gang, t cluster.Turn) *order.Plain {
	p := &e.Plain
	if a.Trial || g.Terms().Held || len(a.m.Refusals) > 0 && len(a.refusals(g)) > 0 {
		return &order.Plain{}
	}
	if !p.Known || p.Rules != a.m.RulesEdition() || p.Images != a.m.Images.Edition || p.OK && a.outgrown(p.Class, g, t) {
		kin := a.Kin(g, t, Way{})
		if len(kin.Refusals) > 0 {
			return &order.Plain{}
		}
		*p = order.Plain{Known: true, Rules: a.m.RulesEdition(), Images: a.m.Images.Edition}
		if first, ok := a.isPlain(g); ok {
			p.Class, p.Need, p.Level, p.OK = kin.Class(first), g.Tree.Min(), a.m.Level(g.Layout().Required), true
		}
	}
	if p.OK && !a.asksPlainly(g, p) {
		return &order.Plain{}
	}
	return p
}

// outgrown says whether the class is not kept any more, or is not the gang's now.
func (a *Attempts) outgrown(c *index.Class, g *cluster.Gang, t cluster.Turn) bool {
	return c.Dropped || c.Priority != t.Priority || c.Packing != a.m.PackingOf(g)
}

// isPlain says whether nothing about the gang itself is special, and returns its first member.
func (a *Attempts) isPlain(g *cluster.Gang) (*cluster.Pod, bool) {
	if !g.Known() || len(g.Tree.Children) > 0 || g.Tree.Allocated > 0 || g.Layout().Segment > 0 || !g.Tree.Complete() {
		return nil, false
	}
	if g.Lone != nil && g.Lone.Invalid != "" {
		return nil, false
	}
	if g.Lone == nil && (a.m.IsRejected(api.KindGang, g.Key) || len(a.Orphans(g)) > 0) {
		return nil, false
	}
	if slices.ContainsFunc(g.All(), func(p *cluster.Pod) bool {
		a.m.ShapeOf(p)
		return p.AsksModel() || p.Nominated != ""
	}) {
		return nil, false
	}
	first, alike := g.Alike()
	return first, alike && a.undecided(first) == nil
}

// asksPlainly says whether nothing around the gang makes its question a special one now: queues that count models or
// flavors apart, or a level that no node has.
func (a *Attempts) asksPlainly(g *cluster.Gang, p *order.Plain) bool {
	return !a.modelsApart(g) && !a.m.HasFlavors(g) && (p.Level < 0 || a.m.Topology.Populated(p.Level))
}

// PlainDemands is what each member of the gang asks for, and how many start together, if its question is a plain one.
func (a *Attempts) PlainDemands(g *cluster.Gang) ([]quantity.Demand, int, bool) {
	e := a.line.Entry(g)
	p := a.plainOf(e, g, e.Turn)
	if !p.OK {
		return nil, 0, false
	}
	return p.Class.Demands, p.Need, true
}

// PlainQuestion is the question of a gang about which nothing is special.
func (a *Attempts) PlainQuestion(g *cluster.Gang, t cluster.Turn) (index.Question, bool) {
	p := a.Plain(g, t)
	if !p.OK {
		return index.Question{}, false
	}
	return index.Question{Class: p.Class.ClassKey, Need: p.Need, Level: p.Level}, true
}
