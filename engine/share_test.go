package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/queue"
)

const testGPU = "nvidia.com/gpu"

var shareNoon = time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)

func gpus(n int64) api.Resources { return api.Resources{{Resource: testGPU, Value: n}} }

// clusterOf is nodes of eight GPUs and 64 CPUs each.
func clusterOf(nodes int, queues ...api.Queue) api.Snapshot {
	snap := api.Snapshot{Version: api.SnapshotVersion, Queues: queues}
	for i := range nodes {
		snap.Nodes = append(snap.Nodes, api.Node{Name: fmt.Sprintf("n%d", i), Version: 1, Allocatable: api.Resources{
			{Resource: testGPU, Value: 8}, {Resource: api.CPU, Value: 64000}, {Resource: api.Memory, Value: 1 << 40}, {Resource: api.Pods, Value: 110}}})
	}
	return snap
}

// work is a pod of the queue, on the node or, with "", in line.
func work(key, queue, node string, asks api.Resources) api.Pod {
	return api.Pod{Key: key, Version: 1, Queue: queue, Node: node, Spec: api.Spec{Requests: asks}}
}

// fairOf is the fair shares of all queues, by name.
func fairOf(s *State, now time.Time) map[string]api.Resources {
	s.freshen()
	s.ledger.FairShares(now)
	out := make(map[string]api.Resources)
	for name, q := range s.m.Queues {
		var r api.Resources
		for _, dim := range s.m.Tree.Shared {
			if v := q.Fair.At(dim); v != 0 {
				r = append(r, s.m.Told(dim, v))
			}
		}
		out[name] = r.Sorted()
	}
	return out
}

