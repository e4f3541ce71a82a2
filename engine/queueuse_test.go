package engine_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/berth-dev/berth/engine"
)

func someGPUs(n int64) engine.Resources {
	if n == 0 {
		return nil
	}
	return engine.Resources{{Resource: gpu, Value: n}}
}

// flatUse is a queue's borrowing in GPUs, for tables.
type flatUse struct {
	Name                               string
	Depth                              int
	Quota, Used, Borrowed, Lent, Wants int64
}

func flatUses(uses []engine.QueueUse) (out []flatUse) {
	for _, u := range uses {
		out = append(out, flatUse{u.Name, u.Depth, u.Quota.Get(gpu), u.Used.Get(gpu), u.Borrowed.Get(gpu), u.Lent.Get(gpu), u.Wanted.Get(gpu)})
	}
	return out
}

// running workloads is a cluster of that many GPUs with one pod of each queue in used, and one that waits of each in wants.
func inQueues(capacity int64, queues []engine.Queue, used, wants map[string]int64) engine.Snapshot {
	snap := engine.Snapshot{
		Version: engine.SnapshotVersion, Queues: queues,
		Nodes: []engine.Node{{Name: "n", Allocatable: engine.Resources{{Resource: gpu, Value: capacity}, {Resource: engine.Pods, Value: 1000}}}},
	}
	for _, q := range queues {
		if n := used[q.Name]; n > 0 {
			snap.Pods = append(snap.Pods, engine.Pod{Key: q.Name + "/runs", UID: "u", Queue: q.Name, Node: "n", Evictable: true, Spec: engine.Spec{Requests: someGPUs(n)}})
		}
		if n := wants[q.Name]; n > 0 {
			snap.Pods = append(snap.Pods, engine.Pod{Key: q.Name + "/waits", UID: "u", Queue: q.Name, Spec: engine.Spec{Requests: someGPUs(n)}})
		}
	}
	return snap
}

