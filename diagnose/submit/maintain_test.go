package submit

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/capacity/maintenance"
	"github.com/berth-dev/berth/engine"
)

// All pods of a workload count, those on other nodes too; what holds no GPU, waits or is on its way out does not.
func TestWorksOn(t *testing.T) {
	now := time.Date(2026, 11, 18, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	gpus := func(n int64) engine.Spec {
		return engine.Spec{Requests: engine.Resources{{Resource: "nvidia.com/gpu", Value: n}}}
	}
	snap := engine.Snapshot{
		Gangs: []engine.Gang{{Key: "t/gang", Terms: engine.Terms{Checkpoint: time.Hour, Restart: time.Minute, Expected: 5 * time.Hour, Max: 4 * time.Hour}}},
		Pods: []engine.Pod{
			{Key: "t/a", Gang: "t/gang", Node: "n1", Started: ago(time.Hour), Spec: gpus(8)},
			{Key: "t/b", Gang: "t/gang", Node: "n2", Started: ago(2 * time.Hour), Spec: gpus(8)},
			{Key: "t/c", Gang: "t/gang", Node: "n9", Started: ago(time.Hour), Spec: gpus(8)},
			{Key: "t/late", Node: "n1", Started: ago(time.Hour), Terms: engine.Terms{Expected: time.Minute}, Foreign: true, Spec: gpus(1)},
			{Key: "t/far", Node: "n9", Started: ago(time.Hour), Spec: gpus(1)},
			{Key: "t/waits", Spec: gpus(1)},
			{Key: "t/goes", Node: "n1", Terminating: true, Spec: gpus(1)},
			{Key: "t/cpu", Node: "n1"},
		},
	}
	want := []maintenance.Work{
		{Key: "t/gang", Nodes: []string{"n1", "n2"}, GPUs: 24, Started: ago(2 * time.Hour), Ends: now.Add(2 * time.Hour), Checkpoint: time.Hour, Restart: time.Minute},
		{Key: "t/late", Nodes: []string{"n1"}, GPUs: 1, Started: ago(time.Hour)}, // it should be over
	}
	if diff := cmp.Diff(want, worksOn([]string{"n1", "n2"}, snap, "nvidia.com/gpu", now)); diff != "" {
		t.Errorf("works (-want +got):\n%s", diff)
	}
}
