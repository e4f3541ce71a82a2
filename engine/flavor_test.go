package engine_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/engine/internal/oracle"
	"github.com/berth-dev/berth/engine/why"
)

// flavorLabels are what nodes and flavors may have; flavors of one group differ.
var flavorLabels = []map[string]string{
	nil, {"type": "spot"}, {"type": "reserved"}, {"zone": "a"}, {"zone": "a", "type": "spot"}, {"zone": "b", "type": "reserved"},
}

// anyFlavors makes groups that cover GPUs, CPU or both, and amounts of their flavors.
func anyFlavors(t *rapid.T, q *engine.Queue, cohort *engine.Queue) {
	covers := pick(t, [][]string{{engine.CPU, gpu}}, [][]string{{gpu}}, [][]string{{engine.CPU}, {gpu}})
	n := 0
	for _, resources := range covers {
		g := engine.FlavorGroup{Resources: resources}
		left := slices.Clone(flavorLabels)
		for range 1 + upTo(t, 2) {
			at := upTo(t, len(left)-1)
			g.Flavors = append(g.Flavors, engine.Flavor{Name: fmt.Sprint("f", n), Labels: left[at]})
			left = slices.Delete(left, at, at+1)
			for _, r := range resources {
				if seldom(t, 3) {
					continue
				}
				amount := engine.Amount{Resource: engine.OfFlavor(r, fmt.Sprint("f", n)), Value: int64(upTo(t, 4))}
				if r == engine.CPU {
					amount.Value *= 1000
				}
				q.Quota = append(q.Quota, amount)
				more := amount
				more.Value += amount.Value * int64(upTo(t, 1))
				q.Limits = append(q.Limits, more)
				cohort.Limits = append(cohort.Limits, engine.Amount{Resource: amount.Resource, Value: amount.Value + int64(upTo(t, 4))})
			}
			n++
		}
		q.Flavors = append(q.Flavors, g)
	}
	q.QuotaFirst = seldom(t, 1)
}

// anyFlavorCase is a few nodes, a queue that counts flavors, one beside it that does not, work on the nodes and a gang that waits.
func anyFlavorCase(t *rapid.T) engine.Snapshot {
	snap := engine.Snapshot{Version: engine.SnapshotVersion}
	for i := range 2 + upTo(t, 2) {
		n := engine.Node{Name: fmt.Sprint("n", i), Version: 1, Labels: pick(t, flavorLabels...), Allocatable: engine.Resources{{Resource: engine.CPU, Value: 4000}, {Resource: gpu, Value: int64(2 + upTo(t, 2))}, {Resource: engine.Pods, Value: 9}}}
		snap.Nodes = append(snap.Nodes, n)
	}
	cohort, q := engine.Queue{Name: "cohort", Version: 1}, engine.Queue{Name: "q", Version: 1, Parent: "cohort"}
	anyFlavors(t, &q, &cohort)
	other := q
	other.Name = "r"
	if seldom(t, 1) {
		other.Flavors, other.Quota, other.Limits = nil, nil, nil
	}
	snap.Queues = []engine.Queue{cohort, q, other}
	spec := func() engine.Spec {
		s := engine.Spec{Requests: engine.Resources{{Resource: engine.CPU, Value: pick[int64](t, 1000, 500, 0)}, {Resource: gpu, Value: pick[int64](t, 1, 1, 2, 0)}}}
		if seldom(t, 3) {
			s.Selector = map[string]string{"type": pick(t, "spot", "reserved")}
		}
		if seldom(t, 4) {
			s.Affinity = []engine.Term{{Labels: []engine.Requirement{{Key: "zone", Op: pick(t, engine.In, engine.NotIn), Values: []string{"a"}}}}, {Labels: []engine.Requirement{{Key: "type", Op: engine.Exists}}}}
		}
		return s
	}
	for i := range upTo(t, 4) {
		s := spec()
		s.Selector, s.Affinity = nil, nil
		snap.Pods = append(snap.Pods, engine.Pod{
			Key: fmt.Sprint("bound", i), Version: 1, UID: "u", Node: snap.Nodes[upTo(t, len(snap.Nodes)-1)].Name, Queue: pick(t, "q", "r", ""), Evictable: seldom(t, 1), Owner: "job",
			Started: noon.Add(-time.Hour), Spec: s,
		})
	}
	snap.Gangs = []engine.Gang{{Key: "gang", Version: 1, Queue: "q"}}
	few, evictable := []engine.Spec{spec(), spec()}, seldom(t, 1)
	for i := range 1 + upTo(t, 3) {
		p := engine.Pod{Key: fmt.Sprint("gang-", i), Version: 1, UID: "u", Gang: "gang", Rank: i, Evictable: evictable, Owner: "job", Spec: pick(t, few...)}
		if i > 0 && seldom(t, 4) {
			p.Node, p.Selector, p.Affinity = snap.Nodes[upTo(t, len(snap.Nodes)-1)].Name, nil, nil
		}
		snap.Pods = append(snap.Pods, p)
	}
	snap.Latest = 1
	return snap
}

