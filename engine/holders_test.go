package engine_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/engine/why"
)

func TestWhoHoldsWhat(t *testing.T) {
	node := func(name, pool string) engine.Node {
		return engine.Node{Name: name, Labels: map[string]string{"pool": pool}, Allocatable: engine.Resources{{Resource: gpu, Value: 8}, {Resource: engine.Pods, Value: 100}}}
	}
	pod := func(key, gang, node string, gpus int64) engine.Pod {
		p := engine.Pod{Key: key, UID: key, Gang: gang, Node: node}
		p.Requests = engine.Resources{{Resource: gpu, Value: gpus}}
		return p
	}
	wide := pod("b/big-0", "b/gang/big", "", 8)
	wide.Selector = map[string]string{"pool": "train"}
	foreign := pod("sys/other", "", "t1", 1)
	foreign.Foreign = true
	lone := pod("a/lone", "", "t2", 3)
	lone.Queue = "q"
	s := engine.Load(engine.Snapshot{
		Version: engine.SnapshotVersion,
		Nodes:   []engine.Node{node("t1", "train"), node("t2", "train"), node("s1", "serve")},
		Queues:  []engine.Queue{{Name: "empty"}, {Name: "q", Version: 1, Limits: engine.Resources{{Resource: gpu, Value: 9}}}},
		Gangs: []engine.Gang{
			{Key: "a/gang/first", Queue: "q", Priority: 5, Created: noon, Group: engine.Group{Min: 2, Size: 4}},
			{Key: "b/gang/big", Group: engine.Group{Min: 2}},
		},
		Pods: []engine.Pod{
			pod("a/first-0", "a/gang/first", "t1", 2), pod("a/first-1", "a/gang/first", "t2", 2), pod("a/first-2", "a/gang/first", "s1", 1),
			lone, wide, foreign, pod("b/served", "", "s1", 4),
		},
	}, engine.Config{})

	want := []engine.Tally{
		{Key: "a/gang/first", Queue: "q", Priority: 5, Created: noon, Min: 2, Size: 4, Placed: 3, GPUs: 5, Held: 5},
		{Key: "a/lone", Queue: "q", Min: 1, Size: 1, Placed: 1, GPUs: 3, Held: 3},
	}
	if diff := cmp.Diff(want, s.Tallies("a")); diff != "" {
		t.Errorf("tallies of a:\n%s", diff)
	}
	if got := len(s.Tallies("")); got != 4 {
		t.Errorf("%d workloads, want 4: another scheduler's pod is none", got)
	}
	// The serving node does not match, so who is there does not keep the gang waiting.
	if diff := cmp.Diff([]engine.Held{{Workload: "a/gang/first", Amount: 4}, {Workload: "a/lone", Amount: 3}, {Workload: "sys/other", Amount: 1}}, s.Holders("b/gang/big", gpu, noon)); diff != "" {
		t.Errorf("holders:\n%s", diff)
	}
	for _, key := range []string{"nobody", "a/lone", "a/gang/first"} {
		if got := s.Holders(key, gpu, noon); got != nil {
			t.Errorf("%s has nothing to place, and waits for %v", key, got)
		}
	}
	if diff := cmp.Diff([]engine.Held{{Workload: "a/gang/first", Amount: 5}, {Workload: "a/lone", Amount: 3}}, s.Charged("q", gpu)); diff != "" {
		t.Errorf("charged to q:\n%s", diff)
	}
	uses := []engine.QueueUse{
		{Queue: engine.Queue{Name: "empty"}, Known: true},
		{
			Queue: engine.Queue{Name: "q", Version: 1, Limits: engine.Resources{{Resource: gpu, Value: 9}}}, Known: true, Used: engine.Resources{{Resource: gpu, Value: 8}},
			Running: engine.Crowd{Workloads: 2, GPUs: 8},
		},
	}
	if diff := cmp.Diff(uses, s.QueueUses()); diff != "" {
		t.Errorf("queues:\n%s", diff)
	}
}

// Asking changes no other answer.
func TestCountingChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := lived(anyConfig(t), anyHistory(t))
		before := answers(t, s, noon)
		s.QueueUses()
		for _, key := range workloads(s.Dump()) {
			s.Holders(key, gpu, noon.Add(time.Minute))
		}
		s.Tallies("")
		if diff := cmp.Diff(before, answers(t, s, noon)); diff != "" {
			t.Fatalf("after asking:\n%s", diff)
		}
	})
}

// What terminating pods give back counts on nodes where the workload may be. A volume, a refusal or a name keep it from a node as
// much as a selector does.
func TestReleasingIsOfNodesThatMatch(t *testing.T) {
	s := engine.Snapshot{Version: engine.SnapshotVersion}
	for _, name := range []string{"n1", "n2", "n3"} {
		s.Nodes = append(s.Nodes, engine.Node{Name: name, Allocatable: engine.Resources{{Resource: gpu, Value: 8}, {Resource: engine.Pods, Value: 100}}})
		leaves := engine.Pod{Key: "a/leaves-" + name, UID: "u", Node: name, Terminating: true, ReleaseAt: noon.Add(time.Minute)}
		leaves.Requests = engine.Resources{{Resource: gpu, Value: 8}}
		s.Pods = append(s.Pods, leaves)
	}
	waits := engine.Pod{Key: "a/waits", UID: "u"}
	waits.Requests = engine.Resources{{Resource: gpu, Value: 8}}
	waits.Nodes = []string{"n1", "n2"} // those that reach its volume
	s.Pods = append(s.Pods, waits)
	s.Refusals = []engine.Refusal{{Pod: "a/waits", UID: "u", Version: 1, Node: "n2", Until: noon.Add(time.Hour)}}
	e := engine.Load(s, engine.Config{}).Explain("a/waits", noon, 0)
	if diff := cmp.Diff([]why.Amount{{Resource: gpu, Value: 8}}, e.Releasing); diff != "" {
		t.Errorf("releasing:\n%s", diff)
	}
	if want := noon.Add(time.Minute); !e.ReleasedBy.Equal(want) {
		t.Errorf("released by %v, want %v", e.ReleasedBy, want)
	}
}
