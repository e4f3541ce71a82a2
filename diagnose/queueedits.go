package diagnose

import (
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/engine/why"
)

// Edits that checks of several queueing systems share.

// askLess has each pod ask for the amount of the resource, in the first container that asks for any. The whole of the
// container's resources is replaced, since a template need not say requests where its pods have them.
func (c *Case) askLess(name string, amount int64) (Op, bool) {
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
			return Op{Op: "replace", Path: fmt.Sprintf("/spec/containers/%d/resources", i), Value: r}, true
		}
	}
	return Op{}, false
}

// putLabel sets a label of the pod.
func (c *Case) putLabel(key, value string) Op {
	if len(c.written().Labels) == 0 {
		return Op{Op: "add", Path: "/metadata/labels", Value: map[string]string{key: value}}
	}
	return Op{Op: "add", Path: Pointer("metadata", "labels", key), Value: value}
}

// putAnnotation sets an annotation of the pod.
func (c *Case) putAnnotation(key, value string) Op {
	if len(c.written().Annotations) == 0 {
		return Op{Op: "add", Path: "/metadata/annotations", Value: map[string]string{key: value}}
	}
	return Op{Op: "add", Path: Pointer("metadata", "annotations", key), Value: value}
}

// written is the pod as the person who asks wrote it: the template of what they wrote, or the pod itself.
func (c *Case) written() *corev1.Pod {
	for _, m := range c.Owners {
		if t := facts.TemplateOf(m); t != nil {
			return &corev1.Pod{ObjectMeta: t.ObjectMeta, Spec: t.Spec}
		}
	}
	return c.Pod
}

// patchLine is the command that changes the object in place.
func patchLine(o facts.Object, how string, body any) string {
	b, err := json.Marshal(body)
	if err != nil {
		return ""
	}
	what := facts.KindOfObject(o).Name() + " " + o.GetName()
	if o.GetNamespace() != "" {
		what += " -n " + o.GetNamespace()
	}
	return fmt.Sprintf("kubectl patch %s --type=%s -p '%s'", what, how, strings.ReplaceAll(string(b), "'", `'\''`))
}

// applyLine is the command that makes the object.
func applyLine(o facts.Object) string {
	b, err := json.Marshal(o)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("echo '%s' | kubectl apply -f -", strings.ReplaceAll(string(b), "'", `'\''`))
}
