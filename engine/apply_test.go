package engine_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/engine/why"
)

// Settled drops what is kept about things gone, and with it goes the right to bring an old version of one.
func TestSettledForgetsWhatIsGone(t *testing.T) {
	s := engine.Load(engine.Snapshot{}, engine.Config{})
	s.Apply(
		engine.Change{Pod: &engine.Pod{Key: "a/old", Version: 3}},
		engine.Change{Pod: &engine.Pod{Key: "a/stays", Version: 4}},
		engine.Change{Gone: &engine.Ref{Kind: engine.KindPod, Key: "a/old", Version: 5}},
	)
	if diff := cmp.Diff([]engine.Ref{{Kind: engine.KindPod, Key: "a/old", Version: 5}}, s.Dump().Gone); diff != "" {
		t.Error("before:", diff)
	}
	s.Apply(engine.Change{Settled: 9})
	s.Apply(
		engine.Change{Pod: &engine.Pod{Key: "a/old", Version: 3}},              // late, of something gone
		engine.Change{Pod: &engine.Pod{Key: "a/stays", Version: 8, Rank: 2}},   // of something known, and newer
		engine.Change{Gone: &engine.Ref{Kind: engine.KindPod, Key: "a/never"}}, // late, of something never met
		engine.Change{Pod: &engine.Pod{Key: "a/new", Version: 10}},
	)
	want := engine.Snapshot{
		Version: engine.SnapshotVersion, Settled: 9, Latest: 10,
		Pods: []engine.Pod{{Key: "a/new", Version: 10}, {Key: "a/stays", Version: 8, Rank: 2}},
	}
	if diff := cmp.Diff(want, s.Dump()); diff != "" {
		t.Error("after:", diff)
	}
	if diff := cmp.Diff(want, engine.Load(s.Dump(), engine.Config{}).Dump()); diff != "" {
		t.Error("loaded again:", diff)
	}
}

// A pod by itself that says something unreadable waits for that alone, also behind one like it that has no place.
func TestUnreadablePodWaits(t *testing.T) {
	gpus := func(n int64) engine.Resources { return engine.Resources{{Resource: "nvidia.com/gpu", Value: n}} }
	pod := func(key, invalid string, n int64) engine.Pod {
		return engine.Pod{Key: key, Version: 1, Invalid: invalid, Spec: engine.Spec{Requests: gpus(n)}}
	}
	s := engine.Load(engine.Snapshot{
		Nodes: []engine.Node{{Name: "n", Version: 1, Allocatable: append(gpus(1), engine.Amount{Resource: "pods", Value: 9})}},
		Pods:  []engine.Pod{pod("a/big", "", 2), pod("b/big", "max-run is \"soon\"", 2), pod("b/small", "max-run is \"soon\"", 1)},
	}, engine.Config{})
	got := make(map[string]why.Cause)
	plan := s.Plan(noon)
	for _, w := range plan.Waiting {
		got[w.Gang] = w.Cause
	}
	want := map[string]why.Cause{"a/big": why.LargerThanAnyNode, "b/big": why.InvalidObject, "b/small": why.InvalidObject}
	if diff := cmp.Diff(want, got); diff != "" || len(plan.Starts) > 0 {
		t.Error(diff, plan.Starts)
	}
	mended := pod("b/small", "", 1)
	mended.Version = 2
	s.Apply(engine.Change{Pod: &mended})
	if plan = s.Plan(noon); len(plan.Starts) != 1 || plan.Starts[0].Gang != "b/small" {
		t.Error("mended, it does not start:", engine.Describe(plan))
	}
}

// A queue without a name is rejected, and changes nothing.
func TestQueueWithoutAName(t *testing.T) {
	s := engine.Load(engine.Snapshot{}, engine.Config{})
	r := s.Apply(engine.Change{Queue: &engine.Queue{Version: 1}})
	if len(r) != 1 || r[0].Kind != engine.KindQueue || r[0].Reason != "a queue without a name" {
		t.Errorf("%+v", r)
	}
	if got := s.Dump().Queues; len(got) != 0 {
		t.Errorf("%+v", got)
	}
}
