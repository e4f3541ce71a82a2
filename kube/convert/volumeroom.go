package convert

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/storage/volume"

	"github.com/berth-dev/berth/engine"
)

// hasRoom says whether the driver of the class reports room on the node for a new volume of the claim, as upstream's
// hasEnoughCapacity: of drivers that say that they report it. Room is not taken off for volumes that are being made.
func (s Storage) hasRoom(claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass, n *corev1.Node) bool {
	size, asks := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	if !asks || !s.reportsRoom(class) {
		return true
	}
	for _, c := range s.Capacities(class.Name) {
		limit := c.MaximumVolumeSize
		if limit == nil {
			limit = c.Capacity
		}
		if limit == nil || limit.Value() < size.Value() || c.NodeTopology == nil {
			continue
		}
		if at, err := metav1.LabelSelectorAsSelector(c.NodeTopology); err == nil && at.Matches(labels.Set(n.Labels)) {
			return true
		}
	}
	return false
}

// reportsRoom says whether the driver of the class, nil allowed, says how much room it has.
func (s Storage) reportsRoom(class *storagev1.StorageClass) bool {
	if class == nil || s.Driver == nil || s.Capacities == nil {
		return false
	}
	d := s.Driver(class.Provisioner)
	return d != nil && d.Spec.StorageCapacity != nil && *d.Spec.StorageCapacity
}

// DriverOf is the CSI driver that has the claim's volume, or will make it; "": none. Volumes of kinds that were once part of
// Kubernetes are not translated to the drivers that have them today.
func (s Storage) DriverOf(claim *corev1.PersistentVolumeClaim) string {
	if pv := s.Volume(claim.Spec.VolumeName); claim.Spec.VolumeName != "" && pv != nil {
		if pv.Spec.CSI == nil {
			return ""
		}
		return pv.Spec.CSI.Driver
	}
	class := s.Class(volume.GetPersistentVolumeClaimClass(claim))
	if !makes(class) {
		return ""
	}
	return class.Provisioner
}

// missingDriver is a rule for claims whose driver says that it must be on a node before pods are (upstream's
// checkCSIDriverOnNode); nil: it does not.
func (s Storage) missingDriver(claim *corev1.PersistentVolumeClaim) rule {
	if s.Driver == nil || s.Installed == nil {
		return nil
	}
	name := s.DriverOf(claim)
	if name == "" {
		return nil
	}
	if d := s.Driver(name); d == nil || d.Spec.PreventPodSchedulingIfMissing == nil || !*d.Spec.PreventPodSchedulingIfMissing {
		return nil
	}
	return func(n *corev1.Node) bool { return s.Installed(name, n.Name) }
}

// Attachable is the resource by which the volumes of a CSI driver on a node are counted, in the words of Kubernetes.
func Attachable(driver string) string { return "attachable-volumes-csi-" + driver }

// AttachLimits is how many volumes of each driver can be attached to the node, of those that have a limit.
func AttachLimits(n *storagev1.CSINode) map[string]int64 {
	out := make(map[string]int64)
	for _, d := range n.Spec.Drivers {
		if d.Allocatable != nil && d.Allocatable.Count != nil {
			out[d.Name] = int64(max(0, *d.Allocatable.Count))
		}
	}
	return out
}

// With are the resources with the amounts, by resource, in memory of their own.
func With(r engine.Resources, amounts map[string]int64) engine.Resources {
	if len(amounts) == 0 {
		return r
	}
	out := append(engine.Resources{}, r...)
	for name, value := range amounts {
		out = append(out, engine.Amount{Resource: name, Value: value})
	}
	return sorted(out)
}

// Plus adds an amount to a resource, which may be among the resources already.
func Plus(r engine.Resources, name string, value int64) engine.Resources {
	out := append(engine.Resources{}, r...)
	if i := slices.IndexFunc(out, func(a engine.Amount) bool { return a.Resource == name }); i >= 0 {
		out[i].Value += value
		return out
	}
	return sorted(append(out, engine.Amount{Resource: name, Value: value}))
}
