package tenancy

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/dialect"
)

// deaf is a listener that hears nothing.
type deaf struct{}

func (deaf) UsageChanged()  {}
func (deaf) AccessChanged() {}

// testQueue is open to the namespaces of a team, or to all.
func testQueue(name, team string) *v1alpha1.BerthQueue {
	q := &v1alpha1.BerthQueue{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if team != "" {
		q.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": team}}
	}
	return q
}

func testNamespace(name, team, queue string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"team": team, v1alpha1.KeyQueue: queue}}}
}

// told is what an engine knows after it was told changes.
type told map[string]engine.Queue

func (e told) take(t *Tenancy) Changes {
	c := t.Take()
	for _, q := range c.Queues {
		e[q.Name] = q
	}
	if c.Dropped {
		delete(e, v1alpha1.DefaultQueue)
	}
	return c
}

// What is told follows from the queues and namespaces that there are, whatever came and went: a tenancy that is told all of it at once says
// the same. A namespace whose workloads have another payer has moved.
func TestTenancyFollows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		is, engine := New("nvidia.com/gpu", deaf{}), make(told)
		queues, dialects := make(map[string]*v1alpha1.BerthQueue), make(map[string]*dialect.Object)
		namespaces := make(map[string]*corev1.Namespace)
		names, teams := []string{"q", "r", v1alpha1.DefaultQueue}, []string{"", "a", "b"}
		spaces := []string{"one", "two", v1alpha1.SystemNamespace}
		payers := make(map[string]string)
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			name, team, space := rapid.SampledFrom(names).Draw(t, "queue"), rapid.SampledFrom(teams).Draw(t, "team"), rapid.SampledFrom(spaces).Draw(t, "namespace")
			switch rapid.IntRange(0, 5).Draw(t, "what") {
			case 0:
				queues[name] = testQueue(name, team)
				delete(dialects, name)
				is.SetQueue(queues[name], nil, nil)
			case 1:
				if queues[name] != nil && dialects[name] == nil {
					is.SetQueue(testQueue(name, "c"), &dialect.Object{}, nil) // does not count
					break
				}
				queues[name], dialects[name] = testQueue(name, team), &dialect.Object{Kind: "ClusterQueue"}
				is.SetQueue(queues[name], dialects[name], nil)
			case 2:
				if queues[name] != nil {
					delete(queues, name)
					delete(dialects, name)
					delete(engine, name) // as the owner has it forgotten at once
					is.DropQueue(name)
				}
			case 3, 4:
				n := testNamespace(space, team, rapid.SampledFrom([]string{"", "q", "gone"}).Draw(t, "names"))
				if rapid.Bool().Draw(t, "frozen") {
					n.Annotations = map[string]string{v1alpha1.KeyFreeze: "true"}
				}
				namespaces[space] = n
				is.SetNamespace(n)
			case 5:
				if space != v1alpha1.SystemNamespace { // what it says holds until it says otherwise
					delete(namespaces, space)
					is.RemoveNamespace(space)
				}
			}
			if rapid.Bool().Draw(t, "not yet") {
				continue
			}
			c := engine.take(is)
			for _, space := range spaces {
				payer := is.Payer(space, "")
				if payer != payers[space] && !c.Moved(space+"/pod") {
					t.Fatalf("%s paid for %s, and %s does now: it has not moved", payers[space], space, payer)
				}
				payers[space] = payer
			}
		}
		engine.take(is)

		anew, fresh := New("nvidia.com/gpu", deaf{}), make(told)
		for _, name := range slices.Sorted(maps.Keys(queues)) {
			anew.SetQueue(queues[name], dialects[name], nil)
		}
		for _, name := range slices.Sorted(maps.Keys(namespaces)) {
			anew.SetNamespace(namespaces[name])
		}
		fresh.take(anew)
		if diff := cmp.Diff(fresh, engine); diff != "" {
			t.Fatalf("told otherwise (-anew +is):\n%s", diff)
		}
		if diff := cmp.Diff(anew.Stale(), is.Stale()); diff != "" {
			t.Fatalf("stale (-anew +is):\n%s", diff)
		}
		for _, space := range spaces {
			for _, name := range append(names, "", "gone") {
				if a, b := anew.Lets(space, name), is.Lets(space, name); a != b {
					t.Fatalf("%s lets %s: %t, and %t anew", name, space, b, a)
				}
				if a, b := anew.Payer(space, name), is.Payer(space, name); a != b {
					t.Fatalf("%s pays for %s: %s, and %s anew", name, space, b, a)
				}
			}
		}
	})
}

// A queue that a workload names pays, then the one of its namespace, then the default, as long as there are queues.
func TestPayer(t *testing.T) {
	is := New("nvidia.com/gpu", deaf{})
	is.SetNamespace(testNamespace("one", "", "mine"))
	is.SetNamespace(testNamespace("two", "", ""))
	check := func(want ...string) {
		t.Helper()
		got := []string{is.Payer("one", "q"), is.Payer("one", ""), is.Payer("two", "")}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
	check("q", "mine", "")
	is.SetQueue(testQueue("q", ""), nil, nil)
	check("q", "mine", v1alpha1.DefaultQueue)
	is.DropQueue("q")
	check("q", "mine", "")
}

// A namespace is to say which queues it may use where it may not use all, and nothing where nobody would read it.
func TestStale(t *testing.T) {
	is := New("nvidia.com/gpu", deaf{})
	is.SetQueue(testQueue("a", "a"), nil, nil)
	is.SetQueue(testQueue("all", ""), nil, nil)
	for i, team := range []string{"a", "b"} {
		is.SetNamespace(testNamespace(fmt.Sprint("n", i), team, ""))
	}
	said := testNamespace("said", "b", "")
	said.Annotations = map[string]string{v1alpha1.KeyQueues: "all"}
	is.SetNamespace(said)
	ending := testNamespace("ending", "b", "")
	ending.DeletionTimestamp = new(metav1.Now())
	is.SetNamespace(ending)
	if diff := cmp.Diff([]Access{{Name: "n1", Queues: "all"}}, is.Stale()); diff != "" {
		t.Error(diff)
	}
}
