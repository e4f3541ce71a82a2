package place

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/berth-dev/berth/diagnose/facts"
)

// The oracle is the rules' own words, pod by pod and node by node.

func anyTerm(t *rapid.T) corev1.PodAffinityTerm {
	term := corev1.PodAffinityTerm{
		TopologyKey:   rapid.SampledFrom([]string{corev1.LabelHostname, "zone"}).Draw(t, "key"),
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": rapid.SampledFrom([]string{"a", "b"}).Draw(t, "app")}},
	}
	switch rapid.IntRange(0, 4).Draw(t, "namespaces") {
	case 0:
		term.Namespaces = []string{"x", "y"}
	case 1:
		term.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "y"}}
	case 2:
		term.NamespaceSelector = &metav1.LabelSelector{}
	}
	return term
}

func anyTerms(t *rapid.T, most int) []corev1.PodAffinityTerm {
	return rapid.SliceOfN(rapid.Custom(anyTerm), 0, most).Draw(t, "terms")
}

func anyPeer(t *rapid.T, name, node string) *corev1.Pod {
	p := &corev1.Pod{}
	p.Namespace, p.Name = rapid.SampledFrom([]string{"x", "y"}).Draw(t, "namespace"), name
	p.Labels = map[string]string{"app": rapid.SampledFrom([]string{"a", "b"}).Draw(t, "app")}
	p.Spec.NodeName = node
	if rapid.Bool().Draw(t, "leaves") {
		p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	}
	p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: anyTerms(t, 1)}}
	return p
}

func anyPeers(t *rapid.T) *facts.Facts {
	f := &facts.Facts{}
	for _, name := range []string{"x", "y"} {
		f.Namespaces = append(f.Namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"team": name}}})
	}
	for i := range rapid.IntRange(1, 5).Draw(t, "nodes") {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("n", i), Labels: map[string]string{corev1.LabelHostname: fmt.Sprint("n", i)}}}
		if zone := rapid.SampledFrom([]string{"", "1", "2", "3"}).Draw(t, "zone"); zone != "" {
			n.Labels["zone"] = zone
		}
		if rapid.IntRange(0, 3).Draw(t, "tainted") == 0 {
			n.Spec.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoSchedule}}
		}
		f.Nodes = append(f.Nodes, n)
		for j := range rapid.IntRange(0, 2).Draw(t, "pods") {
			f.Pods = append(f.Pods, anyPeer(t, fmt.Sprint("p", i, j), n.Name))
		}
	}
	return f
}

// about says whether a term of the owner's is about the pod.
func about(owner *corev1.Pod, term *corev1.PodAffinityTerm, p *corev1.Pod) bool {
	space := len(term.Namespaces) == 0 && term.NamespaceSelector == nil && owner.Namespace == p.Namespace || slices.Contains(term.Namespaces, p.Namespace)
	if s := term.NamespaceSelector; s != nil {
		space = space || len(s.MatchLabels) == 0 || s.MatchLabels["team"] == p.Namespace
	}
	return space && term.LabelSelector.MatchLabels["app"] == p.Labels["app"]
}

func sameDomain(f *facts.Facts, n *corev1.Node, p *corev1.Pod, key string) bool {
	at := f.NodeNamed(p.Spec.NodeName)
	v, ok := n.Labels[key]
	w, also := at.Labels[key]
	return ok && also && v == w
}

func rulesAllow(f *facts.Facts, p *corev1.Pod, n *corev1.Node) bool {
	for _, q := range f.Pods {
		for _, term := range Apart(p) {
			if about(p, &term, q) && sameDomain(f, n, q, term.TopologyKey) {
				return false
			}
		}
		for _, term := range Apart(q) {
			if about(q, &term, p) && sameDomain(f, n, q, term.TopologyKey) {
				return false
			}
		}
	}
	return nearOracle(f, p, n) && spreadOracle(f, p, n)
}

func nearOracle(f *facts.Facts, p *corev1.Pod, n *corev1.Node) bool {
	terms := Near(p)
	all := func(q *corev1.Pod) bool {
		return !slices.ContainsFunc(terms, func(t corev1.PodAffinityTerm) bool { return !about(p, &t, q) })
	}
	counted, here := false, true
	for _, term := range terms {
		if _, ok := n.Labels[term.TopologyKey]; !ok {
			return false
		}
		found := false
		for _, q := range f.Pods {
			if _, ok := f.NodeNamed(q.Spec.NodeName).Labels[term.TopologyKey]; ok && all(q) {
				counted = true
			}
			found = found || all(q) && sameDomain(f, n, q, term.TopologyKey)
		}
		here = here && found
	}
	return here || !counted && all(p)
}

