package engine

import (
	"slices"

	"github.com/berth-dev/berth/engine/internal/cluster"
)

// lineEntry is a gang in line: what a cycle knows of it besides what the model tells.
type lineEntry struct {
	turn    cluster.Turn
	lined   bool        // is in State.line, at turn
	order   *queueOrder // that it is in, while those are kept
	special uint64      // the cycle in which it has an answer of its own

	// Memos of answers that follow from the gang alone, as of its tally.
	tally uint64
	plain plain
	able  ability
	ask   ask
}

// entryOf returns the gang's entry, making one if there is none. Memos of an older tally are dropped.
func (s *State) entryOf(g *cluster.Gang) *lineEntry {
	e := s.entries[g]
	if e == nil {
		e = &lineEntry{}
		s.entries[g] = e
	}
	if e.tally != g.Tallies {
		e.tally, e.plain, e.able, e.ask = g.Tallies, plain{}, ability{}, ask{}
	}
	return e
}

// manyStale is how many gangs may be put in line one by one; more are sorted in together.
const manyStale = 256

// freshen brings the line up to date with what was told.
func (s *State) freshen() {
	changed := s.m.Freshen()
	s.ix.Refresh()
	for _, g := range changed {
		if g.Gone() {
			s.unlist(g)
			delete(s.short, g)
			delete(s.entries, g)
			continue
		}
		s.relist(g, len(changed) > manyStale)
	}
	if s.loose > 0 {
		slices.SortFunc(s.line, func(a, b *cluster.Gang) int { return s.entries[a].turn.Compare(s.entries[b].turn) })
		s.loose = 0
	}
}

// relist puts the gang where it belongs in the line, or takes it out of it. With many others it goes to the end, to be sorted
// in with them.
func (s *State) relist(g *cluster.Gang, many bool) {
	wants := g.Wants()
	t, e := g.TurnNow(), s.entryOf(g)
	if t.Repair && !wants {
		s.short[g] = true
	} else {
		delete(s.short, g)
	}
	if !wants || t != e.turn {
		s.unlist(g)
	}
	e.turn = t
	if !wants {
		return
	}
	if !e.lined {
		i := len(s.line)
		if many {
			s.loose++
		} else {
			i, _ = slices.BinarySearchFunc(s.line, t, func(o *cluster.Gang, t cluster.Turn) int { return s.entries[o].turn.Compare(t) })
		}
		s.line = slices.Insert(s.line, i, g)
		e.lined = true
	}
	s.enterOrder(g)
}

// unlist takes the gang out of the line, if it is in it.
func (s *State) unlist(g *cluster.Gang) {
	e := s.entries[g]
	if e == nil || !e.lined {
		return
	}
	i, _ := slices.BinarySearchFunc(s.line[:len(s.line)-s.loose], e.turn, func(o *cluster.Gang, t cluster.Turn) int { return s.entries[o].turn.Compare(t) })
	s.line = slices.Delete(s.line, i, i+1)
	e.lined = false
	s.leaveOrder(g)
}
