package fleet

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/fleet/clock"
)

// machines is every machine that the pools ask for, by node name.
type machines struct {
	clock clock.Clock
	cold  bool
	node  func(name string) *corev1.Node // as last seen; nil: not registered

	mu     sync.RWMutex
	byName map[string]*machine
}

func (ms *machines) get(name string) *machine {
	ms.mu.RLock()
	defer ms.mu.RUnlock()
	return ms.byName[name]
}

// all lists the machines in order of name.
func (ms *machines) all() []*machine {
	ms.mu.RLock()
	defer ms.mu.RUnlock()
	out := slices.Collect(maps.Values(ms.byName))
	slices.SortFunc(out, func(a, b *machine) int { return strings.Compare(a.name, b.name) })
	return out
}

// set makes the table equal to the wanted nodes, and returns the names whose machine is new,
// changed or gone: new and changed in the order of nodes, then the gone ones in no order. taken
// are the slots of all registered nodes, by name.
func (ms *machines) set(nodes []want, taken map[string]slot, now time.Time) (changed []string) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	free := newSlots(taken, ms.byName)
	next := make(map[string]*machine, len(nodes))
	for _, w := range nodes {
		name := w.name()
		m := ms.byName[name]
		switch {
		case m == nil || m.hardware != hardwareID(w.pool, w.index):
			next[name] = ms.build(w, m, taken, free, now)
		case !m.wants().same(w):
			m.setWant(w)
			next[name] = m
		default:
			next[name] = m
			continue
		}
		changed = append(changed, name)
	}
	for name := range ms.byName {
		if next[name] == nil {
			changed = append(changed, name)
		}
	}
	ms.byName = next
	return changed
}

// build makes a machine, on the slot that its node or its predecessor has. One whose node is
// registered already has booted in an earlier run.
func (ms *machines) build(w want, before *machine, taken map[string]slot, free *slots, now time.Time) *machine {
	s, registered := taken[w.name()]
	if before != nil {
		s = before.slot
	} else if !registered {
		s = free.take()
	}
	return newMachine(machineOptions{
		Want: w, Slot: s, Clock: ms.clock, Now: now,
		Cold: ms.cold && (!registered || before != nil),
		Node: func() *corev1.Node { return ms.node(w.name()) },
	})
}

// slots hands out the lowest numbers that nobody has.
type slots struct {
	used map[slot]bool
	next slot
}

func newSlots(taken map[string]slot, have map[string]*machine) *slots {
	used := make(map[slot]bool, len(taken)+len(have))
	for _, s := range taken {
		used[s] = true
	}
	for _, m := range have {
		used[m.slot] = true
	}
	return &slots{used: used}
}

func (s *slots) take() slot {
	for s.used[s.next] {
		s.next++
	}
	s.used[s.next] = true
	return s.next
}
