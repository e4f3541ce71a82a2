package scheduler

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/component-helpers/storage/ephemeral"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/convert"
)

// storage is what pods' claims depend on, and which pods to look at again when some of it changed.
type storage struct {
	claims  map[string]*corev1.PersistentVolumeClaim // by namespace/name
	volumes map[string]*corev1.PersistentVolume
	classes map[string]*storagev1.StorageClass
	users   map[string]map[string]*member // pods that wait for a node, by claim, then by key
	again   map[string]bool               // keys of pods to look at before the next plan
	all     bool                          // something that every claim may depend on changed
}

func newStorage() storage {
	return storage{
		claims: make(map[string]*corev1.PersistentVolumeClaim), volumes: make(map[string]*corev1.PersistentVolume),
		classes: make(map[string]*storagev1.StorageClass), users: make(map[string]map[string]*member), again: make(map[string]bool),
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

// note enters a pod under its claims while it waits for a node.
func (s *storage) note(m *member) {
	if !m.needsClaims() {
		s.drop(m)
		return
	}
	s.again[m.key] = true
	for _, claim := range claimsOf(m.pod) {
		if s.users[claim] == nil {
			s.users[claim] = make(map[string]*member)
		}
		s.users[claim][m.key] = m
	}
}

// needsClaims says whether claims decide where the pod may go.
func (m *member) needsClaims() bool { return m.ours && m.waiting() && len(claimsOf(m.pod)) > 0 }

func (s *storage) drop(m *member) {
	for _, claim := range claimsOf(m.pod) {
		delete(s.users[claim], m.key)
		if len(s.users[claim]) == 0 {
			delete(s.users, claim)
		}
	}
}

// give hands the pod to the engine. One with claims is looked at before the next plan: what it needs may be on
// another watch.
func (f *feed) give(m *member, v *engine.Pod) {
	if m.needsClaims() {
		f.inbox.stir()
		return
	}
	v.Version <<= ownVersions
	f.put(m, v)
}

func (f *feed) put(m *member, v *engine.Pod) {
	known := m.given
	m.given = true
	f.inbox.put(engine.Change{Pod: v})
	if !known {
		f.inherit(m)
	}
}

// giveWithClaims hands the pod to the engine with the nodes that its claims allow, or keeps it back while they
// are not there.
func (f *feed) giveWithClaims(m *member) {
	names, constrained, missing := f.allowed(m.pod)
	if len(missing) > 0 {
		f.keepBack(m, missing)
		return
	}
	v := convert.Pod(m.pod, f.opts)
	if constrained {
		v.Nodes = names
	}
	v.Version = f.versions.next()
	f.put(m, &v)
}

func (f *feed) keepBack(m *member, missing []string) {
	if m.given {
		m.given = false
		f.drop(engine.KindPod, m.key, f.versions.next())
		f.bequeath(m)
	}
	f.says.claimsMissing(m.pod, missing)
}

func (f *feed) allowed(p *corev1.Pod) (names []string, constrained bool, missing []string) {
	claim := func(namespace, name string) *corev1.PersistentVolumeClaim {
		return f.storage.claims[namespace+"/"+name]
	}
	names, constrained, missing = convert.AllowedNodes(p, claim,
		func(name string) *corev1.PersistentVolume { return f.storage.volumes[name] },
		func(name string) *storagev1.StorageClass { return f.storage.classes[name] },
		slices.Collect(maps.Values(f.nodes)))
	if len(missing) > 0 {
		return nil, false, missing
	}
	for _, key := range claimsOf(p) {
		if c := f.storage.claims[key]; c.Spec.VolumeName == "" {
			missing = append(missing, fmt.Sprintf("claim %s waits for its first consumer, which is not supported yet", c.Name))
		}
	}
	return names, constrained, missing
}

// recheck looks again at the pods whose claims, or what those depend on, changed.
func (f *feed) recheck() {
	s := &f.storage
	if s.all {
		for _, users := range s.users {
			for key := range users {
				s.again[key] = true
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(s.again)) {
		if m := f.pods[key]; m != nil && m.needsClaims() {
			f.giveWithClaims(m)
		}
	}
	clear(s.again)
	s.all = false
}

func (f *feed) setClaim(c *corev1.PersistentVolumeClaim) {
	f.change(func(s *storage) { s.claims[c.Namespace+"/"+c.Name] = c }, c.Namespace+"/"+c.Name)
}

func (f *feed) removeClaim(c *corev1.PersistentVolumeClaim) {
	f.change(func(s *storage) { delete(s.claims, c.Namespace+"/"+c.Name) }, c.Namespace+"/"+c.Name)
}

func (f *feed) setVolume(v *corev1.PersistentVolume) {
	f.change(func(s *storage) { s.volumes[v.Name] = v }, claimOf(v))
}

func (f *feed) removeVolume(v *corev1.PersistentVolume) {
	f.change(func(s *storage) { delete(s.volumes, v.Name) }, claimOf(v))
}

// claimOf is the key of the claim that has the volume, "" for none.
func claimOf(v *corev1.PersistentVolume) string {
	if v.Spec.ClaimRef == nil {
		return ""
	}
	return v.Spec.ClaimRef.Namespace + "/" + v.Spec.ClaimRef.Name
}

func (f *feed) setClass(c *storagev1.StorageClass) {
	f.change(func(s *storage) { s.classes[c.Name], s.all = c, true }, "")
}

func (f *feed) removeClass(c *storagev1.StorageClass) {
	f.change(func(s *storage) { delete(s.classes, c.Name); s.all = true }, "")
}

// change edits storage and has the next cycle look at the claim's pods.
func (f *feed) change(edit func(*storage), claim string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	edit(&f.storage)
	for key := range f.storage.users[claim] {
		f.storage.again[key] = true
	}
	f.inbox.stir()
}
