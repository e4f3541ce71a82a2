package l3

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/life"
	"github.com/berth-dev/berth/diagnose/internal/place"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

var volumeUnboundCheck = check.Check{
	Cause: "volume-unbound", Layer: check.L3, Owner: check.Storage, Stage: check.Place, Rank: 18,
	Title:   "A volume claim has no volume",
	Meaning: "The pod uses a PersistentVolumeClaim that does not exist, or that has no volume and will get none by the pod's having a node. Until then no node is looked for. A claim that waits for its first consumer is as it should be.",
	Remedy:  "Look at the claim's events: the storage class may not exist, or its provisioner may fail.",
	Not:     "The cluster is full: nodes were not looked at.",
	Find:    volumeUnbound,
}

func volumeUnbound(c *check.Case) []check.Finding {
	if c.State == facts.Starting && c.Sees("persistentvolumeclaims", c.Pod.Namespace) {
		if out := lostSince(c); len(out) > 0 {
			return out
		}
		return passedBy(c)
	}
	if !c.Waits() {
		return nil
	}
	if !c.Sees("persistentvolumeclaims", c.Pod.Namespace) {
		return unboundSaid(c)
	}
	var out []check.Finding
	for _, v := range place.VolumesOf(c.Facts, c.Pod) {
		if f := unbound(c, &v); f != nil {
			out = append(out, *f)
		}
	}
	return out
}

// lostSince is about a pod that has its node and a claim that has lost its volume since: its kubelet waits for it.
func lostSince(c *check.Case) (out []check.Finding) {
	for _, v := range place.VolumesOf(c.Facts, c.Pod) {
		if v.Claim == nil || v.Claim.Status.Phase != corev1.ClaimLost {
			continue
		}
		if f := unbound(c, &v); f != nil {
			out = append(out, *f)
		}
	}
	return out
}

// passedBy is about a pod that has its node and a claim that waits for a scheduler to choose one: whoever wrote
// spec.nodeName went past the scheduler, which would have had the volume made first.
func passedBy(c *check.Case) []check.Finding {
	for _, v := range place.VolumesOf(c.Facts, c.Pod) {
		if v.Claim == nil || v.Bound() || v.Claim.Spec.VolumeName != "" || v.Claim.DeletionTimestamp != nil || chosenNode(v.Claim) != "" || c.Age() < life.Patience || c.Now.Sub(v.Claim.CreationTimestamp.Time) < life.Patience {
			continue
		}
		class := place.StorageClassNamed(c.Facts, place.ClassOf(v.Claim))
		if class == nil || !place.WaitsForPod(class) {
			continue
		}
		f := check.Finding{Owner: check.User, Message: fmt.Sprintf("claim %s gets its volume when a scheduler chooses a node, and pod %s was put on node %s by spec.nodeName, past every scheduler", v.Claim.Name, c.Pod.Name, c.Pod.Spec.NodeName),
			Evidence: append(claimEvidence(c, v.Claim), facts.Evidence{Object: facts.RefTo(c.Pod).In(), Field: "spec.nodeName", Value: c.Pod.Spec.NodeName}),
			Advice:   "Choose the node by a node selector on kubernetes.io/hostname in place of spec.nodeName."}
		if n := c.NodeNamed(c.Pod.Spec.NodeName); n != nil && n.Labels[corev1.LabelHostname] != "" && place.Written(c).Spec.NodeName != "" {
			f.Edits = []edit.Edit{{Side: edit.Workload, Cost: 1, Text: fmt.Sprintf("ask for node %s by its label %s in place of spec.nodeName", n.Name, corev1.LabelHostname),
				Ops: []edit.Op{{Op: "remove", Path: edit.Pointer("spec", "nodeName")}, {Op: "add", Path: edit.Pointer("spec", "nodeSelector", corev1.LabelHostname), Value: n.Labels[corev1.LabelHostname]}}}}
		}
		return []check.Finding{f}
	}
	return nil
}