func TestFairShares(t *testing.T) {
	q := func(name string, edit func(*api.Queue)) api.Queue {
		out := api.Queue{Name: name, Version: 1}
		if edit != nil {
			edit(&out)
		}
		return out
	}
	for _, tt := range []struct {
		name string
		cfg  api.Config
		snap api.Snapshot
		want map[string]api.Resources
	}{
		{name: "nobody asks", snap: clusterOf(2, q("a", nil)), want: map[string]api.Resources{"a": nil}},
		{
			name: "what runs and what waits counts, up the tree",
			snap: with(clusterOf(2, q("a", func(q *api.Queue) { q.Parent = "top" }), q("b", nil), q("top", nil)),
				work("x", "a", "n0", gpus(6)), work("y", "a", "", gpus(20)), work("z", "b", "", gpus(20))),
			want: map[string]api.Resources{"a": gpus(8), "top": gpus(8), "b": gpus(8)},
		},
		{
			name: "quota, limit, weight, priority",
			snap: with(clusterOf(4, q("a", func(q *api.Queue) { q.Quota = gpus(12) }), q("b", func(q *api.Queue) { q.Weight = 3 }),
				q("c", func(q *api.Queue) { q.Limits = gpus(2); q.Priority = 1 }), q("d", nil)),
				work("1", "a", "", gpus(12)), work("2", "b", "", gpus(40)), work("3", "c", "", gpus(40)), work("4", "d", "", gpus(40))),
			want: map[string]api.Resources{"a": gpus(12), "b": gpus(14), "c": gpus(2), "d": gpus(4)},
		},
		{
			name: "what is on its way out is not held any more",
			snap: with(clusterOf(1, q("a", nil), q("b", nil)), edited(work("x", "a", "n0", gpus(6)), func(p *api.Pod) { p.Terminating = true }), work("y", "b", "", gpus(6))),
			want: map[string]api.Resources{"a": nil, "b": gpus(6)},
		},
		{
			name: "a queue that is not known, and one with an unknown parent, have none",
			snap: with(clusterOf(1, q("a", nil), q("b", func(q *api.Queue) { q.Parent = "nobody" })), work("x", "a", "", gpus(9)), work("y", "b", "", gpus(9)), work("z", "c", "", gpus(9))),
			want: map[string]api.Resources{"a": gpus(8), "b": nil},
		},
		{
			name: "workloads of a queue with others below it share with those",
			snap: with(clusterOf(1, q("a", func(q *api.Queue) { q.Parent = "top" }), q("top", nil)), work("x", "a", "", gpus(9)), work("y", "top", "", gpus(9))),
			want: map[string]api.Resources{"a": gpus(4), "top": gpus(8)},
		},
		{
			name: "a gang without enough members does not ask",
			snap: func() api.Snapshot {
				snap := with(clusterOf(1, q("a", nil), q("b", nil)), edited(work("x", "", "", gpus(4)), func(p *api.Pod) { p.Gang = "g" }), work("y", "b", "", gpus(9)))
				snap.Gangs = []api.Gang{{Key: "g", Version: 1, Queue: "a", Group: api.Group{Min: 2}}}
				return snap
			}(),
			want: map[string]api.Resources{"a": nil, "b": gpus(8)},
		},
		{
			name: "the past counts with a half-life",
			cfg:  api.Config{HalfLife: time.Hour},
			snap: func() api.Snapshot {
				snap := with(clusterOf(1, q("a", nil), q("b", nil)), work("x", "a", "", gpus(9)), work("y", "b", "", gpus(9)))
				snap.Usages = []api.QueueUsage{{Queue: "a", Version: 1, At: shareNoon, Decayed: 3000}, {Queue: "b", Version: 1, At: shareNoon.Add(-time.Hour), Decayed: 2000}}
				return snap
			}(),
			want: map[string]api.Resources{"a": gpus(2), "b": gpus(6)}, // 3000 to 1000: weights 1/4 and 3/4
		},
		{
			name: "and not without",
			snap: func() api.Snapshot {
				snap := with(clusterOf(1, q("a", nil), q("b", nil)), work("x", "a", "", gpus(9)), work("y", "b", "", gpus(9)))
				snap.Usages = []api.QueueUsage{{Queue: "a", Version: 1, At: shareNoon, Decayed: 3000}}
				return snap
			}(),
			want: map[string]api.Resources{"a": gpus(4), "b": gpus(4)},
		},
		{
			name: "models at their rates, and apart",
			cfg:  api.Config{Rates: []api.Rate{{Model: "H100", Units: 2}}},
			snap: func() api.Snapshot {
				snap := clusterOf(2, q("a", func(q *api.Queue) { q.Quota = api.Resources{{Resource: api.OfModel(testGPU, "H100"), Value: 3}} }), q("b", nil))
				for i := range 8 {
					snap.Nodes[0].Devices = append(snap.Nodes[0].Devices, api.Device{ID: fmt.Sprint("h", i), Model: "H100"})
					snap.Nodes[1].Devices = append(snap.Nodes[1].Devices, api.Device{ID: fmt.Sprint("a", i), Model: "A100"})
				}
				wants := func(model string) func(*api.Pod) { return func(p *api.Pod) { p.GPU.Models = []string{model} } }
				return with(snap, edited(work("x", "a", "", gpus(20)), wants("H100")), edited(work("y", "b", "", gpus(40)), wants("A100")))
			}(),
			// 16 units of H100 and 8 of A100. A is promised 3 H100. What is over is 24 units and 5 of the 8 H100: a needs 40 units
			// with 17 H100, which are its dominant part, 17/8; b 40 units, 40/24. The units end first, at level 0.56: 10.55 for a
			// and 13.45 for b.
			want: map[string]api.Resources{
				"a": {{Resource: testGPU, Value: 11}, {Resource: testGPU + "@H100", Value: 8}},
				"b": {{Resource: testGPU, Value: 13}},
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, fairOf(Load(tt.snap, tt.cfg), shareNoon)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func with(snap api.Snapshot, pods ...api.Pod) api.Snapshot {
	snap.Pods = append(snap.Pods, pods...)
	return snap
}

func edited(p api.Pod, edit func(*api.Pod)) api.Pod {
	edit(&p)
	return p
}

// A queue's excess is its worst resource, and what it holds nothing of does not count against it.
func TestExcess(t *testing.T) {
	s := Load(with(clusterOf(2, api.Queue{Name: "a", Version: 1}, api.Queue{Name: "b", Version: 1}, api.Queue{Name: "c", Version: 1}),
		work("x", "a", "n0", api.Resources{{Resource: testGPU, Value: 2}, {Resource: api.CPU, Value: 60000}}),
		work("y", "a", "", gpus(8)), work("z", "b", "n1", gpus(8)), work("w", "b", "", gpus(8)), work("v", "c", "", gpus(1))), api.Config{})
	s.freshen()
	s.ledger.FairShares(shareNoon)
	excess := func(name string) queue.Fraction { return s.ledger.Excess(s.m.Queues[name], "", false) }
	got := map[string]queue.Fraction{"a": excess("a"), "b": excess("b"), "c": excess("c")}
	// Of 16 GPUs c gets 1. A and b rise together: at 8 and 7, as a comes first by name.
	want := map[string]queue.Fraction{"a": {Num: 60000, Den: 60000}, "b": {Num: 8000, Den: 7000}, "c": {Num: 0, Den: 1}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(queue.Fraction{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if !excess("a").Less(excess("b")) || !excess("c").Less(excess("a")) {
		t.Error("the order of excesses is wrong")
	}
}

// Shares do not depend on the way to a state, and add up: of those at the top no more than there is, below a queue no
// more than it has.
func TestFairSharesAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		snap := anyTeams(t)
		cfg := api.Config{HalfLife: rapid.SampledFrom([]time.Duration{0, time.Hour}).Draw(t, "half-life")}
		s := Load(snap, cfg)
		got := fairOf(s, shareNoon)
		if diff := cmp.Diff(got, fairOf(Load(s.m.Dump(), cfg), shareNoon)); diff != "" {
			t.Fatalf("loaded from its dump (-before +after):\n%s", diff)
		}
		s.Plan(shareNoon)
		if diff := cmp.Diff(got, fairOf(s, shareNoon)); diff != "" {
			t.Fatalf("after a plan (-before +after):\n%s", diff)
		}
		for _, dim := range s.m.Tree.Shared {
			var sum int64
			for _, q := range s.m.Tree.Top {
				sum += q.Fair.At(dim)
			}
			if all := s.m.Capacity.At(dim) * s.m.Unit(dim); sum > all {
				t.Fatalf("%d of %s are shared out, of %d", sum, s.m.Dims.Names[dim], all)
			}
			for _, q := range s.m.Queues {
				sum = 0
				for _, c := range q.Children {
					sum += c.Fair.At(dim)
				}
				if sum > q.Fair.At(dim) {
					t.Fatalf("below %s %d of %s are shared out, of %d", q.Name, sum, s.m.Dims.Names[dim], q.Fair.At(dim))
				}
			}
		}
	})
}

// anyTeams is a small cluster with queues in a tree, and work in them.
func anyTeams(t *rapid.T) api.Snapshot {
	n := rapid.IntRange(1, 6).Draw(t, "queues")
	var queues []api.Queue
	names := make([]string, n)
	for i := range n {
		names[i] = fmt.Sprintf("q%d", i)
		q := api.Queue{Name: names[i], Version: 1, Weight: rapid.Int64Range(0, 3).Draw(t, "weight"), Priority: int32(rapid.IntRange(0, 1).Draw(t, "priority"))}
		if up := rapid.IntRange(-1, i-1).Draw(t, "parent"); up >= 0 {
			q.Parent = names[up]
		}
		if rapid.Bool().Draw(t, "promised") {
			q.Quota = gpus(rapid.Int64Range(0, 9).Draw(t, "quota"))
		}
		queues = append(queues, q)
	}
	snap := clusterOf(2, queues...)
	for i := range rapid.IntRange(0, 12).Draw(t, "pods") {
		p := work(fmt.Sprintf("p%02d", i), rapid.SampledFrom(names).Draw(t, "queue"), rapid.SampledFrom([]string{"", "n0", "n1"}).Draw(t, "node"),
			api.Resources{{Resource: testGPU, Value: rapid.Int64Range(0, 4).Draw(t, "gpus")}, {Resource: api.CPU, Value: rapid.Int64Range(0, 30000).Draw(t, "cpu")}})
		p.Started = shareNoon.Add(-time.Duration(rapid.IntRange(0, 7200).Draw(t, "ago")) * time.Second)
		snap.Pods = append(snap.Pods, p)
	}
	for _, name := range names {
		if rapid.Bool().Draw(t, "with a past") {
			snap.Usages = append(snap.Usages, api.QueueUsage{Queue: name, Version: 1, At: shareNoon.Add(-time.Hour), Decayed: rapid.Int64Range(0, 1e6).Draw(t, "decayed")})
		}
	}
	return snap
}

// BenchmarkSharesOfState is fair shares and usage of 1,000 queues, three deep, of a cluster of 40,000 GPUs that 4,000
// jobs hold and 10,000 wait for.
func BenchmarkSharesOfState(b *testing.B) {
	var queues []api.Queue
	add := func(parent string, quota int64) string {
		k := int64(len(queues))
		q := api.Queue{Name: fmt.Sprintf("queue-%04d", k), Version: 1, Parent: parent, Weight: 1 + k%7, Priority: int32(k % 3), Quota: gpus(quota * (k % 3) / 2)}
		queues = append(queues, q)
		return q.Name
	}
	for range 10 {
		team := add("", 4000)
		for range 9 {
			group := add(team, 400)
			for range 10 {
				add(group, 40)
			}
		}
	}
	snap := clusterOf(5000, queues...)
	ask := func(n int64) api.Resources {
		return api.Resources{{Resource: testGPU, Value: n}, {Resource: api.CPU, Value: n * 8000}, {Resource: api.Memory, Value: n << 37}}
	}
	for i := range 14_000 {
		p := work(fmt.Sprintf("p%05d", i), queues[i%len(queues)].Name, "", ask(int64(1+i%8)))
		if i < 4000 {
			p.Node, p.Started = fmt.Sprintf("n%d", i), shareNoon.Add(-time.Hour)
		}
		snap.Pods = append(snap.Pods, p)
	}
	for i := range queues {
		snap.Usages = append(snap.Usages, api.QueueUsage{Queue: queues[i].Name, Version: 1, At: shareNoon, Decayed: int64(i) * 1000})
	}
	s := Load(snap, api.Config{HalfLife: 24 * time.Hour})
	s.freshen()
	b.Run("fair", func(b *testing.B) {
		for b.Loop() {
			s.ledger.FairShares(shareNoon)
		}
	})
	b.Run("accrue", func(b *testing.B) {
		for b.Loop() {
			s.ledger.Accrue(shareNoon.Add(time.Minute))
		}
	})
	b.Run("nothing-to-accrue", func(b *testing.B) {
		for b.Loop() {
			s.ledger.Accrue(shareNoon)
		}
	})
}

// Shares and usage do not depend on the order in which things were told, nor on what was known before.
func TestSharesWhateverTheWay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		snap := anyTeams(t)
		cfg := api.Config{HalfLife: time.Hour, Rates: rapid.SampledFrom([][]api.Rate{nil, {{Model: "H", Units: 2}}}).Draw(t, "rates")}
		for i := range snap.Queues {
			snap.Queues[i].Version = 2
			if rapid.Bool().Draw(t, "of a model") {
				snap.Queues[i].Quota = append(snap.Queues[i].Quota, api.Amount{Resource: api.OfModel(testGPU, "H"), Value: 2})
			}
		}
		for i := range 8 {
			snap.Nodes[0].Devices = append(snap.Nodes[0].Devices, api.Device{ID: fmt.Sprint("h", i), Model: "H"})
		}
		var history []api.Change
		for i := range snap.Nodes {
			history = append(history, api.Change{Node: &snap.Nodes[i]})
		}
		for i := range snap.Queues {
			old := snap.Queues[i]
			old.Version, old.Parent, old.Quota = 1, "", gpus(3)
			history = append(history, api.Change{Queue: &snap.Queues[i]}, api.Change{Queue: &old})
		}
		for i := range snap.Pods {
			history = append(history, api.Change{Pod: &snap.Pods[i]})
		}
		for i := range snap.Usages {
			history = append(history, api.Change{Usage: &snap.Usages[i]})
		}
		told := Load(api.Snapshot{Version: api.SnapshotVersion}, cfg)
		for _, c := range rapid.Permutation(history).Draw(t, "order") {
			told.Apply(c)
			if rapid.Bool().Draw(t, "asked along the way") {
				fairOf(told, shareNoon)
			}
		}
		loaded := Load(snap, cfg)
		if diff := cmp.Diff(fairOf(loaded, shareNoon), fairOf(told, shareNoon)); diff != "" {
			t.Fatalf("shares (-loaded +told):\n%s", diff)
		}
		if diff := cmp.Diff(loaded.ledger.Accrue(shareNoon), told.ledger.Accrue(shareNoon)); diff != "" {
			t.Fatalf("usage (-loaded +told):\n%s", diff)
		}
	})
}

// What lost its nodes to time asks again in the same cycle: shares are those of a state in which it was never assumed.
func TestExpiredAssumptionsAskAgain(t *testing.T) {
	snap := with(clusterOf(1, api.Queue{Name: "a", Version: 1}, api.Queue{Name: "b", Version: 1}), work("x", "a", "", gpus(8)), work("y", "b", "", gpus(8)))
	shares := func(snap api.Snapshot) map[string]api.Resources {
		s := Load(snap, api.Config{Policy: api.TimeShare})
		s.freshen()
		y := s.newCycle(shareNoon)
		out := make(map[string]api.Resources)
		y.undone(func() {
			y.begin()
			for name, q := range s.m.Queues {
				for _, dim := range s.m.Tree.Shared {
					if v := q.Fair.At(dim); v != 0 {
						out[name] = append(out[name], s.m.Told(dim, v))
					}
				}
			}
		})
		return out
	}
	want := shares(snap)
	snap.Assumptions = []api.Assumption{{Pod: "x", Version: 1, Node: "n0", Until: shareNoon.Add(-time.Second)}}
	if diff := cmp.Diff(want, shares(snap)); diff != "" {
		t.Errorf("(-never assumed +assumed until now):\n%s", diff)
	}
}
