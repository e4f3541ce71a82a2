package rules

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"pgregory.net/rapid"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/convert"
)

// cluster is the namespaces, by name, and no controllers.
type cluster map[string]labels.Set

func (c cluster) Select(s labels.Selector) []string {
	out := []string{}
	for _, name := range slices.Sorted(maps.Keys(c)) {
		if s.Matches(c[name]) {
			out = append(out, name)
		}
	}
	return out
}

func (c cluster) Selector(*corev1.Pod) []engine.Requirement { return nil }

// testPod is one that is to be apart from others in the namespaces of a team; "": it does not say so.
func testPod(namespace, name, app, team string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": app, "tier": "web"}}}
	if team != "" {
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			TopologyKey: "zone", LabelSelector: &metav1.LabelSelector{}, NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": team}},
		}}}}
	}
	return p
}

// reading is what the rules of a pod mean.
func reading(r *Rules, p *corev1.Pod) string {
	var out []any
	for _, s := range convert.NamespaceSelectors(p) {
		out = append(out, r.Around().Namespaces(s))
	}
	return fmt.Sprint(append(out, r.Around().Peers(p))...)
}

// What rules mean follows from the namespaces and Services that there are, whatever came and went, and a pod that waits and whose rules mean
// something else than before is among those that are told.
func TestRulesFollow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		there := make(cluster)
		is := New(there)
		pods, before, services := make(map[string]*corev1.Pod), make(map[string]string), make(map[string]map[string]string)
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			space, team := rapid.SampledFrom([]string{"one", "two"}).Draw(t, "namespace"), rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "team")
			name, app := rapid.SampledFrom([]string{"x", "y"}).Draw(t, "name"), rapid.SampledFrom([]string{"a", "b"}).Draw(t, "app")
			was, known := there[space]
			switch rapid.IntRange(0, 5).Draw(t, "what") {
			case 0:
				there[space] = labels.Set{"team": team}
				is.Namespace(space, was, there[space], known, true)
			case 1:
				delete(there, space)
				is.Namespace(space, was, nil, known, false)
			case 2:
				selector := rapid.SampledFrom([]map[string]string{nil, {"app": app}, {"tier": "web"}, {"app": app, "tier": "web"}}).Draw(t, "selector")
				services[space+"/"+name] = selector
				is.SetService(space, name, selector)
			case 3:
				delete(services, space+"/"+name)
				is.RemoveService(space, name)
			case 4:
				key := space + "/" + name
				pods[key] = testPod(space, name, app, team)
				delete(before, key)
				is.Join(key, pods[key], true)
			case 5:
				key := space + "/" + name
				delete(pods, key)
				is.Leave(key, space)
			}
			if rapid.Bool().Draw(t, "not yet") {
				continue
			}
			look, now := is.Take(), make(map[string]string)
			for key, p := range pods {
				now[key] = reading(is, p)
				if was, known := before[key]; known && was != now[key] && !look[key] {
					t.Fatalf("%s: %s\nwas: %s\nnobody looks at it", key, now[key], was)
				}
			}
			before = now
		}

		anew := New(there)
		for _, key := range slices.Sorted(maps.Keys(services)) {
			anew.SetService(key[:3], key[4:], services[key])
		}
		for key, p := range pods {
			anew.Join(key, p, true)
			if diff := cmp.Diff(reading(anew, p), reading(is, p)); diff != "" {
				t.Fatalf("%s means something else (-anew +is):\n%s", key, diff)
			}
		}
		for key, p := range pods {
			is.Leave(key, p.Namespace)
		}
		is.Take()
		if left := len(is.selectors) + len(is.of) + len(is.waiting) + len(is.changed) + len(is.moved); left > 0 {
			t.Fatalf("%d things remembered of pods that are gone", left)
		}
	})
}
