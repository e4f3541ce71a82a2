package place

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

// ClaimOf returns the name of the claim behind the pod's volume, "" for none. own says that it is made for the pod.
func ClaimOf(p *corev1.Pod, v *corev1.Volume) (name string, own bool) {
	switch {
	case v.PersistentVolumeClaim != nil:
		return v.PersistentVolumeClaim.ClaimName, false
	case v.Ephemeral != nil:
		return p.Name + "-" + v.Name, true
	}
	return "", false
}

// claimNamed returns the claim, nil if there is none or it was not seen. The same holds for the other kinds.
func claimNamed(f *facts.Facts, namespace, name string) *corev1.PersistentVolumeClaim {
	return Named(f.PersistentVolumeClaims, namespace, name)
}

// VolumeNamed returns the PersistentVolume, nil where there is none.
func VolumeNamed(f *facts.Facts, name string) *corev1.PersistentVolume {
	return Named(f.PersistentVolumes, "", name)
}

// StorageClassNamed returns the StorageClass, nil where there is none.
func StorageClassNamed(f *facts.Facts, name string) *storagev1.StorageClass {
	return Named(f.StorageClasses, "", name)
}

// Named returns the object of the list with the name, nil where there is none.
func Named[T facts.Object](all []T, namespace, name string) (none T) {
	for _, o := range all {
		if o.GetName() == name && o.GetNamespace() == namespace {
			return o
		}
	}
	return none
}

// ClassOf is the name of the claim's storage class, "" for none.
func ClassOf(claim *corev1.PersistentVolumeClaim) string {
	if name, ok := claim.Annotations[corev1.BetaStorageClassAnnotation]; ok {
		return name
	}
	return ptr.Deref(claim.Spec.StorageClassName, "")
}

// disks finds claims and volumes by name, for looks at many pods.
type disks struct {
	*facts.Facts
	claims  map[string]*corev1.PersistentVolumeClaim // by namespace/name
	volumes map[string]*corev1.PersistentVolume
}

// DisksIn indexes claims and volumes for counting what is attached where.
func DisksIn(f *facts.Facts) *disks {
	d := &disks{f, make(map[string]*corev1.PersistentVolumeClaim, len(f.PersistentVolumeClaims)), make(map[string]*corev1.PersistentVolume, len(f.PersistentVolumes))}
	for _, c := range f.PersistentVolumeClaims {
		d.claims[c.Namespace+"/"+c.Name] = c
	}
	for _, v := range f.PersistentVolumes {
		d.volumes[v.Name] = v
	}
	return d
}

// Attached are the volumes of CSI drivers that the pod uses: the driver, by a handle that is the volume's own.
func (d *disks) Attached(p *corev1.Pod) map[string]string {
	out := make(map[string]string)
	for i := range p.Spec.Volumes {
		name, _ := ClaimOf(p, &p.Spec.Volumes[i])
		claim := d.claims[p.Namespace+"/"+name]
		if claim == nil {
			continue
		}
		if pv := d.volumes[claim.Spec.VolumeName]; pv != nil {
			if csi := pv.Spec.CSI; csi != nil {
				out[csi.Driver+"/"+csi.VolumeHandle] = csi.Driver
			}
			continue
		}
		class := StorageClassNamed(d.Facts, ClassOf(claim))
		if claim.Spec.VolumeName == "" && class != nil && !strings.HasPrefix(class.Provisioner, "kubernetes.io/") {
			out[class.Provisioner+"//"+p.Namespace+"/"+name] = class.Provisioner
		}
	}
	return out
}

// attachExclusions keep the pod from nodes to which not all its volumes can be attached. VolumeAttachments are not looked
// at: what no pod uses any more may still be attached.
func attachExclusions(f *facts.Facts, p *corev1.Pod) []check.Exclusion {
	if len(f.CSINodes) == 0 || len(p.Spec.Volumes) == 0 {
		return nil
	}
	d := DisksIn(f)
	wants := d.Attached(p)
	if len(wants) == 0 {
		return nil
	}
	limit := check.Exclusion{Kind: check.ByAttachLimit, Nodes: make(map[string]string)}
	driver := check.Exclusion{Kind: check.ByCSIDriver, Nodes: make(map[string]string)}
	for _, c := range f.CSINodes {
		if reason := d.attachLimit(c, wants); reason != "" {
			limit.Nodes[c.Name] = reason
		}
		if reason := missingDriver(c, p, wants); reason != "" {
			driver.Nodes[c.Name] = reason
		}
	}
	return []check.Exclusion{limit, driver}
}

// attachLimit says of which driver the node takes no more volumes, "" if of all.
func (k *disks) attachLimit(c *storagev1.CSINode, wants map[string]string) string {
	for i := range c.Spec.Drivers {
		d := &c.Spec.Drivers[i]
		if d.Allocatable == nil || d.Allocatable.Count == nil {
			continue
		}
		there := make(map[string]bool)
		for _, p := range k.PodsOn(c.Name) {
			for handle, of := range k.Attached(p) {
				there[handle] = there[handle] || of == d.Name
			}
		}
		have, more := 0, 0
		for _, counts := range there {
			if counts {
				have++
			}
		}
		for handle, of := range wants {
			if of == d.Name && !there[handle] {
				more++
			}
		}
		if more > 0 && have+more > int(*d.Allocatable.Count) {
			return fmt.Sprintf("node %s takes %s of %s and has %d", c.Name, wording.Number(*d.Allocatable.Count, "volume"), d.Name, have)
		}
	}
	return ""
}

// missingDriver names a driver that the node does not have and the pod needs. Only drivers that ask for it keep pods
// from such nodes, and that they do is known from the scheduler's words alone.
func missingDriver(c *storagev1.CSINode, p *corev1.Pod, wants map[string]string) string {
	for _, of := range slices.Sorted(maps.Values(wants)) {
		if !strings.Contains(scheduledMessage(p), of+" CSI driver is not installed on the node") {
			continue
		}
		has := false
		for i := range c.Spec.Drivers {
			has = has || c.Spec.Drivers[i].Name == of
		}
		if !has {
			return fmt.Sprintf("node %s does not have storage driver %s", c.Name, of)
		}
	}
	return ""
}

// scheduledMessage is what the pod's condition says about its place.
func scheduledMessage(p *corev1.Pod) string {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return c.Message
		}
	}
	return ""
}
