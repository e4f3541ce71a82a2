package engine

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/quantity"
)

// audited is a small state with something in every account.
func audited(t *testing.T) *State {
	gpus := func(n int64) api.Resources { return api.Resources{{Resource: "nvidia.com/gpu", Value: n}} }
	later := time.Date(2026, 11, 15, 13, 0, 0, 0, time.UTC)
	node := func(name string) api.Node {
		return api.Node{Name: name, Allocatable: append(gpus(4), api.Amount{Resource: api.Pods, Value: 9}), Devices: []api.Device{
			{ID: name + "0", Model: "A"}, {ID: name + "1", Model: "A"}, {ID: name + "2", Model: "A"}, {ID: name + "3", Model: "A"}}}
	}
	s := Load(api.Snapshot{
		Version: api.SnapshotVersion,
		Nodes:   []api.Node{node("n0"), node("n1")},
		Queues: []api.Queue{{Name: "org", Limits: api.Resources{{Resource: "nvidia.com/gpu@A", Value: 8}}},
			{Name: "team", Parent: "org", FairUsers: true, MaxRunning: 9, Quota: gpus(2)}},
		Gangs: []api.Gang{{Key: "g", Queue: "team", User: "ann", Core: true, Group: api.Group{Min: 1}, Terms: api.Terms{Expected: 2 * time.Hour}}},
		Pods: []api.Pod{
			{Key: "g-0", UID: "u", Gang: "g", Node: "n0", Started: later.Add(-90 * time.Minute), Devices: []string{"n00"}, Evictable: true, Spec: api.Spec{Requests: gpus(1)}},
			{Key: "g-1", UID: "u", Gang: "g", Rank: 1, Node: "n0", Devices: []string{"n01"}, Evictable: true, Spec: api.Spec{Requests: gpus(1)}},
			{Key: "blind", Node: "n1", Spec: api.Spec{Requests: gpus(1)}},
			{Key: "waits", Queue: "team", Spec: api.Spec{Requests: gpus(9)}},
			{Key: "hopes", Spec: api.Spec{Requests: gpus(4)}},
		},
		Assumptions: []api.Assumption{{Pod: "g-2", UID: "u", Version: 1, Node: "n1", Devices: []string{"n10"}, Until: later}},
		Evictions:   []api.Eviction{{Pod: "g-1", UID: "u", Version: 1, Cause: api.Preempted, For: "waits", At: later, Until: later}},
		Holds:       []api.Hold{{Gang: "waits", Version: 1, Node: "n0", Requests: gpus(1), Until: later}},
		Latest:      1,
	}, api.Config{})
	s.Plan(later.Add(-time.Hour))
	s.freshen()
	s.m.Queues["org"].Workloads()
	if found, _ := s.Audit(0, math.MaxInt); len(found) > 0 {
		t.Fatalf("a sound state has discrepancies: %v", found)
	}
	return s
}

func discrepancy(kind, key, account, resource string, kept, counted int64) Discrepancy {
	return Discrepancy{Kind: kind, Key: key, Account: account, Resource: resource, Kept: kept, Counted: counted}
}

// The audit is the sum of the checks of all packages: it names the account of any of them that was tampered with.
func TestAuditNamesWhatIsWrong(t *testing.T) {
	const gpu, ofA = "nvidia.com/gpu", "nvidia.com/gpu@A"
	for _, c := range []struct {
		name   string
		tamper func(*State)
		want   Discrepancy
	}{
		{"capacity", func(s *State) { s.m.Capacity.Add(quantity.DimGPU, 1) }, discrepancy("cluster", "", "capacity", gpu, 9, 8)},
		{"used", func(s *State) { s.m.Queues["team"].Used.Add(quantity.DimGPU, 2) }, discrepancy("queue", "team", "used", gpu, 2002, 2000)},
		{"free", func(s *State) { s.m.Nodes["n0"].Free.Add(quantity.DimGPU, 1) }, discrepancy("node", "n0", "free", gpu, 2, 1)},
		{"a pod that waits is not in line", func(s *State) { s.line.Entry(s.m.Pods["waits"].In).Lined = false }, discrepancy("pod", "waits", "line", "", 0, 1)},
		{"an end that does not follow its start", func(s *State) {
			p := *s.m.Pods["g-0"].Pod
			p.Started = p.Started.Add(time.Minute)
			s.m.Pods["g-0"].Pod = &p
		}, discrepancy("gang", "g", "end", "", 1794749400, 1794749460)},
		{"a trial was not undone", func(s *State) { s.m.Journal = append(s.m.Journal, cluster.Undo{}) }, discrepancy("cluster", "", "journal", "", 1, 0)},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := audited(t)
			c.want.Resource = first(s, c.want.Resource)
			c.tamper(s)
			if found, _ := s.Audit(0, math.MaxInt); !slices.Contains(found, c.want) {
				t.Errorf("%v is not among %v", c.want, found)
			}
		})
	}
}

// firstPod stands for the first pod of the queue's list, which is in no order.
const firstPod = "*"

func first(s *State, key string) string {
	if key == firstPod {
		return s.m.Queues["team"].Pods[0].Key
	}
	return key
}

// A rolling audit of any step sees what a whole one does, once a round.
func TestAuditRollsOverEverything(t *testing.T) {
	for most := 1; most < 9; most++ {
		s := audited(t)
		s.m.Nodes["n1"].Free.Add(quantity.DimGPU, 1)
		s.m.Queues["org"].Used.Add(quantity.DimPods, 1)
		want, _ := s.Audit(0, math.MaxInt)
		var found []Discrepancy
		for at, steps := 0, 0; ; steps++ {
			some, next := s.Audit(at, most)
			found = append(found, some...)
			if at = next; at == 0 {
				break
			}
			if steps > 9 {
				t.Fatalf("a round of 6 places in steps of %d does not end", most)
			}
		}
		slices.SortFunc(found, func(a, b Discrepancy) int { return -compareKinds(a, b) })
		slices.SortFunc(want, func(a, b Discrepancy) int { return -compareKinds(a, b) })
		if diff := cmp.Diff(want, found); diff != "" || len(found) != 2 {
			t.Errorf("in steps of %d (-all at once +found):\n%s", most, diff)
		}
	}
}

func compareKinds(a, b Discrepancy) int {
	if a.Kind < b.Kind {
		return -1
	}
	return 1
}

func TestDiscrepancyInWords(t *testing.T) {
	for d, want := range map[Discrepancy]string{
		discrepancy("queue", "team", "used", "cpu", 4, 2): "queue team: used of cpu is kept as 4 and counted as 2",
		discrepancy("cluster", "", "journal", "", 1, 0):   "cluster: journal is kept as 1 and counted as 0",
	} {
		if got := d.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
