package engine_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-dev/berth/engine"
)

// alternatives is a pod whose claims ask, each, for one device by the first selection that can be had.
func alternatives(name string, version uint64, lists ...[]string) *engine.Pod {
	p := &engine.Pod{Key: "ns/" + name, UID: name, Version: version}
	p.Claims = &engine.Claims{}
	for i, list := range lists {
		r := engine.DeviceRequest{Name: fmt.Sprintf("c%d/r", i), Claim: i}
		for _, s := range list {
			r.Options = append(r.Options, engine.DeviceOption{Selection: s, Count: 1})
		}
		p.Claims.Requests = append(p.Claims.Requests, r)
	}
	return p
}

// nodeWith offers one device for each of the selections.
func nodeWith(name string, selections ...string) engine.Node {
	n := engine.Node{Name: name, Allocatable: engine.Resources{{Resource: engine.CPU, Value: 8000}, {Resource: engine.Pods, Value: 10}}}
	for i, s := range selections {
		n.Offers = append(n.Offers, engine.Offer{ID: fmt.Sprintf("%s/%d", name, i), Selections: []string{s}})
	}
	return n
}

// The node whose devices are further up in the lists of alternatives is the better one, in sum over all claims.
func TestFirstAlternativeBeatsTheSecond(t *testing.T) {
	for _, c := range []struct {
		name  string
		nodes []engine.Node
		lists [][]string
		want  string
	}{
		{"one claim", []engine.Node{nodeWith("a", "small"), nodeWith("b", "large"), nodeWith("c", "small")}, [][]string{{"large", "small"}}, "b"},
		{"one node offers both", []engine.Node{nodeWith("a", "small"), nodeWith("b", "small", "large")}, [][]string{{"large", "small"}}, "b"},
		{"only the last is there", []engine.Node{nodeWith("a"), nodeWith("b", "small")}, [][]string{{"large", "medium", "small"}}, "b"},
		{"two claims", []engine.Node{nodeWith("a", "x", "x"), nodeWith("b", "y", "y"), nodeWith("c", "z", "z")},
			[][]string{{"x", "y", "z"}, {"y", "z", "x"}}, "b"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := engine.Load(engine.Snapshot{Version: engine.SnapshotVersion, Nodes: c.nodes}, engine.Config{})
			s.Apply(engine.Change{Pod: alternatives("p", 1, c.lists...)})
			plan := s.Plan(noon)
			if len(plan.Starts) != 1 || plan.Starts[0].Placements[0].Node != c.want {
				t.Fatalf("starts %+v, not on %s", plan.Starts, c.want)
			}
		})
	}
}

// The first alternative is one preference beside others, and weighs as much as node affinity.
func TestAlternativesBesideOtherPreferences(t *testing.T) {
	near, far := nodeWith("a-near", "small"), nodeWith("far", "large")
	near.Labels = map[string]string{"zone": "a"}
	for _, c := range []struct {
		name  string
		lists []string
		zone  string // of the far node
		want  string
	}{
		{"the second of two costs an eighth", []string{"large", "small"}, "b", "a-near"},
		{"the first of two where affinity is content with both", []string{"large", "small"}, "a", "far"},
		{"first of one list", []string{"large"}, "b", "far"},
	} {
		t.Run(c.name, func(t *testing.T) {
			far.Labels = map[string]string{"zone": c.zone}
			p := alternatives("p", 1, c.lists)
			p.Preferred = []engine.Preference{{Weight: 1, Term: engine.Term{Labels: []engine.Requirement{{Key: "zone", Op: engine.In, Values: []string{"a"}}}}}}
			s := engine.Load(engine.Snapshot{Version: engine.SnapshotVersion, Nodes: []engine.Node{far, near}}, engine.Config{})
			s.Apply(engine.Change{Pod: p})
			plan := s.Plan(noon)
			if len(plan.Starts) != 1 || plan.Starts[0].Placements[0].Node != c.want {
				t.Fatalf("starts %+v, not on %s", plan.Starts, c.want)
			}
		})
	}
}

// Whatever nodes offer and others hold, a pod goes where the sum of its ranks is highest, counted here by trying every combination.
func TestAlternativesAsCountedByHand(t *testing.T) {
	differ := 0
	rapid.Check(t, func(t *rapid.T) {
		kinds := []string{"a", "b", "c"}
		snap := engine.Snapshot{Version: engine.SnapshotVersion}
		free := make(map[string][]string) // selections of free devices, by node
		for i := range rapid.IntRange(2, 5).Draw(t, "nodes") {
			name := fmt.Sprint("n", i)
			of := rapid.SliceOfN(rapid.SampledFrom(kinds), 0, 4).Draw(t, "devices")
			n := nodeWith(name, of...)
			for k := range n.Offers {
				if n.Offers[k].Taken = rapid.IntRange(0, 3).Draw(t, "taken") == 0; !n.Offers[k].Taken {
					free[name] = append(free[name], of[k])
				}
			}
			snap.Nodes = append(snap.Nodes, n)
		}
		var lists [][]string
		for range rapid.IntRange(1, 3).Draw(t, "claims") {
			lists = append(lists, rapid.Permutation(kinds).Draw(t, "list")[:rapid.IntRange(1, 3).Draw(t, "length")])
		}
		s := engine.Load(snap, engine.Config{})
		s.Apply(engine.Change{Pod: alternatives("p", 1, lists...)})
		plan := s.Plan(noon)
		best, worst := -1, 1<<30
		for _, n := range snap.Nodes {
			if rank := ranked(free[n.Name], lists); rank >= 0 {
				best, worst = max(best, rank), min(worst, rank)
			}
		}
		if best < 0 {
			if len(plan.Starts) > 0 {
				t.Fatalf("starts %+v with nothing there", plan.Starts)
			}
			return
		}
		if worst < best {
			differ++
		}
		if len(plan.Starts) != 1 {
			t.Fatalf("waits: %+v", plan.Waiting)
		}
		if at := plan.Starts[0].Placements[0].Node; ranked(free[at], lists) != best {
			t.Fatalf("on %s with rank %d, not %d", at, ranked(free[at], lists), best)
		}
	})
	if differ == 0 && !testing.Short() { // which draws few
		t.Error("no pod has a choice: it says nothing")
	}
}

// ranked is the rank of the first way to meet the lists in their order with the free devices, -1 where there is none. A list of one counts
// nothing.
func ranked(free []string, lists [][]string) int {
	if len(lists) == 0 {
		return 0
	}
	for i, s := range lists[0] {
		at := slices.Index(free, s)
		if at < 0 {
			continue
		}
		rest := ranked(slices.Delete(slices.Clone(free), at, at+1), lists[1:])
		if rest >= 0 && len(lists[0]) > 1 {
			return rest + 8 - i
		} else if rest >= 0 {
			return rest
		}
	}
	return -1
}
