package cluster

import (
	"slices"
	"testing"
	"time"

	"github.com/berth-dev/berth/engine/internal/api"
)

// comers lists who can come to the only held place.
func comers(m *Model) (keys []string) {
	for _, holds := range m.HoldsOf {
		m.EachComing(holds[0], func(p *Pod) { keys = append(keys, p.Key) })
	}
	slices.Sort(keys)
	return keys
}

// A pod that is evicted to run again elsewhere comes to the place that is held there. A plan that gives the eviction up may ask who
// comes; once it is rolled back the pod comes again.
func TestWhoComesFollowsEvictions(t *testing.T) {
	config, _ := api.Config{}.Normal()
	later := time.Date(2026, 11, 15, 13, 0, 0, 0, time.UTC)
	m := NewModel(config)
	m.LoadAll(&api.Snapshot{
		Version:   api.SnapshotVersion,
		Nodes:     []api.Node{{Name: "n0", Version: 1}, {Name: "n1", Version: 1}},
		Pods:      []api.Pod{{Key: "a/p", UID: "u", Version: 1, Owner: "a/job", Node: "n0", Evictable: true}},
		Evictions: []api.Eviction{{Pod: "a/p", UID: "u", Version: 1, Cause: api.Preempted, For: "a/job", To: "n1", At: later, Until: later}},
		Holds:     []api.Hold{{Gang: "a/job", Version: 1, Node: "n1", Until: later}},
	})
	m.Freshen()
	check := func(when string, want ...string) {
		t.Helper()
		if got := comers(m); !slices.Equal(got, want) {
			t.Errorf("%s: %q come, not %q", when, got, want)
		}
	}
	check("as told", "a/p")
	held := m.Nodes["n1"].Bucket
	number := held.Numbers[m.Nodes["n1"].Slot]
	mark := m.Mark()
	m.UnmarkEvicting(m.Pods["a/p"])
	check("in a plan that gives the eviction up")
	if held.Numbers[m.Nodes["n1"].Slot] == number {
		t.Error("the held place has the number of a state in which another pod came to it")
	}
	m.Rollback(mark)
	check("after it was rolled back", "a/p")

	// A new version that makes no sense has no effect, and neither has what was evicted of the old one.
	m.Apply(&api.Change{Pod: &api.Pod{Key: "a/p", UID: "u", Version: 2, Owner: "a/job", Node: "n0", Spec: api.Spec{Requests: api.Resources{{Resource: "cpu", Value: -1}}}}})
	if !m.IsRejected(api.KindPod, "a/p") {
		t.Fatal("the new version was to be rejected")
	}
	check("once the pod is rejected")
}
