package engine_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/engine/internal/fragment"
	"github.com/berth-dev/berth/engine/internal/packing/openb"
)

// The engine packs the pods of the openb trace that ask for whole GPUs as the study of the score does, which knows neither
// plans nor memory, and better than with tight.
func TestOpenbThroughTheEngine(t *testing.T) {
	dir := os.Getenv("BERTH_TRACES")
	if dir == "" {
		t.Skip("BERTH_TRACES names no folder with the openb trace: the engine is not replayed on it (docs/packing.md)")
	}
	nodes, err := openb.Nodes(os.DirFS(dir))
	if err != nil {
		t.Fatal(err)
	}
	all, err := openb.Pods(os.DirFS(dir), "default")
	if err != nil {
		t.Fatal(err)
	}
	var pods []openb.Pod
	for _, p := range all {
		if p.GPUs == 0 || p.Milli == 1000 {
			pods = append(pods, p)
		}
	}
	w := openb.NewWorkload("default, whole GPUs", nodes, pods)
	arrivals := openb.Inflate(pods, nodes, 42).Until(w, 100)
	study, err := openb.Run(w, arrivals, openb.NewBerth(w, fragment.Default))
	if err != nil {
		t.Fatal(err)
	}
	var capacity, used int64
	for _, n := range nodes {
		capacity += int64(n.GPUs)
	}
	unallocated := make(map[engine.Packing]float64)
	for _, packing := range []engine.Packing{engine.Priced, engine.Tight} {
		used = replayOpenb(t, nodes, pods, arrivals.Pods, packing)
		unallocated[packing] = 100 - 100*float64(used)/float64(capacity)
	}
	got, want := unallocated[engine.Priced], study.Unallocated[100]
	t.Logf("unallocated: %.2f %%, with tight %.2f %%, in the study %.2f %%", got, unallocated[engine.Tight], want)
	if got > want+0.3 || got > unallocated[engine.Tight] {
		t.Errorf("%.2f %% of GPUs stay unallocated, with tight %.2f %%, in the study %.2f %%", got, unallocated[engine.Tight], want)
	}
}

// replayOpenb lets the pods arrive one by one, each tried once, and returns how many GPUs are in use in the end.
func replayOpenb(t *testing.T, nodes []openb.Node, pods []openb.Pod, arrivals []int, packing engine.Packing) (used int64) {
	snap := engine.Snapshot{Version: engine.SnapshotVersion}
	for _, n := range nodes {
		node := engine.Node{Name: n.Name, Allocatable: engine.Resources{
			{Resource: engine.CPU, Value: n.CPU}, {Resource: engine.Memory, Value: n.Memory << 20}, {Resource: gpu, Value: int64(n.GPUs)}, {Resource: engine.Pods, Value: 1 << 20},
		}}
		for i := range n.GPUs {
			node.Devices = append(node.Devices, engine.Device{ID: fmt.Sprint(n.Name, "/", i), Model: n.Model, NUMA: -1})
		}
		snap.Nodes = append(snap.Nodes, node)
	}
	s := engine.Load(snap, engine.Config{Packing: packing, AssumeFor: 1000 * time.Hour, Moves: engine.Moves{Off: true}, Heads: 1, Overtake: -1})
	version := uint64(1)
	for i, at := range arrivals {
		p := &pods[at]
		pod := &engine.Pod{Key: fmt.Sprint("openb/", i), Version: version + 1, Spec: engine.Spec{
			Requests: engine.Resources{{Resource: engine.CPU, Value: p.CPU}, {Resource: engine.Memory, Value: p.Memory << 20}}, GPU: engine.GPU{Models: p.Models},
		}}
		if p.GPUs > 0 {
			pod.Requests = append(pod.Requests, engine.Amount{Resource: gpu, Value: int64(p.GPUs)})
		}
		if bad := s.Apply(engine.Change{Pod: pod}); len(bad) > 0 {
			t.Fatal(bad)
		}
		plan := s.Plan(noon)
		s.Apply(plan.Changes...)
		version += uint64(len(plan.Changes)) + 1
		if len(plan.Starts) == 1 {
			used += int64(p.GPUs)
			continue
		}
		version++
		s.Apply(engine.Change{Gone: &engine.Ref{Kind: engine.KindPod, Key: pod.Key, Version: version}})
	}
	return used
}
