package kueue

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/kube/dialect"
)

// maxChoices is how many combinations of flavors a workload has at most.
const maxChoices = 16

// flavors are those that the pod may have: of every group that covers a resource which it requests one. Where they are GPU models, all
// pods of a workload get the same.
func (r *reading) flavors(queue string, q *clusterQueue) {
	names := requested(&r.Spec)
	choices := []dialect.Flavor{{Labels: map[string]string{}, Names: map[string]string{}}}
	var covered []string
	for _, g := range q.ResourceGroups {
		covered = append(covered, g.CoveredResources...)
		mine := slices.DeleteFunc(slices.Clone(g.CoveredResources), func(name string) bool { return !slices.Contains(names, name) })
		if len(mine) == 0 {
			continue
		}
		if choices = r.choose(queue, &g, mine, choices); len(choices) == 0 {
			r.await("no flavor of ClusterQueue %s matches the pod's node selector, affinity and tolerations", queue)
			return
		}
	}
	for _, name := range names {
		if !slices.Contains(covered, name) {
			r.await("resource %s unavailable in ClusterQueue %s", name, queue)
		}
	}
	if len(choices) == 1 && len(choices[0].Names) == 0 {
		return
	}
	r.out.Flavors = choices
	r.models(names)
}

// choose adds each flavor of the group that fits the pod to each choice.
func (r *reading) choose(queue string, g *resourceGroup, mine []string, before []dialect.Flavor) []dialect.Flavor {
	var out []dialect.Flavor
	for _, choice := range before {
		for _, f := range g.Flavors {
			o := r.world.Object(ResourceFlavors, "", f.Name)
			if o == nil {
				r.await("ResourceFlavor %s of ClusterQueue %s doesn't exist", f.Name, queue)
				continue
			}
			spec, _ := o.Value.(*flavorSpec)
			if spec == nil || !r.fits(spec) || clash(choice.Labels, spec.NodeLabels) || len(out) >= maxChoices {
				continue
			}
			next := dialect.Flavor{Labels: maps.Clone(choice.Labels), Names: maps.Clone(choice.Names), Tolerations: slices.Concat(choice.Tolerations, spec.Tolerations)}
			maps.Copy(next.Labels, spec.NodeLabels)
			for _, name := range mine {
				next.Names[name] = f.Name
			}
			out = append(out, next)
		}
	}
	return out
}

// fits says whether the pod may be on the flavor's nodes: its node selector and affinity, as far as they are about the flavor's
// labels, and its tolerations with those of the flavor.
func (r *reading) fits(f *flavorSpec) bool {
	if clash(r.Spec.NodeSelector, f.NodeLabels) {
		return false
	}
	keys := make(map[string]bool, len(f.NodeLabels))
	for key := range f.NodeLabels { //archtest:any-order it fills a set
		keys[key] = true
	}
	if UnmetAffinity(&r.Spec, keys, f.NodeLabels) != "" {
		return false
	}
	tolerations := slices.Concat(r.Spec.Tolerations, f.Tolerations)
	return !slices.ContainsFunc(f.NodeTaints, func(t corev1.Taint) bool {
		return t.Effect != corev1.TaintEffectPreferNoSchedule && !slices.ContainsFunc(tolerations, func(o corev1.Toleration) bool { return tolerates(&o, &t) })
	})
}

// tolerates is Kubernetes' rule, without comparisons of numbers.
func tolerates(o *corev1.Toleration, t *corev1.Taint) bool {
	if o.Effect != "" && o.Effect != t.Effect || o.Key != "" && o.Key != t.Key {
		return false
	}
	return o.Operator == corev1.TolerationOpExists || o.Key != "" && (o.Operator == "" || o.Operator == corev1.TolerationOpEqual) && o.Value == t.Value
}

// clash says whether the two give one label different values.
func clash(a, b map[string]string) bool {
	for key, value := range a { //archtest:any-order it asks whether there is one
		if other, ok := b[key]; ok && other != value {
			return true
		}
	}
	return false
}

// models has all pods of the workload get one GPU model, where its flavors tell models apart.
func (r *reading) models(names []string) {
	if !slices.Contains(names, gpuResource) {
		return
	}
	var list []string
	for _, f := range r.out.Flavors {
		model := f.Labels[productLabel]
		if model == "" {
			return
		}
		if !slices.Contains(list, model) {
			list = append(list, model)
		}
	}
	if len(list) > 1 {
		r.out.Keys[v1alpha1.KeyGPUModel] = strings.Join(list, ",")
	}
}
