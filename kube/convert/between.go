package convert

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-dev/berth/engine"
)

// Around looks up what rules between pods depend on beside the pod itself. Without a function nothing is found.
type Around struct {
	// Namespaces are those that the selector, which is not empty, selects: sorted, and not written to by anybody.
	Namespaces func(labels.Selector) []string
	// Peers selects the pods from which the pod is spread where it has no constraint of its own: those of its Services and of
	// its controller. Nil: it has neither.
	Peers func(*corev1.Pod) []engine.Requirement
}

// between fills in the rules between pods of p, as upstream's InterPodAffinity and PodTopologySpread read them.
func between(p *corev1.Pod, s *engine.Spec, o Options) {
	var r engine.PodRules
	if a := p.Spec.Affinity; a != nil && a.PodAffinity != nil {
		r.PodAffinity = together(podTerms(p, a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution, o))
		r.PodPreferred = preferredPods(p, a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution, 1, o)
	}
	if a := p.Spec.Affinity; a != nil && a.PodAntiAffinity != nil {
		r.PodAntiAffinity = podTerms(p, a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution, o)
		r.PodPreferred = append(r.PodPreferred, preferredPods(p, a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution, -1, o)...)
	}
	for i := range p.Spec.TopologySpreadConstraints {
		r.Spread = append(r.Spread, spread(p, &p.Spec.TopologySpreadConstraints[i]))
	}
	if r.Any() {
		s.PodRules = &r
	}
}

func podTerms(p *corev1.Pod, terms []corev1.PodAffinityTerm, o Options) []engine.PodTerm {
	var out []engine.PodTerm
	for i := range terms {
		out = append(out, podTerm(p, &terms[i], o))
	}
	return out
}

// preferredPods leaves out what can make no difference.
func preferredPods(p *corev1.Pod, terms []corev1.WeightedPodAffinityTerm, sign int32, o Options) []engine.PodPreference {
	var out []engine.PodPreference
	for i := range terms {
		w := engine.PodPreference{Weight: sign * terms[i].Weight, PodTerm: podTerm(p, &terms[i].PodAffinityTerm, o)}
		if w.Check() == nil {
			out = append(out, w)
		}
	}
	return out
}

func podTerm(p *corev1.Pod, t *corev1.PodAffinityTerm, o Options) engine.PodTerm {
	selects := selector(t.LabelSelector)
	selects = withLabels(selects, p.Labels, t.MatchLabelKeys, engine.In)
	selects = withLabels(selects, p.Labels, t.MismatchLabelKeys, engine.NotIn)
	return engine.PodTerm{Topology: t.TopologyKey, Namespaces: namespaces(p, t, o), Labels: selects}
}

