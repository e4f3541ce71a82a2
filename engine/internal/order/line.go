package order

import (
	"slices"

	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/index"
)

// Line is the gangs with members to place, in the order of their turns: those to repair first, then
// by priority, age and key (cluster.Turn). It is kept between cycles, because almost all of it is
// as it was: Follow moves the few gangs that changed.
type Line struct {
	// Short is the gangs that run under their minimum with no member to place.
	Short map[*cluster.Gang]bool

	// Invariant, between calls: a gang is in gangs exactly if it wants members placed, where its
	// entry's Turn belongs, and then its entry is Lined. Each is there once.
	m *cluster.Model
	// gangs is the line, first turn first.
	gangs []*cluster.Gang
	// loose is how many gangs at the end of it are not in order yet. It is 0 but within Follow.
	loose int
	// entries has one for each gang that is or was in line, and loses it when nothing is left of
	// the gang.
	entries map[*cluster.Gang]*Entry
	// orders is the line again, by queue.
	orders queueOrders
	// cycles is how many were begun so far. Numbers of cycles mark answers that are good for one
	// cycle.
	cycles uint64
}

// NewLine makes the line of the model, which is empty.
func NewLine(m *cluster.Model) *Line {
	return &Line{m: m, entries: make(map[*cluster.Gang]*Entry), Short: make(map[*cluster.Gang]bool)}
}

// Len is how many wait.
func (l *Line) Len() int { return len(l.gangs) }

// Visit visits those in line, in order, until visit says no.
func (l *Line) Visit(visit func(g *cluster.Gang) bool) {
	for _, g := range l.gangs {
		if !visit(g) {
			return
		}
	}
}

// Entry is a gang in line: what is known of it besides what the model tells. The line makes it and
// drops it.
type Entry struct {
	Turn cluster.Turn
	// Lined says that the gang is in the line, at Turn. Of a gang that is not, Turn is the last one
	// that it had.
	Lined bool
	Memos

	// order is the one that the gang is in; nil: none, or they are not kept at present.
	order *queueOrder
	// special is the last cycle in which the gang has an answer of its own; 0: never.
	special uint64
	// tally is the gang's Tallies that the memos and ask are of.
	tally uint64
	// ask is the question that the gang was last given an answer to; zero: none.
	ask Ask
}

// Memos are answers that follow from the gang alone, as of its tally. The packages that work them out keep them here; the line
// only drops them when the gang has changed.
type Memos struct {
	Plain Plain
	Able  Ability
}

// Plain is the question of a gang about which nothing is special: like members of which none runs, without alternatives,
// nominations or refusals.
type Plain struct {
	Known  bool // it was looked at
	OK     bool // the gang is such a one
	Class  *index.Class
	Need   int
	Level  int
	Rules  uint64 // Model.RulesEdition that it is of
	Images uint64 // Model.Images.Edition, likewise
}

// Ability is whether a gang could start once all is over that ends by itself. It depends on the
// cluster, too, and so is of a state of it.
type Ability struct {
	Known, OK bool
	As        uint64 // of what was told when it was found
}

// Entry returns the gang's entry, making one if there is none. Memos of an older tally are dropped.
func (l *Line) Entry(g *cluster.Gang) *Entry {
	e := l.entries[g]
	if e == nil {
		e = &Entry{}
		l.entries[g] = e
	}
	if e.tally != g.Tallies {
		e.tally, e.Memos, e.ask = g.Tallies, Memos{}, Ask{}
	}
	return e
}

// manyStale is how many gangs may be put in line, and taken out of it, one by one; more are sorted
// in, and taken out, together. To move one moves all behind it, so that many at once cost their
// number times the length of the line, and a sort does not.
const manyStale = 256

// Follow brings the line up to date with the gangs, which are all whose tally changed since it was
// last called. A gang costs two binary searches and a move of what is behind it in line; many
// together cost a walk over the line and a sort.
func (l *Line) Follow(changed []*cluster.Gang) {
	many := len(changed) > manyStale
	if many {
		l.orders = queueOrders{} // they are made anew with one walk
		l.removeAll(changed)
	}
	for _, g := range changed {
		if g.Gone() {
			l.remove(g)
			delete(l.Short, g)
			delete(l.entries, g)
			continue
		}
		l.put(g, many)
	}
	// No two turns are equal, since they end in the key: the order does not depend on the order in which gangs came.
	if l.loose > 0 {
		slices.SortFunc(l.gangs, func(a, b *cluster.Gang) int { return l.entries[a].Turn.Compare(l.entries[b].Turn) })
		l.loose = 0
	}
}

// put puts the gang where it belongs in the line, or takes it out of it. With many others it goes
// to the end, to be sorted in with them.
func (l *Line) put(g *cluster.Gang, many bool) {
	wants := g.Wants()
	t, e := g.TurnNow(), l.Entry(g)
	// A gang under its minimum for which no pod can be placed waits for its owner to create
	// members. It is not in line, but its grace period runs (Short).
	if t.Repair && !wants {
		l.Short[g] = true
	} else {
		delete(l.Short, g)
	}
	// Its old turn says where it is, so that it must leave before the turn is replaced.
	if !wants || t != e.Turn {
		l.remove(g)
	}
	e.Turn = t
	if !wants {
		return
	}
	if !e.Lined {
		i := len(l.gangs)
		if many {
			l.loose++
		} else {
			i, _ = slices.BinarySearchFunc(l.gangs, t, func(o *cluster.Gang, t cluster.Turn) int { return l.entries[o].Turn.Compare(t) })
		}
		l.gangs = slices.Insert(l.gangs, i, g)
		e.Lined = true
	}
	l.enterOrder(g)
}

// removeAll takes those of the gangs out of the line that are not where they belong.
func (l *Line) removeAll(gangs []*cluster.Gang) {
	for _, g := range gangs {
		if e := l.entries[g]; e != nil && e.Lined && (g.Gone() || !g.Wants() || g.TurnNow() != e.Turn) {
			e.Lined = false
			l.leaveOrder(g)
		}
	}
	l.gangs = slices.DeleteFunc(l.gangs, func(g *cluster.Gang) bool { return !l.entries[g].Lined })
}

// remove takes the gang out of the line, if it is in it. It looks only in the part that is in
// order: gangs at the loose end have come in the same Follow, each once.
func (l *Line) remove(g *cluster.Gang) {
	e := l.entries[g]
	if e == nil || !e.Lined {
		return
	}
	i, _ := slices.BinarySearchFunc(l.gangs[:len(l.gangs)-l.loose], e.Turn, func(o *cluster.Gang, t cluster.Turn) int { return l.entries[o].Turn.Compare(t) })
	l.gangs = slices.Delete(l.gangs, i, i+1)
	e.Lined = false
	l.leaveOrder(g)
}
