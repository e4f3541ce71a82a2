package life

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
)

// Disagreement is a field in which a claim and its volume should agree and do not.
type Disagreement struct {
	facts.Evidence
	Text string
	// Op makes the volume agree; nil: nobody can change it in place.
	Op *edit.Op
}

// VolumeOf is the volume that the claim names; nil: there is none, or it was not seen.
func VolumeOf(f *facts.Facts, claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolume {
	for _, v := range f.PersistentVolumes {
		if v.Name == claim.Spec.VolumeName {
			return v
		}
	}
	return nil
}

// Disagreements compares a claim with the volume that it names, field by field, as the volume controller does.
func Disagreements(claim *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume) []Disagreement {
	var out []Disagreement
	at := facts.RefTo(v).In()
	differs := func(field, has, wants string, change bool) {
		if has == wants {
			return
		}
		d := Disagreement{Evidence: facts.Evidence{Object: at, Field: field, Value: fmt.Sprintf("%s, where claim %s has %s", quoted(has), claim.Name, quoted(wants))}, Text: fmt.Sprintf("%s is %s, and the claim's is %s", field, quoted(has), quoted(wants))}
		if change {
			d.Op = &edit.Op{Op: "add", Path: edit.Pointer(strings.Split(field, ".")...), Value: wants}
		}
		out = append(out, d)
	}
	if r := v.Spec.ClaimRef; r != nil {
		differs("spec.claimRef.namespace", r.Namespace, claim.Namespace, true)
		differs("spec.claimRef.name", r.Name, claim.Name, true)
		if r.UID != "" || claim.Status.Phase == corev1.ClaimLost || claim.Status.Phase == corev1.ClaimBound {
			differs("spec.claimRef.uid", string(r.UID), string(claim.UID), true)
		}
	} else if claim.Status.Phase == corev1.ClaimLost {
		out = append(out, Disagreement{Evidence: facts.Evidence{Object: at, Field: "spec.claimRef", Value: "absent"}, Text: "spec.claimRef is absent",
			Op: &edit.Op{Op: "add", Path: "/spec/claimRef", Value: map[string]string{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": claim.Namespace, "name": claim.Name, "uid": string(claim.UID)}}})
	}
	if claim.Spec.StorageClassName != nil {
		differs("spec.storageClassName", v.Spec.StorageClassName, *claim.Spec.StorageClassName, true)
	}
	differs("spec.volumeMode", string(ptr.Deref(v.Spec.VolumeMode, corev1.PersistentVolumeFilesystem)), string(ptr.Deref(claim.Spec.VolumeMode, corev1.PersistentVolumeFilesystem)), false)
	if claim.Status.Phase == corev1.ClaimPending { // that of a bound claim may change, and its volume's follows
		differs("spec.volumeAttributesClassName", ptr.Deref(v.Spec.VolumeAttributesClassName, ""), ptr.Deref(claim.Spec.VolumeAttributesClassName, ""), true)
	}
	if selector, err := metav1.LabelSelectorAsSelector(claim.Spec.Selector); err == nil && claim.Spec.Selector != nil && claim.Spec.VolumeName == "" && !selector.Matches(labels.Set(v.Labels)) {
		out = append(out, Disagreement{Evidence: facts.Evidence{Object: at, Field: "metadata.labels", Value: labels.Set(v.Labels).String()}, Text: fmt.Sprintf("metadata.labels do not match %s, which the claim selects", selector)})
	}
	for _, mode := range claim.Spec.AccessModes {
		if !slices.Contains(v.Spec.AccessModes, mode) {
			out = append(out, Disagreement{Evidence: facts.Evidence{Object: at, Field: "spec.accessModes", Value: fmt.Sprint(v.Spec.AccessModes)}, Text: fmt.Sprintf("spec.accessModes lacks %s, which the claim asks for", mode)})
		}
	}
	wants, has := claim.Spec.Resources.Requests[corev1.ResourceStorage], v.Spec.Capacity[corev1.ResourceStorage]
	if has.Cmp(wants) < 0 {
		out = append(out, Disagreement{Evidence: facts.Evidence{Object: at, Field: "spec.capacity.storage", Value: has.String()}, Text: fmt.Sprintf("spec.capacity.storage is %s, and the claim asks for %s", &has, &wants)})
	}
	return out
}

func quoted(s string) string {
	if s == "" {
		return "empty"
	}
	return s
}

// Agreeing is the edit that makes the volume agree with the claim, and binds it; false where it cannot be changed in place.
func Agreeing(claim *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume, all []Disagreement) (edit.Edit, bool) {
	var ops []edit.Op
	var words []string
	for _, d := range all {
		if d.Op == nil {
			return edit.Edit{}, false
		}
		ops = append(ops, *d.Op)
		words = append(words, d.Field)
	}
	if len(ops) == 0 {
		return edit.Edit{}, false
	}
	n, err := edit.Patch(v, "", ops)
	if err != nil {
		return edit.Edit{}, false
	}
	bound := claim.DeepCopy()
	bound.Status.Phase = corev1.ClaimBound
	text := fmt.Sprintf("give volume %s the %s of claim %s", v.Name, strings.Join(words, " and "), claim.Name)
	if len(ops) == 1 && ops[0].Value != nil {
		if value, ok := ops[0].Value.(string); ok {
			text = fmt.Sprintf("set %s of volume %s to %s, as claim %s has it", words[0], v.Name, value, claim.Name)
		}
	}
	return edit.Edit{Side: edit.Cluster, Cost: edit.CostWord, Text: text, Set: []facts.Object{n, bound}, Command: edit.PatchLine(v, "json", ops), Assumes: "the volume still has the claim's data"}, true
}
