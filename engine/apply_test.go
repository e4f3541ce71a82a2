package engine_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/engine"
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
