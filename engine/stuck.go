package engine

import (
	"slices"

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

// stuck returns the gates of a gang that a look at the counts shows to have no place; false: that has to be tried.
func (y *cycle) stuck(g *gang, t turn) ([]why.Gate, bool) {
	p := y.plain(g, t)
	if !p.ok || len(y.s.holds) > 0 && y.s.heldFor(g) {
		return nil, false
	}
	s := y.s
	s.use(p.class)
	key := proofKey{class: p.class, need: p.need, level: p.level, at: s.log.moment}
	proof, proved := y.proofs[key]
	if !proved {
		o := order{class: p.class, layout: g.layout(), pods: g.tree.pods[:p.need], want: len(g.tree.pods)}
		if _, fits := s.chooseScope(o); fits {
			return nil, false
		}
		y.prove(o)
		proof = y.proofs[key]
	}
	if gates := y.quota(g, ""); len(gates) > 0 {
		return append(gates, proof.gates...), true
	}
	return proof.gates, true
}

// plain returns the gang's question, which holds until the gang changes.
func (y *cycle) plain(g *gang, t turn) *plain {
	p := &g.plain
	if p.known && (!p.ok || !p.class.dropped) {
		if p.ok && len(y.s.refusals) > 0 && len(y.refusals(g)) > 0 {
			return &plain{}
		}
		return p
	}
	*p = plain{known: true}
	if !y.isPlain(g) {
		return p
	}
	kin := y.kin(g, t, "")
	if len(kin.refusals) > 0 {
		p.known = false
		return p
	}
	first, alike := g.alike()
	if !alike || y.undecided(first) != nil {
		return p
	}
	p.class, p.need, p.level, p.ok = kin.class(first), g.tree.min(), y.s.level(g.layout().Required), true
	return p
}

func (y *cycle) isPlain(g *gang) bool {
	if y.trial || !y.known(g) || len(g.tree.children) > 0 || g.tree.seated > 0 || g.layout().Segment > 0 || !g.tree.complete() {
		return false
	}
	if y.s.unreadable(g) != "" || len(y.orphans(g)) > 0 {
		return false
	}
	if level := y.s.level(g.layout().Required); level >= 0 && !y.s.topology.populated(level) {
		return false
	}
	return !y.modelsApart(g) && !slices.ContainsFunc(g.all(), func(p *pod) bool {
		y.s.shapeOf(p)
		return p.asksModel() || p.Nominated != ""
	})
}

// heldFor says whether something is held for the gang.
func (s *State) heldFor(g *gang) bool {
	for _, h := range s.holds {
		if h.on != nil && h.isFor(g) {
			return true
		}
	}
	return false
}
