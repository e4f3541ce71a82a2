package conformance

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-helpers/storage/volume"
	"pgregory.net/rapid"
)

// storage is the claims that pods of the tests may use, and what they depend on, by name. It is the same for all
// fleets: what differs is where their nodes are.
type storage struct {
	claims  map[string]*corev1.PersistentVolumeClaim
	volumes map[string]*corev1.PersistentVolume
	classes map[string]*storagev1.StorageClass
}

// everyVolume has a bound claim for each combination of labels and affinity that a volume may have, and a claim
// for each way in which claims are of no use.
func everyVolume() storage {
	s := storage{claims: map[string]*corev1.PersistentVolumeClaim{}, volumes: map[string]*corev1.PersistentVolume{}, classes: map[string]*storagev1.StorageClass{}}
	for i, labels := range []map[string]string{
		nil,
		{corev1.LabelTopologyZone: "za"},
		{corev1.LabelTopologyZone: "za__zb", corev1.LabelTopologyRegion: "ra"},
		{corev1.LabelFailureDomainBetaZone: "zb"},
		{corev1.LabelFailureDomainBetaRegion: "ra", corev1.LabelFailureDomainBetaZone: "za__zc"},
		{corev1.LabelTopologyZone: "za____zb"},
	} {
		for j, affinity := range volumeAffinities() {
			s.bind(fmt.Sprintf("v%d-%d", i, j), labels, affinity)
		}
	}
	s.useless()
	return s
}

func volumeAffinities() []*corev1.VolumeNodeAffinity {
	term := func(key string, op corev1.NodeSelectorOperator, values ...string) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: op, Values: values}}}
	}
	of := func(terms ...corev1.NodeSelectorTerm) *corev1.VolumeNodeAffinity {
		return &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: terms}}
	}
	return []*corev1.VolumeNodeAffinity{
		nil,
		{},
		of(term(corev1.LabelHostname, corev1.NodeSelectorOpIn, "n0", "n1")),
		of(term(corev1.LabelTopologyZone, corev1.NodeSelectorOpIn, "za"), term("disk", corev1.NodeSelectorOpExists)),
		of(term("disk", corev1.NodeSelectorOpNotIn, "hdd")),
		of(term("cores", corev1.NodeSelectorOpGt, "8")),
		of(term("cores", corev1.NodeSelectorOpGt, "many")),
		of(corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"n0"}}}}),
	}
}

// bind adds a volume and the claim that has it, both of the name.
func (s storage) bind(name string, labels map[string]string, affinity *corev1.VolumeNodeAffinity) {
	s.volumes[name] = &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec: corev1.PersistentVolumeSpec{
			NodeAffinity: affinity, ClaimRef: &corev1.ObjectReference{Namespace: "default", Name: name},
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany},
		},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeBound},
	}
	s.claim(name, "", corev1.ClaimBound)
}

func (s storage) claim(name, class string, phase corev1.PersistentVolumeClaimPhase) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Annotations: map[string]string{volume.AnnBindCompleted: "yes"}},
		Spec:       corev1.PersistentVolumeClaimSpec{VolumeName: name, StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}},
		Status:     corev1.PersistentVolumeClaimStatus{Phase: phase},
	}
	s.claims[name] = c
	return c
}

// useless adds claims with which a pod cannot run anywhere.
func (s storage) useless() {
	s.claim("without-volume", "", corev1.ClaimBound)
	s.claim("lost", "", corev1.ClaimLost)
	s.claim("deleted", "", corev1.ClaimBound).DeletionTimestamp = &metav1.Time{Time: noon}
	s.claim("half-bound", "", corev1.ClaimPending).Annotations = nil
	s.classes["at-once"] = &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: "at-once"}, Provisioner: "example.com/disks", VolumeBindingMode: new(storagev1.VolumeBindingImmediate),
	}
	s.claim("unbound", "at-once", corev1.ClaimPending).Spec.VolumeName = ""
	s.claim("classless", "", corev1.ClaimPending).Spec.VolumeName = ""
}

func (s storage) objects() []runtime.Object {
	var out []runtime.Object
	for _, name := range sortedKeys(s.volumes) {
		out = append(out, s.volumes[name])
	}
	for _, name := range sortedKeys(s.claims) {
		out = append(out, s.claims[name])
	}
	for _, name := range sortedKeys(s.classes) {
		out = append(out, s.classes[name])
	}
	return out
}

// anyVolume is a claim of the storage, seldom one that is of no use or does not exist.
func anyVolume(t *rapid.T, i int, s storage) corev1.Volume {
	name := pick(t, "claim", sortedKeys(s.volumes)...)
	if chance(t, 16, "useless") {
		name = pick(t, "claim", "missing", "without-volume", "lost", "deleted", "half-bound", "unbound", "classless")
	}
	return corev1.Volume{
		Name:         fmt.Sprintf("data-%d", i),
		VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}},
	}
}
