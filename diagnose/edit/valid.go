package edit

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/facts"
)

// rejected says why the API server would not have the object after an edit, of the rules that edits can break; nil: it may. What
// it rejects is no fix, wherever its pods would find a place. (pkg/apis/core/validation of Kubernetes 1.36.)
func rejected(o facts.Object) error {
	var spec *corev1.PodSpec
	if p, ok := o.(*corev1.Pod); ok {
		spec = &p.Spec
	} else if t := facts.TemplateOf(o); t != nil {
		spec = &t.Spec
	}
	if spec == nil {
		return nil
	}
	type spread struct {
		key  string
		when corev1.UnsatisfiableConstraintAction
	}
	seen := make(map[spread]bool)
	for _, s := range spec.TopologySpreadConstraints {
		k := spread{s.TopologyKey, s.WhenUnsatisfiable}
		if seen[k] {
			return fmt.Errorf("two spread constraints over %s with %s", k.key, k.when)
		}
		seen[k] = true
	}
	for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			r := &list[i].Resources
			//archtest:any-order whichever is too much, the edit is not made
			for name, limit := range r.Limits {
				if request, ok := r.Requests[name]; ok && request.Cmp(limit) > 0 {
					return fmt.Errorf("container %s requests more %s than its limit", list[i].Name, name)
				}
			}
		}
	}
	return nil
}
