package place

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
)

// PeerTerm is a term of affinity to pods or away from them, ready to be matched.
type PeerTerm struct {
	key        string // of the topology
	pods       labels.Selector
	spaces     labels.Selector // of namespaces
	namespaces []string
}

// PeerTerms reads the pod's required terms. One that the API server would refuse matches nothing.
func PeerTerms(p *corev1.Pod, terms []corev1.PodAffinityTerm) []PeerTerm {
	out := make([]PeerTerm, len(terms))
	for i := range terms {
		t := &terms[i]
		out[i] = PeerTerm{key: t.TopologyKey, pods: selectorOf(ownValues(p, t)), spaces: selectorOf(t.NamespaceSelector), namespaces: t.Namespaces}
		if len(t.Namespaces) == 0 && t.NamespaceSelector == nil {
			out[i].namespaces = []string{p.Namespace}
		}
	}
	return out
}

// ownValues is the term's selector with the pod's own values of the labels that it names. The API server writes them
// into the selector when the pod is made; a pod that is still to come does not have them yet.
func ownValues(p *corev1.Pod, t *corev1.PodAffinityTerm) *metav1.LabelSelector {
	if t.LabelSelector == nil || len(t.MatchLabelKeys)+len(t.MismatchLabelKeys) == 0 {
		return t.LabelSelector
	}
	s := t.LabelSelector.DeepCopy()
	add := func(keys []string, op metav1.LabelSelectorOperator) {
		for _, key := range keys {
			if v, ok := p.Labels[key]; ok {
				s.MatchExpressions = append(s.MatchExpressions, metav1.LabelSelectorRequirement{Key: key, Operator: op, Values: []string{v}})
			}
		}
	}
	add(t.MatchLabelKeys, metav1.LabelSelectorOpIn)
	add(t.MismatchLabelKeys, metav1.LabelSelectorOpNotIn)
	return s
}

func selectorOf(s *metav1.LabelSelector) labels.Selector {
	out, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return labels.Nothing()
	}
	return out
}

// Matches says whether the term is about the pod.
func (t *PeerTerm) Matches(f *facts.Facts, p *corev1.Pod) bool {
	return (slices.Contains(t.namespaces, p.Namespace) || t.spaces.Matches(labelsOf(f, p.Namespace))) && t.pods.Matches(labels.Set(p.Labels))
}

// labelsOf are the namespace's labels.
func labelsOf(f *facts.Facts, namespace string) labels.Set {
	for _, n := range f.Namespaces {
		if n.Name == namespace {
			return n.Labels
		}
	}
	return nil
}

// Near and apart are what the pod requires of its neighbours.
func Near(p *corev1.Pod) []corev1.PodAffinityTerm {
	if a := p.Spec.Affinity; a != nil && a.PodAffinity != nil {
		return a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	}
	return nil
}

// Apart are the pod's required terms of anti-affinity.
func Apart(p *corev1.Pod) []corev1.PodAffinityTerm {
	if a := p.Spec.Affinity; a != nil && a.PodAntiAffinity != nil {
		return a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	}
	return nil
}

// antiAffinityExclusions keep the pod from the domains of pods that it wants to be away from.
func antiAffinityExclusions(f *facts.Facts, p *corev1.Pod) (out []check.Exclusion) {
	for i, t := range PeerTerms(p, Apart(p)) {
		b := check.Exclusion{Kind: check.ByAntiAffinity, Term: i}
		taken := make(map[string]*corev1.Pod) // domain: one who is there
		for _, n := range f.Nodes {
			for _, other := range f.PodsOn(n.Name) {
				if v, ok := n.Labels[t.key]; ok && t.Matches(f, other) {
					taken[v] = other
					b.Pods = append(b.Pods, other)
				}
			}
		}
		b.Nodes = inDomains(f.Nodes, t.key, taken, "it must not share a "+DomainWord(t.key)+" with pod %s")
		out = append(out, b)
	}
	return out
}

// inDomains are the nodes of domains that are taken; the reason names by whom.
func inDomains(nodes []*corev1.Node, key string, taken map[string]*corev1.Pod, reason string) map[string]string {
	out := make(map[string]string)
	for _, n := range nodes {
		if v, ok := n.Labels[key]; ok && taken[v] != nil {
			out[n.Name] = fmt.Sprintf(reason, taken[v].Name)
		}
	}
	return out
}

// DomainWord is what people call a domain of the topology key.
func DomainWord(key string) string {
	switch key {
	case corev1.LabelHostname:
		return "node"
	case corev1.LabelTopologyZone, corev1.LabelFailureDomainBetaZone:
		return "zone"
	case corev1.LabelTopologyRegion:
		return "region"
	}
	return "domain of " + key
}

