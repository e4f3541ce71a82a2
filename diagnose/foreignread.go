package diagnose

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Readers of objects whose Go types are another project's. What is not there, or of another shape, reads as empty.

// valueAt is what lies at the path of a JSON tree, nil where nothing does.
func valueAt(at any, path ...string) any {
	for _, key := range path {
		m, ok := at.(map[string]any)
		if !ok {
			return nil
		}
		at = m[key]
	}
	return at
}

func textAt(at any, path ...string) string {
	s, _ := valueAt(at, path...).(string)
	return s
}

// numberAt reads a count; JSON that came through different decoders has it as different types.
func numberAt(at any, path ...string) (int64, bool) {
	switch v := valueAt(at, path...).(type) {
	case int64:
		return v, true
	case float64:
		return int64(v), true
	case int:
		return int64(v), true
	}
	return 0, false
}

// itemsAt reads a list of objects.
func itemsAt(at any, path ...string) []map[string]any {
	list, _ := valueAt(at, path...).([]any)
	var out []map[string]any
	for _, v := range list {
		if m, ok := v.(map[string]any); ok {
			out = append(out, m)
		}
	}
	return out
}

// wordsAt reads a list of strings.
func wordsAt(at any, path ...string) []string {
	list, _ := valueAt(at, path...).([]any)
	var out []string
	for _, v := range list {
		if s, ok := v.(string); ok {
			out = append(out, s)
		}
	}
	return out
}

// pairsAt reads a map of strings.
func pairsAt(at any, path ...string) map[string]string {
	m, _ := valueAt(at, path...).(map[string]any)
	out := make(map[string]string, len(m))
	for k, v := range m {
		if s, ok := v.(string); ok {
			out[k] = s
		}
	}
	return out
}

// amountAt reads a quantity of the resource in the engine's units: milli-CPU, bytes, or a count.
func amountAt(name string, at any, path ...string) (int64, bool) {
	v := valueAt(at, path...)
	if v == nil {
		return 0, false
	}
	q, err := resource.ParseQuantity(strings.TrimSpace(fmt.Sprint(v)))
	if err != nil {
		return 0, false
	}
	return amountOf(name, q), true
}

// amountsAsked is what one pod asks for in the engine's units; a limit counts where nothing is requested.
func amountsAsked(spec *corev1.PodSpec) map[string]int64 {
	out := make(map[string]int64)
	for name, q := range askOf(&corev1.Pod{Spec: *spec}) {
		if name != corev1.ResourcePods {
			out[string(name)] = amountOf(string(name), q)
		}
	}
	return out
}

// saying is a condition of an object.
type saying struct {
	status, reason, message string
	at                      time.Time
}

// says reads the condition of the type, nil where there is none.
func says(u *unstructured.Unstructured, kind string) *saying {
	if u == nil {
		return nil
	}
	for _, c := range itemsAt(u.Object, "status", "conditions") {
		if textAt(c, "type") == kind {
			return &saying{status: textAt(c, "status"), reason: textAt(c, "reason"), message: textAt(c, "message"), at: timeAt(c, "lastTransitionTime")}
		}
	}
	return nil
}

// holds says whether the object has the condition with status True.
func holds(u *unstructured.Unstructured, kind string) bool {
	s := says(u, kind)
	return s != nil && s.status == string(metav1.ConditionTrue)
}

func timeAt(at any, path ...string) time.Time {
	t, err := time.Parse(time.RFC3339, textAt(at, path...))
	if err != nil {
		return time.Time{}
	}
	return t
}

// foreignNamed is the object of the foreign kind ("Queue.berth.dev"); nil where there is none.
func (f *Facts) foreignNamed(kind, namespace, name string) *unstructured.Unstructured {
	for _, u := range f.Foreign[kind] {
		if u.GetName() == name && u.GetNamespace() == namespace {
			return u
		}
	}
	return nil
}

// foreignNames are the names of the objects of the kind, sorted.
func (f *Facts) foreignNames(kind, namespace string) []string {
	var out []string
	for _, u := range f.Foreign[kind] {
		if u.GetNamespace() == namespace {
			out = append(out, u.GetName())
		}
	}
	slices.Sort(out)
	return out
}

// changed is a copy of the foreign object with the values put in place; nil takes one away. Lists on the way are
// indexed by numbers.
func changed(u *unstructured.Unstructured, values map[string]any) *unstructured.Unstructured {
	out := u.DeepCopy()
	var tree any = out.Object
	for path, v := range values {
		op := "replace"
		if v == nil {
			op = "remove"
		}
		if t, err := edit(tree, strings.Split(strings.TrimPrefix(path, "/"), "/"), op, v); err == nil {
			tree = t
		}
	}
	out.Object, _ = tree.(map[string]any)
	return out
}
