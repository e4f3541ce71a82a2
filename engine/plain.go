package engine

import (
	"slices"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/index"
	"github.com/berth-dev/berth/engine/internal/place"
	"github.com/berth-dev/berth/engine/internal/quantity"
	"github.com/berth-dev/berth/engine/why"
)

// Most of a long line waits for room, and asks for it in few ways: so many pods of one class, in one domain of a
// level. Such a question is answered once for all who ask it. The answer is the one that placing would give.

// plain is the question of a gang about which nothing is special: like members of which none runs, without alternatives,
// nominations or refusals.
type plain struct {
	known bool // it was looked at
	ok    bool // the gang is such a one
	class *index.Class
	need  int
	level int
}

// stuck deals with a gang that a look at the counts shows to have no place, and says whether that is so. Others end for
// it before it is proved: who gets a place needs no proof.
func (y *cycle) stuck(g *cluster.Gang, t cluster.Turn) bool {
	p := y.plain(g, t)
	if !p.ok || y.s.m.HasHeld(g) {
		return false
	}
	s := y.s
	standing := s.m.Standing()
	s.ix.Use(p.class)
	key := index.Question{Class: p.class, Need: p.need, Level: p.level, At: standing, Unmet: s.m.Unmet(g.Layout().Required)}
	proof, proved := y.proofs[key]
	var o place.Order
	if !proved {
		o = place.Order{Class: p.class, Layout: g.Layout(), Pods: g.Tree.Pods[:p.need], Want: len(g.Tree.Pods)}
		if _, fits := s.placer.ChooseScope(o); fits {
			return false
		}
	}
	gates := y.limits.Gates(g, "")
	if !proved && len(y.times.Behind(g, y.rank)) == 0 && y.hasRoomMade(g, t, append(gates[:len(gates):len(gates)], noRoom)) {
		return true
	}
	if !proved {
		s.ix.Use(p.class)
		y.prove(o)
		proof = y.proofs[key]
	}
	if len(gates) > 0 {
		gates = append(gates, proof.gates...)
	} else {
		gates = proof.gates
	}
	if !y.queues(g, gates) && !(proved && y.hasRoomMade(g, t, gates)) {
		y.hope(g, t, gates)
		y.keepAnswer(g, p, gates, standing)
	}
	return true
}

// noRoom is the gate of a gang that has no place, for which nothing is proved yet.
var noRoom = why.Gate{Cause: why.ClusterFull, Certificate: -1}

// plain returns the gang's question. What of it is the gang's alone holds until the gang changes.
func (y *cycle) plain(g *cluster.Gang, t cluster.Turn) *plain {
	p := &y.s.entryOf(g).plain
	if y.trial || len(y.s.m.Refusals) > 0 && len(y.refusals(g)) > 0 {
		return &plain{}
	}
	if !p.known || p.ok && p.class.Dropped {
		kin := y.kin(g, t, "")
		if len(kin.Refusals) > 0 {
			return &plain{}
		}
		*p = plain{known: true}
		if first, ok := y.isPlain(g); ok {
			p.class, p.need, p.level, p.ok = kin.Class(first), g.Tree.Min(), y.s.m.Level(g.Layout().Required), true
		}
	}
	if p.ok && !y.asksPlainly(g, p) {
		return &plain{}
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
func (y *cycle) asksPlainly(g *cluster.Gang, p *plain) bool {
	return !y.modelsApart(g) && (p.level < 0 || y.s.m.Topology.Populated(p.level))
}

// plainDemands is what each member of the gang asks for, and how many start together, if its question is a plain one.
func (y *cycle) plainDemands(g *cluster.Gang) ([]quantity.Demand, int, bool) {
	p := y.plain(g, y.s.entryOf(g).turn)
	if !p.ok {
		return nil, 0, false
	}
	return p.class.Demands, p.need, true
}
