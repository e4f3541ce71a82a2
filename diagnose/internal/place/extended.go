package place

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/gpustack"
)

// StandsFor is the device class whose devices the extended resource stands for, nil for a resource of its own.
func StandsFor(f *facts.Facts, name corev1.ResourceName) *resourcev1.DeviceClass {
	for _, class := range f.DeviceClasses {
		if n := class.Spec.ExtendedResourceName; n != nil && *n == string(name) {
			return class
		}
	}
	return nil
}

// Offered is the object as the engine is to see it: a node has as much of an extended resource as drivers offer
// devices that it stands for, where no device plugin offers any. Those that claims hold by themselves do not count;
// those of pods that asked for the resource do, for the engine counts these pods.
func Offered(f *facts.Facts, o facts.Object) facts.Object {
	n, ok := o.(*corev1.Node)
	if !ok || !slices.ContainsFunc(f.DeviceClasses, func(c *resourcev1.DeviceClass) bool { return c.Spec.ExtendedResourceName != nil }) {
		return o
	}
	out := n
	for _, class := range f.DeviceClasses {
		name := corev1.ResourceName(ptr.Deref(class.Spec.ExtendedResourceName, ""))
		if plugin := n.Status.Allocatable[name]; name == "" || !plugin.IsZero() {
			continue
		}
		if count := Unclaimed(f, n, class); count > 0 {
			if out == n {
				out = n.DeepCopy()
			}
			out.Status.Allocatable = gpustack.WithQuantity(out.Status.Allocatable, name, *resource.NewQuantity(int64(count), resource.DecimalSI))
		}
	}
	return out
}

// Unclaimed counts the devices of the class that a pod on the node could get by asking for the resource.
func Unclaimed(f *facts.Facts, n *corev1.Node, class *resourcev1.DeviceClass) int {
	d, count := OffersOf(f), 0
	for _, v := range d.onNode[n.Name] {
		own := v.Holder == nil || v.Holder.Annotations[resourcev1.ExtendedResourceClaimAnnotation] == "true"
		if own && d.InClass(v, class.Name) && len(v.Taints) == 0 {
			count++
		}
	}
	return count
}