func TestWhatIsBorrowedIsLent(t *testing.T) {
	for _, c := range []struct {
		name     string
		capacity int64
		queues   []engine.Queue
		used     map[string]int64
		want     []flatUse
	}{
		{
			"one lends all", 16,
			[]engine.Queue{{Name: "a", Quota: someGPUs(8)}, {Name: "b", Quota: someGPUs(8)}}, map[string]int64{"b": 16},
			[]flatUse{{Name: "a", Quota: 8, Lent: 8}, {Name: "b", Quota: 8, Used: 16, Borrowed: 8}},
		},
		{
			"what nobody was promised comes first", 20,
			[]engine.Queue{{Name: "a", Quota: someGPUs(8)}, {Name: "b", Quota: someGPUs(8)}}, map[string]int64{"b": 14},
			[]flatUse{{Name: "a", Quota: 8, Lent: 2}, {Name: "b", Quota: 8, Used: 14, Borrowed: 6}},
		},
		{
			"in proportion to what is idle, and no more than is lent", 40,
			[]engine.Queue{{Name: "a", Quota: someGPUs(8)}, {Name: "b", Quota: someGPUs(8), Lend: someGPUs(4)}, {Name: "c", Quota: someGPUs(16)}, {Name: "d", Quota: someGPUs(8)}}, map[string]int64{"a": 0, "c": 12, "d": 15},
			[]flatUse{{Name: "a", Quota: 8, Lent: 3}, {Name: "b", Quota: 8, Lent: 2}, {Name: "c", Quota: 16, Used: 12, Lent: 2}, {Name: "d", Quota: 8, Used: 15, Borrowed: 7}},
		},
		{
			"siblings lend to each other before others do", 32,
			[]engine.Queue{
				{Name: "lab", Quota: someGPUs(16)}, {Name: "lab-a", Parent: "lab", Quota: someGPUs(8)}, {Name: "lab-b", Parent: "lab", Quota: someGPUs(8)}, {Name: "shop", Quota: someGPUs(16)},
			},
			map[string]int64{"lab-b": 12},
			[]flatUse{{Name: "lab", Quota: 16, Used: 12}, {Name: "lab-a", Depth: 1, Quota: 8, Lent: 4}, {Name: "lab-b", Depth: 1, Quota: 8, Used: 12, Borrowed: 4}, {Name: "shop", Quota: 16}},
		},
		{
			"beyond that it comes from above", 32,
			[]engine.Queue{
				{Name: "lab", Quota: someGPUs(16)}, {Name: "lab-a", Parent: "lab", Quota: someGPUs(8)}, {Name: "lab-b", Parent: "lab", Quota: someGPUs(8)}, {Name: "shop", Quota: someGPUs(16)},
			},
			map[string]int64{"lab-b": 20},
			[]flatUse{{Name: "lab", Quota: 16, Used: 20, Borrowed: 4}, {Name: "lab-a", Depth: 1, Quota: 8, Lent: 8}, {Name: "lab-b", Depth: 1, Quota: 8, Used: 20, Borrowed: 12}, {Name: "shop", Quota: 16, Lent: 4}},
		},
		{
			"what a queue lends is its children's", 16,
			[]engine.Queue{
				{Name: "lab", Quota: someGPUs(16)}, {Name: "lab-a", Parent: "lab", Quota: someGPUs(4)}, {Name: "lab-b", Parent: "lab", Quota: someGPUs(8)}, {Name: "shop"},
			},
			map[string]int64{"shop": 10},
			[]flatUse{{Name: "lab", Quota: 16, Lent: 10}, {Name: "lab-a", Depth: 1, Quota: 4, Lent: 2}, {Name: "lab-b", Depth: 1, Quota: 8, Lent: 4}, {Name: "shop", Used: 10, Borrowed: 10}},
		},
		{
			"children promised more than the parent lend nothing to each other by that", 16,
			[]engine.Queue{
				{Name: "lab", Quota: someGPUs(8)}, {Name: "lab-a", Parent: "lab", Quota: someGPUs(8)}, {Name: "lab-b", Parent: "lab", Quota: someGPUs(8)},
			},
			map[string]int64{"lab-b": 8},
			[]flatUse{{Name: "lab", Quota: 8, Used: 8}, {Name: "lab-a", Depth: 1, Quota: 8}, {Name: "lab-b", Depth: 1, Quota: 8, Used: 8}},
		},
		{
			"nothing is borrowed where nothing is promised", 16,
			[]engine.Queue{{Name: "a"}, {Name: "b"}}, map[string]int64{"b": 16},
			[]flatUse{{Name: "a"}, {Name: "b", Used: 16}},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := engine.Load(inQueues(c.capacity, c.queues, c.used, nil), engine.Config{})
			if diff := cmp.Diff(c.want, flatUses(s.QueueUses())); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A queue that has no effect says why, one that promises too much is warned of, and one that does not exist is there as
// long as work names it.
func TestQueuesSayWhatIsWrong(t *testing.T) {
	at := noon.Add(-time.Minute)
	snap := inQueues(16, []engine.Queue{
		{Name: "a", Quota: someGPUs(4), Budgets: []engine.Budget{{Resource: gpu, Seconds: 7200, Period: time.Hour}}},
		{Name: "a-1", Parent: "a", Quota: someGPUs(3)}, {Name: "a-2", Parent: "a", Quota: someGPUs(3)},
		{Name: "x", Parent: "nowhere"}, {Name: "x-1", Parent: "x"}, {Name: "y", Parent: "z"}, {Name: "z", Parent: "y"},
	}, nil, map[string]int64{"a-1": 2})
	snap.Pods = append(snap.Pods, engine.Pod{Key: "t/lost", Queue: "lost", Spec: engine.Spec{Requests: someGPUs(1)}})
	snap.Usages = []engine.QueueUsage{{Queue: "a", Version: 1, At: at, Spent: []int64{1800}, Total: 36000}}
	s := engine.Load(snap, engine.Config{})
	wants := engine.Crowd{Workloads: 1, GPUs: 2}
	want := []engine.QueueUse{
		{
			Queue: snap.Queues[0], Known: true, Warnings: []string{"the queues below it are promised 6 of nvidia.com/gpu, and it has 4"},
			Wanted: someGPUs(2), Waiting: wants, GPUSeconds: 36000, Spent: []int64{1800}, At: at,
		},
		{Queue: snap.Queues[1], Known: true, Depth: 1, Wanted: someGPUs(2), Waiting: wants},
		{Queue: snap.Queues[2], Known: true, Depth: 1},
		{Queue: snap.Queues[3], Known: true, Problem: "parent: there is no queue nowhere"},
		{Queue: snap.Queues[4], Known: true, Depth: 1, Problem: "queue x: parent: there is no queue nowhere"},
		{Queue: snap.Queues[5], Known: true, Problem: "parent: z is below it, or in a circle itself"},
		{Queue: snap.Queues[6], Known: true, Problem: "parent: y is below it, or in a circle itself"},
		{Queue: engine.Queue{Name: "lost"}, Wanted: someGPUs(1), Waiting: engine.Crowd{Workloads: 1, GPUs: 1}},
	}
	got := s.QueueUses()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Workloads that are being evicted are still there, with what they end for.
func TestTalliesOfTheEvicted(t *testing.T) {
	snap := inQueues(8, []engine.Queue{{Name: "a"}}, map[string]int64{"a": 8}, map[string]int64{"a": 8})
	e := engine.Eviction{Pod: "a/runs", UID: "u", Version: 9, Cause: engine.Reclaimed, For: "a/waits", At: noon, Until: noon.Add(time.Minute)}
	snap.Evictions = []engine.Eviction{e}
	want := []engine.Tally{
		{Key: "a/runs", Queue: "a", Min: 1, Size: 1, Placed: 1, GPUs: 8, Held: 8, Loose: 8, Evicting: 1, Eviction: e},
		{Key: "a/waits", Queue: "a", Min: 1, Size: 1, GPUs: 8},
	}
	if diff := cmp.Diff(want, engine.Load(snap, engine.Config{}).Tallies("")); diff != "" {
		t.Error(diff)
	}
}

// anyTenants is a tree of queues with work in it, some of it on the way out, and histories of edits.
func anyTenants(t *rapid.T) engine.Snapshot {
	var queues []engine.Queue
	used, wants := map[string]int64{}, map[string]int64{}
	amount := rapid.Int64Range(0, 12)
	for i := range rapid.IntRange(1, 9).Draw(t, "queues") {
		q := engine.Queue{Name: fmt.Sprintf("q%d", rapid.IntRange(0, 20).Draw(t, "name")), Quota: someGPUs(amount.Draw(t, "quota"))}
		if slices.ContainsFunc(queues, func(o engine.Queue) bool { return o.Name == q.Name }) {
			continue
		}
		if i > 0 && rapid.Bool().Draw(t, "child") {
			q.Parent = queues[rapid.IntRange(0, len(queues)-1).Draw(t, "parent")].Name
		}
		if rapid.IntRange(0, 3).Draw(t, "lends") == 0 {
			q.Lend = engine.Resources{{Resource: gpu, Value: amount.Draw(t, "lend")}}
		}
		used[q.Name], wants[q.Name] = amount.Draw(t, "used"), amount.Draw(t, "wants")
		queues = append(queues, q)
	}
	var sum int64
	for _, n := range used {
		sum += n
	}
	return inQueues(sum+amount.Draw(t, "spare"), queues, used, wants)
}

// All figures are those of a count from scratch, and nothing is lent that is not idle, nor twice.
func TestQueueUsesAreTheCount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		snap := anyTenants(t)
		s := engine.Load(snap, engine.Config{})
		uses := map[string]engine.QueueUse{}
		for _, u := range s.QueueUses() {
			uses[u.Name] = u
		}
		below := func(name, top string) bool {
			for ; name != ""; name = uses[name].Parent {
				if name == top {
					return true
				}
			}
			return false
		}
		promised, quotas, beyond, lent, lendable := false, int64(0), int64(0), int64(0), int64(0)
		for _, u := range uses {
			promised = promised || u.Quota.Get(gpu) > 0
		}
		for name, u := range uses {
			want := flatUse{Name: name, Depth: -1, Quota: u.Quota.Get(gpu), Lent: u.Lent.Get(gpu)}
			for up := name; up != ""; up = uses[up].Parent {
				want.Depth++
			}
			var running, waiting engine.Crowd
			for _, p := range snap.Pods {
				if !below(p.Queue, name) {
					continue
				}
				n := p.Requests.Get(gpu)
				if p.Node != "" {
					want.Used += n
					running.Workloads++
					running.GPUs += n
				} else {
					want.Wants += n
					waiting.Workloads++
					waiting.GPUs += n
				}
			}
			if promised {
				want.Borrowed = max(0, want.Used-want.Quota)
			}
			if diff := cmp.Diff([]flatUse{want}, flatUses([]engine.QueueUse{u})); diff != "" {
				t.Fatalf("%s (-counted +said):\n%s\n%s", name, diff, text(t, snap))
			}
			if diff := cmp.Diff([]engine.Crowd{running, waiting}, []engine.Crowd{u.Running, u.Waiting}); diff != "" {
				t.Fatalf("%s (-counted +said):\n%s\n%s", name, diff, text(t, snap))
			}
			can := max(0, want.Quota-want.Used)
			if u.Lend != nil {
				can = min(can, u.Lend.Get(gpu))
			}
			if want.Lent > can || want.Lent < 0 {
				t.Fatalf("%s lends %d of %d\n%s", name, want.Lent, can, text(t, snap))
			}
			if u.Parent == "" {
				quotas, beyond, lent, lendable = quotas+want.Quota, beyond+want.Borrowed, lent+want.Lent, lendable+can
			}
		}
		nobodys := max(0, snap.Nodes[0].Allocatable.Get(gpu)-quotas)
		if want := min(lendable, max(0, beyond-nobodys)); lent != want {
			t.Fatalf("%d lent at the top, want %d: %d borrowed, %d promised to nobody\n%s", lent, want, beyond, nobodys, text(t, snap))
		}
	})
}
