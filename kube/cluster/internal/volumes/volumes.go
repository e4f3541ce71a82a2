package volumes

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/component-helpers/storage/volume"

	"github.com/berth-dev/berth/kube/convert"
)

// Volumes is what pods' claims depend on, and which pods to look at again when some of it changed.
type Volumes struct {
	nodes     Nodes
	evictable func(pod string) bool
	wake      func()

	claims  map[string]*corev1.PersistentVolumeClaim // by namespace/name
	volumes map[string]*corev1.PersistentVolume
	naming  map[string]map[string]bool // claims that name a volume as theirs, by its name
	classes map[string]*storagev1.StorageClass
	users   map[string]map[string]*corev1.Pod // pods of ours that wait for a node, by claim, then by key
	holders map[string]map[string]*corev1.Pod // pods on a node, of any scheduler, in the same way
	again   map[string]bool                   // keys of pods to look at before the next plan
	stale   map[string]bool                   // classes of which other volumes are free now
	all     bool                              // something that every claim may depend on changed
	// attached is what CSI drivers say of nodes.
	attached *attachments
	*promised
}

// Options are what Volumes asks others for. All of them are required.
type Options struct {
	Nodes Nodes
	// Evictable says whether the engine has the pod of the key, and may evict it.
	Evictable func(pod string) bool
	// Wake is called when Waiting or Recount has something to tell.
	Wake func()
}

// Nodes are those of the cluster as last seen.
type Nodes interface {
	Node(name string) *corev1.Node // nil: there is none
	All() []*corev1.Node           // in no order
}

// New returns the volumes of an empty cluster.
func New(o Options) *Volumes {
	return &Volumes{
		nodes: o.Nodes, evictable: o.Evictable, wake: o.Wake,
		claims: make(map[string]*corev1.PersistentVolumeClaim), volumes: make(map[string]*corev1.PersistentVolume), naming: make(map[string]map[string]bool),
		classes: make(map[string]*storagev1.StorageClass), users: make(map[string]map[string]*corev1.Pod), holders: make(map[string]map[string]*corev1.Pod),
		again: make(map[string]bool), stale: make(map[string]bool), promised: newPromised(), attached: newAttachments(),
	}
}

// Claim is the claim of the key as last seen, nil for none.
func (s *Volumes) Claim(key string) *corev1.PersistentVolumeClaim { return s.claims[key] }

// Volume is the volume as last seen, nil for none.
func (s *Volumes) Volume(name string) *corev1.PersistentVolume { return s.volumes[name] }

// SetClaim takes in a claim, nil where it is gone. The pod that has one which one pod at a time may use is given again.
func (s *Volumes) SetClaim(key string, c *corev1.PersistentVolumeClaim) {
	was := s.claims[key]
	if was != nil && forOnePod(was) || c != nil && forOnePod(c) {
		s.holdAgain(key)
	}
	if s.claims[key] = c; c == nil {
		delete(s.claims, key)
	}
	s.name(key, was, c)
	s.moved(key)
}

// name keeps which claims name which volume: most volumes name the claim that has them, and a claim may name one that is not there, or is
// another's.
func (s *Volumes) name(key string, was, is *corev1.PersistentVolumeClaim) {
	if was != nil && was.Spec.VolumeName != "" {
		cut(s.naming, was.Spec.VolumeName, key)
	}
	if is != nil && is.Spec.VolumeName != "" {
		insert(s.naming, is.Spec.VolumeName, key, true)
	}
}

// SetVolume takes in a volume.
func (s *Volumes) SetVolume(v *corev1.PersistentVolume) {
	have := s.volumes[v.Name]
	s.volumes[v.Name] = v
	s.volumeMoved(have)
	s.volumeMoved(v)
}

// RemoveVolume takes a volume away.
func (s *Volumes) RemoveVolume(v *corev1.PersistentVolume) {
	delete(s.volumes, v.Name)
	s.volumeMoved(v)
}

// volumeMoved looks again at the pods that a volume, nil allowed, matters to.
func (s *Volumes) volumeMoved(v *corev1.PersistentVolume) {
	if v == nil {
		return
	}
	if v.Status.Phase == corev1.VolumeAvailable {
		s.stale[volume.GetPersistentVolumeClass(v)] = true
	}
	s.moved(claimOf(v))
	for claim := range s.naming[v.Name] { //archtest:any-order it fills a set
		s.moved(claim)
	}
}

// claimOf is the key of the claim that has the volume, "" for none.
func claimOf(v *corev1.PersistentVolume) string {
	if v.Spec.ClaimRef == nil {
		return ""
	}
	return v.Spec.ClaimRef.Namespace + "/" + v.Spec.ClaimRef.Name
}

// SetClass takes in a storage class, nil where it is gone. It has all claims looked at: few classes come and go.
func (s *Volumes) SetClass(name string, c *storagev1.StorageClass) {
	if s.classes[name] = c; c == nil {
		delete(s.classes, name)
	}
	s.all = true
	for claim := range s.holders { //archtest:any-order it fills a set
		s.countAgain(claim)
	}
	s.wake()
}

// moved has the next cycle look at the claim's pods, and those who see to its volume look at once.
func (s *Volumes) moved(claim string) {
	s.lookAgain(claim)
	s.countAgain(claim)
	s.tell(claim)
	s.wake()
}

// free are the volumes of a class that are there for the taking, by name.
func (s *Volumes) free(class string) []*corev1.PersistentVolume {
	out := slices.DeleteFunc(slices.Collect(maps.Values(s.volumes)), func(v *corev1.PersistentVolume) bool {
		return v.Status.Phase != corev1.VolumeAvailable || s.claimed[v.Name] || volume.GetPersistentVolumeClass(v) != class
	})
	slices.SortFunc(out, func(a, b *corev1.PersistentVolume) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// stored is the storage as it is now, for a while in which neither it nor the nodes change.
func (s *Volumes) stored() convert.Storage {
	near := make(map[string]map[string][]*corev1.PersistentVolume) // by class, then by node
	out := s.lookup()
	out.Free = func(class string, n *corev1.Node) []*corev1.PersistentVolume {
		if near[class] == nil {
			near[class] = convert.Near(s.free(class), s.nodes.All())
		}
		return near[class][n.Name]
	}
	return out
}

// lookup finds what claims depend on, without free volumes and nodes.
func (s *Volumes) lookup() convert.Storage {
	a := s.attached
	return convert.Storage{
		Claim:   func(namespace, name string) *corev1.PersistentVolumeClaim { return s.claims[namespace+"/"+name] },
		Volume:  func(name string) *corev1.PersistentVolume { return s.volumes[name] },
		Class:   func(name string) *storagev1.StorageClass { return s.classes[name] },
		HasNode: func(name string) bool { return s.nodes.Node(name) != nil },
		Driver:  func(name string) *storagev1.CSIDriver { return a.drivers[name] },
		Capacities: func(class string) []*storagev1.CSIStorageCapacity {
			return slices.Collect(maps.Values(a.capacities[class]))
		},
		Installed: func(driver, node string) bool { return a.installed[node][driver] },
	}
}

// insert enters a value under two keys, and cut takes it away.
func insert[V any](m map[string]map[string]V, a, b string, v V) {
	if m[a] == nil {
		m[a] = make(map[string]V)
	}
	m[a][b] = v
}

func cut[V any](m map[string]map[string]V, a, b string) {
	delete(m[a], b)
	if len(m[a]) == 0 {
		delete(m, a)
	}
}
