package engine_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/engine"
)

var room = engine.Resources{{Resource: "nvidia.com/gpu", Value: 1}, {Resource: engine.Pods, Value: 10}}

// allocations lists pod and node of everything that starts.
func startsOf(p engine.Plan) (out []string) {
	for _, s := range p.Starts {
		for _, x := range s.Placements {
			out = append(out, x.Pod+" on "+x.Node)
		}
	}
	return out
}

// A level that some gang names sorts nodes anew, and must not change where others' ties end: by name.
func TestALevelThatAGangNamesDoesNotMoveOthers(t *testing.T) {
	s := engine.Load(engine.Snapshot{Nodes: []engine.Node{
		{Name: "n1", Labels: map[string]string{"disk": "b"}, Allocatable: room},
		{Name: "n5", Labels: map[string]string{"disk": "a"}, Allocatable: room},
	}}, engine.Config{})
	s.Apply(engine.Change{Pod: &engine.Pod{Key: "a/one", Spec: engine.Spec{Requests: engine.Resources{{Resource: "nvidia.com/gpu", Value: 1}}}}})
	want := []string{"a/one on n1"}
	if diff := cmp.Diff(want, startsOf(s.Plan(time.Unix(0, 0)))); diff != "" {
		t.Error("before:", diff)
	}
	s.Apply(engine.Change{Gang: &engine.Gang{Key: "a/other", Group: engine.Group{Layout: engine.Layout{Preferred: "disk"}}}})
	if diff := cmp.Diff(want, startsOf(s.Plan(time.Unix(0, 0)))); diff != "" {
		t.Error("after:", diff)
	}
}

// A nomination counts at once, also for a class that has just been looked at.
func TestANominationIsSeenByAWarmClass(t *testing.T) {
	gpu := engine.Spec{Requests: engine.Resources{{Resource: "nvidia.com/gpu", Value: 1}}}
	s := engine.Load(engine.Snapshot{Nodes: []engine.Node{{Name: "n1", Allocatable: room}}}, engine.Config{})
	s.Apply(engine.Change{Pod: &engine.Pod{Key: "a/one", Spec: gpu}})
	if diff := cmp.Diff([]string{"a/one on n1"}, startsOf(s.Plan(time.Unix(0, 0)))); diff != "" {
		t.Error("before:", diff)
	}
	s.Apply(engine.Change{Pod: &engine.Pod{Key: "b/theirs", Spec: gpu, Foreign: true, Priority: 1, Nominated: "n1"}})
	if diff := cmp.Diff([]string(nil), startsOf(s.Plan(time.Unix(0, 0)))); diff != "" {
		t.Error("after:", diff)
	}
}

// Of a node that cannot be emptied nothing is asked, in whatever order its pods came.
func TestWakeDoesNotDependOnTheOrderOfPods(t *testing.T) {
	start := time.Unix(0, 0)
	pod := func(key string, evictable bool) *engine.Pod {
		return &engine.Pod{Key: key, Node: "n1", Evictable: evictable, Started: start, Owner: "a/owner", Spec: engine.Spec{Requests: room[:1]}}
	}
	var wakes []time.Time
	for _, order := range [][]*engine.Pod{{pod("a/soft", true), pod("a/firm", false)}, {pod("a/firm", false), pod("a/soft", true)}} {
		s := engine.Load(engine.Snapshot{Nodes: []engine.Node{{Name: "n1", Allocatable: engine.Resources{{Resource: "nvidia.com/gpu", Value: 3}, {Resource: engine.Pods, Value: 10}}}}},
			engine.Config{MinRun: time.Hour, Moves: engine.Moves{Background: 3600}})
		for _, p := range order {
			s.Apply(engine.Change{Pod: p})
		}
		wakes = append(wakes, s.Plan(start.Add(time.Minute)).WakeAt)
	}
	if !wakes[0].Equal(wakes[1]) {
		t.Errorf("wakes at %v or %v", wakes[0], wakes[1])
	}
}

// A gang and a pod by itself may have one key. Which of the two the quota of their queue covers does not depend on who came first.
func TestVictimsDoNotDependOnTheOrderOfNamesakes(t *testing.T) {
	gpus := func(n int64) engine.Resources { return engine.Resources{{Resource: "nvidia.com/gpu", Value: n}} }
	lone := &engine.Pod{Key: "a/x", Queue: "borrowers", Node: "n1", Evictable: true, Started: noon, Spec: engine.Spec{Requests: gpus(4)}}
	member := &engine.Pod{Key: "a/x-0", Gang: "a/x", Node: "n1", Evictable: true, Started: noon, Spec: engine.Spec{Requests: gpus(4)}}
	var all [][]string
	for _, order := range [][]*engine.Pod{{lone, member}, {member, lone}} {
		s := engine.Load(engine.Snapshot{
			Nodes: []engine.Node{{Name: "n1", Allocatable: append(gpus(8), engine.Amount{Resource: engine.Pods, Value: 10})}},
			Queues: []engine.Queue{
				{Name: "borrowers", Quota: gpus(4)},
				{Name: "ours", Quota: gpus(4)},
			},
			Gangs: []engine.Gang{{Key: "a/x", Queue: "borrowers"}},
			Pods:  []engine.Pod{{Key: "b/claimant", Queue: "ours", Spec: engine.Spec{Requests: gpus(4)}}},
		}, engine.Config{})
		for _, p := range order {
			s.Apply(engine.Change{Pod: p})
		}
		all = append(all, victims(s.Plan(noon.Add(time.Hour))))
	}
	if diff := cmp.Diff(all[0], all[1]); diff != "" || len(all[0]) != 1 {
		t.Errorf("victims are %v, or in the other order %v", all[0], all[1])
	}
}
