package convert

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/engine"
)

// Limits are in the engine's units, and none that comes past the API server makes the engine refuse the queue.
func TestQueueLimits(t *testing.T) {
	limit := func(name, v string) v1alpha1.QueueResource {
		return v1alpha1.QueueResource{Name: name, Limit: resource.MustParse(v)}
	}
	q := &v1alpha1.Queue{
		ObjectMeta: metav1.ObjectMeta{Name: "q", ResourceVersion: "7"},
		Spec: v1alpha1.QueueSpec{Resources: []v1alpha1.QueueResource{
			limit("nvidia.com/gpu", "64"), limit("cpu", "1500m"), limit("memory", "1Ki"), limit("a/negative", "-3"), limit("a/vast", "8E"),
		}},
	}
	want := engine.Queue{Name: "q", Version: 7, Limits: engine.Resources{
		{Resource: "a/negative", Value: 0}, {Resource: "a/vast", Value: most}, {Resource: "cpu", Value: 1500},
		{Resource: "memory", Value: 1024}, {Resource: "nvidia.com/gpu", Value: 64},
	}}
	got := Queue(q)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if bad := engine.Load(engine.Snapshot{Queues: []engine.Queue{got}}, engine.Config{}).Rejected(); len(bad) > 0 {
		t.Error(bad)
	}
}

func TestQueueOpenTo(t *testing.T) {
	for _, c := range []struct {
		name          string
		selector      *metav1.LabelSelector
		team, ops, ok bool
	}{
		{"absent", nil, true, true, true},
		{"empty", &metav1.LabelSelector{}, true, true, true},
		{"labels", &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}}, true, false, true},
		{"matches nothing", &metav1.LabelSelector{MatchLabels: map[string]string{"team": "z"}}, false, false, true},
		{"no operator", &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "team", Operator: "Is"}}}, false, false, false},
		{"no label key", &metav1.LabelSelector{MatchLabels: map[string]string{"a b": "c"}}, false, false, false},
	} {
		s, err := OpenTo(&v1alpha1.Queue{Spec: v1alpha1.QueueSpec{NamespaceSelector: c.selector}})
		got := []bool{s.Matches(labels.Set{"team": "a"}), s.Matches(labels.Set{}), err == nil}
		if diff := cmp.Diff([]bool{c.team, c.ops, c.ok}, got); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
}

// An annotation counts before a label, as on pods.
func TestQueueOfNamespace(t *testing.T) {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{KeyQueue: "label"}}}
	got := []string{QueueOf(&corev1.Namespace{}), QueueOf(ns)}
	ns.Annotations = map[string]string{KeyQueue: " annotation "}
	got = append(got, QueueOf(ns))
	if diff := cmp.Diff([]string{"", "label", "annotation"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestQuantity(t *testing.T) {
	for want, got := range map[string]resource.Quantity{
		"1500m": Quantity("cpu", 1500), "2": Quantity("cpu", 2000), "3Gi": Quantity("memory", 3<<30), "0": Quantity("nvidia.com/gpu", 0), "10k": Quantity("nvidia.com/gpu", 10_000),
	} {
		if got.String() != want {
			t.Errorf("%s, want %s", got.String(), want)
		}
	}
}
