package engine_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/engine"
)

var room = engine.Resources{{Resource: "nvidia.com/gpu", Value: 1}, {Resource: engine.Pods, Value: 10}}

// seats lists pod and node of everything that starts.
func seats(p engine.Plan) (out []string) {
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
	if diff := cmp.Diff(want, seats(s.Plan(time.Unix(0, 0)))); diff != "" {
		t.Error("before:", diff)
	}
	s.Apply(engine.Change{Gang: &engine.Gang{Key: "a/other", Group: engine.Group{Layout: engine.Layout{Preferred: "disk"}}}})
	if diff := cmp.Diff(want, seats(s.Plan(time.Unix(0, 0)))); diff != "" {
		t.Error("after:", diff)
	}
}

// A nomination counts at once, also for a class that has just been looked at.
func TestANominationIsSeenByAWarmClass(t *testing.T) {
	gpu := engine.Spec{Requests: engine.Resources{{Resource: "nvidia.com/gpu", Value: 1}}}
	s := engine.Load(engine.Snapshot{Nodes: []engine.Node{{Name: "n1", Allocatable: room}}}, engine.Config{})
	s.Apply(engine.Change{Pod: &engine.Pod{Key: "a/one", Spec: gpu}})
	if diff := cmp.Diff([]string{"a/one on n1"}, seats(s.Plan(time.Unix(0, 0)))); diff != "" {
		t.Error("before:", diff)
	}
	s.Apply(engine.Change{Pod: &engine.Pod{Key: "b/theirs", Spec: gpu, Foreign: true, Priority: 1, Nominated: "n1"}})
	if diff := cmp.Diff([]string(nil), seats(s.Plan(time.Unix(0, 0)))); diff != "" {
		t.Error("after:", diff)
	}
}
