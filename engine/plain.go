package engine

import (
	"slices"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/index"
	"github.com/berth-dev/berth/engine/internal/order"
	"github.com/berth-dev/berth/engine/internal/place"
	"github.com/berth-dev/berth/engine/internal/quantity"
	"github.com/berth-dev/berth/engine/why"
)

// Most of a long line waits for room, and asks for it in few ways: so many pods of one class, in one domain of a
// level. Such a question is answered once for all who ask it. The answer is the one that placing would give.

// stuck deals with a gang that a look at the counts shows to have no place, and says whether that is so. Others end for
// it before it is proved: who gets a place needs no proof.
func (y *cycle) stuck(g *cluster.Gang, t cluster.Turn) bool {
	p := y.plain(g, t)
	if !p.OK || y.s.m.HasHeld(g) {
		return false
	}
	s := y.s
	standing := s.m.Standing()
	s.ix.Use(p.Class)
	key := index.Question{Class: p.Class, Need: p.Need, Level: p.Level, At: standing, Unmet: s.m.Unmet(g.Layout().Required)}
	shown, proved := y.proofs[key]
	var o place.Order
	if !proved {
		o = place.Order{Class: p.Class, Layout: g.Layout(), Pods: g.Tree.Pods[:p.Need], Want: len(g.Tree.Pods)}
		if _, fits := s.placer.ChooseScope(o); fits {
			return false
		}
	}
	gates := y.limits.Gates(g, "", nil)
	if !proved && len(y.times.Behind(g, y.rank)) == 0 {
		gates := append(gates[:len(gates):len(gates)], noRoom)
		if y.hasRoomMade(g, t, gates) {
			y.times.Shut(g, y.rank, gates)
			return true
		}
	}
	switch {
	case proved:
	case y.blind():
		shown = unproved
		y.proofs[key] = shown
	default:
		s.ix.Use(p.Class)
		y.prove(o)
		shown = y.proofs[key]
	}
	if len(gates) > 0 {
		gates = append(gates, shown.gates...)
	} else {
		gates = shown.gates
	}
	if !y.queues(g, gates) && !(proved && y.hasRoomMade(g, t, gates)) {
		gates = y.sparing(g, gates)
		y.hope(g, t, gates)
		if !y.sketch {
			y.keepAnswer(g, t, gates, standing)
		}
	}
	return true
}

// noRoom is the gate of a gang that has no place, for which nothing is proved yet.
var noRoom = why.Gate{Cause: why.ClusterFull, Certificate: -1}

// unproved is what a cycle that proves nothing has in place of a proof.
var unproved = proof{certificate: -1, cause: noRoom.Cause, gates: []why.Gate{noRoom}}

// plain returns the gang's question. What of it is the gang's alone holds until the gang changes.
func (y *cycle) plain(g *cluster.Gang, t cluster.Turn) *order.Plain {
	p := &y.s.line.Entry(g).Plain
	if y.trial || g.Terms().Held || len(y.s.m.Refusals) > 0 && len(y.refusals(g)) > 0 {
		return &order.Plain{}
	}
	if !p.Known || p.Rules != y.s.m.RulesEdition() || p.Images != y.s.m.Images.Edition || p.OK && p.Class.Dropped {
		kin := y.kin(g, t, way{})
		if len(kin.Refusals) > 0 {
			return &order.Plain{}
		}
		*p = order.Plain{Known: true, Rules: y.s.m.RulesEdition(), Images: y.s.m.Images.Edition}
		if first, ok := y.isPlain(g); ok {
			p.Class, p.Need, p.Level, p.OK = kin.Class(first), g.Tree.Min(), y.s.m.Level(g.Layout().Required), true
		}
	}
	if p.OK && !y.asksPlainly(g, p) {
		return &order.Plain{}
	}
	return p
}

// isPlain says whether nothing about the gang itself is special, and returns its first member.
func (y *cycle) isPlain(g *cluster.Gang) (*cluster.Pod, bool) {
	if !g.Known() || len(g.Tree.Children) > 0 || g.Tree.Allocated > 0 || g.Layout().Segment > 0 || !g.Tree.Complete() {
		return nil, false
	}
	if g.Lone != nil && g.Lone.Invalid != "" {
		return nil, false
	}
	if g.Lone == nil && (y.s.m.IsRejected(api.KindGang, g.Key) || len(y.orphans(g)) > 0) {
		return nil, false
	}
	if slices.ContainsFunc(g.All(), func(p *cluster.Pod) bool {
		y.s.m.ShapeOf(p)
		return p.AsksModel() || p.Nominated != ""
	}) {
		return nil, false
	}
	first, alike := g.Alike()
	return first, alike && y.undecided(first) == nil
}

// asksPlainly says whether nothing around the gang makes its question a special one now.
func (y *cycle) asksPlainly(g *cluster.Gang, p *order.Plain) bool {
	return !y.modelsApart(g) && !y.s.m.HasFlavors(g) && (p.Level < 0 || y.s.m.Topology.Populated(p.Level))
}

// plainDemands is what each member of the gang asks for, and how many start together, if its question is a plain one.
func (y *cycle) plainDemands(g *cluster.Gang) ([]quantity.Demand, int, bool) {
	p := y.plain(g, y.s.line.Entry(g).Turn)
	if !p.OK {
		return nil, 0, false
	}
	return p.Class.Demands, p.Need, true
}
