package diagnose

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

// podVolume is one of the pod's claims.
type podVolume struct {
	index int // of the volume in the pod
	name  string
	own   bool // the claim is made for the pod
	claim *corev1.PersistentVolumeClaim
}

func (v *podVolume) bound() bool {
	return v.claim != nil && v.claim.Spec.VolumeName != "" && v.claim.Annotations[bindCompleted] != ""
}

// volumesOf are the pod's claims, in the order of its volumes.
func volumesOf(f *facts.Facts, p *corev1.Pod) []podVolume {
	var out []podVolume
	for i := range p.Spec.Volumes {
		if name, own := claimOf(p, &p.Spec.Volumes[i]); name != "" {
			out = append(out, podVolume{i, name, own, claimNamed(f, p.Namespace, name)})
		}
	}
	return out
}

// waitsForPod says whether claims of the class get their volume only when a pod has a node.
func waitsForPod(class *storagev1.StorageClass) bool {
	return class != nil && ptr.Deref(class.VolumeBindingMode, storagev1.VolumeBindingImmediate) == storagev1.VolumeBindingWaitForFirstConsumer
}

// reaches says whether the volume can be used from the node.
func reaches(pv *corev1.PersistentVolume, n *corev1.Node) bool {
	if a := pv.Spec.NodeAffinity; a != nil && a.Required != nil && !selects(a.Required, n) {
		return false
	}
	for _, key := range []string{corev1.LabelTopologyZone, corev1.LabelTopologyRegion, corev1.LabelFailureDomainBetaZone, corev1.LabelFailureDomainBetaRegion} {
		if want, ok := pv.Labels[key]; ok && n.Labels[key] != "" && !slices.Contains(strings.Split(want, "__"), n.Labels[key]) {
			return false
		}
	}
	return true
}

// placeOf is the label that says where the volume is, and its values.
func placeOf(pv *corev1.PersistentVolume) (key string, values []string) {
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

// claimAnew is the edit that makes the claim again with another class. The volume of a class that waits for no pod is
// taken to be made.
func claimAnew(claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass) edit.Edit {
	after := claim.DeepCopy()
	after.Spec.StorageClassName = &class.Name
	delete(after.Annotations, corev1.BetaStorageClassAnnotation)
	ops := []edit.Op{{Op: "add", Path: "/spec/storageClassName", Value: class.Name}}
	e := edit.Edit{
		Side: edit.Workload, Cost: 2, Text: fmt.Sprintf("make claim %s anew with storage class %s", claim.Name, class.Name),
		Command: fmt.Sprintf("kubectl get pvc %s -n %s -o json | kubectl patch --local -f - --type=json -p %s -o json | kubectl replace --force -f -", claim.Name, claim.Namespace, edit.QuoteOps(ops)),
	}
	e.Set = append(e.Set, after)
	if !waitsForPod(class) {
		pv := &corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{StorageClassName: class.Name}}
		pv.Name, pv.UID = "volume-of-"+claim.Name, types.UID("volume-of-"+string(claim.UID))
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

// classesFor are the storage classes that could stand in for the one named: those with the nearest names first, of
// these the ones that wait for a pod.
func classesFor(f *facts.Facts, name string) []*storagev1.StorageClass {
	out := slices.Clone(f.StorageClasses)
	slices.SortFunc(out, func(a, b *storagev1.StorageClass) int {
		if x, y := spelling.Distance(name, a.Name), spelling.Distance(name, b.Name); x != y {
			return x - y
		}
		return strings.Compare(a.Name, b.Name)
	})
	return out[:min(2, len(out))]
}

// misspelt says whether one is probably the other, misspelt.
func misspelt(a, b string) bool {
	return a != b && spelling.Distance(a, b) <= max(1, min(len(a), len(b))/4)
}
