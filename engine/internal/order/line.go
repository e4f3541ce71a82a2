package order

import (
	"slices"

	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/index"
)

// Line is the gangs with members to place, in the order of their turns.
type Line struct {
	// Short is the gangs that run under their minimum with no member to place.
	Short map[*cluster.Gang]bool

	m       *cluster.Model
	gangs   []*cluster.Gang
	loose   int                      // of gangs, how many at the end are not in order yet
	entries map[*cluster.Gang]*Entry // of gangs that are or were in line
	orders  queueOrders              // the line, by queue
	cycles  uint64                   // begun so far
}

// NewLine makes the line of the model, which nobody is in.
func NewLine(m *cluster.Model) *Line {
	return &Line{m: m, entries: make(map[*cluster.Gang]*Entry), Short: make(map[*cluster.Gang]bool)}
}

// Len is how many wait.
func (l *Line) Len() int { return len(l.gangs) }

// Entry is a gang in line: what is known of it besides what the model tells.
type Entry struct {
	Turn  cluster.Turn
	Lined bool // is in the line, at its turn
	Memos

	order   *queueOrder // that it is in, while those are kept
	special uint64      // the cycle in which it has an answer of its own
	tally   uint64      // of the memos
	ask     Ask
}

// Memos are answers that follow from the gang alone, as of its tally. Who asks keeps them here.
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

// Ability is whether a gang could start once all is over that ends by itself.
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

// manyStale is how many gangs may be put in line one by one; more are sorted in together.
const manyStale = 256

// Follow brings the line up to date with the gangs, which are all whose tally changed since.
func (l *Line) Follow(changed []*cluster.Gang) {
	for _, g := range changed {
		if g.Gone() {
			l.remove(g)
			delete(l.Short, g)
			delete(l.entries, g)
			continue
		}
		l.put(g, len(changed) > manyStale)
	}
	if l.loose > 0 {
		slices.SortFunc(l.gangs, func(a, b *cluster.Gang) int { return l.entries[a].Turn.Compare(l.entries[b].Turn) })
		l.loose = 0
	}
}

// put puts the gang where it belongs in the line, or takes it out of it. With many others it goes to the end, to be sorted
// in with them.
func (l *Line) put(g *cluster.Gang, many bool) {
	wants := g.Wants()
	t, e := g.TurnNow(), l.Entry(g)
	if t.Repair && !wants {
		l.Short[g] = true
	} else {
		delete(l.Short, g)
	}
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

// remove takes the gang out of the line, if it is in it.
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
