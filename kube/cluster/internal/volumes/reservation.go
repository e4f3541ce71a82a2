package volumes

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/volume"

	"github.com/berth-dev/berth/kube/convert"
)

// promised is what the scheduler has decided about volumes and the API server does not show yet. Each decision is kept from Choose until Release.
type promised struct {
	waits   map[string]map[*Reservation]bool // by claim
	claimed map[string]bool                  // volumes that a claim is about to take
	// shunned are nodes, by pod, that have no volume for it beside the others that were planned there.
	shunned map[string]map[string]bool
}

func newPromised() *promised {
	return &promised{waits: make(map[string]map[*Reservation]bool), claimed: make(map[string]bool), shunned: make(map[string]map[string]bool)}
}

// Reservation is what the claims of one start are to get.
type Reservation struct {
	Wants   []Want
	Changed chan struct{} // capacity 1: something that it depends on changed
}

// Poke says that something changed.
func (r *Reservation) Poke() {
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

// Choose decides what the open claims of a pod get on the node. Claims that it shares with pods before it, or with other starts, are
// decided. ok is false where there are not enough volumes; what was decided until then is the reservation's all the same.
func (s *Volumes) Choose(r *Reservation, pod string, p *corev1.Pod, n *corev1.Node) (ok bool) {
	if len(ClaimsOf(p)) == 0 {
		return true
	}
	stored := s.stored()
	var open []*corev1.PersistentVolumeClaim
	for _, c := range stored.Open(p) {
		key := c.Namespace + "/" + c.Name
		switch others := s.waits[key]; {
		case others[r]:
		case len(others) > 0:
			s.enter(r, Want{Claim: key, UID: c.UID, Node: n.Name, Pod: pod, Shared: true})
		default:
			open = append(open, c)
		}
	}
	choices, ok := stored.Choose(open, n)
	for _, c := range choices {
		w := Want{Claim: c.Claim.Namespace + "/" + c.Claim.Name, UID: c.Claim.UID, Node: n.Name, Pod: pod}
		if c.Volume != nil {
			w.Volume = c.Volume.Name
		}
		s.enter(r, w)
	}
	return ok
}

func (s *Volumes) enter(r *Reservation, w Want) {
	r.Wants = append(r.Wants, w)
	if s.waits[w.Claim] == nil {
		s.waits[w.Claim] = make(map[*Reservation]bool)
	}
	s.waits[w.Claim][r] = true
	if w.Volume != "" {
		s.claimed[w.Volume] = true
		s.changed(w)
	}
}

// changed has pods looked at that want a volume of the same class.
func (s *Volumes) changed(w Want) {
	if c := s.claims[w.Claim]; c != nil {
		s.stale[volume.GetPersistentVolumeClaimClass(c)] = true
	}
}

// Release ends the reservation: what it decided is in the objects by now, or void.
func (s *Volumes) Release(r *Reservation) {
	for _, w := range r.Wants {
		delete(s.waits[w.Claim], r)
		s.tell(w.Claim)
		if len(s.waits[w.Claim]) == 0 {
			delete(s.waits, w.Claim)
		}
		delete(s.claimed, w.Volume)
		s.changed(w)
	}
}

// tell wakes those that wait for the claim's volume.
func (s *Volumes) tell(claim string) {
	//archtest:any-order each has a signal of its own
	for r := range s.waits[claim] {
		r.Poke()
	}
}

// State says whether a claim has its volume, or why it will not get it: by a change that the next plan knows of,
// or refused, which it must be told.
func (s *Volumes) State(w Want) (done bool, moved, refused string) {
	c := s.claims[w.Claim]
	switch {
	case c == nil || c.UID != w.UID || c.DeletionTimestamp != nil || c.Status.Phase == corev1.ClaimLost:
		return false, fmt.Sprintf("claim %s is gone or lost", w.Claim), ""
	case convert.Bound(c):
		return s.volumes[c.Spec.VolumeName] != nil, "", "" // the watches of claims and volumes are not in step
	case w.Shared && !s.asked(w.Claim):
		return false, fmt.Sprintf("claim %s is no longer seen to", w.Claim), ""
	case w.Shared:
		return false, "", ""
	case w.Volume == "" && c.Annotations[volume.AnnSelectedNode] != w.Node:
		return false, "", fmt.Sprintf("no volume could be made there for claim %s", w.Claim)
	case w.Volume != "" && !has(s.volumes[w.Volume], w):
		return false, "", fmt.Sprintf("volume %s was not to be had for claim %s", w.Volume, w.Claim)
	}
	return false, "", ""
}

// asked says whether a start sees to the claim that does not merely wait for another's.
func (s *Volumes) asked(claim string) bool {
	for r := range s.waits[claim] {
		for _, w := range r.Wants {
			if w.Claim == claim && !w.Shared {
				return true
			}
		}
	}
	return false
}

// has says whether the volume, nil allowed, is the claim's.
func has(v *corev1.PersistentVolume, w Want) bool {
	return v != nil && claimOf(v) == w.Claim && v.Spec.ClaimRef.UID == w.UID
}

// Shun keeps one pod, and not its gang, from a node until Forgive: there were not enough volumes for it there.
func (s *Volumes) Shun(pod, node string) {
	insert(s.shunned, pod, node, true)
	s.wake()
}

// Forgive ends Shun.
func (s *Volumes) Forgive(pod, node string) {
	cut(s.shunned, pod, node)
	s.again[pod] = true
}
