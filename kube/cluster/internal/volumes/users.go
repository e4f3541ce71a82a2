package volumes

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/storage/ephemeral"
	"k8s.io/component-helpers/storage/volume"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/convert"
)

// ClaimsOf are the keys of the claims that the pod uses.
func ClaimsOf(p *corev1.Pod) []string {
	var out []string
	for i := range p.Spec.Volumes {
		switch v := &p.Spec.Volumes[i]; {
		case v.PersistentVolumeClaim != nil:
			out = append(out, p.Namespace+"/"+v.PersistentVolumeClaim.ClaimName)
		case v.Ephemeral != nil:
			out = append(out, p.Namespace+"/"+ephemeral.VolumeClaimName(p, v))
		}
	}
	return out
}

// Join enters a pod under its claims: one that has a node, or one that waits for it where waits says so. A pod that is neither uses none.
func (s *Volumes) Join(key string, p *corev1.Pod, waits bool) {
	s.Leave(key, p)
	at := s.users
	switch {
	case p.Spec.NodeName != "":
		at = s.holders
	case !waits:
		return
	default:
		s.again[key] = true
	}
	for _, claim := range ClaimsOf(p) {
		insert(at, claim, key, p)
		s.countAgain(claim)
	}
}

// Leave forgets a pod. Others may have waited for its claims.
func (s *Volumes) Leave(key string, p *corev1.Pod) {
	for _, claim := range ClaimsOf(p) {
		for _, at := range []map[string]map[string]*corev1.Pod{s.users, s.holders} {
			cut(at, claim, key)
		}
		s.countAgain(claim)
		if c := s.claims[claim]; c != nil && forOnePod(c) {
			s.lookAgain(claim)
		}
	}
}

// Again has the pod among those that Waiting lists.
func (s *Volumes) Again(pod string) { s.again[pod] = true }

// AllAgain has every pod that waits with a claim among them: a node came or went, or is labelled otherwise.
func (s *Volumes) AllAgain() { s.all = true }

// lookAgain has the next cycle look at the pods that wait with the claim.
func (s *Volumes) lookAgain(claim string) {
	for key := range s.users[claim] {
		s.again[key] = true
	}
}

// Waiting returns the pods that may be allowed other nodes than when it was last called, nil for none.
func (s *Volumes) Waiting() map[string]bool {
	//archtest:any-order it fills a set
	for claim := range s.users {
		if c := s.claims[claim]; s.all || c != nil && s.stale[volume.GetPersistentVolumeClaimClass(c)] {
			s.lookAgain(claim)
		}
	}
	clear(s.stale)
	s.all = false
	if len(s.again) == 0 {
		return nil
	}
	out := s.again
	s.again = make(map[string]bool)
	return out
}

// Recount returns the pods on nodes that count for other volumes now, or keep others from a claim that they did not, in no order.
func (s *Volumes) Recount() []string {
	out := slices.Collect(maps.Keys(s.attached.recount)) //archtest:any-order the caller sorts them
	clear(s.attached.recount)
	return out
}

// Allowance is what its claims allow a pod.
type Allowance struct {
	Nodes   []string      // sorted; nil: all
	Missing []string      // what keeps it from running anywhere
	Ports   []engine.Port // what another pod must give up for it
}

// Reading is how pods' claims are read for a while in which no object and no node changes.
type Reading struct {
	s      *Volumes
	stored convert.Storage
	nodes  []*corev1.Node
}

// Read returns a reading of now.
func (s *Volumes) Read() *Reading { return &Reading{s: s, stored: s.stored(), nodes: s.nodes.All()} }

// Allow says where the claims of a pod that waits let it run.
func (r *Reading) Allow(key string, p *corev1.Pod) *Allowance {
	names, constrained, missing := r.stored.AllowedNodes(p, r.nodes)
	if !constrained {
		names = nil
	}
	a := &Allowance{Nodes: names, Missing: missing}
	take, ok := r.s.contested(p)
	if !ok {
		a.Missing = append(a.Missing, r.s.inUse(key, p)...)
		return a
	}
	if a.Ports = take.ports; !constrained || slices.Contains(names, take.node) {
		a.Nodes = []string{take.node}
	} else {
		a.Nodes = []string{}
	}
	return a
}

// Without leaves out of names, of which nil is all nodes, those that the pod shuns.
func (r *Reading) Without(pod string, names []string) []string {
	shunned := r.s.shunned[pod]
	if len(shunned) == 0 {
		return names
	}
	if names == nil {
		for _, n := range r.nodes {
			names = append(names, n.Name)
		}
		slices.Sort(names)
	}
	return slices.DeleteFunc(names, func(n string) bool { return shunned[n] })
}
