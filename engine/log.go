package engine

// touchLog lists the nodes whose room changed, in order, so that classes can follow. The oldest entries
// go when it grows too long; a class that had not seen them starts anew.
type touchLog struct {
	entries []touch
	base    uint64 // number of entries dropped
	moment  uint64 // number of touches ever: equal only if nothing changed between
}

type touch struct {
	node   *node
	index  int32  // of the node's pulse
	before uint64 // its pulse's touch until then
}

// pulse is what a class must know of a node to see that it has nothing to look at. Pulses lie side by side,
// because every class looks at those of all nodes that were touched.
type pulse struct {
	touch uint64 // end of the log when its room last changed
	born  uint64 // touchLog.moment when it became of its kind
	kind  int32
}

const minLog = 1 << 16

func (l *touchLog) end() uint64 { return l.base + uint64(len(l.entries)) }

// touched notes that the node's room changed. Of several entries of a node the last counts.
func (s *State) touched(n *node) {
	l := &s.log
	if len(l.entries) >= minLog+2*len(s.nodes) {
		half := len(l.entries) / 2
		l.base += uint64(half)
		l.entries = append(l.entries[:0], l.entries[half:]...)
	}
	l.moment++
	p := &s.pulses[n.index]
	l.entries = append(l.entries, touch{n, n.index, p.touch})
	p.touch = l.end()
	if n.shelf != nil {
		//mutate: index-rows-of-certificates
		n.shelf.touched = l.moment
	}
}

// rewind takes the log back to where it was before a plan that has been rolled back: the nodes are as they
// were. Only classes that were used for the plan saw them otherwise, and look at them again when next used.
func (s *State) rewind(to uint64) {
	l := &s.log
	if to < l.base {
		return
	}
	var redo []*node
	for i := len(l.entries) - 1; i >= int(to-l.base); i-- {
		e := l.entries[i]
		if e.before <= to {
			redo = append(redo, e.node)
		}
		//mutate: index-touches-of-a-plan
		s.pulses[e.index].touch = e.before
	}
	clear(l.entries[to-l.base:])
	l.entries = l.entries[:to-l.base]
	for _, c := range s.classes.active {
		if c.cursor > to {
			c.cursor, c.redo = to, redo
		}
	}
	clear(s.classes.active) // classes that are not kept any more are large
	s.classes.active = s.classes.active[:0]
}
