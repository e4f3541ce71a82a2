package place

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/engine/why"
)

// Edits that checks of several queueing systems share.

// AskLess has each pod ask for the amount of the resource, in the first container that asks for any. The whole of the
// container's resources is replaced, since a template need not say requests where its pods have them.
func AskLess(c *check.Case, name string, amount int64) (edit.Op, bool) {
	for i := range c.Pod.Spec.Containers {
		r := c.Pod.Spec.Containers[i].Resources.DeepCopy()
		q := resource.MustParse(why.Quantity(name, amount))
		_, limited := r.Limits[corev1.ResourceName(name)]
		_, requested := r.Requests[corev1.ResourceName(name)]
		if limited {
			r.Limits[corev1.ResourceName(name)] = q
		}
		if requested {
			r.Requests[corev1.ResourceName(name)] = q
		}
		if limited || requested {
			return edit.Op{Op: "replace", Path: fmt.Sprintf("/spec/containers/%d/resources", i), Value: r}, true
		}
	}
	return edit.Op{}, false
}

// PutLabel sets a label of the pod.
func PutLabel(c *check.Case, key, value string) edit.Op {
	if len(Written(c).Labels) == 0 {
		return edit.Op{Op: "add", Path: "/metadata/labels", Value: map[string]string{key: value}}
	}
	return edit.Op{Op: "add", Path: edit.Pointer("metadata", "labels", key), Value: value}
}

// PutAnnotation sets an annotation of the pod.
func PutAnnotation(c *check.Case, key, value string) edit.Op {
	if len(Written(c).Annotations) == 0 {
		return edit.Op{Op: "add", Path: "/metadata/annotations", Value: map[string]string{key: value}}
	}
	return edit.Op{Op: "add", Path: edit.Pointer("metadata", "annotations", key), Value: value}
}

// Written is the pod as the person who asks wrote it: the template of what they wrote, or the pod itself.
func Written(c *check.Case) *corev1.Pod {
	for _, m := range c.Owners {
		if t := facts.TemplateFor(m, c.Pod); t != nil {
			return &corev1.Pod{ObjectMeta: t.ObjectMeta, Spec: t.Spec}
		}
	}
	return c.Pod
}
