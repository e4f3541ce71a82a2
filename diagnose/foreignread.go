package diagnose

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/kube/dialect"
)

// amountAt reads a quantity of the resource in the engine's units: milli-CPU, bytes, or a count.
func amountAt(name string, at any, path ...string) (int64, bool) {
	v := dialect.Value(at, path...)
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
