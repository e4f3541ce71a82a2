package cluster

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/volume"
)

// What the watches of claims, volumes and classes tell the feed.

// SetClaim takes in a claim.
func (f *Feed) SetClaim(c *corev1.PersistentVolumeClaim) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if key := keyOf(c); !outdated(f.storage.claims[key], c) {
		f.storage.setClaim(key, c)
		f.moved(key)
	}
}

// setClaim takes in a claim, nil where it is gone. The pod that has one which one pod at a time may use is given again.
func (s *storage) setClaim(key string, c *corev1.PersistentVolumeClaim) {
	was := s.claims[key]
	if was != nil && forOnePod(was) || c != nil && forOnePod(c) {
		s.holdAgain(key)
	}
	if s.claims[key] = c; c == nil {
		delete(s.claims, key)
	}
}

// RemoveClaim takes a claim away.
func (f *Feed) RemoveClaim(c *corev1.PersistentVolumeClaim) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.storage.setClaim(keyOf(c), nil)
	f.moved(keyOf(c))
}

// LearnClaim takes in what the claim became by our own doing, ahead of the watch.
func (f *Feed) LearnClaim(c *corev1.PersistentVolumeClaim) {
	if have := f.Claim(keyOf(c)); have != nil && have.UID == c.UID {
		f.SetClaim(c)
	}
}

// Claim is the claim as last seen, nil for none.
func (f *Feed) Claim(key string) *corev1.PersistentVolumeClaim {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.storage.claims[key]
}

// SetVolume takes in a volume.
func (f *Feed) SetVolume(v *corev1.PersistentVolume) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if have := f.storage.volumes[v.Name]; !outdated(have, v) {
		f.storage.volumes[v.Name] = v
		f.volumeMoved(have)
		f.volumeMoved(v)
	}
}

// RemoveVolume takes a volume away.
func (f *Feed) RemoveVolume(v *corev1.PersistentVolume) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.storage.volumes, v.Name)
	f.volumeMoved(v)
}

// LearnVolume takes in what the volume became by our own doing, ahead of the watch.
func (f *Feed) LearnVolume(v *corev1.PersistentVolume) {
	if have := f.Volume(v.Name); have != nil && have.UID == v.UID {
		f.SetVolume(v)
	}
}

// Volume is the volume as last seen, nil for none.
func (f *Feed) Volume(name string) *corev1.PersistentVolume {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.storage.volumes[name]
}

// volumeMoved looks again at the pods that a volume, nil allowed, matters to.
func (f *Feed) volumeMoved(v *corev1.PersistentVolume) {
	if v == nil {
		return
	}
	if v.Status.Phase == corev1.VolumeAvailable {
		f.storage.stale[volume.GetPersistentVolumeClass(v)] = true
	}
	f.moved(claimOf(v))
}

// claimOf is the key of the claim that has the volume, "" for none.
func claimOf(v *corev1.PersistentVolume) string {
	if v.Spec.ClaimRef == nil {
		return ""
	}
	return v.Spec.ClaimRef.Namespace + "/" + v.Spec.ClaimRef.Name
}

// free are the volumes of a class that are there for the taking, by name.
func (s *storage) free(class string) []*corev1.PersistentVolume {
	out := slices.DeleteFunc(slices.Collect(maps.Values(s.volumes)), func(v *corev1.PersistentVolume) bool {
		return v.Status.Phase != corev1.VolumeAvailable || s.claimed[v.Name] || volume.GetPersistentVolumeClass(v) != class
	})
	slices.SortFunc(out, func(a, b *corev1.PersistentVolume) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// SetClass takes in a storage class.
func (f *Feed) SetClass(c *storagev1.StorageClass) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.storage.classes[c.Name] = c
	f.classesMoved()
}

// classesMoved has all claims looked at: few classes come and go.
func (f *Feed) classesMoved() {
	f.storage.all = true
	for claim := range f.storage.holders { //archtest:any-order it fills a set
		f.storage.countAgain(claim)
	}
	f.out.wake()
}

// RemoveClass takes a storage class away.
func (f *Feed) RemoveClass(c *storagev1.StorageClass) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.storage.classes, c.Name)
	f.classesMoved()
}

// moved has the next cycle look at the claim's pods, and those who see to its volume look at once.
func (f *Feed) moved(claim string) {
	f.storage.lookAgain(claim)
	f.storage.countAgain(claim)
	f.storage.tell(claim)
	f.out.wake()
}

// outdated says whether of the same object a newer version is known.
func outdated[T metav1.Object](have, o T) bool {
	var none T
	return any(have) != any(none) && have.GetUID() == o.GetUID() && resourceVersion(have) > resourceVersion(o)
}
