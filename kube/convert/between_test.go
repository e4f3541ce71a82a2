package convert

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"pgregory.net/rapid"

	"github.com/berth-dev/berth/engine"
)

// spaces are the namespaces of these tests with their labels.
var spaces = map[string]labels.Set{"ns": {"team": "a"}, "b1": {"team": "b"}, "b2": {"team": "b", "x.io/c": "1"}, "bare": nil}

var withSpaces = Options{Around: Around{Namespaces: func(s labels.Selector) []string {
	var out []string
	for name, l := range spaces {
		if s.Matches(l) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}}}

func drawLabels(t *rapid.T) map[string]string {
	out := map[string]string{}
	for _, key := range []string{"a", "b", "rev"} {
		if !chance(t, 3, "no "+key) {
			out[key] = pick(t, key, "1", "2", "")
		}
	}
	return out
}

func drawSelector(t *rapid.T, keys ...string) *metav1.LabelSelector {
	if chance(t, 6, "no selector") {
		return nil
	}
	s := &metav1.LabelSelector{}
	if chance(t, 2, "labels") {
		s.MatchLabels = map[string]string{pick(t, "key", keys...): pick(t, "value", "1", "2", "b")}
	}
	for range rapid.IntRange(0, 2).Draw(t, "expressions") {
		r := metav1.LabelSelectorRequirement{Key: pick(t, "key", keys...), Operator: metav1.LabelSelectorOperator(pick(t, "operator", "In", "NotIn", "Exists", "DoesNotExist"))}
		if r.Operator == metav1.LabelSelectorOpIn || r.Operator == metav1.LabelSelectorOpNotIn {
			r.Values = []string{pick(t, "value", "1", "2", ""), pick(t, "value", "1", "b")}
		}
		s.MatchExpressions = append(s.MatchExpressions, r)
	}
	return s
}

func drawTerm(t *rapid.T) corev1.PodAffinityTerm {
	out := corev1.PodAffinityTerm{TopologyKey: pick(t, "topology", "zone", "host"), LabelSelector: drawSelector(t, "a", "b")}
	if chance(t, 3, "namespaces") {
		out.Namespaces = []string{pick(t, "namespace", "ns", "b1"), pick(t, "namespace", "b2", "gone")}
	}
	if chance(t, 2, "namespace selector") {
		out.NamespaceSelector = drawSelector(t, "team", "x.io/c")
	}
	return out
}

// matches is upstream's answer whether a term of p is about the pod q: fwk.AffinityTerm, made by newAffinityTerm.
func matches(t *rapid.T, p *corev1.Pod, at *corev1.PodAffinityTerm, q *corev1.Pod) bool {
	selects, err := metav1.LabelSelectorAsSelector(at.LabelSelector)
	if err != nil {
		t.Fatal(err)
	}
	of, err := metav1.LabelSelectorAsSelector(at.NamespaceSelector)
	if err != nil {
		t.Fatal(err)
	}
	named := slices.Contains(at.Namespaces, q.Namespace) || len(at.Namespaces) == 0 && at.NamespaceSelector == nil && q.Namespace == p.Namespace
	return (named || of.Matches(spaces[q.Namespace])) && selects.Matches(labels.Set(q.Labels))
}

// TestPodTermsAsUpstream compares which pods the terms are about with upstream's reading of them. An affinity is about the
// pods that all its terms are about.
func TestPodTermsAsUpstream(t *testing.T) {
	answers := map[bool]int{}
	rapid.Check(t, func(t *rapid.T) {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", Labels: drawLabels(t)}}
		q := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pick(t, "namespace", "ns", "b1", "b2", "bare"), Labels: drawLabels(t)}}
		var terms []corev1.PodAffinityTerm
		for range rapid.IntRange(1, 2).Draw(t, "terms") {
			terms = append(terms, drawTerm(t))
		}
		weight := int32(rapid.IntRange(1, 100).Draw(t, "weight"))
		weighted := []corev1.WeightedPodAffinityTerm{{Weight: weight, PodAffinityTerm: terms[0]}}
		p.Spec.Affinity = &corev1.Affinity{
			PodAffinity:     &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms, PreferredDuringSchedulingIgnoredDuringExecution: weighted},
			PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms, PreferredDuringSchedulingIgnoredDuringExecution: weighted},
		}
		v := Pod(p, withSpaces)
		if reason := v.Check(); reason != "" || v.Invalid != "" {
			t.Fatalf("%s %s", reason, v.Invalid)
		}
		if len(v.Rules().PodPreferred) != 2 || v.Rules().PodPreferred[0].Weight != weight || v.Rules().PodPreferred[1].Weight != -weight {
			t.Fatalf("wishes: %+v", v.Rules().PodPreferred)
		}
		all := true
		for i := range terms {
			want := matches(t, p, &terms[i], q)
			all = all && want
			answers[want]++
			if got := v.Rules().PodAntiAffinity[i]; got.Topology != terms[i].TopologyKey || got.Selects(q.Namespace, q.Labels) != want {
				t.Fatalf("anti-affinity %+v is about %s %v: upstream says %v", got, q.Namespace, q.Labels, want)
			}
		}
		for i, got := range v.Rules().PodAffinity {
			if got.Topology != terms[i].TopologyKey || got.Selects(q.Namespace, q.Labels) != all {
				t.Fatalf("affinity %+v is about %s %v: upstream says %v", got, q.Namespace, q.Labels, all)
			}
		}
	})
	if total := answers[true] + answers[false]; total >= 100 && (answers[true] < total/20 || answers[false] < total/20) {
		t.Errorf("the cases are too much alike to tell anything: %v", answers)
	}
}

