package cluster

// touchLog lists the nodes whose room changed, in order, so that classes can follow. The oldest entries
// go when it grows too long; a class that had not seen them starts anew.
type touchLog struct {
	Entries []touch
	Base    uint64   // number of entries dropped
	Moment  uint64   // number of touches ever: equal only if nothing changed between
	Touches []uint64 // by Node.Index: end of the log when its room last changed
}

type touch struct {
	Node   *Node
	Index  int32  // of the node's pulse
	before uint64 // its pulse's touch until then
}

const minLog = 1 << 16

func (l *touchLog) End() uint64 { return l.Base + uint64(len(l.Entries)) }

// touched notes that the node's room changed. Of several entries of a node the last counts.
func (m *Model) touched(n *Node) {
	l := &m.Log
	if len(l.Entries) >= minLog+2*len(m.Nodes) {
		half := len(l.Entries) / 2
		l.Base += uint64(half)
		l.Entries = append(l.Entries[:0], l.Entries[half:]...)
	}
	l.Moment++
	last := &l.Touches[n.Index]
	l.Entries = append(l.Entries, touch{n, n.Index, *last})
	*last = l.End()
	if n.Bucket != nil {
		//mutate: index-rows-of-certificates
		n.Bucket.Touched = l.Moment
	}
}

// Rewind takes the log back to where it was before a plan that has been rolled back: the nodes are as they
// were. It returns the nodes that the plan touched, once each; false: that is not known any more. Only who followed the
// log beyond that point saw them otherwise, and has to look at them again.
func (m *Model) Rewind(to uint64) (redo []*Node, ok bool) {
	l := &m.Log
	if to < l.Base {
		return nil, false
	}
	for i := len(l.Entries) - 1; i >= int(to-l.Base); i-- {
		e := l.Entries[i]
		if e.before <= to {
			redo = append(redo, e.Node)
		}
		//mutate: index-touches-of-a-plan
		l.Touches[e.Index] = e.before
	}
	clear(l.Entries[to-l.Base:])
	l.Entries = l.Entries[:to-l.Base]
	return redo, true
}