// unboundSaid goes by the scheduler's words where claims may not be seen.
func unboundSaid(c *check.Case) []check.Finding {
	said, ok := place.SaidOf(c)
	if !ok || !strings.Contains(said.Whole, "unbound immediate PersistentVolumeClaims") && !strings.Contains(said.Whole, "persistentvolumeclaim") {
		return nil
	}
	return []check.Finding{{Message: "one of its volume claims has no volume: " + said.Whole}}
}

// unbound says what keeps the pod from one of its claims, nil if nothing.
func unbound(c *check.Case, v *place.PodVolume) *check.Finding {
	if v.Claim == nil {
		return noClaim(c, v)
	}
	claim, class := v.Claim, place.ClassOf(v.Claim)
	if f := foreignClaim(c, v); f != nil {
		return f
	}
	say := func(owner check.Owner, format string, a ...any) *check.Finding {
		return &check.Finding{Owner: owner, Message: fmt.Sprintf(format, a...), Evidence: claimEvidence(c, claim)}
	}
	switch {
	case claim.Status.Phase == corev1.ClaimLost && claim.Spec.VolumeName == "": // its annotations say that it was bound
		return withoutIt(c, claim, say(check.User, "claim %s has lost its volume: spec.volumeName is gone, and its annotations say that it was bound", claim.Name))
	case claim.Status.Phase == corev1.ClaimLost:
		return withoutIt(c, claim, disagreeing(c, claim, say(check.Storage, "claim %s has lost its volume %s", claim.Name, claim.Spec.VolumeName)))
	case claim.DeletionTimestamp != nil:
		return leaving(c, claim)
	case v.Bound() && c.Sees("persistentvolumes", "") && place.VolumeNamed(c.Facts, claim.Spec.VolumeName) == nil:
		return withoutIt(c, claim, say(check.Storage, "claim %s is bound to volume %s, which does not exist", claim.Name, claim.Spec.VolumeName))
	case v.Bound():
		return nil
	case claim.Spec.VolumeName != "" && c.Sees("persistentvolumes", "") && place.VolumeNamed(c.Facts, claim.Spec.VolumeName) == nil:
		return volumeMissing(c, claim, say(check.User, "claim %s asks for volume %s, which does not exist", claim.Name, claim.Spec.VolumeName))
	case claim.Spec.VolumeName != "":
		return disagreeing(c, claim, soon(c, claim, say(check.Storage, "claim %s asks for volume %s and is not bound to it yet", claim.Name, claim.Spec.VolumeName)))
	case class == "":
		return otherClass(c, claim, nearlyFits(c, claim, say(check.User, "claim %s has no volume and names no storage class that would make one", claim.Name)))
	case !c.Sees("storageclasses.storage.k8s.io", ""):
		return nil
	case place.StorageClassNamed(c.Facts, class) == nil:
		return otherClass(c, claim, say(check.User, "claim %s asks for storage class %s, which does not exist", claim.Name, class))
	case attributesMissing(c, claim) != "":
		return otherAttributes(c, claim, say(check.User, "claim %s asks for volume attributes class %s, which does not exist", claim.Name, attributesMissing(c, claim)))
	case !place.WaitsForPod(place.StorageClassNamed(c.Facts, class)):
		return soon(c, claim, say(check.Storage, "claim %s has no volume, %s after it was made; storage class %s makes them at once%s", claim.Name, wording.RoundAge(c.Now.Sub(claim.CreationTimestamp.Time)), class, complaint(c, claim)))
	case place.StorageClassNamed(c.Facts, class).Provisioner == "kubernetes.io/no-provisioner" && !anyVolume(c, claim):
		return nearlyFits(c, claim, say(check.Storage, "claim %s needs a volume of storage class %s that was made by hand, and none that is free is large enough", claim.Name, class))
	case complaint(c, claim) != "":
		return say(check.Storage, "claim %s gets no volume%s", claim.Name, complaint(c, claim))
	case madeElsewhere(c, place.StorageClassNamed(c.Facts, class)) != "":
		return say(check.Storage, "claim %s has no volume: storage class %s makes them only where %s, and no node that would do is there", claim.Name, class, madeElsewhere(c, place.StorageClassNamed(c.Facts, class)))
	case noSpace(c) && !c.WasEdited(claim):
		return say(check.Storage, "claim %s asks for %s of storage class %s, and the storage of no node that would do has that much free, says the scheduler", claim.Name, claim.Spec.Resources.Requests.Storage(), class)
	case chosenNode(claim) != "" && c.Exists && c.Age() > life.Patience && c.Now.Sub(claim.CreationTimestamp.Time) > life.Patience:
		return unprovisioned(c, claim, say)
	}
	return nil
}

