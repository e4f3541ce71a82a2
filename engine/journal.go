package engine

// The journal makes trials cheap: mark, try on the one state, roll back. Only what a plan may do in the
// course of being made is journalled; Apply is for good.

// entry is one thing to undo.
type entry struct {
	pod     *pod
	hold    *hold
	node    *node    // that the pod was taken from
	devices []string // that it held there
	did     deed
	stamp   uint64 // no other entry ever has it
}

type deed uint8

const (
	seated deed = iota
	unseated
	nominated
	denominated
	unheld
	held
	condemned
	reprieved
)

// mark is a place in the journal to roll back to.
type mark int

// note enters something to undo.
func (s *State) note(e entry) {
	s.stamp++
	e.stamp = s.stamp
	s.journal = append(s.journal, e)
}

// standing tells apart the states that a plan in the making goes through: after a rollback it is what it was.
func (s *State) standing() uint64 {
	if len(s.journal) == 0 {
		return 0
	}
	return s.journal[len(s.journal)-1].stamp
}

func (s *State) mark() mark { return mark(len(s.journal)) }

// put seats the pod, which is of the class, until rolled back.
func (s *State) put(p *pod, n *node, c *class) { s.putOn(p, n, chooseDevices(c, n)) }

// putOn is put with devices chosen already.
func (s *State) putOn(p *pod, n *node, devices []string) {
	s.seat(p, n, devices)
	s.note(entry{did: seated, pod: p})
}

// lift unseats the pod until rolled back. A nomination that it had counts again.
func (s *State) lift(p *pod) {
	s.note(entry{did: unseated, pod: p, node: p.seat, devices: p.seatDevices})
	s.unseat(p)
	if n := s.nodes[p.Nominated]; n != nil {
		s.nominate(p, n)
		s.note(entry{did: nominated, pod: p})
	}
}

// ignoreNomination lets the pod's nomination not count until rolled back.
func (s *State) ignoreNomination(p *pod) {
	s.note(entry{did: denominated, pod: p, node: p.nominee})
	s.denominate(p)
}

// ignoreHold lets the hold not count until rolled back.
func (s *State) ignoreHold(h *hold) {
	s.note(entry{did: unheld, hold: h, node: h.on})
	s.reserve(h, -1)
	h.on = nil
}

// putHold lets a hold, which is not in State.holds, count on the node until rolled back.
func (s *State) putHold(h *hold, n *node) {
	h.on = n
	s.reserve(h, 1)
	s.note(entry{did: held, hold: h})
}

// condemn lets the pod be on its way out until rolled back: it keeps its seat, and is nobody's victim any more.
func (s *State) condemn(p *pod) {
	s.unbook(p)
	p.evicting = true
	s.book(p)
	s.note(entry{did: condemned, pod: p})
}

// reprieve lets the pod, whose eviction has come to nothing, not be on its way out until rolled back.
func (s *State) reprieve(p *pod) {
	s.note(entry{did: reprieved, pod: p})
	s.setEvicting(p, false)
}

func (s *State) setEvicting(p *pod, evicting bool) {
	n, devices := p.seat, p.seatDevices
	s.unseat(p)
	p.evicting = evicting
	s.seat(p, n, devices)
}

// takeOff unseats the pod until rolled back, as if it were gone: a nomination does not count again.
func (s *State) takeOff(p *pod) {
	s.note(entry{did: unseated, pod: p, node: p.seat, devices: p.seatDevices})
	s.unseat(p)
}

// rollback undoes everything since the mark, last first.
func (s *State) rollback(to mark) {
	for len(s.journal) > int(to) {
		e := s.journal[len(s.journal)-1]
		s.journal = s.journal[:len(s.journal)-1]
		switch e.did {
		case seated:
			//mutate: rollback-seat
			s.unseat(e.pod)
		case unseated:
			//mutate: rollback-expired-assumption
			s.seat(e.pod, e.node, e.devices)
		case nominated:
			s.denominate(e.pod)
		case denominated:
			//mutate: rollback-nomination
			s.nominate(e.pod, e.node)
		case unheld:
			e.hold.on = e.node
			//mutate: rollback-hold
			s.reserve(e.hold, 1)
		case held:
			s.reserve(e.hold, -1)
			e.hold.on = nil
		case condemned:
			s.unbook(e.pod)
			e.pod.evicting = false
			s.book(e.pod)
		case reprieved:
			s.setEvicting(e.pod, true)
		}
	}
}
