package engine_test

import (
	"flag"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/engine/internal/oracle"
	"github.com/berth-dev/berth/engine/why"
)

// often runs a property many times over: rapid's own number of checks is for slow ones. Under -short once.
// With a seed given, every round has one of its own.
func often(t *testing.T, times int, property func(*rapid.T)) {
	if testing.Short() {
		times = 1
	}
	seed, err := strconv.ParseUint(flag.Lookup("rapid.seed").Value.String(), 10, 64)
	for i := range times {
		if err == nil && seed > 0 {
			flag.Set("rapid.seed", strconv.FormatUint(seed+uint64(i), 10))
		}
		rapid.Check(t, property)
	}
	if err == nil {
		flag.Set("rapid.seed", strconv.FormatUint(seed, 10))
	}
}

// verdict is the plan's answer about a gang; "" where it has nothing to say.
func verdict(plan engine.Plan, gang string) why.Verdict {
	for _, s := range plan.Starts {
		if s.Gang == gang {
			return why.Placed
		}
	}
	for _, w := range plan.Waiting {
		if w.Gang == gang {
			return w.Verdict
		}
	}
	return ""
}

// The engine starts a gang exactly when some assignment is lawful. It protects both sides: no gang starts
// against a rule, and none is told that it cannot start when it could.
func TestVerdictEqualsBruteForce(t *testing.T) {
	often(t, 30, func(t *rapid.T) {
		cfg := anyConfig(t)
		snap, gang := anyCase(t, cfg, 5)
		can := oracle.CanStart(snap, cfg, noon, gang)
		plan := engine.Schedule(snap, noon, cfg)
		got := verdict(plan, gang)
		switch {
		case can && got == why.Blocked && chargesDiffer(snap, cfg, gang):
			// It waits for a limit that it would keep elsewhere: ADR 61 and 111.
		case can != (got == why.Placed):
			t.Fatalf("verdict %q, but brute force says %v\n%+v\n%s\n%s", got, can, cfg, text(t, snap), text(t, plan))
		case got == why.NotFound:
			t.Fatalf("a case this small needs no more than the default budget\n%s", text(t, snap))
		}
		if err := oracle.Valid(snap, cfg, noon, plan); err != nil {
			t.Fatalf("%v\n%s\n%s", err, text(t, snap), text(t, plan))
		}
	})
}

// chargesDiffer says whether what members of the gang count in queues depends on where they are: on the memory or the model of the card that
// they have a part of, on whether what they ask for is a slice there, or on the model of the GPU that the slice is of.
func chargesDiffer(snap engine.Snapshot, cfg engine.Config, gang string) bool {
	type unit struct {
		slice engine.Slice
		model string // where models count apart, and the slice is of one
	}
	memories, units := map[int64]bool{}, map[string]map[unit]bool{}
	models := map[string]bool{}
	byModel := len(cfg.Rates) > 0 || slices.ContainsFunc(snap.Queues, func(q engine.Queue) bool {
		return slices.ContainsFunc(slices.Concat(q.Quota, q.Limits), func(a engine.Amount) bool { return strings.Contains(a.Resource, "@") })
	})
	for _, n := range snap.Nodes {
		for _, d := range n.Devices {
			memories[d.Memory] = memories[d.Memory] || d.Parts > 0
			models[d.Model] = models[d.Model] || d.Parts > 0
		}
		for _, a := range n.Allocatable {
			var u unit
			if at := slices.IndexFunc(n.Slices, func(s engine.Slice) bool { return s.Resource == a.Resource }); at >= 0 {
				u.slice = n.Slices[at]
				if byModel {
					u.model = modelOfSlices(n)
				}
			}
			if units[a.Resource] == nil {
				units[a.Resource] = map[unit]bool{}
			}
			units[a.Resource][u] = units[a.Resource][u] || a.Value > 0
		}
	}
	several := func(p engine.Pod) bool {
		return p.Part != nil && (p.Part.Memory > 0 && len(memories) > 1 || byModel && len(models) > 1) || slices.ContainsFunc(p.Requests, func(a engine.Amount) bool { return a.Value > 0 && len(units[a.Resource]) > 1 })
	}
	return slices.ContainsFunc(snap.Pods, func(p engine.Pod) bool { return (p.Gang == gang || p.Key == gang) && several(p) })
}

// modelOfSlices is the model of the GPUs that the node's slices are of: that of its whole ones, "" where these are of several (ADR 125).
func modelOfSlices(n engine.Node) string {
	if len(n.Devices) == 0 {
		return n.Model
	}
	if slices.ContainsFunc(n.Devices, func(d engine.Device) bool { return d.Model != n.Devices[0].Model }) {
		return ""
	}
	return n.Devices[0].Model
}

// Unlike members share the devices of one node: what one takes may break the clique that another needs, so
// the search has to choose devices as well as nodes.
func TestDevicesOfUnlikeMembers(t *testing.T) {
	often(t, 5, func(t *rapid.T) {
		snap := anyDeviceCase(t)
		can := oracle.CanStart(snap, engine.Config{}, noon, "gang")
		plan := engine.Schedule(snap, noon, engine.Config{})
		if got := verdict(plan, "gang"); can != (got == why.Placed) {
			t.Fatalf("verdict %q, but brute force says %v\n%s", got, can, text(t, snap))
		}
		if err := oracle.Valid(snap, engine.Config{}, noon, plan); err != nil {
			t.Fatalf("%v\n%s\n%s", err, text(t, snap), text(t, plan))
		}
	})
}

// What explains a gang is what decides about it.
func TestExplainAgreesWithPlan(t *testing.T) {
	often(t, 5, func(t *rapid.T) {
		cfg := anyConfig(t)
		snap, gang := anyCase(t, cfg, 5)
		s := engine.Load(snap, cfg)
		planned := verdict(s.Plan(noon), gang)
		if got := s.Explain(gang, noon, 0).Verdict; planned != "" && got != planned {
			t.Fatalf("explained as %q, planned as %q\n%s", got, planned, text(t, snap))
		}
	})
}

// A search that runs out of budget says so, and never more than it knows.
func TestSmallBudgetIsHonest(t *testing.T) {
	often(t, 10, func(t *rapid.T) {
		cfg := anyConfig(t)
		cfg.SearchBudget = 1 + upTo(t, 4)
		snap, gang := anyCase(t, cfg, 5)
		can := oracle.CanStart(snap, cfg, noon, gang)
		got := verdict(engine.Schedule(snap, noon, cfg), gang)
		if got == why.Placed && !can || got == why.Impossible && can {
			t.Fatalf("verdict %q, but brute force says %v\n%s", got, can, text(t, snap))
		}
	})
}