// A gang of a queue that counts flavors starts exactly when there is an assignment in which its members that request the same are on
// nodes of one flavor of each group, and no queue is beyond a limit of a flavor. What queues are charged is what is counted from scratch,
// and certificates hold.
func TestFlavorsEqualBruteForce(t *testing.T) {
	often(t, 5, func(t *rapid.T) {
		snap, cfg := anyFlavorCase(t), engine.Config{Policy: pick(t, "", engine.FIFO)}
		s := engine.Load(snap, cfg)
		if bad := s.Rejected(); len(bad) > 0 {
			t.Skip(bad)
		}
		if found, _ := s.Audit(0, 1000); len(found) > 0 {
			t.Fatalf("%v\n%s", found, text(t, snap))
		}
		can, plan := oracle.CanStart(snap, cfg, noon, "gang"), s.Plan(noon)
		got := verdict(plan, "gang")
		if got != "" && can != (got == why.Placed) {
			t.Fatalf("verdict %q, but brute force says %v\n%s\n%s", got, can, text(t, snap), text(t, plan))
		}
		if err := oracle.Valid(snap, cfg, noon, plan); err != nil {
			t.Fatalf("%v\n%s\n%s", err, text(t, snap), text(t, plan))
		}
		for _, w := range plan.Waiting {
			for _, g := range w.Gates {
				if g.Certificate < 0 {
					continue
				}
				if err := oracle.Check(snap, cfg, noon, w.Gang, plan.Certificates[g.Certificate]); err != nil {
					t.Fatalf("%v\n%s\n%s", err, text(t, snap), text(t, plan))
				}
			}
		}
		for _, c := range plan.Changes {
			s.Apply(c)
		}
		relabelled := snap.Nodes[0]
		relabelled.Version, relabelled.Labels = 100, pick(t, flavorLabels...)
		s.Apply(engine.Change{Node: &relabelled})
		if found, _ := s.Audit(0, 1000); len(found) > 0 {
			t.Fatalf("after the plan, and labels %v on n0: %v\n%s", relabelled.Labels, found, text(t, snap))
		}
	})
}

// What others bound of a gang keeps nobody waiting: a member that runs on nodes of no flavor, and for which there is none, and members that
// run in two.
func TestFlavorsOfMembersThatOthersBound(t *testing.T) {
	node := func(name, kind string) engine.Node {
		return engine.Node{Name: name, Version: 1, Labels: map[string]string{"type": kind}, Allocatable: engine.Resources{{Resource: engine.CPU, Value: 4000}, {Resource: gpu, Value: 2}, {Resource: engine.Pods, Value: 9}}}
	}
	member := func(i int, node string, gpus int64) engine.Pod {
		return engine.Pod{Key: fmt.Sprint("gang-", i), Version: 1, UID: "u", Gang: "gang", Rank: i, Owner: "job", Node: node, Spec: engine.Spec{Requests: engine.Resources{{Resource: engine.CPU, Value: 1000 * gpus}, {Resource: gpu, Value: gpus}}}}
	}
	spot, reserved := engine.Flavor{Name: "spot", Labels: map[string]string{"type": "spot"}}, engine.Flavor{Name: "reserved", Labels: map[string]string{"type": "reserved"}}
	for _, c := range []struct {
		name    string
		flavors []engine.FlavorGroup
		pods    []engine.Pod
		want    string
	}{
		{"no node is of both flavors", []engine.FlavorGroup{{Resources: []string{engine.CPU}, Flavors: []engine.Flavor{spot}}, {Resources: []string{gpu}, Flavors: []engine.Flavor{reserved}}},
			[]engine.Pod{member(0, "", 0), member(1, "plain", 1)}, "any"},
		{"the first flavor is used up", []engine.FlavorGroup{{Resources: []string{gpu}, Flavors: []engine.Flavor{spot, reserved}}},
			[]engine.Pod{member(0, "", 1), member(1, "reserved", 1), member(2, "spot", 1), member(3, "spot", 1)}, "reserved"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := engine.Load(engine.Snapshot{
				Version: engine.SnapshotVersion, Nodes: []engine.Node{node("plain", ""), node("reserved", "reserved"), node("spot", "spot")}, Pods: c.pods,
				Gangs: []engine.Gang{{Key: "gang", Version: 1, Queue: "q"}}, Queues: []engine.Queue{{Name: "q", Version: 1, Flavors: c.flavors}},
			}, engine.Config{})
			plan := s.Plan(noon)
			if len(plan.Starts) != 1 || c.want != "any" && plan.Starts[0].Placements[0].Node != c.want {
				t.Errorf("starts %+v, waits %+v; want it on %s", plan.Starts, plan.Waiting, c.want)
			}
		})
	}
}