// namespaces are those of the term, sorted; nil: all. Where the term names none, its own counts.
func namespaces(p *corev1.Pod, t *corev1.PodAffinityTerm, o Options) []string {
	if t.NamespaceSelector == nil && len(t.Namespaces) == 0 {
		return []string{p.Namespace}
	}
	names := append([]string{}, t.Namespaces...) // never nil, which is all
	if s := namespaceSelector(t); s != nil {
		if s.Empty() {
			return nil
		}
		var found []string
		if o.Around.Namespaces != nil {
			found = o.Around.Namespaces(s)
		}
		if len(names) == 0 && found != nil {
			return found // shared by all pods with this selector
		}
		names = append(names, found...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// namespaceSelector is nil where the term has none, or one that makes no sense, which upstream never stores.
func namespaceSelector(t *corev1.PodAffinityTerm) labels.Selector {
	if t.NamespaceSelector == nil {
		return nil
	}
	s, err := metav1.LabelSelectorAsSelector(t.NamespaceSelector)
	if err != nil {
		return nil
	}
	return s
}

// NamespaceSelectors are those that the pod's rules select namespaces with, without those that select all. What Pod makes of
// the pod changes when they select others.
func NamespaceSelectors(p *corev1.Pod) []labels.Selector {
	if p.Spec.Affinity == nil || len(overLimits(p)) > 0 {
		return nil
	}
	var out []labels.Selector
	eachPodTerm(p.Spec.Affinity, func(_ string, t *corev1.PodAffinityTerm) {
		if s := namespaceSelector(t); s != nil && !s.Empty() {
			out = append(out, s)
		}
	})
	return out
}

// eachPodTerm calls do with every term about other pods, and where it is.
func eachPodTerm(a *corev1.Affinity, do func(where string, t *corev1.PodAffinityTerm)) {
	if a == nil {
		return
	}
	each := func(where string, required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm) {
		for i := range required {
			do(where, &required[i])
		}
		for i := range preferred {
			do(where, &preferred[i].PodAffinityTerm)
		}
	}
	if at := a.PodAffinity; at != nil {
		each("spec.affinity.podAffinity", at.RequiredDuringSchedulingIgnoredDuringExecution, at.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if at := a.PodAntiAffinity; at != nil {
		each("spec.affinity.podAntiAffinity", at.RequiredDuringSchedulingIgnoredDuringExecution, at.PreferredDuringSchedulingIgnoredDuringExecution)
	}
}

// together has every term match the pods that all of them match: upstream looks for pods that satisfy all terms at once, and
// then for one of them in each term's domain.
func together(terms []engine.PodTerm) []engine.PodTerm {
	if len(terms) < 2 {
		return terms
	}
	all := terms[0]
	for _, t := range terms[1:] {
		all.Namespaces = inBoth(all.Namespaces, t.Namespaces)
		all.Labels = both(all.Labels, t.Labels)
	}
	for i := range terms {
		terms[i].Namespaces, terms[i].Labels = all.Namespaces, all.Labels
	}
	return terms
}

// inBoth is the intersection of two sorted lists, of which nil stands for everything.
func inBoth(a, b []string) []string {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	out := []string{}
	for _, name := range a {
		if _, ok := slices.BinarySearch(b, name); ok {
			out = append(out, name)
		}
	}
	return out
}

// both requires what a and b require; nil matches nothing.
func both(a, b []engine.Requirement) []engine.Requirement {
	if a == nil || b == nil {
		return nil
	}
	out := append([]engine.Requirement{}, a...)
	for _, r := range b {
		out = withRequirement(out, r)
	}
	return out
}

// withRequirement appends what is not in the list yet.
func withRequirement(list []engine.Requirement, r engine.Requirement) []engine.Requirement {
	if slices.ContainsFunc(list, func(o engine.Requirement) bool {
		return o.Key == r.Key && o.Op == r.Op && slices.Equal(o.Values, r.Values)
	}) {
		return list
	}
	return append(list, r)
}

// selector is what a pod's labels must satisfy, in an order of its own; nil, as no selector at all, matches nothing.
func selector(s *metav1.LabelSelector) []engine.Requirement {
	if s == nil {
		return nil
	}
	out := []engine.Requirement{}
	for _, key := range slices.Sorted(maps.Keys(s.MatchLabels)) {
		out = append(out, engine.Requirement{Key: key, Op: engine.In, Values: []string{s.MatchLabels[key]}})
	}
	for _, r := range s.MatchExpressions {
		out = append(out, engine.Requirement{Key: r.Key, Op: engine.Op(r.Operator), Values: r.Values})
	}
	return out
}

// withLabels adds the pod's own values of the labels to the selector of a term. The API server does that when the pod is
// created, with the labels of then (strategy.go, applyLabelKeysToLabelSelector); a pod that has not been there yet, such as
// one of a manifest, gets it here.
func withLabels(selects []engine.Requirement, own map[string]string, keys []string, op engine.Op) []engine.Requirement {
	if selects == nil {
		return nil
	}
	for _, key := range keys {
		value, has := own[key]
		merged := slices.ContainsFunc(selects, func(r engine.Requirement) bool { return r.Key == key && r.Op == op })
		if has && !merged {
			selects = append(selects, engine.Requirement{Key: key, Op: op, Values: []string{value}})
		}
	}
	return selects
}

// spread is the constraint. Upstream merges the labels that matchLabelKeys names whenever it schedules, beside what the API
// server merged; and counts no pods for a selector that selects all (podtopologyspread/common.go, countPodsMatchSelector).
func spread(p *corev1.Pod, c *corev1.TopologySpreadConstraint) engine.Spread {
	selects := selector(c.LabelSelector)
	for _, key := range c.MatchLabelKeys {
		if value, has := p.Labels[key]; has && selects != nil {
			selects = withRequirement(selects, engine.Requirement{Key: key, Op: engine.In, Values: []string{value}})
		}
	}
	if len(selects) == 0 {
		selects = nil
	}
	out := engine.Spread{
		Topology: c.TopologyKey, Namespace: p.Namespace, Labels: selects, MaxSkew: c.MaxSkew,
		Soft:      c.WhenUnsatisfiable == corev1.ScheduleAnyway,
		AnyNode:   c.NodeAffinityPolicy != nil && *c.NodeAffinityPolicy == corev1.NodeInclusionPolicyIgnore,
		Untainted: c.NodeTaintsPolicy != nil && *c.NodeTaintsPolicy == corev1.NodeInclusionPolicyHonor,
	}
	if c.MinDomains != nil {
		out.MinDomains = *c.MinDomains
	}
	return out
}

// peersSpread are upstream's default constraints for a pod of ours without own ones (podtopologyspread/plugin.go,
// systemDefaultConstraints). They are wishes. Pods with GPUs do not have them: how those are packed is for the pool to say, and
// a few replicas on every node leave no node whole. Nor have members of gangs, whose layout says where they are.
func peersSpread(p *corev1.Pod, o Options) []engine.Spread {
	if o.Around.Peers == nil {
		return nil
	}
	peers := o.Around.Peers(p)
	if len(peers) == 0 {
		return nil
	}
	return []engine.Spread{
		{Topology: corev1.LabelHostname, Namespace: p.Namespace, Labels: peers, MaxSkew: 3, Soft: true, Default: true},
		{Topology: corev1.LabelTopologyZone, Namespace: p.Namespace, Labels: peers, MaxSkew: 5, Soft: true, Default: true},
	}
}

// Selector is the controller's or the Service's selector as rules between pods have it, nil for one that selects no pod, or
// that is above a limit.
func Selector(s *metav1.LabelSelector) []engine.Requirement {
	if expressions, values := selectorSize(s); expressions > MaxRuleExpressions || values > MaxRuleValues {
		return nil
	}
	out := selector(s)
	if slices.ContainsFunc(out, func(r engine.Requirement) bool { return r.Check() != nil }) {
		return nil
	}
	return out
}

// rules counts what rules between pods list, and finds what makes no sense: pods from before the API server looked may have
// such. It is above no limit at the same time, or it would not be read.
func (t *tally) rules(p *corev1.Pod) {
	terms, expressions, values := len(p.Spec.TopologySpreadConstraints), 0, 0
	add := func(selectors ...*metav1.LabelSelector) {
		for _, s := range selectors {
			e, v := selectorSize(s)
			expressions, values = expressions+e, values+v
			t.selectorText(s)
		}
	}
	eachPodTerm(p.Spec.Affinity, func(_ string, at *corev1.PodAffinityTerm) {
		terms++
		add(at.LabelSelector, at.NamespaceSelector)
		expressions += len(at.MatchLabelKeys) + len(at.MismatchLabelKeys)
		values += len(at.Namespaces)
		t.text(at.TopologyKey)
		t.text(at.Namespaces...)
	})
	for i := range p.Spec.TopologySpreadConstraints {
		c := &p.Spec.TopologySpreadConstraints[i]
		add(c.LabelSelector)
		expressions += len(c.MatchLabelKeys)
		t.text(c.TopologyKey)
	}
	t.most(terms, MaxRules, "terms of spec.affinity.podAffinity and podAntiAffinity, and spec.topologySpreadConstraints")
	t.most(expressions, MaxRuleExpressions, "labels and expressions of rules between pods")
	t.most(values, MaxRuleValues, "values and namespaces of rules between pods")
	t.most(len(p.Labels), MaxPodLabels, "metadata.labels")
	if terms > 0 && terms <= MaxRules && expressions <= MaxRuleExpressions && values <= MaxRuleValues {
		t.malformed(p)
	}
}

func (t *tally) selectorText(s *metav1.LabelSelector) {
	if s == nil {
		return
	}
	//archtest:any-order a sum of whole numbers
	for key, value := range s.MatchLabels {
		t.text(key, value)
	}
	for i := range s.MatchExpressions {
		t.text(s.MatchExpressions[i].Key)
		t.text(s.MatchExpressions[i].Values...)
	}
}

// malformed notes required rules that make no sense; wishes of that kind are passed over.
func (t *tally) malformed(p *corev1.Pod) {
	note := func(where string, err error) {
		if err != nil {
			t.problems = append(t.problems, where+": "+clipped(err.Error(), MaxValueBytes))
		}
	}
	eachPodTerm(p.Spec.Affinity, func(where string, at *corev1.PodAffinityTerm) {
		note(where, podTerm(p, at, Options{}).Check())
		_, err := metav1.LabelSelectorAsSelector(at.NamespaceSelector)
		note(where, err)
	})
	for i := range p.Spec.TopologySpreadConstraints {
		note("spec.topologySpreadConstraints", spread(p, &p.Spec.TopologySpreadConstraints[i]).Check())
	}
}

// trimRules cuts what rules between pods list, of a pod that is above a limit.
func trimRules(s *corev1.PodSpec) {
	if a := s.Affinity; a != nil && a.PodAffinity != nil {
		at := a.PodAffinity
		at.RequiredDuringSchedulingIgnoredDuringExecution = cutTo(at.RequiredDuringSchedulingIgnoredDuringExecution, MaxRules)
		at.PreferredDuringSchedulingIgnoredDuringExecution = cutTo(at.PreferredDuringSchedulingIgnoredDuringExecution, MaxRules)
	}
	if a := s.Affinity; a != nil && a.PodAntiAffinity != nil {
		at := a.PodAntiAffinity
		at.RequiredDuringSchedulingIgnoredDuringExecution = cutTo(at.RequiredDuringSchedulingIgnoredDuringExecution, MaxRules)
		at.PreferredDuringSchedulingIgnoredDuringExecution = cutTo(at.PreferredDuringSchedulingIgnoredDuringExecution, MaxRules)
	}
	eachPodTerm(s.Affinity, func(_ string, t *corev1.PodAffinityTerm) {
		t.LabelSelector, t.NamespaceSelector = trimSelector(t.LabelSelector), trimSelector(t.NamespaceSelector)
		t.Namespaces = cutTo(t.Namespaces, MaxRuleValues)
		t.MatchLabelKeys, t.MismatchLabelKeys = cutTo(t.MatchLabelKeys, MaxRuleExpressions), cutTo(t.MismatchLabelKeys, MaxRuleExpressions)
	})
	s.TopologySpreadConstraints = cutTo(s.TopologySpreadConstraints, MaxRules)
	for i := range s.TopologySpreadConstraints {
		c := &s.TopologySpreadConstraints[i]
		c.LabelSelector, c.MatchLabelKeys = trimSelector(c.LabelSelector), cutTo(c.MatchLabelKeys, MaxRuleExpressions)
	}
}

func trimSelector(s *metav1.LabelSelector) *metav1.LabelSelector {
	if s == nil {
		return nil
	}
	trimLabels(s.MatchLabels, MaxRuleExpressions)
	s.MatchExpressions = cutTo(s.MatchExpressions, MaxRuleExpressions)
	for i := range s.MatchExpressions {
		s.MatchExpressions[i].Values = cutTo(s.MatchExpressions[i].Values, MaxRuleValues)
	}
	return s
}

// trimLabels leaves as many labels, the first by name, as are seen to be too many.
func trimLabels(all map[string]string, limit int) {
	if len(all) <= limit+1 {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(all))[limit+1:] {
		delete(all, key)
	}
}