// leaving words a claim that was deleted: it goes when no pod on a node uses it any more, and no new pod may have it.
func leaving(c *check.Case, claim *corev1.PersistentVolumeClaim) *check.Finding {
	f := &check.Finding{
		Owner:    check.User,
		Message:  fmt.Sprintf("claim %s is being deleted since %s, and takes no new pods", claim.Name, wording.Minutes(c.Now.Sub(claim.DeletionTimestamp.Time))),
		Evidence: []facts.Evidence{{Object: facts.RefTo(claim).In(), Field: "metadata.deletionTimestamp", Value: claim.DeletionTimestamp.UTC().Format("2006-01-02T15:04:05Z")}},
		Advice:   "A deletion cannot be taken back. Let the claim go, make it again, and have its volume kept before (persistentVolumeReclaimPolicy: Retain) if what is on it is needed.",
	}
	if len(claim.Finalizers) > 0 {
		f.Message += fmt.Sprintf("; %s %s it", strings.Join(claim.Finalizers, ", "), wording.InNumber(len(claim.Finalizers), "keeps", "keep"))
		f.Evidence = append(f.Evidence, facts.Evidence{Object: facts.RefTo(claim).In(), Field: "metadata.finalizers", Value: strings.Join(claim.Finalizers, ", ")})
	}
	for _, p := range c.Pods {
		if p.Namespace != claim.Namespace || p.Spec.NodeName == "" || facts.Ended(p) {
			continue
		}
		if slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool {
			return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim.Name
		}) {
			f.Message += fmt.Sprintf("; pod %s still uses it", p.Name)
			f.Evidence = append(f.Evidence, facts.Evidence{Object: facts.RefTo(p).In(), Field: "spec.volumes", Value: claim.Name})
			break
		}
	}
	return f
}

// withoutIt offers to make the claim anew where its volume is gone and its class can make another; where there is no such class, one
// that may have been meant can.
func withoutIt(c *check.Case, claim *corev1.PersistentVolumeClaim, f *check.Finding) *check.Finding {
	class := place.StorageClassNamed(c.Facts, place.ClassOf(claim))
	if place.VolumeNamed(c.Facts, claim.Spec.VolumeName) == nil && c.Sees("persistentvolumes", "") && class == nil && place.ClassOf(claim) != "" && c.Sees("storageclasses.storage.k8s.io", "") {
		f.Message += fmt.Sprintf("; its storage class %s does not exist either", place.ClassOf(claim))
		f.Evidence = append(f.Evidence, facts.Evidence{Object: facts.RefTo(claim).In(), Field: "spec.storageClassName", Value: place.ClassOf(claim)})
		for _, other := range place.ClassesFor(c.Facts, place.ClassOf(claim)) {
			f.Edits = append(f.Edits, place.ClaimWithout(claim, other))
		}
		return f
	}
	if place.VolumeNamed(c.Facts, claim.Spec.VolumeName) == nil && c.Sees("persistentvolumes", "") && class != nil && class.Provisioner != "kubernetes.io/no-provisioner" {
		e := place.ClaimWithout(claim, class)
		if s, ok := c.Owner().(*appsv1.StatefulSet); ok && slices.ContainsFunc(s.Spec.VolumeClaimTemplates, func(t corev1.PersistentVolumeClaim) bool { return claim.Name == t.Name+"-"+c.Pod.Name }) {
			e.Text = fmt.Sprintf("delete claim %s: %s makes it anew, with an empty volume in place of %s, which is gone", claim.Name, facts.RefTo(s), claim.Spec.VolumeName)
			e.Command = fmt.Sprintf("kubectl delete pvc %s -n %s", claim.Name, claim.Namespace) // another that creates it is late
		}
		f.Edits = append(f.Edits, e)
		f.Advice = "Restore the volume from a snapshot or a backup under its name, or make the claim anew with an empty one."
	}
	return f
}

