package engine

import (
	"slices"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/why"
)

// Most of a long line waits for room, and asks for it in few ways: so many pods of one class, in one domain of a
// level. Such a question is answered once for all who ask it. The answer is the one that placing would give.

// plain is the question of a gang about which nothing is special: like members of which none runs, without alternatives,
// nominations or refusals.
type plain struct {
	known bool // it was looked at
	ok    bool // the gang is such a one
	class *class
	need  int
	level int
}

// stuck deals with a gang that a look at the counts shows to have no place, and says whether that is so. Others end for
// it before it is proved: who gets a place needs no proof.
func (y *cycle) stuck(g *gang, t turn) bool {
	p := y.plain(g, t)
	if !p.ok || y.hasHeld(g) {
		return false
	}
	s := y.s
	standing := s.standing()
	s.use(p.class)
	key := proofKey{class: p.class, need: p.need, level: p.level, at: standing, unmet: s.unmet(g.layout().Required)}
	proof, proved := y.proofs[key]
	var o order
	if !proved {
		o = order{class: p.class, layout: g.layout(), pods: g.tree.pods[:p.need], want: len(g.tree.pods)}
		if _, fits := s.chooseScope(o); fits {
			return false
		}
	}
	gates := y.quota(g, "")
	if !proved && len(y.behind(g)) == 0 && y.hasRoomMade(g, t, append(gates[:len(gates):len(gates)], noRoom)) {
		return true
	}
	if !proved {
		s.use(p.class)
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
func (y *cycle) plain(g *gang, t turn) *plain {
	p := &g.plain
	if y.trial || len(y.s.refusals) > 0 && len(y.refusals(g)) > 0 {
		return &plain{}
	}
	if !p.known || p.ok && p.class.dropped {
		kin := y.kin(g, t, "")
		if len(kin.refusals) > 0 {
			return &plain{}
		}
		*p = plain{known: true}
		if first, ok := y.isPlain(g); ok {
			p.class, p.need, p.level, p.ok = kin.class(first), g.tree.min(), y.s.level(g.layout().Required), true
		}
	}
	if p.ok && !y.asksPlainly(g, p) {
		return &plain{}
	}
	return p
}

// isPlain says whether nothing about the gang itself is special, and returns its first member.
func (y *cycle) isPlain(g *gang) (*pod, bool) {
	if !y.known(g) || len(g.tree.children) > 0 || g.tree.seated > 0 || g.layout().Segment > 0 || !g.tree.complete() {
		return nil, false
	}
	if g.lone != nil && g.lone.Invalid != "" {
		return nil, false
	}
	if g.lone == nil && (y.s.isRejected(api.KindGang, g.key) || len(y.orphans(g)) > 0) {
		return nil, false
	}
	if slices.ContainsFunc(g.all(), func(p *pod) bool {
		y.s.shapeOf(p)
		return p.asksModel() || p.Nominated != ""
	}) {
		return nil, false
	}
	first, alike := g.alike()
	return first, alike && y.undecided(first) == nil
}

// asksPlainly says whether nothing around the gang makes its question a special one now.
func (y *cycle) asksPlainly(g *gang, p *plain) bool {
	return !y.modelsApart(g) && (p.level < 0 || y.s.topology.populated(p.level))
}
