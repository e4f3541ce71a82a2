package engine

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/quantity"
)

// Where time is shared, a queue under its fair share takes from one that is over its own; by default it does not.
func TestSharesAreEvicted(t *testing.T) {
	now := time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)
	two := api.Spec{Requests: api.Resources{{Resource: "nvidia.com/gpu", Value: 2}}}
	snap := api.Snapshot{
		Version: api.SnapshotVersion,
		Nodes:   []api.Node{{Name: "n0", Version: 1, Allocatable: api.Resources{{Resource: "nvidia.com/gpu", Value: 4}, {Resource: api.Pods, Value: 9}}}},
		Queues:  []api.Queue{{Name: "a", Version: 1}, {Name: "b", Version: 1}},
		Pods: []api.Pod{
			{Key: "first", Version: 1, Queue: "b", Node: "n0", Evictable: true, Started: now.Add(-2 * time.Hour), Spec: two},
			{Key: "second", Version: 1, Queue: "b", Node: "n0", Evictable: true, Started: now.Add(-time.Hour), Spec: two},
			{Key: "new", Version: 1, Queue: "a", Spec: two, Evictable: true},
		},
	}
	for policy, want := range map[api.Policy][]string{api.Default: nil, api.TimeShare: {"second shared for new"}} {
		s := Load(snap, api.Config{Policy: policy})
		s.freshen()
		for _, q := range s.m.Queues {
			q.Fair = quantity.Vector{0, 2}
		}
		var got []string
		for _, e := range s.Plan(now).Evictions {
			got = append(got, e.Pod+" "+string(e.Cause)+" for "+e.For)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("policy %s evicts (-want +got):\n%s", policy, diff)
		}
	}
}

// There are fair shares of GPUs, CPU, memory and what a queue is promised. What a workload asks for besides, here adapters of
// a network, does not keep it from its share of the rest, whichever resource the engine heard of first.
func TestSharesAreOfWhatIsShared(t *testing.T) {
	now := time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)
	spec := api.Spec{Requests: api.Resources{{Resource: "nvidia.com/gpu", Value: 2}, {Resource: "example.com/nic", Value: 1}}}
	has := api.Resources{{Resource: "example.com/nic", Value: 9}, {Resource: "nvidia.com/gpu", Value: 4}, {Resource: api.Pods, Value: 9}}
	for _, first := range []string{"example.com/nic", "memory"} {
		s := Load(api.Snapshot{
			Version: api.SnapshotVersion,
			Nodes:   []api.Node{{Name: "gone", Version: 1, Allocatable: api.Resources{{Resource: first, Value: 1}}}},
		}, api.Config{Policy: api.TimeShare})
		s.Plan(now)
		s.Apply(
			api.Change{Gone: &api.Ref{Kind: api.KindNode, Key: "gone", Version: 2}},
			api.Change{Node: &api.Node{Name: "n0", Version: 1, Allocatable: has}},
			api.Change{Queue: &api.Queue{Name: "a", Version: 1}}, api.Change{Queue: &api.Queue{Name: "b", Version: 1}},
			api.Change{Pod: &api.Pod{Key: "first", Version: 1, Queue: "b", Node: "n0", Evictable: true, Started: now.Add(-2 * time.Hour), Spec: spec}},
			api.Change{Pod: &api.Pod{Key: "second", Version: 1, Queue: "b", Node: "n0", Evictable: true, Started: now.Add(-time.Hour), Spec: spec}},
			api.Change{Pod: &api.Pod{Key: "new", Version: 1, Queue: "a", Spec: spec, Evictable: true}},
		)
		var got []string
		for _, e := range s.Plan(now).Evictions {
			got = append(got, e.Pod+" "+string(e.Cause)+" for "+e.For)
		}
		if diff := cmp.Diff([]string{"second shared for new"}, got); diff != "" {
			t.Errorf("with %s told first (-want +got):\n%s", first, diff)
		}
	}
}