// foreignClaim is about a claim that would be made for the pod, and whose name another claim has: that is not used for the pod.
func foreignClaim(c *check.Case, v *place.PodVolume) *check.Finding {
	if !v.Own || !c.Exists || c.WasEdited(c.Pod) || metav1.IsControlledBy(v.Claim, c.Pod) {
		return nil
	}
	of := "nobody"
	if by := metav1.GetControllerOfNoCopy(v.Claim); by != nil {
		of = strings.ToLower(by.Kind) + " " + by.Name
	}
	return &check.Finding{
		Owner:    check.User,
		Message:  fmt.Sprintf("claim %s is to be made for the pod's volume %s, and one of that name exists that was made for %s: it is not used", v.Claim.Name, c.Pod.Spec.Volumes[v.Index].Name, of),
		Evidence: []facts.Evidence{{Object: facts.RefTo(v.Claim).In(), Field: "metadata.ownerReferences", Value: of}, {Object: facts.RefTo(c.Pod).In(), Field: fmt.Sprintf("spec.volumes[%d].ephemeral", v.Index), Value: c.Pod.Spec.Volumes[v.Index].Name}},
		Advice:   "Give the pod, or its volume, another name; or delete the claim, if nobody needs what is on its volume.",
	}
}

// nearlyFits shows the free volume of the claim's class that comes nearest to it, and in what the two do not agree.
func nearlyFits(c *check.Case, claim *corev1.PersistentVolumeClaim, f *check.Finding) *check.Finding {
	var best *corev1.PersistentVolume
	var least []life.Disagreement
	for _, pv := range c.PersistentVolumes {
		if pv.Spec.ClaimRef != nil || pv.Status.Phase != corev1.VolumeAvailable || pv.DeletionTimestamp != nil {
			continue
		}
		all := life.Disagreements(claim, pv)
		if len(all) > 0 && (best == nil || len(all) < len(least) || len(all) == len(least) && pv.Name < best.Name) {
			best, least = pv, all
		}
	}
	if best == nil {
		return f
	}
	f.Message += fmt.Sprintf("; volume %s is free, and %s", best.Name, least[0].Text)
	for _, d := range least {
		f.Evidence = append(f.Evidence, d.Evidence)
	}
	return f
}

// noSpace says whether the scheduler finds too little free storage, which drivers report per place (CSIStorageCapacity).
func noSpace(c *check.Case) bool {
	said, ok := place.SaidOf(c)
	return ok && said.Count("node(s) did not have enough free storage") > 0
}

// chosenNode is the node that a scheduler has found for the claim's first consumer: its provisioner has to act then.
func chosenNode(claim *corev1.PersistentVolumeClaim) string {
	return claim.Annotations["volume.kubernetes.io/selected-node"]
}

// unprovisioned words a claim whose provisioner knows the node and makes no volume.
func unprovisioned(c *check.Case, claim *corev1.PersistentVolumeClaim, say func(check.Owner, string, ...any) *check.Finding) *check.Finding {
	class := place.StorageClassNamed(c.Facts, place.ClassOf(claim))
	f := say(check.Storage, "claim %s gets no volume: node %s was found for it, and provisioner %s of storage class %s has not made one", claim.Name, chosenNode(claim), class.Provisioner, class.Name)
	if !slices.ContainsFunc(c.CSINodes, func(n *storagev1.CSINode) bool {
		return slices.ContainsFunc(n.Spec.Drivers, func(d storagev1.CSINodeDriver) bool { return d.Name == class.Provisioner })
	}) && c.Sees("csinodes.storage.k8s.io", "") {
		f.Message += "; no node has a driver of that name"
	}
	f.Evidence = append(f.Evidence, facts.Evidence{Object: facts.RefTo(class).In(), Field: "provisioner", Value: class.Provisioner})
	f.Advice = fmt.Sprintf("Look whether provisioner %s runs, or make the claim anew with a storage class whose provisioner does.", class.Provisioner)
	return otherClass(c, claim, f)
}