func spreadOracle(f *facts.Facts, p *corev1.Pod, n *corev1.Node) bool {
	all := p.Spec.TopologySpreadConstraints
	for _, c := range all {
		counts := make(map[string]int)
		for _, m := range f.Nodes {
			missing := slices.ContainsFunc(all, func(c corev1.TopologySpreadConstraint) bool { return m.Labels[c.TopologyKey] == "" })
			honour := c.NodeTaintsPolicy != nil && *c.NodeTaintsPolicy == corev1.NodeInclusionPolicyHonor && len(m.Spec.Taints) > 0
			if missing || honour {
				continue
			}
			counts[m.Labels[c.TopologyKey]] += 0
			for _, q := range f.Pods {
				if q.Spec.NodeName == m.Name && q.Namespace == p.Namespace && q.DeletionTimestamp == nil && q.Labels["app"] == c.LabelSelector.MatchLabels["app"] {
					counts[m.Labels[c.TopologyKey]]++
				}
			}
		}
		least := 0
		if len(counts) > 0 && (c.MinDomains == nil || len(counts) >= int(*c.MinDomains)) {
			least = slices.Min(slices.Collect(maps.Values(counts)))
		}
		self := 0
		if p.Labels["app"] == c.LabelSelector.MatchLabels["app"] {
			self = 1
		}
		v, ok := n.Labels[c.TopologyKey]
		if !ok || counts[v]+self-least > int(c.MaxSkew) {
			return false
		}
	}
	return true
}

func anySpread(t *rapid.T) corev1.TopologySpreadConstraint {
	c := corev1.TopologySpreadConstraint{
		MaxSkew: int32(rapid.IntRange(1, 2).Draw(t, "skew")), WhenUnsatisfiable: corev1.DoNotSchedule,
		TopologyKey:   rapid.SampledFrom([]string{corev1.LabelHostname, "zone"}).Draw(t, "key"),
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": rapid.SampledFrom([]string{"a", "b"}).Draw(t, "app")}},
	}
	if rapid.Bool().Draw(t, "min") {
		c.MinDomains = new(int32(rapid.IntRange(1, 3).Draw(t, "domains")))
	}
	if rapid.Bool().Draw(t, "taints") {
		c.NodeTaintsPolicy = new(corev1.NodeInclusionPolicyHonor)
	}
	return c
}

func TestExclusionsAreTheRulesOwnWords(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := anyPeers(t)
		p := anyPeer(t, "new", "")
		p.DeletionTimestamp = nil
		p.Spec.Affinity.PodAffinity = &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: anyTerms(t, 2)}
		p.Spec.TopologySpreadConstraints = rapid.SliceOfN(rapid.Custom(anySpread), 0, 2).Draw(t, "spread")
		f.Pods = append(f.Pods, p)
		got := ReasonsByNode(Exclusions(f, p))
		f.Pods = f.Pods[:len(f.Pods)-1]
		for _, n := range f.Nodes {
			if may := rulesAllow(f, p, n); may != (got[n.Name] == nil) {
				t.Fatalf("node %s: may %v, excluded %q", n.Name, may, got[n.Name])
			}
		}
	})
}

// A pod that is still to come has the values of its own labels in its terms, as the API server would write them.
func TestTermsWithOwnValues(t *testing.T) {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Labels: map[string]string{"app": "a", "hash": "1", "tenant": "t"}}}
	term := corev1.PodAffinityTerm{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}}, MatchLabelKeys: []string{"hash", "gone"}, MismatchLabelKeys: []string{"tenant"}}
	got := PeerTerms(p, []corev1.PodAffinityTerm{term})[0]
	if diff := cmp.Diff("app=a,hash in (1),tenant notin (t)", got.pods.String()); diff != "" {
		t.Error(diff)
	}
}

func BenchmarkExclusions(b *testing.B) {
	f := &facts.Facts{}
	for i := range 5000 {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("n", i), Labels: map[string]string{corev1.LabelHostname: fmt.Sprint("n", i), "zone": fmt.Sprint(i % 3)}}}
		f.Nodes = append(f.Nodes, n)
		for j := range 2 {
			p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: fmt.Sprint("p", i, "-", j), Labels: map[string]string{"app": fmt.Sprint(i % 100)}}, Spec: corev1.PodSpec{NodeName: n.Name}}
			f.Pods = append(f.Pods, p)
		}
	}
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: "new", Labels: map[string]string{"app": "1"}}}
	one := []corev1.PodAffinityTerm{{TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "1"}}}}
	p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: one}}
	p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 1, WhenUnsatisfiable: corev1.DoNotSchedule, TopologyKey: "zone", LabelSelector: one[0].LabelSelector}}
	f.PodsOn("n0") // makes the index
	for b.Loop() {
		Exclusions(f, p)
	}
}