// What the API server merged into a selector is not merged again, whatever the pod's labels are by now.
func TestLabelKeysAreMergedOnce(t *testing.T) {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Labels: map[string]string{"rev": "2", "app": "db"}}}
	own := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}
	merged := own.DeepCopy()
	merged.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "rev", Operator: metav1.LabelSelectorOpIn, Values: []string{"1"}}, {Key: "app", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"web"}}}
	for name, test := range map[string]struct {
		selector *metav1.LabelSelector
		want     []engine.Requirement
	}{
		"from a manifest":       {own, []engine.Requirement{{Key: "app", Op: engine.In, Values: []string{"db"}}, {Key: "rev", Op: engine.In, Values: []string{"2"}}, {Key: "app", Op: engine.NotIn, Values: []string{"db"}}}},
		"from the API server":   {merged, []engine.Requirement{{Key: "app", Op: engine.In, Values: []string{"db"}}, {Key: "rev", Op: engine.In, Values: []string{"1"}}, {Key: "app", Op: engine.NotIn, Values: []string{"web"}}}},
		"of a selector of none": {nil, nil},
	} {
		at := corev1.PodAffinityTerm{TopologyKey: "zone", LabelSelector: test.selector, MatchLabelKeys: []string{"rev", "missing"}, MismatchLabelKeys: []string{"app"}}
		if diff := cmp.Diff(test.want, podTerm(p, &at, Options{}).Labels); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
}

// TestSpreadAsUpstream compares which pods a constraint counts: upstream's filterTopologySpreadConstraints and
// countPodsMatchSelector.
func TestSpreadAsUpstream(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", Labels: drawLabels(t)}}
		q := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pick(t, "namespace", "ns", "ns", "b1"), Labels: drawLabels(t)}}
		c := corev1.TopologySpreadConstraint{
			MaxSkew: int32(rapid.IntRange(1, 3).Draw(t, "skew")), TopologyKey: "zone", LabelSelector: drawSelector(t, "a", "b"),
			WhenUnsatisfiable: corev1.UnsatisfiableConstraintAction(pick(t, "when", "DoNotSchedule", "ScheduleAnyway")),
		}
		if chance(t, 2, "keys") {
			c.MatchLabelKeys = []string{"rev"}
		}
		if chance(t, 2, "policies") {
			c.NodeAffinityPolicy = ptr(corev1.NodeInclusionPolicy(pick(t, "affinity", "Honor", "Ignore")))
			c.NodeTaintsPolicy = ptr(corev1.NodeInclusionPolicy(pick(t, "taints", "Honor", "Ignore")))
		}
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{c}
		got := Pod(p, Options{}).PodRules.Spread[0]
		if err := got.Check(); err != nil {
			t.Fatal(err)
		}
		selects, _ := metav1.LabelSelectorAsSelector(c.LabelSelector)
		if value, has := p.Labels["rev"]; has && len(c.MatchLabelKeys) > 0 {
			if rs, ok := selects.Requirements(); ok {
				selects = labels.SelectorFromSet(labels.Set{"rev": value}).Add(rs...)
			}
		}
		want := !selects.Empty() && q.Namespace == p.Namespace && selects.Matches(labels.Set(q.Labels))
		if got.Selects(q.Namespace, q.Labels) != want {
			t.Fatalf("%+v counts %s %v: upstream says %v", got, q.Namespace, q.Labels, want)
		}
		ignore, honor := corev1.NodeInclusionPolicyIgnore, corev1.NodeInclusionPolicyHonor
		if got.MaxSkew != c.MaxSkew || got.Soft != (c.WhenUnsatisfiable == corev1.ScheduleAnyway) ||
			got.AnyNode != (c.NodeAffinityPolicy != nil && *c.NodeAffinityPolicy == ignore) || got.Untainted != (c.NodeTaintsPolicy != nil && *c.NodeTaintsPolicy == honor) {
			t.Fatalf("%+v of %+v", got, c)
		}
	})
}

// Pods of ours without constraints, GPUs or a gang are spread as their Services and controllers select them.
func TestPeersAreSpread(t *testing.T) {
	peers := []engine.Requirement{{Key: "app", Op: engine.In, Values: []string{"web"}}}
	o := Options{Around: Around{Peers: func(*corev1.Pod) []engine.Requirement { return peers }}}
	plain := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}, Spec: corev1.PodSpec{SchedulerName: "berth"}}
	for name, test := range map[string]struct {
		change func(*corev1.Pod)
		want   int
	}{
		"plain":     {func(*corev1.Pod) {}, 2},
		"another's": {func(p *corev1.Pod) { p.Spec.SchedulerName = "default-scheduler" }, 0},
		"with GPUs": {func(p *corev1.Pod) {
			p.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: list("nvidia.com/gpu", "1")}}}
		}, 0},
		"in a gang": {func(p *corev1.Pod) { p.Annotations = map[string]string{"berth.dev/gang": "g"} }, 0},
		"with constraint": {func(p *corev1.Pod) {
			p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{TopologyKey: "rack", MaxSkew: 1}}
		}, 1},
	} {
		p := plain.DeepCopy()
		test.change(p)
		v := Pod(p, o)
		if got := v.Rules().Spread; len(got) != test.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// A required rule that makes no sense keeps the pod waiting, and says so.
func TestMalformedRule(t *testing.T) {
	for _, at := range []corev1.PodAffinityTerm{
		{LabelSelector: &metav1.LabelSelector{}},
		{TopologyKey: "zone", LabelSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Like"}}}},
		{TopologyKey: "zone", NamespaceSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Like"}}}},
	} {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}, Spec: corev1.PodSpec{SchedulerName: "berth"}}
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{at}}}
		if v := Pod(p, Options{}); v.Invalid == "" || len(v.Rules().PodAntiAffinity) > 0 {
			t.Errorf("%+v: %q", at, v.Invalid)
		}
	}
}
