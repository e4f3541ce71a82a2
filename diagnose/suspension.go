package diagnose

import (
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
)

// suspended says whether the object holds itself back, and by which field.
func suspended(o Object) (field string, yes bool) {
	switch o := o.(type) {
	case *batchv1.Job:
		return "spec.suspend", ptr.Deref(o.Spec.Suspend, false) && ended(o) == ""
	case *unstructured.Unstructured:
		if v, ok, _ := unstructured.NestedBool(o.Object, "spec", "suspend"); ok && v {
			return "spec.suspend", true
		}
		v, ok, _ := unstructured.NestedBool(o.Object, "spec", "runPolicy", "suspend")
		return "spec.runPolicy.suspend", ok && v
	}
	return "", false
}

// queued says whether Kueue has a say in the makers: it names a queue, or has a Workload.
func (c *Case) queued() bool {
	const label = "kueue.x-k8s.io/queue-name"
	for _, m := range c.Makers {
		if m.GetLabels()[label] != "" || m.GetAnnotations()[label] != "" {
			return true
		}
		for _, o := range c.Children(m) {
			if k := kindOf(o); k != nil && k.Kind == "Workload" {
				return true
			}
		}
		for _, w := range c.Foreign["Workload.kueue.x-k8s.io"] {
			for _, r := range w.GetOwnerReferences() {
				if r.UID == m.GetUID() {
					return true
				}
			}
		}
	}
	return false
}
