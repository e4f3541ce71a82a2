package facts

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Admit adds to a pod that does not exist yet what the API server gives to pods like it: requests that are limits
// where only these are given, and where all others that ask for
// an extended resource tolerate a taint of its name, so will this one.
func (f *Facts) Admit(p *corev1.Pod) {
	for i := range p.Spec.Containers {
		r := &p.Spec.Containers[i].Resources
		for name, q := range r.Limits {
			if _, ok := r.Requests[name]; !ok {
				if r.Requests == nil {
					r.Requests = corev1.ResourceList{}
				}
				r.Requests[name] = q
			}
		}
	}
	for _, name := range ExtendedOf(p) {
		asks, tolerates := 0, 0
		for _, other := range f.Pods {
			if !slices.Contains(ExtendedOf(other), name) {
				continue
			}
			asks++
			if slices.ContainsFunc(other.Spec.Tolerations, func(t corev1.Toleration) bool { return t.Key == name && t.Operator == corev1.TolerationOpExists }) {
				tolerates++
			}
		}
		if asks > 0 && asks == tolerates {
			p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{Key: name, Operator: corev1.TolerationOpExists})
		}
	}
}

// ExtendedOf are the extended resources that the pod asks for: devices, in practice.
func ExtendedOf(p *corev1.Pod) []string {
	var out []string
	for i := range p.Spec.Containers {
		for name := range p.Spec.Containers[i].Resources.Limits {
			if s := string(name); strings.Contains(s, "/") && !strings.Contains(s, "kubernetes.io/") && !slices.Contains(out, s) {
				out = append(out, s)
			}
		}
	}
	slices.Sort(out)
	return out
}
