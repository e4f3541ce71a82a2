package cluster

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/component-helpers/storage/ephemeral"
	"k8s.io/component-helpers/storage/volume"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/convert"
)

// storage is what pods' claims depend on, and which pods to look at again when some of it changed.
type storage struct {
	out     *output
	nodes   *nodes
	members *members
	gangs   *gangs
	claims  map[string]*corev1.PersistentVolumeClaim // by namespace/name
	volumes map[string]*corev1.PersistentVolume
	classes map[string]*storagev1.StorageClass
	users   map[string]map[string]*member // pods that wait for a node, by claim, then by key
	holders map[string]map[string]*member // pods on a node, of any scheduler, in the same way
	again   map[string]bool               // keys of pods to look at before the next plan
	stale   map[string]bool               // classes of which other volumes are free now
	all     bool                          // something that every claim may depend on changed
	levels  []engine.Level                // of the topology
	// attached is what CSI drivers say of nodes.
	attached *attachments
	*reservations
}

func newStorage(out *output, n *nodes, m *members, g *gangs, levels []engine.Level) *storage {
	return &storage{
		out: out, nodes: n, members: m, gangs: g, levels: levels,
		claims: make(map[string]*corev1.PersistentVolumeClaim), volumes: make(map[string]*corev1.PersistentVolume),
		classes: make(map[string]*storagev1.StorageClass), users: make(map[string]map[string]*member), holders: make(map[string]map[string]*member),
		again: make(map[string]bool), stale: make(map[string]bool), reservations: newReservations(), attached: newAttachments(),
	}
}

// claimsOf are the keys of the claims that the pod uses.
func claimsOf(p *corev1.Pod) []string {
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

// note enters a pod under its claims: one that waits for a node, or has one.
func (s *storage) note(m *member) {
	s.drop(m)
	at := s.users
	switch {
	case m.pod.Spec.NodeName != "":
		at = s.holders
	case !m.needsClaims():
		return
	default:
		s.again[m.key] = true
	}
	for _, claim := range claimsOf(m.pod) {
		insert(at, claim, m.key, m)
		s.countAgain(claim)
	}
}

// needsClaims says whether claims decide where the pod may go.
func (m *member) needsClaims() bool { return m.ours && m.waiting() && len(claimsOf(m.pod)) > 0 }

// drop forgets a pod. Others may have waited for its claims.
func (s *storage) drop(m *member) {
	for _, claim := range claimsOf(m.pod) {
		for _, at := range []map[string]map[string]*member{s.users, s.holders} {
			cut(at, claim, m.key)
		}
		s.countAgain(claim)
		if c := s.claims[claim]; c != nil && forOnePod(c) {
			s.lookAgain(claim)
		}
	}
	s.left(m)
}

// lookAgain has the next cycle look at the pods that wait with the claim.
func (s *storage) lookAgain(claim string) {
	for key := range s.users[claim] {
		s.again[key] = true
	}
}

// giveWithClaims hands the pod to the engine with the nodes that its claims allow, or keeps it back while they
// are not there.
func (f *Feed) giveWithClaims(a *allowance, nodes []*corev1.Node) {
	if len(a.missing) > 0 {
		f.keepBack(a.m, a.missing)
		return
	}
	v := f.read(a.m.pod, a.m.terms)
	v.Nodes = f.storage.without(a.m, a.nodes, nodes)
	v.Ports = append(v.Ports, a.ports...)
	v.Version = f.out.pods.next()
	f.put(a.m, &v)
}

// allowance is what its claims allow a pod.
type allowance struct {
	m       *member
	nodes   []string      // sorted; nil: all
	missing []string      // what keeps it from running anywhere
	ports   []engine.Port // what another pod must give up for it
}

func (s *storage) allow(m *member, stored convert.Storage, nodes []*corev1.Node) *allowance {
	names, constrained, missing := stored.AllowedNodes(m.pod, nodes)
	if !constrained {
		names = nil
	}
	a := &allowance{m: m, nodes: names, missing: missing}
	take, ok := s.contested(m)
	if !ok {
		a.missing = append(a.missing, s.inUse(m)...)
		return a
	}
	if a.ports = take.ports; !constrained || slices.Contains(names, take.node) {
		a.nodes = []string{take.node}
	} else {
		a.nodes = []string{}
	}
	return a
}

// stored is the storage as it is now, for a while in which neither it nor the nodes change.
func (s *storage) stored() convert.Storage {
	near := make(map[string]map[string][]*corev1.PersistentVolume) // by class, then by node
	out := s.lookup()
	out.Free = func(class string, n *corev1.Node) []*corev1.PersistentVolume {
		if near[class] == nil {
			near[class] = convert.Near(s.free(class), s.nodes.list())
		}
		return near[class][n.Name]
	}
	return out
}

// recheck looks again at the pods whose claims, or what those depend on, changed. Those whose volumes are being
// seen to are left as they are until that has ended.
func (f *Feed) recheck() {
	s := f.storage
	//archtest:any-order it fills a set
	for claim := range s.users {
		if c := s.claims[claim]; s.all || c != nil && s.stale[volume.GetPersistentVolumeClaimClass(c)] {
			s.lookAgain(claim)
		}
	}
	clear(s.stale)
	s.all = false
	if len(s.again) == 0 {
		return
	}
	s.wholeGangs()
	stored, nodes := s.stored(), f.nodes.list()
	var allowed []*allowance
	for _, key := range slices.Sorted(maps.Keys(s.again)) {
		if m := f.members.pods[key]; m != nil && m.needsClaims() && s.preparing[key] == nil && (m.given || !f.owners.awaited(m.raw)) {
			allowed = append(allowed, s.allow(m, stored, nodes))
		}
	}
	s.findApart(allowed)
	for _, a := range allowed {
		f.giveWithClaims(a, nodes)
	}
	clear(s.again)
}
