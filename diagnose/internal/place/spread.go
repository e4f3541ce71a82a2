package place

import (
	"fmt"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
)

// Spread is one of the pod's constraints that must hold, with what is there.
type Spread struct {
	corev1.TopologySpreadConstraint
	Index    int // in the pod
	selector labels.Selector
	Self     int            // 1 if the pod counts itself
	Have     map[string]int // pods that count, by domain; domains that count and have none are in it
}

// Least is the smallest number of any domain.
func (s *Spread) Least() int {
	if len(s.Have) == 0 || len(s.Have) < int(ptr.Deref(s.MinDomains, 1)) {
		return 0
	}
	least := math.MaxInt
	//archtest:any-order the smallest is the smallest
	for _, n := range s.Have {
		least = min(least, n)
	}
	return least
}

// Empties are the domains that have fewest, sorted.
func (s *Spread) Empties() []string {
	var out []string
	least := s.Least()
	for v, n := range s.Have {
		if n == least {
			out = append(out, v)
		}
	}
	slices.Sort(out)
	return out
}

// Spreads are the pod's constraints that must hold, counted.
func Spreads(f *facts.Facts, p *corev1.Pod) []*Spread {
	var out []*Spread
	for i, c := range p.Spec.TopologySpreadConstraints {
		if c.WhenUnsatisfiable == corev1.DoNotSchedule {
			s := &Spread{TopologySpreadConstraint: c, Index: i, selector: spreadSelector(p, &c), Have: make(map[string]int)}
			if s.selector.Matches(labels.Set(p.Labels)) {
				s.Self = 1
			}
			out = append(out, s)
		}
	}
	if len(out) == 0 {
		return nil
	}
	wants := nodeaffinity.GetRequiredNodeAffinity(p)
	for _, n := range f.Nodes {
		if slices.ContainsFunc(out, func(s *Spread) bool { _, ok := n.Labels[s.TopologyKey]; return !ok }) {
			continue
		}
		for _, s := range out {
			if s.counts(p, n, wants) {
				s.Have[n.Labels[s.TopologyKey]] += spreadOn(f, n, s, p.Namespace)
			}
		}
	}
	return out
}

// spreadSelector is whom the constraint counts: with the pod's own values of the labels that it names.
func spreadSelector(p *corev1.Pod, c *corev1.TopologySpreadConstraint) labels.Selector {
	s := selectorOf(c.LabelSelector)
	if c.LabelSelector == nil {
		return s
	}
	for _, key := range c.MatchLabelKeys {
		if v, ok := p.Labels[key]; ok {
			s = s.Add(*equals(key, v))
		}
	}
	return s
}

func equals(key, value string) *labels.Requirement {
	all, _ := labels.SelectorFromSet(labels.Set{key: value}).Requirements()
	return &all[0]
}

// counts says whether the node's domain and pods count, by the policies of the constraint.
func (s *Spread) counts(p *corev1.Pod, n *corev1.Node, wants nodeaffinity.RequiredNodeAffinity) bool {
	if ptr.Deref(s.NodeAffinityPolicy, corev1.NodeInclusionPolicyHonor) == corev1.NodeInclusionPolicyHonor {
		if ok, _ := wants.Match(n); !ok {
			return false
		}
	}
	return ptr.Deref(s.NodeTaintsPolicy, corev1.NodeInclusionPolicyIgnore) != corev1.NodeInclusionPolicyHonor || len(podspec.Untolerated(p, n)) == 0
}

// spreadOn counts the pods on the node that the constraint is about. Those that are leaving do not count.
func spreadOn(f *facts.Facts, n *corev1.Node, s *Spread, namespace string) (count int) {
	if s.selector.Empty() {
		return 0
	}
	for _, other := range f.PodsOn(n.Name) {
		if other.Namespace == namespace && other.DeletionTimestamp == nil && s.selector.Matches(labels.Set(other.Labels)) {
			count++
		}
	}
	return count
}

// spreadExclusions keep the pod from domains that have too many of its kind, and from nodes that are in none.
func spreadExclusions(f *facts.Facts, p *corev1.Pod) (out []check.Exclusion) {
	for _, s := range Spreads(f, p) {
		full := check.Exclusion{Kind: check.BySpread, Term: s.Index, Nodes: make(map[string]string)}
		none := check.Exclusion{Kind: check.BySpreadLabel, Term: s.Index, Nodes: make(map[string]string)}
		least := s.Least()
		for _, n := range f.Nodes {
			v, ok := n.Labels[s.TopologyKey]
			switch {
			case !ok:
				none.Nodes[n.Name] = "the node has no label " + s.TopologyKey + ", over which it has to be spread"
			case s.Have[v]+s.Self-least > int(s.MaxSkew):
				full.Nodes[n.Name] = fmt.Sprintf("its %s has %d of its kind, where another has %d", DomainWord(s.TopologyKey), s.Have[v], least)
			}
		}
		out = append(out, full, none)
	}
	return out
}

// SelectorText is a selector in words.
func SelectorText(s *metav1.LabelSelector) string {
	if s == nil {
		return "nothing"
	}
	return metav1.FormatLabelSelector(s)
}
