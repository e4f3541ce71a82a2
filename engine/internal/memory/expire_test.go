package memory

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/draft"
)

var noon = time.Date(2026, 11, 16, 12, 0, 0, 0, time.UTC)

// remembered is a cluster with memory of each kind that ends at the time.
func remembered(until time.Time) *cluster.Model {
	gpu := api.Resources{{Resource: "nvidia.com/gpu", Value: 1}}
	m := cluster.NewModel(api.Config{GPU: "nvidia.com/gpu"})
	m.LoadAll(&api.Snapshot{
		Version: api.SnapshotVersion,
		Nodes:   []api.Node{{Name: "n", Allocatable: append(api.Resources{{Resource: api.Pods, Value: 9}}, api.Amount{Resource: gpu[0].Resource, Value: 8})}},
		Pods: []api.Pod{
			{Key: "assumed", UID: "u", Spec: api.Spec{Requests: gpu}},
			{Key: "evicted", UID: "u", Gang: "runs", Node: "n", Spec: api.Spec{Requests: gpu}},
			{Key: "pending", UID: "u", Spec: api.Spec{Requests: gpu}},
		},
		Gangs:       []api.Gang{{Key: "runs", Group: api.Group{Min: 1}}},
		Assumptions: []api.Assumption{{Pod: "assumed", UID: "u", Version: 1, Node: "n", Until: until}},
		Refusals:    []api.Refusal{{Pod: "pending", UID: "u", Version: 2, Node: "n", Until: until}},
		Holds: []api.Hold{{Gang: "pending", Version: 3, Node: "n", Requests: gpu, Until: until},
			{Gang: "gone", Version: 4, Node: "n", Requests: gpu, Until: noon.Add(time.Hour)}},
		Evictions: []api.Eviction{{Pod: "evicted", UID: "u", Version: 5, Cause: api.Preempted, At: noon.Add(-time.Minute), Until: until}},
	})
	m.Freshen()
	return m
}

func keys(gangs []*cluster.Gang) (out []string) {
	for _, g := range gangs {
		out = append(out, g.Key)
	}
	return out
}

// What is over counts no more and is forgotten: the pod that was never seen on its node is pending again, and the one that was not
// evicted counts as running. A place that nobody waits for is given up before its time.
func TestWhatIsOverCountsNoMore(t *testing.T) {
	m := remembered(noon)
	d := draft.New(noon, 9)
	pending, settled := Expire(&d, m)
	if diff := cmp.Diff([]string{"assumed"}, keys(pending)); diff != "" {
		t.Errorf("pending:\n%s", diff)
	}
	if diff := cmp.Diff([]string{"runs"}, keys(settled)); diff != "" {
		t.Errorf("settled:\n%s", diff)
	}
	var forgotten []api.Kind
	for _, c := range d.Plan.Changes {
		forgotten = append(forgotten, c.Gone.Kind)
	}
	if diff := cmp.Diff([]api.Kind{api.KindAssumption, api.KindRefusal, api.KindHold, api.KindHold, api.KindEviction}, forgotten); diff != "" {
		t.Errorf("forgotten:\n%s", diff)
	}
	if free := m.Nodes["n"].Free.At(m.Dims.ID("nvidia.com/gpu")); free != 7 || m.Pods["evicted"].Evicting {
		t.Errorf("%d GPUs are free, want 7; evicting: %v", free, m.Pods["evicted"].Evicting)
	}
}

// What is not over stays, and the plan is made again when it will be.
func TestWhatIsNotOverWakes(t *testing.T) {
	until := noon.Add(time.Minute)
	m := remembered(until)
	d := draft.New(noon, 9)
	if pending, settled := Expire(&d, m); len(pending)+len(settled) > 0 || len(d.Plan.Changes) != 1 || d.Plan.Changes[0].Gone.Key != "gone@n" {
		t.Errorf("pending %v, settled %v, changes %v", keys(pending), keys(settled), d.Plan.Changes)
	}
	if !d.Plan.WakeAt.Equal(until) {
		t.Errorf("wakes at %v, want %v", d.Plan.WakeAt, until)
	}
}
