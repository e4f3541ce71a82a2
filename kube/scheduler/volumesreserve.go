package scheduler

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/volume"

	"github.com/berth-dev/berth/engine"
)

// underway is what the scheduler has decided about volumes and the API server does not show yet.
type underway struct {
	preparing map[string]*preparation          // by pod
	waits     map[string]map[*preparation]bool // by claim
	claimed   map[string]bool                  // volumes that a claim is about to take
	// shunned are nodes, by pod, that have no volume for it beside the others that were planned there.
	shunned map[string]map[string]bool
}

func newUnderway() underway {
	return underway{
		preparing: make(map[string]*preparation), waits: make(map[string]map[*preparation]bool),
		claimed: make(map[string]bool), shunned: make(map[string]map[string]bool),
	}
}

// want is one claim and what it is to get.
type want struct {
	claim  string    // its key
	uid    types.UID // its
	volume string    // the one that it takes; "": one is to be made
	node   string    // for which
	pod    string    // the first member that needs it
	shared bool      // another start asked for it already: nothing is to be written
}

// reserve decides what every open claim of the start gets. p is nil where no claim is open. short says that
// there are not enough volumes: the start has been given up, and the engine will not try the same again.
func (f *feed) reserve(s *start) (p *preparation, short bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p = &preparation{start: s, news: make(chan struct{}, 1)}
	for _, at := range s.Placements {
		if !f.choose(p, at) {
			f.shun(at)
			f.giveUp(p)
			return nil, true
		}
	}
	if len(p.wants) == 0 {
		return nil, false
	}
	for _, at := range s.Placements {
		f.storage.preparing[at.Pod] = p
	}
	return p, false
}

// choose decides for one member. Claims that it shares with members before it, or with other starts, are decided.
func (f *feed) choose(p *preparation, at engine.Placement) (ok bool) {
	m, n := f.pods[at.Pod], f.nodes[at.Node]
	if m == nil || n == nil || len(claimsOf(m.pod)) == 0 {
		return true // the first two are noticed by who binds
	}
	stored := f.stored()
	var open []*corev1.PersistentVolumeClaim
	for _, c := range stored.Open(m.pod) {
		switch others := f.storage.waits[keyOf(c)]; {
		case others[p]:
		case len(others) > 0:
			f.storage.enter(p, want{claim: keyOf(c), uid: c.UID, node: at.Node, pod: at.Pod, shared: true})
		default:
			open = append(open, c)
		}
	}
	choices, ok := stored.Choose(open, n)
	for _, c := range choices {
		w := want{claim: keyOf(c.Claim), uid: c.Claim.UID, node: at.Node, pod: at.Pod}
		if c.Volume != nil {
			w.volume = c.Volume.Name
		}
		f.storage.enter(p, w)
	}
	return ok
}

func (s *storage) enter(p *preparation, w want) {
	p.wants = append(p.wants, w)
	insert(s.waits, w.claim, p, true)
	if w.volume != "" {
		s.claimed[w.volume] = true
		s.changed(w)
	}
}

// changed has pods looked at that want a volume of the same class.
func (s *storage) changed(w want) {
	if c := s.claims[w.claim]; c != nil {
		s.stale[volume.GetPersistentVolumeClaimClass(c)] = true
	}
}

// release ends the preparation: what it decided is in the objects by now, or void.
func (f *feed) release(p *preparation) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.storage.release(p)
	f.inbox.stir()
}

func (s *storage) release(p *preparation) {
	for _, w := range p.wants {
		delete(s.waits[w.claim], p)
		s.tell(w.claim)
		if len(s.waits[w.claim]) == 0 {
			delete(s.waits, w.claim)
		}
		delete(s.claimed, w.volume)
		s.changed(w)
	}
	for _, at := range p.start.Placements {
		if s.preparing[at.Pod] == p {
			delete(s.preparing, at.Pod)
		}
		s.again[at.Pod] = true
	}
}

// abandon ends the preparation and has the engine place the members again.
func (f *feed) abandon(p *preparation) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.giveUp(p)
}

func (f *feed) giveUp(p *preparation) {
	f.storage.release(p)
	f.inbox.put(abandonment(p.start.Start)...)
}

// tell wakes those who wait for the claim's volume, left those who see to the volumes of a pod that changed.
func (s *storage) tell(claim string) {
	for p := range s.waits[claim] {
		p.poke()
	}
}

func (s *storage) left(m *member) {
	if p := s.preparing[m.key]; p != nil {
		p.poke()
	}
}

// shun keeps one pod, and not its gang, from a node for a while.
func (f *feed) shun(at engine.Placement) {
	s := &f.storage
	insert(s.shunned, at.Pod, at.Node, true)
	time.AfterFunc(refuseFor, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		cut(s.shunned, at.Pod, at.Node)
		s.again[at.Pod] = true
		f.inbox.stir()
	})
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
