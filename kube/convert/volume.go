package convert

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/component-helpers/storage/ephemeral"
	"k8s.io/component-helpers/storage/volume"
)

// AllowedNodes says where the pod's claims let it run. Each of claims, volumes and classes returns nil for
// what does not exist.
//
// names are the nodes that every bound volume can be reached from, sorted; constrained says that they count,
// also when there are none. A claim that waits for its first consumer constrains nothing, unless its volume is
// being made for a node already. missing are sentences about claims that keep the pod from running anywhere,
// in the order of its volumes.
//
// Not looked at yet: ReadWriteOncePod, whose volume one pod at a time may use; and of claims that wait, which
// volumes there are, where their class allows new ones, and how much storage is left there.
func AllowedNodes(
	p *corev1.Pod,
	claims func(namespace, name string) *corev1.PersistentVolumeClaim,
	volumes func(name string) *corev1.PersistentVolume,
	classes func(name string) *storagev1.StorageClass,
	nodes []*corev1.Node,
) (names []string, constrained bool, missing []string) {
	var rules []rule
	for i := range p.Spec.Volumes {
		name, own := claimName(p, &p.Spec.Volumes[i])
		if name == "" {
			continue
		}
		claim := claims(p.Namespace, name)
		complaint := usable(p, claim, name, own)
		var more []rule
		if complaint == "" {
			more, complaint = reach(claim, volumes, classes)
		}
		if complaint != "" && !slices.Contains(missing, complaint) {
			missing = append(missing, complaint)
		}
		rules = append(rules, more...)
	}
	if len(rules) == 0 {
		return nil, false, missing
	}
	return allowed(nodes, rules), true, missing
}

// rule says whether a volume can be reached from a node.
type rule func(*corev1.Node) bool

// allowed is never nil, for that would allow all.
func allowed(nodes []*corev1.Node, rules []rule) []string {
	names := []string{}
	for _, n := range nodes {
		if !slices.ContainsFunc(rules, func(ok rule) bool { return !ok(n) }) {
			names = append(names, n.Name)
		}
	}
	slices.Sort(names)
	return names
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

// reach returns from where the claim's volume can be reached, or why it cannot be.
func reach(
	claim *corev1.PersistentVolumeClaim,
	volumes func(name string) *corev1.PersistentVolume,
	classes func(name string) *storagev1.StorageClass,
) ([]rule, string) {
	bound := claim.Spec.VolumeName != "" && metav1.HasAnnotation(claim.ObjectMeta, volume.AnnBindCompleted)
	if bound {
		pv := volumes(claim.Spec.VolumeName)
		if pv == nil {
			return nil, fmt.Sprintf("volume %s of claim %s does not exist", claim.Spec.VolumeName, claim.Name)
		}
		return append(byAffinity(pv), byZone(pv)...), ""
	}
	if claim.Spec.VolumeName != "" || !waits(classes(volume.GetPersistentVolumeClaimClass(claim))) {
		return nil, fmt.Sprintf("claim %s is not bound", claim.Name)
	}
	if node, ok := claim.Annotations[volume.AnnSelectedNode]; ok {
		return []rule{func(n *corev1.Node) bool { return n.Name == node }}, ""
	}
	return nil, ""
}

// waits says whether claims of the class are bound only when a pod that uses them has a node.
func waits(class *storagev1.StorageClass) bool {
	return class != nil && class.VolumeBindingMode != nil && *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
}

// byAffinity is upstream's volume.CheckNodeAffinity with the terms parsed once. It sees labels alone.
func byAffinity(pv *corev1.PersistentVolume) []rule {
	if pv.Spec.NodeAffinity == nil || pv.Spec.NodeAffinity.Required == nil {
		return nil
	}
	selector := nodeaffinity.NewLazyErrorNodeSelector(pv.Spec.NodeAffinity.Required)
	return []rule{func(n *corev1.Node) bool {
		ok, err := selector.Match(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: n.Labels}})
		return ok && err == nil
	}}
}

// zoneLabels are the labels on volumes from before they had affinity, each with the label of today. Their
// values are sets.
var zoneLabels = [...]struct{ old, today string }{
	{corev1.LabelFailureDomainBetaZone, corev1.LabelTopologyZone},
	{corev1.LabelFailureDomainBetaRegion, corev1.LabelTopologyRegion},
	{corev1.LabelTopologyZone, corev1.LabelTopologyZone},
	{corev1.LabelTopologyRegion, corev1.LabelTopologyRegion},
}

// byZone is upstream's VolumeZone: a node that is in any zone or region must be in the volume's.
func byZone(pv *corev1.PersistentVolume) []rule {
	var out []rule
	for _, l := range zoneLabels {
		zones := strings.Split(pv.Labels[l.old], "__")
		if slices.Contains(zones, "") { // no label, or a malformed one, which upstream passes over
			continue
		}
		out = append(out, func(n *corev1.Node) bool {
			at, ok := n.Labels[l.old]
			if !ok {
				at, ok = n.Labels[l.today]
			}
			return ok && slices.Contains(zones, at) || !zoned(n)
		})
	}
	return out
}

func zoned(n *corev1.Node) bool {
	for _, l := range zoneLabels {
		if _, ok := n.Labels[l.old]; ok {
			return true
		}
	}
	return false
}
