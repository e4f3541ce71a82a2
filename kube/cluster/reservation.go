package cluster

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/volume"

	"github.com/berth-dev/berth/engine"
)

// reservations are what the scheduler has decided about volumes and the API server does not show yet. Each is kept from
// Reserve until Release or Abandon.
type reservations struct {
	preparing map[string]*Reservation          // by pod
	waits     map[string]map[*Reservation]bool // by claim
	claimed   map[string]bool                  // volumes that a claim is about to take
	// shunned are nodes, by pod, that have no volume for it beside the others that were planned there.
	shunned map[string]map[string]bool
}

func newReservations() *reservations {
	return &reservations{
		preparing: make(map[string]*Reservation), waits: make(map[string]map[*Reservation]bool),
		claimed: make(map[string]bool), shunned: make(map[string]map[string]bool),
	}
}

// Reservation is a start whose claims are being seen to.
type Reservation struct {
	Start   *engine.Start
	Wants   []Want
	Devices []DeviceWant  // what is to be had before volumes are
	Changed chan struct{} // capacity 1: something that it depends on changed
}

// poke says that something changed.
func (r *Reservation) poke() {
	select {
	case r.Changed <- struct{}{}:
	default:
	}
}

// Want is one claim and what it is to get.
type Want struct {
	Claim  string    // its key
	UID    types.UID // its
	Volume string    // the one that it takes; "": one is to be made
	Node   string    // for which
	Pod    string    // the first member that needs it
	Shared bool      // another start asked for it already: nothing is to be written
}

// Reserve decides what every open claim of the start gets. r is nil where no claim is open. short says that there are
// not enough volumes: the start has been given up, and the engine will not try the same again.
func (f *Feed) Reserve(s *engine.Start) (r *Reservation, short bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r = &Reservation{Start: s, Changed: make(chan struct{}, 1)}
	for _, at := range s.Placements {
		if !f.storage.choose(r, at) {
			f.shun(at)
			f.storage.abandon(r)
			return nil, true
		}
		f.wantDevices(r, at)
	}
	if len(r.Wants) == 0 && len(r.Devices) == 0 {
		return nil, false
	}
	for _, at := range s.Placements {
		f.storage.preparing[at.Pod] = r
	}
	f.devices.begin(r)
	return r, false
}

// Release ends the reservation: what it decided is in the objects by now, or void.
func (f *Feed) Release(r *Reservation) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.storage.release(r)
	f.overWithClaims(r)
	f.out.wake()
}

// Abandon ends the reservation and has the engine place the members again.
func (f *Feed) Abandon(r *Reservation) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.storage.abandon(r)
	f.overWithClaims(r)
}

// overWithClaims has the claims of the start's pods looked at: what became of them meanwhile was passed over.
func (f *Feed) overWithClaims(r *Reservation) {
	f.devices.finish(r)
	for _, p := range r.Start.Placements {
		f.devices.pods[p.Pod] = true
	}
}

// GiveUp says that the pod will not be bound to its node: the engine is free to place it again.
func (f *Feed) GiveUp(at engine.Placement) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.storage.giveUp(at)
}

// giveUp ends the engine's assumption that the pod is on its node. Where the pod is gone and another of its name is there, what the engine
// assumes is of that one, which may be on its way itself.
func (s *storage) giveUp(at engine.Placement) {
	if m := s.members.pods[at.Pod]; m == nil || string(m.raw.UID) == at.UID {
		s.out.put(engine.Change{Gone: &engine.Ref{Kind: engine.KindAssumption, Key: at.Pod}})
	}
}

// shun keeps one pod, and not its gang, from a node for a while.
func (f *Feed) shun(at engine.Placement) {
	s := f.storage
	insert(s.shunned, at.Pod, at.Node, true)
	f.timers.after(RefuseFor, func() {
		cut(s.shunned, at.Pod, at.Node)
		s.again[at.Pod] = true
	})
	f.out.wake()
}

// choose decides for one member. Claims that it shares with members before it, or with other starts, are decided.
func (s *storage) choose(r *Reservation, at engine.Placement) (ok bool) {
	m, n := s.members.pods[at.Pod], s.nodes.objects[at.Node]
	if m == nil || n == nil || len(claimsOf(m.pod)) == 0 {
		return true // the first two are noticed when the pod is bound
	}
	stored := s.stored()
	var open []*corev1.PersistentVolumeClaim
	for _, c := range stored.Open(m.pod) {
		switch others := s.waits[keyOf(c)]; {
		case others[r]:
		case len(others) > 0:
			s.enter(r, Want{Claim: keyOf(c), UID: c.UID, Node: at.Node, Pod: at.Pod, Shared: true})
		default:
			open = append(open, c)
		}
	}
	choices, ok := stored.Choose(open, n)
	for _, c := range choices {
		w := Want{Claim: keyOf(c.Claim), UID: c.Claim.UID, Node: at.Node, Pod: at.Pod}
		if c.Volume != nil {
			w.Volume = c.Volume.Name
		}
		s.enter(r, w)
	}
	return ok
}

func (s *storage) enter(r *Reservation, w Want) {
	r.Wants = append(r.Wants, w)
	insert(s.waits, w.Claim, r, true)
	if w.Volume != "" {
		s.claimed[w.Volume] = true
		s.changed(w)
	}
}

// changed has pods looked at that want a volume of the same class.
func (s *storage) changed(w Want) {
	if c := s.claims[w.Claim]; c != nil {
		s.stale[volume.GetPersistentVolumeClaimClass(c)] = true
	}
}

func (s *storage) release(r *Reservation) {
	for _, w := range r.Wants {
		delete(s.waits[w.Claim], r)
		s.tell(w.Claim)
		if len(s.waits[w.Claim]) == 0 {
			delete(s.waits, w.Claim)
		}
		delete(s.claimed, w.Volume)
		s.changed(w)
	}
	for _, at := range r.Start.Placements {
		if s.preparing[at.Pod] == r {
			delete(s.preparing, at.Pod)
		}
		s.again[at.Pod] = true
	}
}

func (s *storage) abandon(r *Reservation) {
	s.release(r)
	for _, p := range r.Start.Placements {
		s.giveUp(p)
	}
}

// tell wakes those that wait for the claim's volume, left those who see to the volumes of a pod that changed.
func (s *storage) tell(claim string) {
	//archtest:any-order each has a signal of its own
	for r := range s.waits[claim] {
		r.poke()
	}
}

func (s *storage) left(m *member) {
	if r := s.preparing[m.key]; r != nil {
		r.poke()
	}
}

// without leaves out of names, of which nil is all nodes, those that the pod shuns.
func (s *storage) without(m *member, names []string, nodes []*corev1.Node) []string {
	shunned := s.shunned[m.key]
	if len(shunned) == 0 {
		return names
	}
	if names == nil {
		for _, n := range nodes {
			names = append(names, n.Name)
		}
		slices.Sort(names)
	}
	return slices.DeleteFunc(names, func(n string) bool { return shunned[n] })
}
