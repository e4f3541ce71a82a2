package cluster

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/cluster/internal/volumes"
	"github.com/berth-dev/berth/kube/convert"
)

// What the watches of claims, volumes, classes and CSI drivers tell the feed, and what it gives the engine of it.

// Claim is the claim as last seen, nil for none.
func (f *Feed) Claim(key string) *corev1.PersistentVolumeClaim {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.volumes.Claim(key)
}

// Volume is the volume as last seen, nil for none.
func (f *Feed) Volume(name string) *corev1.PersistentVolume {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.volumes.Volume(name)
}

// attachable gives the nodes again on which another number of volumes can be attached.
func (f *Feed) attachable(node string, n *storagev1.CSINode) {
	switch f.volumes.SetCSINode(node, n) {
	case volumes.One:
		f.giveNode(node)
	case volumes.Every:
		for _, name := range sortedNames(f.nodes.objects) {
			f.giveNode(name)
		}
	}
}

// giveNode gives a node again, as of now.
func (f *Feed) giveNode(name string) {
	if n := f.nodes.objects[name]; n != nil {
		v := convert.Node(f.tiers.Located(n), f.opts)
		v.Version = f.nodes.given[name].Version + 1 // what comes from the API is VersionBits above
		f.putNode(v)
	}
}

// attach adds what the pod's volumes take of the limits of its node.
func (f *Feed) attach(m *member, v *engine.Pod) {
	if takes := f.volumes.Takes(m.key, m.pod); takes != nil {
		v.Spec.Requests = convert.With(v.Spec.Requests, takes)
	}
}

// recountVolumes gives the pods again whose volumes are counted otherwise now.
func (f *Feed) recountVolumes() {
	var again []*member
	for _, key := range f.volumes.Recount() {
		if m := f.members.pods[key]; m != nil && m.given && m.bound() {
			again = append(again, m)
		}
	}
	f.giveAgain(again)
}

// needsClaims says whether claims decide where the pod may go.
func (m *member) needsClaims() bool {
	return m.ours && m.waiting() && len(volumes.ClaimsOf(m.pod)) > 0
}

// evictable says whether the engine has the pod of the key, and may evict it.
func (s *members) evictable(key string) bool {
	m := s.pods[key]
	return m != nil && m.given && m.value != nil && m.value.Evictable
}

// allowance is what its claims allow a pod.
type allowance struct {
	*volumes.Allowance
	m *member
}

// recheck looks again at the pods whose claims, or what those depend on, changed. Those whose volumes are being
// seen to are left as they are until that has ended.
func (f *Feed) recheck() {
	again := f.volumes.Waiting()
	if len(again) == 0 {
		return
	}
	f.gangs.whole(again)
	reading := f.volumes.Read()
	var allowed []*allowance
	for _, key := range sortedNames(again) {
		if m := f.members.pods[key]; m != nil && m.needsClaims() && f.preparing[key] == nil && (m.given || !f.owners.awaited(m.raw)) {
			allowed = append(allowed, &allowance{reading.Allow(m.key, m.pod), m})
		}
	}
	f.findApart(allowed)
	for _, a := range allowed {
		f.giveWithClaims(a, reading)
	}
}

// giveWithClaims hands the pod to the engine with the nodes that its claims allow, or keeps it back while they
// are not there.
func (f *Feed) giveWithClaims(a *allowance, reading *volumes.Reading) {
	if len(a.Missing) > 0 {
		f.keepBack(a.m, a.Missing)
		return
	}
	v := f.read(a.m.pod, a.m.terms)
	v.Nodes = reading.Without(a.m.key, a.Nodes)
	v.Ports = append(v.Ports, a.Ports...)
	v.Version = f.out.pods.next()
	f.put(a.m, &v)
}

// outdated says whether of the same object a newer version is known.
func outdated[T metav1.Object](have, o T) bool {
	var none T
	return any(have) != any(none) && have.GetUID() == o.GetUID() && resourceVersion(have) > resourceVersion(o)
}
