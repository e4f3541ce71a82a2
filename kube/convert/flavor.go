package convert

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/kube/dialect"
)

// Restrict has the pod, whose spec is its own, run only on nodes of one of the flavors, in addition to what it asks for itself. What
// a flavor says beside its labels it gets with any of them. Flavors that would make more terms than a pod may have are added up: a
// pod without room for them is above a limit, and says so.
func Restrict(p *corev1.Pod, flavors []dialect.Flavor) {
	var terms []corev1.NodeSelectorTerm
	tolerations := slices.Clone(p.Spec.Tolerations)
	for i := range flavors {
		tolerations = WithTolerations(tolerations, flavors[i].Tolerations)
		if len(flavors[i].Labels) > 0 {
			terms = append(terms, termOf(flavors[i].Labels))
		}
	}
	p.Spec.Tolerations = tolerations
	switch {
	case len(terms) == 0 || len(terms) < len(flavors): // one flavor is all nodes
		return
	case len(terms) == 1:
		p.Spec.NodeSelector = maps.Clone(p.Spec.NodeSelector)
		if p.Spec.NodeSelector == nil {
			p.Spec.NodeSelector = make(map[string]string)
		}
		maps.Copy(p.Spec.NodeSelector, flavors[0].Labels)
		return
	}
	p.Spec.Affinity = p.Spec.Affinity.DeepCopy()
	if p.Spec.Affinity == nil {
		p.Spec.Affinity = &corev1.Affinity{}
	}
	if p.Spec.Affinity.NodeAffinity == nil {
		p.Spec.Affinity.NodeAffinity = &corev1.NodeAffinity{}
	}
	for i := range flavors {
		if w := flavors[i].Prefer; w > 0 {
			at := p.Spec.Affinity.NodeAffinity // its own, as the spec is
			at.PreferredDuringSchedulingIgnoredDuringExecution = append(at.PreferredDuringSchedulingIgnoredDuringExecution, corev1.PreferredSchedulingTerm{Weight: min(w, 100), Preference: terms[i]})
		}
	}
	own := p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if own == nil {
		own = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{}}}
	}
	both := &corev1.NodeSelector{}
	for _, a := range own.NodeSelectorTerms {
		for _, b := range terms {
			both.NodeSelectorTerms = append(both.NodeSelectorTerms, corev1.NodeSelectorTerm{
				MatchExpressions: slices.Concat(a.MatchExpressions, b.MatchExpressions), MatchFields: a.MatchFields,
			})
		}
	}
	p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = both
}

func termOf(labels map[string]string) corev1.NodeSelectorTerm {
	var out corev1.NodeSelectorTerm
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		out.MatchExpressions = append(out.MatchExpressions, corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{labels[key]}})
	}
	return out
}

// WithTolerations is the list with those that it has not.
func WithTolerations(has, more []corev1.Toleration) []corev1.Toleration {
	for _, t := range more {
		if !slices.ContainsFunc(has, func(o corev1.Toleration) bool { return o.MatchToleration(&t) }) {
			has = append(has[:len(has):len(has)], t)
		}
	}
	return has
}
