package scheduler

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

func (f *feed) setClaim(c *corev1.PersistentVolumeClaim) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if key := keyOf(c); !outdated(f.storage.claims[key], c) {
		f.storage.claims[key] = c
		f.moved(key)
	}
}

func (f *feed) removeClaim(c *corev1.PersistentVolumeClaim) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.storage.claims, keyOf(c))
	f.moved(keyOf(c))
}

// learnClaim takes in what the claim became by our own doing, ahead of the watch.
func (f *feed) learnClaim(c *corev1.PersistentVolumeClaim) {
	if have := f.claim(keyOf(c)); have != nil && have.UID == c.UID {
		f.setClaim(c)
	}
}

func (f *feed) claim(key string) *corev1.PersistentVolumeClaim {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.storage.claims[key]
}

func (f *feed) setVolume(v *corev1.PersistentVolume) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if have := f.storage.volumes[v.Name]; !outdated(have, v) {
		f.storage.volumes[v.Name] = v
		f.volumeMoved(have)
		f.volumeMoved(v)
	}
}

func (f *feed) removeVolume(v *corev1.PersistentVolume) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.storage.volumes, v.Name)
	f.volumeMoved(v)
}

// learnVolume takes in what the volume became by our own doing, ahead of the watch.
func (f *feed) learnVolume(v *corev1.PersistentVolume) {
	if have := f.volume(v.Name); have != nil && have.UID == v.UID {
		f.setVolume(v)
	}
}

func (f *feed) volume(name string) *corev1.PersistentVolume {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.storage.volumes[name]
}

// volumeMoved looks at whom a volume, nil allowed, matters to.
func (f *feed) volumeMoved(v *corev1.PersistentVolume) {
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

func (f *feed) setClass(c *storagev1.StorageClass) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.storage.classes[c.Name] = c
	f.storage.all = true
	f.inbox.stir()
}

func (f *feed) removeClass(c *storagev1.StorageClass) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.storage.classes, c.Name)
	f.storage.all = true
	f.inbox.stir()
}

// moved has the next cycle look at the claim's pods, and those who see to its volume look at once.
func (f *feed) moved(claim string) {
	f.storage.lookAgain(claim)
	f.storage.tell(claim)
	f.inbox.stir()
}

func keyOf(o metav1.Object) string { return o.GetNamespace() + "/" + o.GetName() }

// outdated says whether of the same object a newer version is known.
func outdated[T metav1.Object](have, o T) bool {
	var none T
	return any(have) != any(none) && have.GetUID() == o.GetUID() && resourceVersion(have) > resourceVersion(o)
}