// disagreeing shows in what the claim and the volume that it names do not agree, and offers to have the volume agree.
func disagreeing(c *check.Case, claim *corev1.PersistentVolumeClaim, f *check.Finding) *check.Finding {
	v := life.VolumeOf(c.Facts, claim)
	if v == nil {
		if c.Sees("persistentvolumes", "") {
			f.Message += ", which does not exist"
		}
		return f
	}
	all := life.Disagreements(claim, v)
	if len(all) == 0 {
		return f
	}
	f.Healthy = false
	f.Message += ": of the volume, " + all[0].Text
	for _, d := range all {
		f.Evidence = append(f.Evidence, d.Evidence)
	}
	if e, ok := life.Agreeing(claim, v, all); ok {
		f.Edits = append(f.Edits, e)
	}
	return f
}

// volumeMissing shows the volume that the claim names, and the one that may have been meant.
func volumeMissing(c *check.Case, claim *corev1.PersistentVolumeClaim, f *check.Finding) *check.Finding {
	f.Evidence = append([]facts.Evidence{{Object: facts.RefTo(claim).In(), Field: "spec.volumeName", Value: claim.Spec.VolumeName}}, f.Evidence...)
	f.Advice = "Make the volume, or make the claim anew without spec.volumeName or with a volume that exists: a claim cannot be changed."
	for _, pv := range c.PersistentVolumes {
		if place.Misspelt(claim.Spec.VolumeName, pv.Name) {
			f.Message += fmt.Sprintf("; volume %s does", pv.Name)
			f.Evidence = append(f.Evidence, facts.Evidence{Object: facts.RefTo(pv).In(), Field: "metadata.name", Value: pv.Name})
			break
		}
	}
	return f
}

// noClaim words a claim that is not there.
func noClaim(c *check.Case, v *place.PodVolume) *check.Finding {
	if v.Own {
		if !c.Exists || c.Age() < life.Patience {
			return classMissing(c, v) // it is made with the pod, or right after it
		}
		return unmadeClaim(c, v)
	}
	f := &check.Finding{Owner: check.User, Message: fmt.Sprintf("claim %s does not exist in namespace %s", v.Name, c.Pod.Namespace),
		Evidence: []facts.Evidence{{Object: facts.RefTo(c.Pod).In(), Field: fmt.Sprintf("spec.volumes[%d].persistentVolumeClaim.claimName", v.Index), Value: v.Name}},
		Advice:   "Make the claim, or name one that exists."}
	for _, other := range c.PersistentVolumeClaims {
		if other.Namespace == c.Pod.Namespace && place.Misspelt(v.Name, other.Name) {
			f.Edits = append(f.Edits, edit.Edit{Side: edit.Workload, Cost: 1, Text: fmt.Sprintf("use claim %s, which exists, instead of %s", other.Name, v.Name),
				Ops: []edit.Op{{Op: "replace", Path: edit.Pointer("spec", "volumes", fmt.Sprint(v.Index), "persistentVolumeClaim", "claimName"), Value: other.Name}}})
		}
	}
	slices.SortFunc(f.Edits, func(a, b edit.Edit) int { return strings.Compare(a.Text, b.Text) })
	return f
}