// othersRuleExclusions keep the pod from the domains of pods that want to be away from it: one exclusion for each workload and
// term.
func othersRuleExclusions(f *facts.Facts, p *corev1.Pod) []check.Exclusion {
	byRule := make(map[string]*check.Exclusion)
	taken := make(map[string]map[string]*corev1.Pod)
	var rules []string
	for _, other := range f.Pods {
		terms := Apart(other)
		if len(terms) == 0 || other.Spec.NodeName == "" || facts.Ended(other) {
			continue
		}
		n := f.NodeNamed(other.Spec.NodeName)
		for i, t := range PeerTerms(other, terms) {
			if n == nil || !t.Matches(f, p) {
				continue
			}
			v, ok := n.Labels[t.key]
			if !ok {
				continue
			}
			rule := fmt.Sprint(other.Namespace, "/", makerName(other), "/", i, "/", t.key)
			if byRule[rule] == nil {
				byRule[rule], taken[rule] = &check.Exclusion{Kind: check.ByOthersRule, Term: i, Nodes: make(map[string]string)}, make(map[string]*corev1.Pod)
				rules = append(rules, rule)
			}
			byRule[rule].Pods = append(byRule[rule].Pods, other)
			taken[rule][v] = other
		}
	}
	slices.Sort(rules)
	var out []check.Exclusion
	for _, rule := range rules {
		b := byRule[rule]
		key := Apart(b.Pods[0])[b.Term].TopologyKey
		b.Nodes = inDomains(f.Nodes, key, taken[rule], "pod %s does not share its "+DomainWord(key)+" with it")
		out = append(out, *b)
	}
	return out
}

// makerName tells pods of one owner from those of others.
func makerName(p *corev1.Pod) string {
	if c := metav1.GetControllerOfNoCopy(p); c != nil {
		return c.Kind + "/" + c.Name
	}
	return "Pod/" + p.Name
}

// podAffinityExclusions keep the pod from where those are not that it has to be near. It may be the first of a group that
// has to be near itself.
func podAffinityExclusions(f *facts.Facts, p *corev1.Pod) []check.Exclusion {
	terms := PeerTerms(p, Near(p))
	if len(terms) == 0 {
		return nil
	}
	all := func(other *corev1.Pod) bool {
		return !slices.ContainsFunc(terms, func(t PeerTerm) bool { return !t.Matches(f, other) })
	}
	b := check.Exclusion{Kind: check.ByPodAffinity, Nodes: make(map[string]string)}
	there := make(map[[2]string]bool) // topology key and domain
	for _, n := range f.Nodes {
		for _, other := range f.PodsOn(n.Name) {
			if !all(other) {
				continue
			}
			b.Pods = append(b.Pods, other)
			for _, t := range terms {
				if v, ok := n.Labels[t.key]; ok {
					there[[2]string{t.key, v}] = true
				}
			}
		}
	}
	first := len(there) == 0 && all(p)
	for _, n := range f.Nodes {
		for _, t := range terms {
			v, ok := n.Labels[t.key]
			if !ok {
				b.Nodes[n.Name] = "the node has no label " + t.key + ", by which it has to be near others"
			} else if !first && !there[[2]string{t.key, v}] {
				b.Nodes[n.Name] = cmp.Or(b.Nodes[n.Name], "no pod that it has to be near is in the same "+DomainWord(t.key))
			}
		}
	}
	return []check.Exclusion{b}
}

// Relaxed are operations that make required terms a wish: of the field, podAffinity or podAntiAffinity, those with the
// indexes, in rising order.
func Relaxed(field string, required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm, indexes ...int) []edit.Op {
	at := edit.Pointer("spec", "affinity", field)
	var out []edit.Op
	var wishes []corev1.WeightedPodAffinityTerm
	for k := len(indexes) - 1; k >= 0; k-- {
		out = append(out, edit.Op{Op: "remove", Path: fmt.Sprintf("%s/requiredDuringSchedulingIgnoredDuringExecution/%d", at, indexes[k])})
	}
	for _, i := range indexes {
		wishes = append(wishes, corev1.WeightedPodAffinityTerm{Weight: 100, PodAffinityTerm: required[i]})
	}
	if preferred == nil {
		return append(out, edit.Op{Op: "add", Path: at + "/preferredDuringSchedulingIgnoredDuringExecution", Value: wishes})
	}
	for _, w := range wishes {
		out = append(out, edit.Op{Op: "add", Path: at + "/preferredDuringSchedulingIgnoredDuringExecution/-", Value: w})
	}
	return out
}

// AsWritten is the pod as its author wrote it: without what the API server added.
func AsWritten(c *check.Case) *corev1.Pod {
	for _, m := range c.Owners {
		if t := facts.TemplateFor(m, c.Pod); t != nil {
			return &corev1.Pod{ObjectMeta: t.ObjectMeta, Spec: t.Spec}
		}
	}
	return c.Pod
}
