package convert

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/component-helpers/storage/volume"
)

// Choice is where a claim that waits for its first consumer gets its volume.
type Choice struct {
	Claim  *corev1.PersistentVolumeClaim
	Volume *corev1.PersistentVolume // it takes this one; nil: one is to be made for the node
}

// Open are the pod's claims that get their volume once the pod has a node.
func (s Storage) Open(p *corev1.Pod) []*corev1.PersistentVolumeClaim {
	var out []*corev1.PersistentVolumeClaim
	for i := range p.Spec.Volumes {
		claim, complaint := s.claim(p, &p.Spec.Volumes[i])
		if claim != nil && complaint == "" && !Bound(claim) && !slices.Contains(out, claim) {
			out = append(out, claim)
		}
	}
	return out
}

// Choose finds a volume on the node for each of the claims, which are open: the smallest one free that will do,
// the smallest claim first, those of one size in the order given, else a new one. ok is false where there is neither.
func (s Storage) Choose(claims []*corev1.PersistentVolumeClaim, n *corev1.Node) (out []Choice, ok bool) {
	claims = slices.SortedStableFunc(slices.Values(claims), bySize)
	taken := make(map[string]*corev1.PersistentVolume)
	for _, claim := range claims {
		pv, ok := s.volumeFor(claim, n, taken)
		if !ok {
			return nil, false
		}
		if pv != nil {
			taken[pv.Name] = pv
		}
		out = append(out, Choice{claim, pv})
	}
	return out, true
}

func bySize(a, b *corev1.PersistentVolumeClaim) int {
	size := a.Spec.Resources.Requests[corev1.ResourceStorage]
	return size.Cmp(b.Spec.Resources.Requests[corev1.ResourceStorage])
}

// volumeFor returns a volume that is not taken, nil where one can be made.
func (s Storage) volumeFor(claim *corev1.PersistentVolumeClaim, n *corev1.Node, taken map[string]*corev1.PersistentVolume) (pv *corev1.PersistentVolume, ok bool) {
	node := s.SelectedNode(claim)
	if node != "" && node != n.Name {
		return nil, false
	}
	name := volume.GetPersistentVolumeClaimClass(claim)
	if node == "" {
		pv, err := volume.FindMatchingVolume(claim, s.Free(name, n), n, taken, true, true)
		if err != nil || pv != nil {
			return pv, err == nil
		}
	}
	class := s.Class(name)
	return nil, makes(class) && inTopology(class.AllowedTopologies, n.Labels) && (node != "" || s.hasRoom(claim, class, n))
}

// SelectedNode is the node for which the claim's volume is being made, "" for none. One that is gone does not
// count: nobody will make a volume for it.
func (s Storage) SelectedNode(claim *corev1.PersistentVolumeClaim) string {
	if node, ok := claim.Annotations[volume.AnnSelectedNode]; ok && s.HasNode(node) {
		return node
	}
	return ""
}

// anywhere says whether a volume can be made for the claim on every node.
func (s Storage) anywhere(claim *corev1.PersistentVolumeClaim) bool {
	class := s.Class(volume.GetPersistentVolumeClaimClass(claim))
	return makes(class) && len(class.AllowedTopologies) == 0 && s.SelectedNode(claim) == "" && !s.reportsRoom(class)
}

// makes says whether the class, nil allowed, has somebody who makes volumes.
func makes(class *storagev1.StorageClass) bool {
	return class != nil && class.Provisioner != "" && class.Provisioner != volume.NotSupportedProvisioner
}

// inTopology says whether one of the terms matches; no terms match all, an empty one nothing.
func inTopology(terms []corev1.TopologySelectorTerm, labels map[string]string) bool {
	if len(terms) == 0 {
		return true
	}
	return slices.ContainsFunc(terms, func(t corev1.TopologySelectorTerm) bool {
		return len(t.MatchLabelExpressions) > 0 && !slices.ContainsFunc(t.MatchLabelExpressions, func(r corev1.TopologySelectorLabelRequirement) bool {
			value, ok := labels[r.Key]
			return !ok || !slices.Contains(r.Values, value)
		})
	})
}
