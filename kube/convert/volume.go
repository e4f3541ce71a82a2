package convert

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/ephemeral"
	"k8s.io/component-helpers/storage/volume"
)

// Storage looks up what the claims of pods depend on. Each field returns nil, or false, for what does not exist.
type Storage struct {
	Claim  func(namespace, name string) *corev1.PersistentVolumeClaim
	Volume func(name string) *corev1.PersistentVolume
	Class  func(name string) *storagev1.StorageClass
	// Free are the volumes of a class that nobody has and the node can reach, by name. Others may be among
	// them: they are passed over.
	Free    func(class string, n *corev1.Node) []*corev1.PersistentVolume
	HasNode func(name string) bool
	// Driver, Capacities and Installed are of CSI drivers: the room that one reports for volumes of a class, and whether one is
	// on a node. Nil: no driver says anything.
	Driver     func(name string) *storagev1.CSIDriver
	Capacities func(class string) []*storagev1.CSIStorageCapacity
	Installed  func(driver, node string) bool
}

// AllowedNodes says where the pod's claims let it run.
//
// names are the nodes that every bound volume can be reached from, and where those claims that wait for their
// first consumer can get theirs, sorted; constrained says that they count, also when there are none. A claim
// whose volume is being made for a node allows that node alone, as upstream has it. missing are sentences about
// claims that keep the pod from running anywhere, in the order of its volumes.
//
// Not looked at: translations of volume types that are no longer in Kubernetes itself.
func (s Storage) AllowedNodes(p *corev1.Pod, nodes []*corev1.Node) (names []string, constrained bool, missing []string) {
	var rules []rule
	var open []*corev1.PersistentVolumeClaim
	for i := range p.Spec.Volumes {
		claim, complaint := s.claim(p, &p.Spec.Volumes[i])
		switch {
		case complaint != "":
			if !slices.Contains(missing, complaint) {
				missing = append(missing, complaint)
			}
		case claim == nil:
		case Bound(claim):
			rules = append(rules, reach(s.Volume(claim.Spec.VolumeName))...)
		case !slices.Contains(open, claim):
			open = append(open, claim)
		}
		if claim != nil && complaint == "" {
			if r := s.missingDriver(claim); r != nil {
				rules = append(rules, r)
			}
		}
	}
	if slices.ContainsFunc(open, func(c *corev1.PersistentVolumeClaim) bool { return !s.anywhere(c) }) {
		rules = append(rules, func(n *corev1.Node) bool { _, ok := s.Choose(open, n); return ok })
	}
	if len(rules) == 0 {
		return nil, false, missing
	}
	return allowed(nodes, rules), true, missing
}

// claim returns the claim behind a volume, nil for none, or why the pod cannot use it.
func (s Storage) claim(p *corev1.Pod, v *corev1.Volume) (*corev1.PersistentVolumeClaim, string) {
	name, own := claimName(p, v)
	if name == "" {
		return nil, ""
	}
	claim := s.Claim(p.Namespace, name)
	complaint := usable(p, claim, name, own)
	if complaint == "" {
		complaint = s.unbound(claim)
	}
	return claim, complaint
}

// Bound says whether the claim has its volume for good.
func Bound(claim *corev1.PersistentVolumeClaim) bool {
	return claim.Spec.VolumeName != "" && metav1.HasAnnotation(claim.ObjectMeta, volume.AnnBindCompleted)
}

// unbound says why the claim has no volume and will get none by a pod's having a node, "" if neither is so.
func (s Storage) unbound(claim *corev1.PersistentVolumeClaim) string {
	class := volume.GetPersistentVolumeClaimClass(claim)
	switch {
	case Bound(claim) && s.Volume(claim.Spec.VolumeName) == nil:
		return fmt.Sprintf("volume %s of claim %s does not exist", claim.Spec.VolumeName, claim.Name)
	case Bound(claim):
		return ""
	case claim.Spec.VolumeName != "":
		return fmt.Sprintf("claim %s is not bound yet to volume %s, which it names", claim.Name, claim.Spec.VolumeName)
	case class == "":
		return fmt.Sprintf("claim %s is not bound yet and names no storage class", claim.Name)
	case s.Class(class) == nil:
		return fmt.Sprintf("storage class %s of claim %s does not exist", class, claim.Name)
	case !waits(s.Class(class)):
		return fmt.Sprintf("claim %s is not bound yet by its storage class %s, which waits for no pod", claim.Name, class)
	}
	return ""
}

// claimName is the claim behind a volume, "" for none; own says that it is made for this pod alone.
func claimName(p *corev1.Pod, v *corev1.Volume) (name string, own bool) {
	switch {
	case v.PersistentVolumeClaim != nil:
		return v.PersistentVolumeClaim.ClaimName, false
	case v.Ephemeral != nil:
		return ephemeral.VolumeClaimName(p, v), true
	}
	return "", false
}

// usable says why the pod cannot use the claim, "" if it can.
func usable(p *corev1.Pod, claim *corev1.PersistentVolumeClaim, name string, own bool) string {
	switch {
	case claim == nil:
		return fmt.Sprintf("claim %s does not exist", name)
	case claim.Status.Phase == corev1.ClaimLost:
		return fmt.Sprintf("claim %s is lost", name)
	case claim.DeletionTimestamp != nil:
		return fmt.Sprintf("claim %s is being deleted", name)
	case own && ephemeral.VolumeIsForPod(p, claim) != nil:
		return fmt.Sprintf("claim %s was not made for this pod", name)
	}
	return ""
}

// waits says whether claims of the class are bound only when a pod that uses them has a node.
func waits(class *storagev1.StorageClass) bool {
	return class != nil && class.VolumeBindingMode != nil && *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
}
