package workload

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-dev/berth/diagnose/facts"
)

// UnknownField is the error of an object with fields that its kind does not have: of Kubernetes' own kinds anywhere, of others in their
// metadata. kubectl has the API server refuse them; without that they are dropped, and what they ask for with them.
func UnknownField(object map[string]any) error {
	u := &unstructured.Unstructured{Object: object}
	gvk := u.GroupVersionKind()
	var unknown []string
	k := facts.KindOf(gvk.Group, gvk.Kind)
	if k != nil && !k.Foreign {
		if k.GroupVersionKind != gvk { // a version whose fields may be others
			return nil
		}
		unknown = beyond(object, k.New())
	} else if meta, ok := object["metadata"].(map[string]any); ok {
		for _, field := range beyond(meta, &metav1.ObjectMeta{}) {
			unknown = append(unknown, "metadata."+field)
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	text := fmt.Sprintf("kind %s has no such field", gvk.Kind)
	if len(unknown) > 1 {
		text += fmt.Sprintf(", nor %s", enumerated(unknown[1:]))
	}
	return fmt.Errorf("%s: %s: kubectl has the API server refuse it", unknown[0], text)
}

// mostUnknown bounds how many fields are named.
const mostUnknown = 5

func enumerated(fields []string) string {
	if len(fields) > mostUnknown {
		return fmt.Sprintf("%s and %d more", strings.Join(fields[:mostUnknown], ", "), len(fields)-mostUnknown)
	}
	return strings.Join(fields, ", ")
}

// beyond are the fields of the value, as JSON has it, that the type does not have, by path. Of a value that cannot be read as one of the type
// there are none: that is said elsewhere.
func beyond(from map[string]any, into any) (out []string) {
	err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(from, into, true)
	strict, ok := runtime.AsStrictDecodingError(err)
	if !ok {
		return nil
	}
	for _, err := range strict.Errors() {
		if field, ok := strings.CutPrefix(err.Error(), "unknown field "); ok {
			out = append(out, strings.Trim(field, `"`))
		}
	}
	slices.Sort(out)
	return out
}

// unknownInTemplates are the fields of the object's templates that pods, or Jobs, do not have: whoever makes its pods drops them. In objects
// of kinds that are not known what stands beside the spec of a template may mean something.
func (w *Workload) unknownInTemplates(u *unstructured.Unstructured) {
	seen := make(map[string]bool)
	for i := range w.Parts {
		p := &w.Parts[i]
		if p.Made || p.Bare || seen[p.Template] {
			continue
		}
		seen[p.Template] = true
		path, of := p.Template, any(&corev1.PodTemplateSpec{})
		if w.Guess != "" {
			path, of = path+"/spec", &corev1.PodSpec{}
		} else if job, ok := strings.CutSuffix(path, "/spec/template"); ok && u.GetKind() == "JobSet" {
			path, of = job, &batchv1.JobTemplateSpec{}
		} else if in := at(u.Object, path); in["kind"] == "Pod" && in["apiVersion"] == "v1" { // a pod that is written out in another object
			of = &corev1.Pod{}
		}
		for _, field := range beyond(at(u.Object, path), of) {
			w.Vain = append(w.Vain, fmt.Sprintf("%s.%s (there is no such field)", dotted(path), field))
		}
	}
}

// at is the object at a JSON pointer; nil: there is none.
func at(object map[string]any, pointer string) map[string]any {
	var v any = object
	for _, key := range strings.Split(pointer, "/")[1:] {
		switch of := v.(type) {
		case map[string]any:
			v = of[strings.NewReplacer("~1", "/", "~0", "~").Replace(key)]
		case []any:
			i, err := strconv.Atoi(key)
			if err != nil || i < 0 || i >= len(of) {
				return nil
			}
			v = of[i]
		}
	}
	m, _ := v.(map[string]any)
	return m
}
