package scheduler

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/engine"
)

// A pod is being bound and another's place is held when the clock is set ahead by an hour. What they have is given to nobody before the
// time is over in which they may still come, and to the next one then; what nobody could still come for is given away at once.
func TestTheClockIsSetAhead(t *testing.T) {
	const gpu = "nvidia.com/gpu"
	one := engine.Resources{{Resource: gpu, Value: 1}}
	noon := time.Date(2026, 11, 19, 12, 0, 0, 0, time.UTC)
	pod := func(key string) engine.Pod {
		return engine.Pod{Key: key, UID: key, Version: 1, Created: noon, Spec: engine.Spec{Requests: one}}
	}
	node := func(name string) engine.Node {
		return engine.Node{Name: name, Version: 1, Allocatable: append(engine.Resources{{Resource: engine.Pods, Value: 9}}, one...)}
	}
	bound, awaited, next := pod("bound"), pod("awaited"), pod("next")
	s := &scheduler{version: 9, state: engine.Load(engine.Snapshot{
		Nodes: []engine.Node{node("n0"), node("n1"), node("n2")}, Pods: []engine.Pod{bound, awaited},
		Assumptions: []engine.Assumption{{Pod: "bound", UID: "bound", Version: 2, Node: "n0", Until: noon.Add(time.Minute)}},
		Holds: []engine.Hold{
			{Gang: "awaited", Version: 2, Node: "n1", Requests: one, Until: noon.Add(time.Minute), Coming: true},
			{Gang: "gone", Version: 2, Node: "n2", Requests: one, Until: noon.Add(-time.Second), Coming: true},
		},
	}, engine.Config{GPU: gpu, AssumeFor: assumeFor})}
	changes := outlast(s.state, noon, time.Hour)
	s.number(changes)
	if rejected := s.state.Apply(changes...); len(rejected) > 0 || len(changes) != 2 {
		t.Fatalf("%d changes, rejected %+v", len(changes), rejected)
	}
	for i := range 3 {
		p := next
		p.Key, p.UID = p.Key+string(rune('0'+i)), p.UID+string(rune('0'+i))
		s.state.Apply(engine.Change{Pod: &p})
	}
	starts := func(now time.Time) map[string]string {
		out := make(map[string]string)
		plan := s.state.Plan(now)
		s.state.Apply(plan.Changes...)
		for _, start := range plan.Starts {
			for _, p := range start.Placements {
				out[p.Pod] = p.Node
			}
		}
		return out
	}
	want := map[string]string{"awaited": "n1", "next0": "n2"}
	if diff := cmp.Diff(want, starts(noon.Add(time.Hour+time.Second))); diff != "" {
		t.Errorf("after the leap (-want +got):\n%s", diff)
	}
	if got := starts(noon.Add(time.Hour + 2*time.Minute)); len(got) != 1 || got["bound"]+got["next1"] != "n0" {
		t.Errorf("a minute later %v start, want one on n0", got)
	}
}

// A clock that runs on, or is set back, is no leap.
func TestLeap(t *testing.T) {
	now := time.Now()
	for name, got := range map[string]time.Duration{
		"the first reading": leap(time.Time{}, now),
		"an hour passes":    leap(now, now.Add(time.Hour)),
		"without monotonic": leap(now.Round(0), now.Add(time.Hour).Round(0)),
	} {
		if got != 0 {
			t.Errorf("%s: %s", name, got)
		}
	}
}
