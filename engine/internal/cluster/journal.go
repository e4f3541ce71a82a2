package cluster

import "slices"

// The journal makes trials cheap: mark, try on the one state, roll back. Only what a plan may do in the
// course of being made is journalled; Apply is for good.

// Undo is one thing to undo.
type Undo struct {
	pod     *Pod
	hold    *Hold
	node    *Node    // that the pod was taken from
	devices []string // that it held there
	did     deed
	stamp   uint64 // no other entry ever has it
	room    numbers
}

type deed uint8

const (
	allocated deed = iota
	released
	nominated
	denominated
	unheld
	held
	condemned
	reprieved
)

// Mark is a place in the journal to roll back to.
type Mark int

// note enters something to undo, before it is done to the node.
func (m *Model) note(e Undo, n *Node) {
	m.stamp++
	e.stamp, e.room = m.stamp, m.numbersOf(n)
	m.Journal = append(m.Journal, e)
}

// Standing tells apart the states that a plan in the making goes through: after a rollback it is what it was.
func (m *Model) Standing() uint64 {
	if len(m.Journal) == 0 {
		return 0
	}
	return m.Journal[len(m.Journal)-1].stamp
}

func (m *Model) Mark() Mark { return Mark(len(m.Journal)) }

// Moment is a state that a plan in the making goes through.
type Moment struct {
	mark     Mark
	standing uint64
}

// Moment is that of now.
func (m *Model) Moment() Moment { return Moment{m.Mark(), m.Standing()} }

// NoRoomier says whether the plan in the making has given nothing back since the moment: what it did since took room, and
// nothing from before the moment was undone. It costs a look at what was done since.
func (m *Model) NoRoomier(since Moment) bool {
	if len(m.Journal) < int(since.mark) || since.mark > 0 && m.Journal[since.mark-1].stamp != since.standing {
		return false
	}
	return !slices.ContainsFunc(m.Journal[since.mark:], func(e Undo) bool {
		return e.did == released || e.did == unheld || e.did == denominated
	})
}

// PutOn allocates the pod on the node, with the devices, until rolled back.
func (m *Model) PutOn(p *Pod, n *Node, devices []string) {
	m.note(Undo{did: allocated, pod: p}, n)
	m.occupy(p, n, devices)
}

// Lift releases the pod until rolled back. A nomination that it had counts again.
func (m *Model) Lift(p *Pod) {
	m.note(Undo{did: released, pod: p, node: p.Host, devices: p.HostDevices}, p.Host)
	m.vacate(p)
	if n := m.Nodes[p.Nominated]; n != nil {
		m.RestoreNomination(p, n)
	}
}

// IgnoreNomination lets the pod's nomination not count until rolled back.
func (m *Model) IgnoreNomination(p *Pod) {
	m.note(Undo{did: denominated, pod: p, node: p.Nominee}, p.Nominee)
	m.denominate(p)
}

// RestoreNomination lets the pod's nomination to the node count again until rolled back.
func (m *Model) RestoreNomination(p *Pod, n *Node) {
	m.note(Undo{did: nominated, pod: p}, n)
	m.nominate(p, n)
}

// IgnoreHold lets the hold not count until rolled back.
func (m *Model) IgnoreHold(h *Hold) {
	m.note(Undo{did: unheld, hold: h, node: h.On}, h.On)
	m.reserve(h, -1)
	h.On = nil
}

// PutHold lets a hold, which is not in Model.Holds, count on the node until rolled back.
func (m *Model) PutHold(h *Hold, n *Node) {
	m.note(Undo{did: held, hold: h}, n)
	h.On = n
	m.reserve(h, 1)
}

// MarkEvicting lets the pod be on its way out until rolled back: it keeps its allocation, and is no candidate for eviction any more.
func (m *Model) MarkEvicting(p *Pod) {
	m.note(Undo{did: condemned, pod: p}, p.Host)
	m.setEvicting(p, true)
}

// UnmarkEvicting lets the pod, whose eviction has come to nothing, not be on its way out until rolled back.
func (m *Model) UnmarkEvicting(p *Pod) {
	m.note(Undo{did: reprieved, pod: p}, p.Host)
	m.setEvicting(p, false)
}

// setEvicting moves the pod between the accounts of those that stay and of those on their way out. What it takes of its
// node stays the same, but not whether that can go.
func (m *Model) setEvicting(p *Pod, evicting bool) {
	m.uncharge(p)
	could := p.canGo()
	p.Evicting = evicting
	can := p.canGo()
	//mutate: index-evictable-condemned
	if can != could {
		for _, d := range p.Demands {
			if can {
				p.Host.Yield.Add(d.Dim, d.Amount)
			} else {
				p.Host.Yield.Add(d.Dim, -d.Amount)
			}
		}
	}
	if can != could || m.HasRules() { // pods to come do not count on those that leave
		m.touched(p.Host)
	}
	//mutate: rules-move-given-up
	if e := m.EvictionOf(p); e != nil && e.To != "" {
		m.expectAnew(p)
	}
	p.moved()
	m.charge(p)
}

// Remove releases the pod until rolled back, as if it were gone: a nomination does not count again.
func (m *Model) Remove(p *Pod) {
	m.note(Undo{did: released, pod: p, node: p.Host, devices: p.HostDevices}, p.Host)
	m.vacate(p)
}

// AllocatedSince lists the pods that were given allocations since the mark, by rank.
func (s *Model) AllocatedSince(m Mark) []*Pod {
	pods := make([]*Pod, 0, len(s.Journal)-int(m))
	for _, e := range s.Journal[m:] {
		if e.did == allocated {
			pods = append(pods, e.pod)
		}
	}
	if !slices.IsSortedFunc(pods, ComparePods) {
		slices.SortFunc(pods, ComparePods)
	}
	return pods
}

// HoldsTouched lists the holds that were made to count since the journal was empty, and those made not to count.
func (m *Model) HoldsTouched() (put, ignored []*Hold) {
	for _, e := range m.Journal {
		switch e.did {
		case held:
			put = append(put, e.hold)
		case unheld:
			ignored = append(ignored, e.hold)
		}
	}
	return put, ignored
}

// Rollback undoes everything since the mark, last first.
func (m *Model) Rollback(to Mark) {
	for len(m.Journal) > int(to) {
		e := m.Journal[len(m.Journal)-1]
		m.Journal = m.Journal[:len(m.Journal)-1]
		dealt := false
		switch e.did {
		case allocated:
			if dealt = !e.room.of(e.pod.Host); dealt {
				m.Room.undoneElsewhere(&e.room, e.pod.Host)
			}
			//mutate: rollback-allocated
			m.vacate(e.pod)
		case released:
			//mutate: rollback-expired-assumption
			m.occupy(e.pod, e.node, e.devices)
		case nominated:
			m.denominate(e.pod)
		case denominated:
			//mutate: rollback-nomination
			m.nominate(e.pod, e.node)
		case unheld:
			e.hold.On = e.node
			//mutate: rollback-hold
			m.reserve(e.hold, 1)
		case held:
			m.reserve(e.hold, -1)
			e.hold.On = nil
		case condemned:
			m.setEvicting(e.pod, false)
		case reprieved:
			m.setEvicting(e.pod, true)
		}
		//mutate: rollback-ranks-dealt -> !dealt
		if !dealt && len(m.Room.moved) == 0 {
			m.restore(&e.room)
		}
	}
}
