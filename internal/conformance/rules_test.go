package conformance

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"pgregory.net/rapid"
)

// spaces are the namespaces of pods with rules.
var spaces = map[string]labels.Set{"default": {"team": "a"}, "other": {"team": "b"}, "bare": nil}

// selectedSpaces are those that a selector selects.
func selectedSpaces(s labels.Selector) []string {
	return slices.DeleteFunc(sortedKeys(spaces), func(name string) bool { return !s.Matches(spaces[name]) })
}

var spreadKeys = []string{corev1.LabelHostname, corev1.LabelTopologyZone, "disk"}

func anyLabels(t *rapid.T) map[string]string {
	out := map[string]string{}
	for _, key := range []string{"app", "tier"} {
		if !chance(t, 4, "no "+key) {
			out[key] = pick(t, key, "x", "y")
		}
	}
	return out
}

func anySelector(t *rapid.T, keys, values []string) *metav1.LabelSelector {
	if chance(t, 12, "no selector") {
		return nil
	}
	s := &metav1.LabelSelector{}
	if !chance(t, 3, "no labels") {
		s.MatchLabels = map[string]string{pick(t, "key", keys...): pick(t, "value", values...)}
	}
	if chance(t, 4, "expression") {
		r := metav1.LabelSelectorRequirement{Key: pick(t, "key", keys...), Operator: pick(t, "operator", metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist, metav1.LabelSelectorOpNotIn)}
		if r.Operator == metav1.LabelSelectorOpNotIn {
			r.Values = []string{pick(t, "value", values...)}
		}
		s.MatchExpressions = append(s.MatchExpressions, r)
	}
	return s
}

func anyPodTerm(t *rapid.T) corev1.PodAffinityTerm {
	out := corev1.PodAffinityTerm{TopologyKey: pick(t, "topology", spreadKeys...), LabelSelector: anySelector(t, []string{"app", "tier"}, []string{"x", "y"})}
	switch {
	case chance(t, 6, "namespaces"):
		out.Namespaces = []string{pick(t, "namespace", "other", "bare", "default")}
	case chance(t, 6, "namespace selector"):
		out.NamespaceSelector = anySelector(t, []string{"team"}, []string{"a", "b"})
	}
	return out
}

func anyPodTerms(t *rapid.T, most int) (out []corev1.PodAffinityTerm) {
	for range pick(t, "terms", 1, 1, most) {
		out = append(out, anyPodTerm(t))
	}
	return out
}

func anySpread(t *rapid.T) corev1.TopologySpreadConstraint {
	c := corev1.TopologySpreadConstraint{
		MaxSkew: pick[int32](t, "skew", 1, 1, 2), TopologyKey: pick(t, "topology", spreadKeys...), WhenUnsatisfiable: corev1.DoNotSchedule,
		LabelSelector: anySelector(t, []string{"app", "tier"}, []string{"x", "y"}),
	}
	if chance(t, 4, "domains") {
		c.MinDomains = new(pick[int32](t, "least", 2, 3))
	}
	if chance(t, 4, "affinity policy") {
		c.NodeAffinityPolicy = new(pick(t, "policy", corev1.NodeInclusionPolicyIgnore, corev1.NodeInclusionPolicyHonor))
	}
	if chance(t, 4, "taints policy") {
		c.NodeTaintsPolicy = new(pick(t, "policy", corev1.NodeInclusionPolicyIgnore, corev1.NodeInclusionPolicyHonor))
	}
	if chance(t, 4, "keys") {
		c.MatchLabelKeys = []string{"tier"}
	}
	return c
}

// anyRuled is a small pod with labels, and a rule of the kind, if any.
func anyRuled(t *rapid.T, name, kind string) *corev1.Pod {
	p := blank(name)
	p.Namespace = pick(t, "namespace", "default", "default", "default", "other", "bare")
	p.Labels, p.Spec.Priority = anyLabels(t), new(int32(0))
	p.Spec.Containers = []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("10m")}}}}
	switch kind {
	case "affinity":
		affinity(&p.Spec).PodAffinity = &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: anyPodTerms(t, 2)}
	case "anti-affinity":
		affinity(&p.Spec).PodAntiAffinity = &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: anyPodTerms(t, 2)}
	case "spread":
		for range pick(t, "constraints", 1, 1, 2) {
			p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, anySpread(t))
		}
	}
	return p
}

// ruledFleet has pods with labels and rules on its nodes, on most of which there is room.
func ruledFleet(t *rapid.T) fleet {
	var f fleet
	for i := range rapid.IntRange(2, 7).Draw(t, "nodes") {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("n%d", i), Labels: map[string]string{}}}
		n.Labels[corev1.LabelHostname] = n.Name
		if !chance(t, 8, "no zone") {
			n.Labels[corev1.LabelTopologyZone] = pick(t, "zone", "za", "zb", "zc")
		}
		if !chance(t, 4, "no disk") {
			n.Labels["disk"] = pick(t, "disk", "ssd", "hdd")
		}
		if chance(t, 6, "taint") {
			n.Spec.Taints = []corev1.Taint{{Key: "team", Value: "a", Effect: corev1.TaintEffectNoSchedule}}
		}
		n.Status.Allocatable = corev1.ResourceList{"cpu": resource.MustParse("8"), "memory": resource.MustParse("8Gi"), "pods": resource.MustParse("110")}
		f.nodes = append(f.nodes, n)
		for j := range pick(t, "bound pods", 0, 1, 1, 2, 3) {
			p := anyRuled(t, fmt.Sprintf("bound-%d-%d", i, j), pick(t, "its rule", "", "", "anti-affinity", "affinity", "spread"))
			p.Spec.NodeName, p.Spec.SchedulerName = n.Name, pick(t, "of", "", "another")
			if chance(t, 8, "terminating") {
				p.DeletionTimestamp = &metav1.Time{Time: noon}
			}
			f.bound = append(f.bound, p)
		}
	}
	return f
}

// Berth and the stock scheduler have the same feasible nodes for pods with rules about other pods, among pods that have such
// rules too.
func TestRulesAsStock(t *testing.T) {
	var objects []runtime.Object
	for _, name := range sortedKeys(spaces) {
		objects = append(objects, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: spaces[name]}})
	}
	k := newStock(t, objects...)
	var seen tally
	inRounds(t, rounds, func(t *rapid.T) {
		f := ruledFleet(t)
		k.show(f)
		b := newBerth(t, f, storage{})
		for i := range podsPerFleet {
			p := anyRuled(t, fmt.Sprintf("pod-%d", i), pick(t, "rule", "spread", "affinity", "anti-affinity", ""))
			if chance(t, 4, "selector") {
				p.Spec.NodeSelector = map[string]string{"disk": pick(t, "disk", "ssd", "hdd")}
			}
			if chance(t, 4, "tolerates") {
				p.Spec.Tolerations = []corev1.Toleration{{Key: "team", Operator: corev1.TolerationOpExists}}
			}
			compare(t, f, p, k.judge(t, f.nodes, p), b.feasible(t, p), &seen)
		}
	})
	t.Log(seen.String())
	for _, name := range []string{"InterPodAffinity", "PodTopologySpread"} {
		if seen.pairs > 5000 && seen.refused[name] < seen.pairs/50 {
			t.Errorf("%s refused %d of %d pairs: its rule is hardly compared", name, seen.refused[name], seen.pairs)
		}
	}
}
