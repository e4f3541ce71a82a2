package cluster

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/engine"
)

// apartFrom is a pod that keeps apart from pods of the namespaces that have the label team.
func apartFrom(name, team string, node string) *corev1.Pod {
	return edited(pod(name, 0), func(p *corev1.Pod) {
		p.UID, p.Spec.NodeName = types.UID(name), node
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{}, NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": team}},
		}}}}
	})
}

// given are the namespaces that the pods were given with since, by pod.
func given(f *clock) map[string][]string {
	f.Settle()
	out := make(map[string][]string)
	for _, c := range f.changes.take() {
		if c.Pod != nil && len(c.Pod.Rules().PodAntiAffinity) > 0 {
			out[c.Pod.Key] = c.Pod.Rules().PodAntiAffinity[0].Namespaces
		}
	}
	return out
}

func namespaceOfTeam(name, team string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"team": team}}}
}

// A namespace that comes, goes or is relabelled gives the pods again whose selectors it changes, running ones too, and no
// others.
func TestNamespaceSelectorsFollowNamespaces(t *testing.T) {
	f := newClock()
	f.Set(node("n1", "r1", 0))
	f.Set(namespaceOfTeam("a1", "a"))
	for i, p := range []*corev1.Pod{apartFrom("waits", "a", ""), apartFrom("runs", "a", "n1"), apartFrom("other", "b", ""), pod("plain", 0)} {
		p.ResourceVersion = fmt.Sprint(i + 1)
		f.Set(p)
	}
	step := func(what string, want map[string][]string) {
		t.Helper()
		if diff := cmp.Diff(want, given(f)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	step("as they come", map[string][]string{"default/waits": {"a1"}, "default/runs": {"a1"}, "default/other": {}})
	f.Set(namespaceOfTeam("a0", "a"))
	step("a namespace comes", map[string][]string{"default/waits": {"a0", "a1"}, "default/runs": {"a0", "a1"}})
	f.Set(namespaceOfTeam("a0", "a"))
	f.Set(namespaceOfTeam("c", "c"))
	step("nothing that matters changes", map[string][]string{})
	f.Set(namespaceOfTeam("a1", "b"))
	step("one is relabelled", map[string][]string{"default/waits": {"a0"}, "default/runs": {"a0"}, "default/other": {"a1"}})
	f.Remove(namespaceOfTeam("a0", "a"))
	step("one goes", map[string][]string{"default/waits": {}, "default/runs": {}})
}

// A pod that waits and has no constraint of its own is spread from the pods of its Services and of its controller. A Service
// that comes later gives it again, and runs past those that have a node.
func TestServicesSpreadTheirPods(t *testing.T) {
	f := newClock()
	set := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "web"},
		Spec:       appsv1.ReplicaSetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"hash": "1"}}},
	}
	f.Set(set)
	for i, name := range []string{"waits", "runs"} {
		p := edited(pod(name, 0), func(p *corev1.Pod) {
			p.UID, p.ResourceVersion, p.Labels = types.UID(name), fmt.Sprint(i+1), map[string]string{"app": "web", "hash": "1"}
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: "web", Controller: new(true)}}
			if name == "runs" {
				p.Spec.NodeName = "n1"
			}
		})
		f.Set(p)
	}
	peers := func() map[string][]engine.Requirement {
		f.Settle()
		out := make(map[string][]engine.Requirement)
		for _, c := range f.changes.take() {
			if c.Pod != nil {
				out[c.Pod.Key] = nil
				for _, s := range c.Pod.Rules().Spread {
					out[c.Pod.Key] = s.Labels
				}
			}
		}
		return out
	}
	app, hash := engine.Requirement{Key: "app", Op: engine.In, Values: []string{"web"}}, engine.Requirement{Key: "hash", Op: engine.In, Values: []string{"1"}}
	step := func(what string, want map[string][]engine.Requirement) {
		t.Helper()
		if diff := cmp.Diff(want, peers()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	step("as they come", map[string][]engine.Requirement{"default/waits": {hash}, "default/runs": {hash}})
	service := func(name string, selector map[string]string) *corev1.Service {
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.ServiceSpec{Selector: selector}}
	}
	f.Set(service("web", map[string]string{"app": "web"}))
	step("a Service comes", map[string][]engine.Requirement{"default/waits": {app, hash}})
	f.Set(service("all", nil))
	f.Set(service("db", map[string]string{"app": "web", "tier": "db"}))
	step("others come", map[string][]engine.Requirement{})
	f.Remove(service("web", nil))
	step("it goes", map[string][]engine.Requirement{"default/waits": {hash}})
}

func BenchmarkNamespaceChanges(b *testing.B) {
	f := newClock()
	for i := range 10_000 { // of which ten have namespace selectors
		p := pod(fmt.Sprint("p", i), 0)
		if i < 10 {
			p = apartFrom(fmt.Sprint("p", i), "a", "")
		}
		p.ResourceVersion = fmt.Sprint(i + 1)
		f.Set(p)
	}
	f.Settle()
	for b.Loop() {
		f.Set(namespaceOfTeam("x", "a"))
		f.Settle()
		f.Set(namespaceOfTeam("x", "b"))
		f.Settle()
		f.changes.take()
	}
}
