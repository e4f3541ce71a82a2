package diagnose

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

var volumeUnboundCheck = Check{
	Cause: "volume-unbound", Layer: L3, Owner: Storage, Stage: Place, Rank: 18,
	Title:   "A volume claim has no volume",
	Meaning: "The pod uses a PersistentVolumeClaim that does not exist, or that has no volume and will get none by the pod's having a node. Until then no node is looked for. A claim that waits for its first consumer is as it should be.",
	Remedy:  "Look at the claim's events: the storage class may not exist, or its provisioner may fail.",
	Not:     "The cluster is full: nodes were not looked at.",
	Find:    volumeUnbound,
}

func volumeUnbound(c *Case) []Finding {
	if !c.Waits() {
		return nil
	}
	if !c.Sees("persistentvolumeclaims", c.Pod.Namespace) {
		return c.unboundSaid()
	}
	var out []Finding
	for _, v := range volumesOf(c.Facts, c.Pod) {
		if f := c.unbound(&v); f != nil {
			out = append(out, *f)
		}
	}
	return out
}

// unboundSaid goes by the scheduler's words where claims may not be seen.
func (c *Case) unboundSaid() []Finding {
	said, ok := c.Said()
	if !ok || !strings.Contains(said.Whole, "unbound immediate PersistentVolumeClaims") && !strings.Contains(said.Whole, "persistentvolumeclaim") {
		return nil
	}
	return []Finding{{Message: "one of its volume claims has no volume: " + said.Whole}}
}

// unbound says what keeps the pod from one of its claims, nil if nothing.
func (c *Case) unbound(v *podVolume) *Finding {
	if v.claim == nil {
		return c.noClaim(v)
	}
	claim, class := v.claim, classOf(v.claim)
	say := func(owner Owner, format string, a ...any) *Finding {
		return &Finding{Owner: owner, Message: fmt.Sprintf(format, a...), Evidence: c.claimEvidence(claim)}
	}
	switch {
	case claim.Status.Phase == corev1.ClaimLost:
		return say(Storage, "claim %s has lost its volume %s", claim.Name, claim.Spec.VolumeName)
	case claim.DeletionTimestamp != nil:
		return say(User, "claim %s is being deleted", claim.Name)
	case v.bound() && c.Sees("persistentvolumes", "") && volumeNamed(c.Facts, claim.Spec.VolumeName) == nil:
		return say(Storage, "claim %s is bound to volume %s, which does not exist", claim.Name, claim.Spec.VolumeName)
	case v.bound():
		return nil
	case claim.Spec.VolumeName != "":
		return c.soon(claim, say(Storage, "claim %s asks for volume %s and is not bound to it yet", claim.Name, claim.Spec.VolumeName))
	case class == "":
		return c.otherClass(claim, say(User, "claim %s has no volume and names no storage class that would make one", claim.Name))
	case !c.Sees("storageclasses.storage.k8s.io", ""):
		return nil
	case storageClassNamed(c.Facts, class) == nil:
		return c.otherClass(claim, say(User, "claim %s asks for storage class %s, which does not exist", claim.Name, class))
	case !waitsForPod(storageClassNamed(c.Facts, class)):
		return c.soon(claim, say(Storage, "claim %s has no volume, %s after it was made; storage class %s makes them at once%s", claim.Name, wording.RoundAge(c.Now.Sub(claim.CreationTimestamp.Time)), class, c.complaint(claim)))
	case storageClassNamed(c.Facts, class).Provisioner == "kubernetes.io/no-provisioner" && !c.anyVolume(claim):
		return say(Storage, "claim %s needs a volume of storage class %s that was made by hand, and none that is free is large enough", claim.Name, class)
	case c.complaint(claim) != "":
		return say(Storage, "claim %s gets no volume%s", claim.Name, c.complaint(claim))
	}
	return nil
}

// noClaim words a claim that is not there.
func (c *Case) noClaim(v *podVolume) *Finding {
	if v.own {
		if !c.Exists || c.Age() < patience {
			return nil // made with the pod, or right after it
		}
		return &Finding{Owner: Platform, Message: fmt.Sprintf("claim %s, which is made for the pod, does not exist", v.name)}
	}
	f := &Finding{Owner: User, Message: fmt.Sprintf("claim %s does not exist in namespace %s", v.name, c.Pod.Namespace),
		Evidence: []facts.Evidence{{Object: facts.RefTo(c.Pod).In(), Field: fmt.Sprintf("spec.volumes[%d].persistentVolumeClaim.claimName", v.index), Value: v.name}},
		Advice:   "Make the claim, or name one that exists."}
	for _, other := range c.PersistentVolumeClaims {
		if other.Namespace == c.Pod.Namespace && misspelt(v.name, other.Name) {
			f.Edits = append(f.Edits, edit.Edit{Side: edit.Workload, Cost: 1, Text: fmt.Sprintf("use claim %s, which exists, instead of %s", other.Name, v.name),
				Ops: []edit.Op{{Op: "replace", Path: edit.Pointer("spec", "volumes", fmt.Sprint(v.index), "persistentVolumeClaim", "claimName"), Value: other.Name}}})
		}
	}
	slices.SortFunc(f.Edits, func(a, b edit.Edit) int { return strings.Compare(a.Text, b.Text) })
	return f
}

// soon is calm about a claim that is young.
func (c *Case) soon(claim *corev1.PersistentVolumeClaim, f *Finding) *Finding {
	if c.Now.Sub(claim.CreationTimestamp.Time) < patience && c.complaint(claim) == "" {
		f.Calm, f.Message = true, fmt.Sprintf("the volume of claim %s is being made", claim.Name)
	}
	return f
}

// otherClass offers classes that exist.
func (c *Case) otherClass(claim *corev1.PersistentVolumeClaim, f *Finding) *Finding {
	for _, class := range classesFor(c.Facts, classOf(claim)) {
		f.Edits = append(f.Edits, claimAnew(claim, class))
	}
	return f
}

// complaint is what was last said about making the volume, with a colon before it; "": nothing.
func (c *Case) complaint(claim *corev1.PersistentVolumeClaim) string {
	if all := c.EventsOf(claim, "ProvisioningFailed"); len(all) > 0 {
		return ": " + wording.OneLine(all[0].Message)
	}
	return ""
}

// anyVolume says whether a volume that nobody has would do for the claim.
func (c *Case) anyVolume(claim *corev1.PersistentVolumeClaim) bool {
	if !c.Sees("persistentvolumes", "") {
		return true
	}
	wants := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	return slices.ContainsFunc(c.PersistentVolumes, func(pv *corev1.PersistentVolume) bool {
		has := pv.Spec.Capacity[corev1.ResourceStorage]
		ref := pv.Spec.ClaimRef
		free := ref == nil || ref.Namespace == claim.Namespace && ref.Name == claim.Name
		return free && pv.Spec.StorageClassName == classOf(claim) && has.Cmp(wants) >= 0 && pv.Status.Phase != corev1.VolumeReleased
	})
}

func (c *Case) claimEvidence(claim *corev1.PersistentVolumeClaim) []facts.Evidence {
	out := []facts.Evidence{
		{Object: facts.RefTo(claim).In(), Field: "status.phase", Value: string(claim.Status.Phase)},
		{Object: facts.RefTo(claim).In(), Field: "spec.storageClassName", Value: classOf(claim)},
	}
	for _, e := range c.EventsOf(claim, "ProvisioningFailed") {
		return append(out, facts.Evidence{Object: facts.RefTo(claim).In(), Field: "event ProvisioningFailed", Value: wording.OneLine(e.Message)})
	}
	return out
}