// classMissing is about a claim that will be made for the pod, of a storage class that does not exist.
func classMissing(c *check.Case, v *place.PodVolume) *check.Finding {
	e := c.Pod.Spec.Volumes[v.Index].Ephemeral
	if e == nil || e.VolumeClaimTemplate == nil || !c.Sees("storageclasses.storage.k8s.io", "") {
		return nil
	}
	class := ptr.Deref(e.VolumeClaimTemplate.Spec.StorageClassName, "")
	if class == "" || place.StorageClassNamed(c.Facts, class) != nil {
		return nil
	}
	return &check.Finding{
		Owner: check.User, Message: fmt.Sprintf("claim %s, which is made for the pod, asks for storage class %s, which does not exist", v.Name, class),
		Evidence: []facts.Evidence{{Object: facts.RefTo(c.Pod).In(), Field: fmt.Sprintf("spec.volumes[%d].ephemeral.volumeClaimTemplate.spec.storageClassName", v.Index), Value: class}},
		Advice:   "Name a storage class that exists, or have it made.",
	}
}

// unmadeClaim words a claim that nobody has made for the pod, with what the API server said where it refused it; whoever refused it by a
// rule of his own has a check of his own.
func unmadeClaim(c *check.Case, v *place.PodVolume) *check.Finding {
	f := &check.Finding{Owner: check.Platform, Message: fmt.Sprintf("claim %s, which is made for the pod, does not exist", v.Name), Advice: "Look at the ephemeral volume controller in kube-controller-manager."}
	r := life.Denial(c)
	if r == nil {
		for _, e := range c.EventsOf(c.Pod, "FailedBinding") {
			f.Message += ": " + wording.Shortened(wording.OneLine(e.Message), 300)
			f.Evidence = append(f.Evidence, life.Shown(e))
			f.Advice = ""
			break
		}
		return f
	}
	switch {
	case r.By == life.ByQuota && claimRefused(c, r):
		return nil
	case r.By == life.ByWebhook, r.By == life.ByPolicy, r.By == life.ByBrokenWebhook, r.By == life.ByRights, r.By == life.ByOther:
		return nil
	case r.By == life.ByLimitRange, r.By == life.ByValidation:
		f.Owner = check.User
	}
	f.Message = fmt.Sprintf("claim %s, which is made for the pod, is refused: %s", v.Name, wording.Shortened(wording.OneLine(r.Text), 300))
	f.Evidence = append(f.Evidence, r.Evidence)
	f.Advice = "Change the claim in the pod's volume as the message says, or have the rule changed."
	return f
}

// soon takes for healthy a claim that is young.
func soon(c *check.Case, claim *corev1.PersistentVolumeClaim, f *check.Finding) *check.Finding {
	if c.Now.Sub(claim.CreationTimestamp.Time) < life.Patience && complaint(c, claim) == "" {
		f.Healthy, f.Message = true, fmt.Sprintf("the volume of claim %s is being made", claim.Name)
	}
	if from, name := sourceOf(claim); name != "" && strings.Contains(complaint(c, claim), name) && wording.Mentions(complaint(c, claim), "not found", "does not exist") {
		f.Owner, f.Advice = check.User, fmt.Sprintf("Make claim %s again, from a %s that exists.", claim.Name, from)
		f.Evidence = append(f.Evidence, facts.Evidence{Object: facts.RefTo(claim).In(), Field: "spec.dataSourceRef", Value: from + "/" + name})
	}
	return f
}

// sourceOf is what the claim's volume is to be filled from, by kind and name; "": it is to be empty.
func sourceOf(claim *corev1.PersistentVolumeClaim) (kind, name string) {
	if r := claim.Spec.DataSourceRef; r != nil {
		return r.Kind, r.Name
	}
	if r := claim.Spec.DataSource; r != nil {
		return r.Kind, r.Name
	}
	return "", ""
}

// otherClass offers classes that exist.
func otherClass(c *check.Case, claim *corev1.PersistentVolumeClaim, f *check.Finding) *check.Finding {
	for _, class := range place.ClassesFor(c.Facts, place.ClassOf(claim)) {
		f.Edits = append(f.Edits, place.ClaimAnew(claim, class))
	}
	return f
}

// attributesKind are the classes that say how a volume is made: how fast, for instance.
const attributesKind = "VolumeAttributesClass.storage.k8s.io"

