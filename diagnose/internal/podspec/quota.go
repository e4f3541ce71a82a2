package podspec

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// InScopes says whether the pod is in all scopes of the quota.
func InScopes(q *corev1.ResourceQuota, p *corev1.Pod) bool {
	for _, s := range q.Spec.Scopes {
		if !InScope(p, corev1.ScopedResourceSelectorRequirement{ScopeName: s, Operator: corev1.ScopeSelectorOpExists}) {
			return false
		}
	}
	if q.Spec.ScopeSelector != nil {
		for _, s := range q.Spec.ScopeSelector.MatchExpressions {
			if !InScope(p, s) {
				return false
			}
		}
	}
	return true
}

// InScope says whether the pod is in one scope of a quota.
func InScope(p *corev1.Pod, s corev1.ScopedResourceSelectorRequirement) bool {
	ends := p.Spec.ActiveDeadlineSeconds != nil && *p.Spec.ActiveDeadlineSeconds >= 0
	switch s.ScopeName {
	case corev1.ResourceQuotaScopeTerminating:
		return ends
	case corev1.ResourceQuotaScopeNotTerminating:
		return !ends
	case corev1.ResourceQuotaScopeBestEffort:
		return BestEffort(p)
	case corev1.ResourceQuotaScopeNotBestEffort:
		return !BestEffort(p)
	case corev1.ResourceQuotaScopePriorityClass:
		class := p.Spec.PriorityClassName
		switch s.Operator {
		case corev1.ScopeSelectorOpIn:
			return class != "" && slices.Contains(s.Values, class)
		case corev1.ScopeSelectorOpNotIn:
			return !slices.Contains(s.Values, class)
		case corev1.ScopeSelectorOpDoesNotExist:
			return class == ""
		}
		return class != ""
	case corev1.ResourceQuotaScopeCrossNamespacePodAffinity:
		return affinityAcross(p)
	}
	return false
}

// BestEffort says whether neither the pod nor a container says anything of CPU or memory.
func BestEffort(p *corev1.Pod) bool {
	if r := p.Spec.Resources; r != nil && len(r.Requests)+len(r.Limits) > 0 {
		return false
	}
	for _, c := range slices.Concat(p.Spec.Containers, p.Spec.InitContainers) {
		for _, list := range []corev1.ResourceList{c.Resources.Requests, c.Resources.Limits} {
			if !list.Cpu().IsZero() || !list.Memory().IsZero() {
				return false
			}
		}
	}
	return true
}

// affinityAcross says whether a rule between pods names other namespaces.
func affinityAcross(p *corev1.Pod) bool {
	a := p.Spec.Affinity
	if a == nil {
		return false
	}
	var terms []corev1.PodAffinityTerm
	if a.PodAffinity != nil {
		terms = append(terms, a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution...)
		for _, w := range a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution {
			terms = append(terms, w.PodAffinityTerm)
		}
	}
	if a.PodAntiAffinity != nil {
		terms = append(terms, a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution...)
		for _, w := range a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution {
			terms = append(terms, w.PodAffinityTerm)
		}
	}
	return slices.ContainsFunc(terms, func(t corev1.PodAffinityTerm) bool { return len(t.Namespaces) > 0 || t.NamespaceSelector != nil })
}

// QuotaAsk is what the pod adds to the use of a quota's key; counted is false for keys that pods do not change.
func QuotaAsk(p *corev1.Pod, key string) (amount resource.Quantity, counted bool) {
	if key == "pods" || key == "count/pods" {
		return *resource.NewQuantity(1, resource.DecimalSI), true
	}
	if name, ok := strings.CutPrefix(key, "limits."); ok {
		amount, counted = TotalLimits(p)[corev1.ResourceName(name)]
		return amount, counted
	}
	name, prefixed := strings.CutPrefix(key, "requests.")
	switch {
	case name == "cpu", name == "memory", name == "ephemeral-storage", strings.HasPrefix(name, "hugepages-"):
	case prefixed && Extended(corev1.ResourceName(name)):
	default:
		return resource.Quantity{}, false
	}
	amount, counted = TotalRequests(p)[corev1.ResourceName(name)]
	return amount, counted
}
