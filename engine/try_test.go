package engine_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/engine/why"
)

// A trial of a workload is the plan of a state in which nothing else waits.
func TestTryIsThePlanOfTheWorkloadAlone(t *testing.T) {
	often(t, 10, func(t *rapid.T) {
		cfg := anyConfig(t)
		snap, gang := anyCase(t, cfg, 5)
		for i := range snap.Pods {
			snap.Pods[i].Features = nil
		}
		snap.Holds = slices.DeleteFunc(slices.Clone(snap.Holds), func(h engine.Hold) bool { return h.Gang != gang }) // a stranger has none
		only := snap
		only.Pods = slices.Clone(snap.Pods)
		for i := range only.Pods {
			only.Pods[i].Foreign = only.Pods[i].Foreign || only.Pods[i].Node == "" && only.Pods[i].Gang == "" && only.Pods[i].Key != gang
		}
		plan := engine.Schedule(only, noon, cfg)
		snap = plus(snap, engine.Pod{Key: "ahead", UID: "a", Priority: 100, Spec: anySpec(t)})
		e, placements := engine.Load(snap, cfg).Try(gang, noon)
		var want []engine.Placement
		for _, s := range plan.Starts {
			if s.Gang == gang {
				want = append(want, s.Placements...)
			}
		}
		if cfg.Packing == engine.Priced {
			want, placements = whom(want), whom(placements) // prices are by what is known of others, waiting ones too
		}
		if diff := cmp.Diff(want, placements); diff != "" {
			t.Fatalf("placements (-planned +tried):\n%s\n%s", diff, text(t, snap))
		}
		if planned := verdict(plan, gang); planned != "" && e.Verdict != planned {
			t.Fatalf("planned %s, tried %s: %+v\n%+v\n%s", planned, e.Verdict, e, cfg, text(t, snap))
		}
	})
}

// whom are the placements without their places.
func whom(list []engine.Placement) (out []engine.Placement) {
	for _, p := range list {
		out = append(out, engine.Placement{Pod: p.Pod, UID: p.UID})
	}
	return out
}

// Under timeshare a trial knows of fair shares, as the plan does: others may be evicted for them.
func TestTrySharesTime(t *testing.T) {
	gpus := func(n int64) engine.Resources {
		return engine.Resources{{Resource: "cpu", Value: 1000}, {Resource: "nvidia.com/gpu", Value: n}}
	}
	snap := engine.Snapshot{
		Nodes: []engine.Node{{Name: "n1", Allocatable: engine.Resources{{Resource: "cpu", Value: 4000}, {Resource: "nvidia.com/gpu", Value: 1}, {Resource: engine.Pods, Value: 10}}}},
		Pods: []engine.Pod{
			{Key: "runs", Queue: "q", Node: "n1", Evictable: true, Spec: engine.Spec{Requests: gpus(1)}},
			{Key: "waits", Queue: "r", Evictable: true, Spec: engine.Spec{Requests: gpus(1)}},
		},
		Queues: []engine.Queue{{Name: "q"}, {Name: "r", Quota: engine.Resources{{Resource: "nvidia.com/gpu", Value: 4}}}, {Name: "s", Parent: "q", Quota: engine.Resources{{Resource: "cpu", Value: 4000}}}},
	}
	cfg := engine.Config{Policy: engine.TimeShare}
	want := verdict(engine.Schedule(snap, noon, cfg), "waits")
	if e, _ := engine.Load(snap, cfg).Try("waits", noon); e.Verdict != want || want != why.Blocked {
		t.Errorf("planned %s, tried %s: %s", want, e.Verdict, e.Cause)
	}
}

func TestTry(t *testing.T) {
	gpus := func(n int64) engine.Spec {
		return engine.Spec{Requests: engine.Resources{{Resource: "nvidia.com/gpu", Value: n}}}
	}
	pod := func(key, gang string, spec engine.Spec) engine.Pod {
		return engine.Pod{Key: key, Gang: gang, Spec: spec, Created: noon.Add(-time.Hour)}
	}
	slice := engine.Spec{Requests: engine.Resources{{Resource: "nvidia.com/mig-1g.10gb", Value: 1}}, Features: []why.Feature{why.PodAntiAffinity}}
	first := pod("first", "", gpus(8))
	first.Priority = 10
	s := engine.Load(engine.Snapshot{
		Nodes: []engine.Node{{Name: "n1", Allocatable: engine.Resources{{Resource: "nvidia.com/gpu", Value: 8}, {Resource: "nvidia.com/mig-1g.10gb", Value: 1}, {Resource: engine.Pods, Value: 10}}}},
		Pods: []engine.Pod{
			first, pod("behind", "", gpus(8)), pod("slice", "", slice), pod("large", "", gpus(9)), pod("bad", "", gpus(-1)),
			pod("g-0", "g", gpus(4)), pod("g-1", "g", gpus(3)), pod("g-2", "g", gpus(2)), pod("h-0", "h", gpus(1)),
		},
		Gangs: []engine.Gang{{Key: "g", Group: engine.Group{Min: 1}}, {Key: "h", Group: engine.Group{Min: 2}}},
	}, engine.Config{})
	got := map[string]string{}
	for _, key := range []string{"first", "behind", "slice", "large", "bad", "g", "h", "nobody"} {
		e, at := s.Try(key, noon)
		line := fmt.Sprint(e.Verdict, " ", e.Cause, " ", e.Ahead)
		for _, p := range at {
			line += " " + p.Pod + "@" + p.Node
		}
		got[key] = line
	}
	want := map[string]string{
		"first": "placed  0 first@n1", "behind": "placed  0 behind@n1", "slice": "placed  0 slice@n1", "large": "impossible larger-than-any-node 0",
		"bad": "invalid invalid-object 0", "g": "placed  0 g-0@n1 g-1@n1", "h": "blocked gang-incomplete 0", "nobody": "absent  0",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// What runs for longer than it may, and could not be evicted for others, is on its way out in the same plan: its room counts as
// room that may become free.
func TestTryCountsWhatIsOver(t *testing.T) {
	gpu := engine.Spec{Requests: engine.Resources{{Resource: "nvidia.com/gpu", Value: 1}}}
	over := engine.Pod{Key: "over", UID: "o", Spec: gpu, Node: "n1", Terms: engine.Terms{Max: time.Minute}, Started: noon.Add(-time.Hour)}
	next := engine.Pod{Key: "next", UID: "n", Spec: gpu, Priority: 5, Created: noon}
	e, _ := engine.Load(engine.Snapshot{
		Version: engine.SnapshotVersion,
		Nodes:   []engine.Node{{Name: "n1", Allocatable: engine.Resources{{Resource: "nvidia.com/gpu", Value: 1}, {Resource: engine.Pods, Value: 10}}}},
		Pods:    []engine.Pod{over, next},
	}, engine.Config{}).Try("next", noon)
	if e.Verdict != why.Blocked || e.Cause != why.MakingRoom {
		t.Errorf("%s, %s: want that it waits for the one that is over", e.Verdict, e.Cause)
	}
}