// attributesMissing is the volume attributes class that the claim names, where there is none of that name; "" else.
func attributesMissing(c *check.Case, claim *corev1.PersistentVolumeClaim) string {
	name := ptr.Deref(claim.Spec.VolumeAttributesClassName, "")
	if name == "" || len(c.Foreign[attributesKind]) == 0 || c.ForeignNamed(attributesKind, "", name) != nil {
		return "" // where none was read, it is not known whether there are any
	}
	return name
}

// otherAttributes offers the class that may have been meant.
func otherAttributes(c *check.Case, claim *corev1.PersistentVolumeClaim, f *check.Finding) *check.Finding {
	f.Evidence = append([]facts.Evidence{{Object: facts.RefTo(claim).In(), Field: "spec.volumeAttributesClassName", Value: *claim.Spec.VolumeAttributesClassName}}, f.Evidence...)
	f.Advice = "Make the class, or make the claim anew with one that exists."
	for _, name := range c.ForeignNames(attributesKind, "") {
		if place.Misspelt(*claim.Spec.VolumeAttributesClassName, name) {
			f.Edits = append(f.Edits, place.ClaimWithAttributes(claim, name, place.StorageClassNamed(c.Facts, place.ClassOf(claim))))
		}
	}
	return f
}

// complaint is what was last said about making the volume, with a colon before it; "": nothing.
func complaint(c *check.Case, claim *corev1.PersistentVolumeClaim) string {
	if all := c.EventsOf(claim, "ProvisioningFailed"); len(all) > 0 {
		return ": " + wording.OneLine(all[0].Message)
	}
	return ""
}

// anyVolume says whether a volume that is free would do for the claim.
func anyVolume(c *check.Case, claim *corev1.PersistentVolumeClaim) bool {
	if !c.Sees("persistentvolumes", "") {
		return true
	}
	wants := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	return slices.ContainsFunc(c.PersistentVolumes, func(pv *corev1.PersistentVolume) bool {
		has := pv.Spec.Capacity[corev1.ResourceStorage]
		ref := pv.Spec.ClaimRef
		free := ref == nil || ref.Namespace == claim.Namespace && ref.Name == claim.Name
		return free && pv.Spec.StorageClassName == place.ClassOf(claim) && has.Cmp(wants) >= 0 && pv.Status.Phase != corev1.VolumeReleased
	})
}

func claimEvidence(c *check.Case, claim *corev1.PersistentVolumeClaim) []facts.Evidence {
	out := []facts.Evidence{
		{Object: facts.RefTo(claim).In(), Field: "status.phase", Value: string(claim.Status.Phase)},
		{Object: facts.RefTo(claim).In(), Field: "spec.storageClassName", Value: place.ClassOf(claim)},
	}
	for _, e := range c.EventsOf(claim, "ProvisioningFailed") {
		return append(out, facts.Evidence{Object: facts.RefTo(claim).In(), Field: "event ProvisioningFailed", Value: wording.OneLine(e.Message)})
	}
	return out
}

// madeElsewhere is where the class makes volumes, if none of the nodes that would do for the pod is there; "" otherwise.
func madeElsewhere(c *check.Case, class *storagev1.StorageClass) string {
	if len(class.AllowedTopologies) == 0 || c.Fit == nil {
		return ""
	}
	would := 0
	for i := range c.Fit.Nodes {
		n := &c.Fit.Nodes[i]
		if n.Empty == 0 || len(n.ExcludedBy) > 0 || !onlyVolumes(n.Removed) {
			continue
		}
		would++
		if slices.ContainsFunc(class.AllowedTopologies, func(t corev1.TopologySelectorTerm) bool {
			return !slices.ContainsFunc(t.MatchLabelExpressions, func(e corev1.TopologySelectorLabelRequirement) bool {
				return !slices.Contains(e.Values, n.Labels[e.Key])
			})
		}) {
			return ""
		}
	}
	if would == 0 {
		return ""
	}
	var words []string
	for _, t := range class.AllowedTopologies {
		for _, e := range t.MatchLabelExpressions {
			words = append(words, e.Key+"="+strings.Join(e.Values, ","))
		}
	}
	return strings.Join(words, " or ")
}
