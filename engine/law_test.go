package engine_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/engine/why"
)

// answers is everything a State can be asked, as bytes.
func answers(t rapid.TB, s *engine.State, now time.Time) string {
	snap := s.Dump()
	all := struct {
		Dump     engine.Snapshot
		Rejected []engine.Rejected
		Report   engine.Report
		Plan     engine.Plan
		Explain  []why.Explanation
	}{snap, s.Rejected(), s.Report(), s.Plan(now), nil}
	for _, key := range workloads(snap) {
		all.Explain = append(all.Explain, s.Explain(key, now, 0))
	}
	return text(t, all)
}

// workloads is the keys of all gangs and pods, and one that nobody has.
func workloads(snap engine.Snapshot) []string {
	keys := []string{"nobody"}
	for _, g := range snap.Gangs {
		keys = append(keys, g.Key)
	}
	for _, p := range snap.Pods {
		keys = append(keys, p.Key)
	}
	return keys
}

func text(t rapid.TB, v any) string {
	data, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatalf("marshal: %v", err)
	}
	return string(data)
}

func lived(cfg engine.Config, history []engine.Change) *engine.State {
	s := engine.Load(engine.Snapshot{Version: engine.SnapshotVersion}, cfg)
	s.Apply(history...)
	return s
}

// same fails unless both states give the same answers.
func same(t rapid.TB, what string, a, b *engine.State) {
	t.Helper()
	if diff := cmp.Diff(answers(t, a, noon), answers(t, b, noon)); diff != "" {
		t.Fatalf("%s (-before +after):\n%s", what, diff)
	}
}

// The law. It protects replays, restarts and every golden file: a state is what was told, not how or when
// it was told.
func TestSameAnswersWhateverTheWay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg, history := anyConfig(t), anyHistory(t)
		s := lived(cfg, history)
		same(t, "the same history in another order", s, lived(cfg, rapid.Permutation(history).Draw(t, "order")))
		same(t, "loaded from its dump", s, engine.Load(s.Dump(), cfg))
	})
}

// A snapshot survives being a file. It protects bundles and replays on another machine.
func TestDumpSurvivesJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := anyConfig(t)
		s := lived(cfg, anyHistory(t))
		var snap engine.Snapshot
		if err := json.Unmarshal([]byte(text(t, s.Dump())), &snap); err != nil {
			t.Fatal(err)
		}
		same(t, "loaded from its dump's JSON", s, engine.Load(snap, cfg))
	})
}

// Asking changes nothing: it protects what-if and explanations on the live state, and a plan that is asked
// for twice before it is carried out.
func TestAskingChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := lived(anyConfig(t), anyHistory(t))
		before := text(t, s.Dump())
		first := answers(t, s, noon)
		s.Plan(noon.Add(time.Hour))
		if diff := cmp.Diff(first, answers(t, s, noon)); diff != "" {
			t.Fatalf("asked twice (-first +second):\n%s", diff)
		}
		if diff := cmp.Diff(before, text(t, s.Dump())); diff != "" {
			t.Fatalf("dump after asking:\n%s", diff)
		}
	})
}

// Telling twice is telling once. It protects watch restarts, which replay what was seen.
func TestApplyIsIdempotent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg, history := anyConfig(t), anyHistory(t)
		s := lived(cfg, history)
		s.Apply(history...)
		same(t, "told twice", lived(cfg, history), s)
	})
}

// A state that planned along the way answers like one that did not: what is kept warm between plans is
// never part of the answer.
func TestPlanningLeavesNoTrace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg, history := anyConfig(t), anyHistory(t)
		s := lived(cfg, nil)
		for _, c := range history {
			s.Apply(c)
			if seldom(t, 2) {
				s.Plan(soon(t))
			}
		}
		same(t, "with plans along the way", lived(cfg, history), s)
	})
}

// What a plan remembers has versions after all that was told, also where that changed nothing: a pod is gone that was never
// seen.
func TestPlansRememberLaterVersions(t *testing.T) {
	history := []engine.Change{
		{Node: &engine.Node{Name: "n0", Version: 1, Allocatable: engine.Resources{{Resource: gpu, Value: 4}}}},
		{Queue: &engine.Queue{Name: "q", Version: 2}},
		{Pod: &engine.Pod{Key: "ns/p", UID: "u", Version: 3, Queue: "q", Node: "n0", Spec: engine.Spec{Requests: engine.Resources{{Resource: gpu, Value: 1}}}}},
	}
	s := lived(engine.Config{}, history)
	s.Plan(noon)
	s.Apply(engine.Change{Gone: &engine.Ref{Kind: engine.KindPod, Key: "ns/unseen", Version: 9}})
	want := []engine.Change{{Usage: &engine.QueueUsage{Queue: "q", Version: 10, At: noon}}}
	if diff := cmp.Diff(want, s.Plan(noon).Changes); diff != "" {
		t.Errorf("what is remembered (-want +got):\n%s", diff)
	}
}

// Settled only forgets what can not matter any more: answers stay, the dump loses its gravestones.
func TestSettledForgetsOnlyTheGone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg, history := anyConfig(t), anyHistory(t)
		s, settled := lived(cfg, history), lived(cfg, history)
		settled.Apply(engine.Change{Settled: uint64(len(history))})
		want := s.Dump()
		want.Gone, want.Settled = nil, uint64(len(history))
		if diff := cmp.Diff(text(t, want), text(t, settled.Dump())); diff != "" {
			t.Fatalf("dump (-want +got):\n%s", diff)
		}
		settled.Apply(history...)
		same(t, "a settled history told again", engine.Load(want, cfg), settled)
	})
}
