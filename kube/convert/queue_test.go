package convert

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/engine"
)

// Limits are in the engine's units, and none that comes past the API server makes the engine refuse the queue.
func TestQueueLimits(t *testing.T) {
	limit := func(name, v string) v1alpha1.QueueResource {
		return v1alpha1.QueueResource{Name: name, Limit: new(resource.MustParse(v))}
	}
	q := &v1alpha1.BerthQueue{
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

// Every field of the spec arrives in the engine, in its units.
func TestQueueWhole(t *testing.T) {
	text := `
metadata: {name: vision, resourceVersion: "9"}
spec:
  parent: research
  weight: 3
  priority: 7
  maxRunning: 20
  fairUsers: true
  minRunTime: 10m
  warning: 30s
  promoteAfter: 24h
  reclaimIdleAfter: 1h
  keepDisruptionBudgets: true
  resources:
  - {name: nvidia.com/gpu, quota: 16, limit: 32, lend: 8, userLimit: 4}
  - {name: nvidia.com/gpu, gpuModel: NVIDIA-H100-80GB-HBM3, quota: 8}
  - {name: cpu, quota: 1500m}
  budgets:
  - {hours: 100, period: 168h}
  - {resource: nvidia.com/gpu, hours: "0.5", period: 24h, from: "2026-11-01T00:00:00+01:00"}
  - {resource: cpu, hours: 2, period: 24h}
  - {resource: memory, hours: 8Ei, period: 24h}
  - {resource: memory, hours: -1, period: 24h}
`
	var q v1alpha1.BerthQueue
	if err := yaml.UnmarshalStrict([]byte(text), &q); err != nil {
		t.Fatal(err)
	}
	gpu, h100, cpu := "nvidia.com/gpu", "nvidia.com/gpu@H100", "cpu"
	monday, day := time.Date(1970, 1, 5, 0, 0, 0, 0, time.UTC), 24*time.Hour
	want := engine.Queue{
		Name: "vision", Version: 9, Parent: "research", Weight: 3, Priority: 7, MaxRunning: 20, FairUsers: true, KeepBudgets: true,
		MinRun: 10 * time.Minute, Warning: 30 * time.Second, PromoteAfter: day, ReclaimIdle: time.Hour,
		Quota:      engine.Resources{{Resource: cpu, Value: 1500}, {Resource: gpu, Value: 16}, {Resource: h100, Value: 8}},
		Limits:     engine.Resources{{Resource: gpu, Value: 32}},
		Lend:       engine.Resources{{Resource: gpu, Value: 8}},
		UserLimits: engine.Resources{{Resource: gpu, Value: 4}},
		Budgets: []engine.Budget{
			{Resource: gpu, Seconds: 360_000, Period: 7 * day, From: monday},
			{Resource: gpu, Seconds: 1800, Period: day, From: time.Date(2026, 10, 31, 23, 0, 0, 0, time.UTC)},
			{Resource: cpu, Seconds: 7_200_000, Period: day, From: monday},
			{Resource: "memory", Seconds: most * 3600, Period: day, From: monday},
			{Resource: "memory", Seconds: 0, Period: day, From: monday},
		},
	}
	got := Queue(&q)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	up := engine.Queue{Name: "research", Version: 1}
	if bad := engine.Load(engine.Snapshot{Queues: []engine.Queue{up, got}}, engine.Config{}).Rejected(); len(bad) > 0 {
		t.Error(bad)
	}
	if name, model := ResourceOf(h100); name != gpu || model != "H100" {
		t.Errorf("%s is read as %s of %s", h100, name, model)
	}
}

// A booking is on the first nodes by name that it selects, in whatever order they come, and on all where they are too few.
func TestBookings(t *testing.T) {
	node := func(name, rack string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"rack": rack}}}
	}
	nodes := []*corev1.Node{node("n3", "a"), node("n1", "b"), node("n4", "a"), node("n2", "a")}
	from := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	booking := func(name string, nodes int32, selector map[string]string) v1alpha1.QueueBooking {
		at := metav1.NewTime(from.In(time.FixedZone("", 7200)))
		return v1alpha1.QueueBooking{Name: name, From: at, To: metav1.NewTime(at.Add(time.Hour)), Nodes: nodes, NodeSelector: selector}
	}
	q := &v1alpha1.BerthQueue{ObjectMeta: metav1.ObjectMeta{Name: "q"}, Spec: v1alpha1.QueueSpec{Bookings: []v1alpha1.QueueBooking{
		booking("two", 2, map[string]string{"rack": "a"}), booking("any", 2, nil), booking("many", 9, map[string]string{"rack": "b"}), booking("none", 1, map[string]string{"rack": "z"}),
	}}}
	is := func(name string, nodes ...string) engine.Booking {
		return engine.Booking{Name: name, Queue: "q", Nodes: nodes, From: from, To: from.Add(time.Hour)}
	}
	want := []engine.Booking{is("q/two", "n2", "n3"), is("q/any", "n1", "n2"), is("q/many", "n1"), is("q/none")}
	none := func(string) []string { return nil }
	if diff := cmp.Diff(want, Bookings(q, nodes, none)); diff != "" {
		t.Error(diff)
	}
	has := map[string][]string{"q/two": {"gone", "n1", "n4"}, "q/any": {"n2", "n3", "n4"}} // n1 is of another rack now
	want[0], want[1] = is("q/two", "n2", "n4"), is("q/any", "n2", "n3")
	if diff := cmp.Diff(want, Bookings(q, nodes, func(name string) []string { return has[name] })); diff != "" {
		t.Error(diff)
	}
	if got := Bookings(&v1alpha1.BerthQueue{}, nodes, none); got != nil {
		t.Error(got)
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
		s, err := OpenTo(&v1alpha1.BerthQueue{Spec: v1alpha1.QueueSpec{NamespaceSelector: c.selector}})
		got := []bool{s.Matches(labels.Set{"team": "a"}), s.Matches(labels.Set{}), err == nil}
		if diff := cmp.Diff([]bool{c.team, c.ops, c.ok}, got); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
}

// An annotation counts before a label, as on pods.
func TestQueueOfNamespace(t *testing.T) {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1alpha1.KeyQueue: "label"}}}
	got := []string{QueueOf(&corev1.Namespace{}), QueueOf(ns)}
	ns.Annotations = map[string]string{v1alpha1.KeyQueue: " annotation "}
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
