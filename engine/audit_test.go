package engine_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-dev/berth/engine"
)

// Whatever happens, accounts that are kept by adding and subtracting are what a count from scratch says.
func TestAuditFindsNothing(t *testing.T) {
	often(t, 5, func(t *rapid.T) {
		h := &hands{lived(anyConfig(t), nil), noon}
		for _, c := range anyHistory(t) {
			h.state.Apply(c)
			if seldom(t, 2) {
				h.audit(t)
			}
		}
		for range 1 + upTo(t, 4) {
			h.carryOut(t, h.state.Plan(h.now))
			h.audit(t)
			h.moveOn(t)
		}
		h.audit(t)
	})
}

func (h *hands) audit(t *rapid.T) {
	if found, _ := h.state.Audit(0, math.MaxInt); len(found) > 0 {
		t.Fatalf("%v\n%s", found, text(t, h.state.Dump()))
	}
}

// BenchmarkAudit audits a large full cluster: a slice of it as a scheduler does between plans, and all of it.
func BenchmarkAudit(b *testing.B) {
	s := engine.Load(newFullSite(5_000, 200, 4_000).snapshot, fullConfig())
	s.Plan(benchNow)
	b.Run("slice", func(b *testing.B) {
		at := 0
		for b.Loop() {
			_, at = s.Audit(max(at, 2), 16)
		}
	})
	b.Run("cluster", func(b *testing.B) {
		for b.Loop() {
			s.Audit(0, 1)
		}
	})
	b.Run("all", func(b *testing.B) {
		for b.Loop() {
			s.Audit(0, math.MaxInt)
		}
	})
}

// Members that change places so that ranks follow nodes take with them whether they may be evicted.
func TestMembersUnlikeChangePlaces(t *testing.T) {
	node := func(name string, count int64) engine.Node {
		return engine.Node{Name: name, Version: 1, Allocatable: slices.Concat(gpus(count).Requests, engine.Resources{{Resource: engine.Pods, Value: 100}})}
	}
	snap := engine.Snapshot{
		Version: engine.SnapshotVersion, Nodes: []engine.Node{node("a", 2), node("b", 1)}, Queues: []engine.Queue{{Name: "q", Version: 1, Quota: gpus(3).Requests}},
		Gangs: []engine.Gang{{Key: "g", Version: 1, Queue: "q", Group: engine.Group{Min: 3}}},
	}
	for i := range 3 {
		snap.Pods = append(snap.Pods, engine.Pod{Key: fmt.Sprint("g-", i), UID: "u", Version: 1, Gang: "g", Rank: i, Evictable: i > 0, Spec: gpus(1)})
	}
	s := engine.Load(snap, engine.Config{Packing: engine.Tight})
	for range 2 {
		plan := s.Plan(noon)
		at := ""
		for _, x := range plan.Starts[0].Placements {
			at += x.Node
		}
		if at != "aab" {
			t.Fatalf("ranks are on %s", at)
		}
		if found, _ := s.Audit(0, math.MaxInt); len(found) > 0 {
			t.Errorf("after a plan: %v", found)
		}
	}
}
