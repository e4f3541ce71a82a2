package place

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/internal/spelling"
)

// bindCompleted is written on a claim when it has its volume for good.
const bindCompleted = "pv.kubernetes.io/bind-completed"

// PodVolume is one of the pod's claims.
type PodVolume struct {
	Index int // of the volume in the pod
	Name  string
	Own   bool // the claim is made for the pod
	Claim *corev1.PersistentVolumeClaim
}

// Bound reports whether the claim has its volume.
func (v *PodVolume) Bound() bool {
	return v.Claim != nil && v.Claim.Spec.VolumeName != "" && v.Claim.Annotations[bindCompleted] != ""
}

// VolumesOf are the pod's claims, in the order of its volumes.
func VolumesOf(f *facts.Facts, p *corev1.Pod) []PodVolume {
	var out []PodVolume
	for i := range p.Spec.Volumes {
		if name, own := ClaimOf(p, &p.Spec.Volumes[i]); name != "" {
			out = append(out, PodVolume{i, name, own, claimNamed(f, p.Namespace, name)})
		}
	}
	return out
}

// WaitsForPod says whether claims of the class get their volume only when a pod has a node.
func WaitsForPod(class *storagev1.StorageClass) bool {
	return class != nil && ptr.Deref(class.VolumeBindingMode, storagev1.VolumeBindingImmediate) == storagev1.VolumeBindingWaitForFirstConsumer
}

// PlaceOf is the label that says where the volume is, and its values.
func PlaceOf(pv *corev1.PersistentVolume) (key string, values []string) {
	if a := pv.Spec.NodeAffinity; a != nil && a.Required != nil {
		for _, t := range a.Required.NodeSelectorTerms {
			for _, e := range t.MatchExpressions {
				if e.Operator == corev1.NodeSelectorOpIn {
					return e.Key, e.Values
				}
			}
		}
	}
	for _, key := range []string{corev1.LabelTopologyZone, corev1.LabelFailureDomainBetaZone} {
		if v := pv.Labels[key]; v != "" {
			return key, strings.Split(v, "__")
		}
	}
	return "", nil
}

// ClaimAnew is the edit that makes the claim again with another class. The volume of a class that waits for no pod is
// taken to be made.
func ClaimAnew(claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass) edit.Edit {
	after := claim.DeepCopy()
	after.Spec.StorageClassName = &class.Name
	delete(after.Annotations, corev1.BetaStorageClassAnnotation)
	e := edit.Edit{
		Side: edit.Workload, Cost: edit.CostSmall, Text: fmt.Sprintf("make claim %s anew with storage class %s", claim.Name, class.Name),
		Command: claimAgain(claim, edit.Op{Op: "add", Path: "/spec/storageClassName", Value: class.Name}),
	}
	return madeBy(e, after, class)
}

// ClaimWithAttributes is the edit that makes the claim, which has no volume yet, again with another volume attributes class.
func ClaimWithAttributes(claim *corev1.PersistentVolumeClaim, name string, class *storagev1.StorageClass) edit.Edit {
	after := claim.DeepCopy()
	after.Spec.VolumeAttributesClassName = &name
	e := edit.Edit{
		Side: edit.Workload, Cost: edit.CostWord, Text: fmt.Sprintf("make claim %s anew with volume attributes class %s", claim.Name, name),
		Command: claimAgain(claim, edit.Op{Op: "add", Path: "/spec/volumeAttributesClassName", Value: name}),
	}
	return madeBy(e, after, class)
}

// ClaimWithout is the edit that makes the claim again without its volume, which is gone: the class, which need not be the claim's, makes
// another.
func ClaimWithout(claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass) edit.Edit {
	after := claim.DeepCopy()
	after.Spec.VolumeName, after.Status = "", corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending}
	var ops []edit.Op
	text, lost := fmt.Sprintf("make claim %s anew, with an empty volume", claim.Name), "what was on its volume"
	if was := claim.Spec.VolumeName; was != "" {
		ops = append(ops, edit.Op{Op: "remove", Path: "/spec/volumeName"})
		text, lost = text+" in place of "+was+", which is gone", "what was on volume "+was
	}
	for _, key := range []string{bindCompleted, "pv.kubernetes.io/bound-by-controller", "volume.kubernetes.io/selected-node"} {
		if _, ok := after.Annotations[key]; ok {
			ops = append(ops, edit.Op{Op: "remove", Path: edit.Pointer("metadata", "annotations", key)})
			delete(after.Annotations, key)
		}
	}
	if ClassOf(claim) != class.Name {
		ops = append(ops, edit.Op{Op: "add", Path: "/spec/storageClassName", Value: class.Name})
		after.Spec.StorageClassName = &class.Name
		text += ", by storage class " + class.Name
	}
	e := edit.Edit{
		Side: edit.Workload, Cost: edit.CostMove, Text: text,
		Command: claimAgain(claim, ops...),
	}
	e = madeBy(e, after, class)
	e.Assumes = strings.TrimPrefix(e.Assumes+"; "+lost+" is not needed, or can be had again", "; ")
	return e
}

// claimAgain is the command that deletes the claim and creates it with the operations done: a claim cannot be changed.
func claimAgain(claim *corev1.PersistentVolumeClaim, ops ...edit.Op) string {
	return fmt.Sprintf("kubectl get pvc %s -n %s -o json | kubectl patch --local -f - --type=json -p %s -o json | kubectl replace --force -f -", claim.Name, claim.Namespace, edit.QuoteOps(ops))
}

// madeBy has the edit set the claim as it is after it, with the volume that a class which waits for no pod makes at once.
func madeBy(e edit.Edit, after *corev1.PersistentVolumeClaim, class *storagev1.StorageClass) edit.Edit {
	e.Set = append(e.Set, after)
	if !WaitsForPod(class) {
		pv := &corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{StorageClassName: class.Name}}
		pv.Name, pv.UID = "volume-of-"+after.Name, types.UID("volume-of-"+string(after.UID))
		after.Spec.VolumeName = pv.Name
		after.Status.Phase = corev1.ClaimBound
		if after.Annotations == nil {
			after.Annotations = make(map[string]string)
		}
		after.Annotations[bindCompleted] = "yes"
		e.Set = append(e.Set, pv)
		e.Assumes = fmt.Sprintf("%s makes the volume, where every node can reach it", class.Provisioner)
	}
	return e
}

// ClassesFor are the storage classes that could stand in for the one named: those with the nearest names first, of
// these the ones that wait for a pod.
func ClassesFor(f *facts.Facts, name string) []*storagev1.StorageClass {
	out := slices.Clone(f.StorageClasses)
	slices.SortFunc(out, func(a, b *storagev1.StorageClass) int {
		if x, y := spelling.Distance(name, a.Name), spelling.Distance(name, b.Name); x != y {
			return x - y
		}
		return strings.Compare(a.Name, b.Name)
	})
	return out[:min(2, len(out))]
}

// Misspelt says whether one is probably the other, misspelt.
func Misspelt(a, b string) bool { return spelling.Misspelt(a, b) }

// LettersApart says whether the two differ by a letter or two: long names, such as those of images, have more in common by chance.
func LettersApart(a, b string) bool { return a != b && spelling.Distance(a, b) <= 2 }
