package census

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/cluster"
)

const gpu = "nvidia.com/gpu"

func gpus(n int64) api.Resources { return api.Resources{{Resource: gpu, Value: n}} }

// model is a cluster of two racks with two nodes of eight GPUs each.
func model(queues []api.Queue, pods ...api.Pod) *cluster.Model {
	config, _ := api.Config{Levels: []api.Level{{Name: "rack", Label: "rack"}}}.Normal()
	m := cluster.NewModel(config)
	snap := api.Snapshot{Version: api.SnapshotVersion, Queues: queues, Pods: pods}
	for i := range 4 {
		snap.Nodes = append(snap.Nodes, api.Node{
			Name: fmt.Sprintf("n%d", i), Pool: "train", Labels: map[string]string{"rack": fmt.Sprintf("r%d", i/2)},
			Allocatable: append(gpus(8), api.Amount{Resource: api.Pods, Value: 99}),
		})
	}
	m.LoadAll(&snap)
	m.Freshen()
	return m
}

// pod is one of the queue, on the node or waiting.
func pod(key, queue, node string, n int64) api.Pod {
	return api.Pod{Key: key, UID: key, Queue: queue, Node: node, Evictable: true, Spec: api.Spec{Requests: gpus(n)}}
}

// The report tells how much of the cluster is given away, how much of the nodes in use is not, and where the largest job fits.
func TestCountTellsHowBrokenUpTheClusterIs(t *testing.T) {
	r := Count(model(nil, pod("a", "", "n0", 8), pod("b", "", "n2", 2), pod("c", "", "n3", 1)))
	want := Report{
		All:   Usage{Nodes: 4, FreeNodes: 1, GPUs: 32, Allocated: 11, InUse: 24},
		Pools: []Usage{{Pool: "train", Nodes: 4, FreeNodes: 1, GPUs: 32, Allocated: 11, InUse: 24}},
		Largest: []Largest{
			{Level: "", Domain: "", GPUs: 21}, {Level: "rack", Domain: "r1", GPUs: 13}, {Level: api.NodeLevel, Domain: "n1", GPUs: 8},
		},
	}
	if diff := cmp.Diff(want, r); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
	if u, f := r.All.Utilisation(), r.All.Fragmentation(); u != 11.0/32 || math.Abs(f-13.0/24) > 1e-9 {
		t.Errorf("used %v, broken up %v", u, f)
	}
	if r := Count(model(nil)); r.All.Fragmentation() != 0 {
		t.Errorf("an empty cluster is broken up by %v", r.All.Fragmentation())
	}
}

// What one queue borrows another lends, as far as it is promised to somebody.
func TestQueueUsesBalance(t *testing.T) {
	queues := []api.Queue{{Name: "a", Quota: gpus(8)}, {Name: "b", Quota: gpus(16)}, {Name: "c", Quota: gpus(8)}}
	rows := QueueUses(model(queues, pod("a0", "a", "n0", 8), pod("a1", "a", "n1", 6), pod("b0", "b", "n2", 4), pod("w", "c", "", 3), pod("x", "nowhere", "", 1)))
	got := map[string][]int64{}
	for _, r := range rows {
		got[r.Name] = []int64{r.Used.Get(gpu), r.Borrowed.Get(gpu), r.Lent.Get(gpu), r.Wanted.Get(gpu), int64(r.Running.Workloads), int64(r.Waiting.Workloads)}
	}
	want := map[string][]int64{
		"a": {14, 6, 0, 0, 2, 0}, "b": {4, 0, 4, 0, 1, 0}, "c": {0, 0, 2, 3, 0, 1}, "nowhere": {0, 0, 0, 1, 0, 1},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("used, borrowed, lent, wanted, running, waiting (-want +got):\n%s", diff)
	}
	if last := rows[len(rows)-1]; last.Name != "nowhere" || last.Known {
		t.Errorf("a queue that does not exist comes last: %+v", last)
	}
}

// However an amount is shared out, nobody gives more than it has, all of it is given if it is there, and no part is further
// than one from its proportion.
func TestInProportionIsFair(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		of := rapid.SliceOfN(rapid.Int64Range(0, 1<<40), 1, 6).Draw(t, "of")
		amount := rapid.Int64Range(-5, 1<<42).Draw(t, "amount")
		var have, given int64
		for _, v := range of {
			have += v
		}
		for i, part := range inProportion(amount, of) {
			given += part
			if part < 0 || part > of[i] {
				t.Fatalf("%d of %d are given", part, of[i])
			}
			if exact := float64(min(amount, have)) * float64(of[i]) / float64(max(1, have)); amount > 0 && (float64(part) > exact+1.001 || float64(part) < exact-1.001) {
				t.Fatalf("%d are given, and in proportion it would be %v", part, exact)
			}
		}
		if want := max(0, min(amount, have)); given != want {
			t.Fatalf("%d of %d are given", given, want)
		}
	})
}

// A workload is counted once with all of its members; another scheduler's pods are nobody's workload and yet hold devices.
func TestTalliesAndHolders(t *testing.T) {
	member := func(i int, node string) api.Pod {
		p := pod(fmt.Sprintf("team/g-%d", i), "", node, 2)
		p.Gang, p.Rank = "team/g", i
		return p
	}
	foreign := pod("kube/other", "", "n0", 1)
	foreign.Foreign = true
	going := member(1, "n1")
	config, _ := api.Config{}.Normal()
	m := cluster.NewModel(config)
	m.LoadAll(&api.Snapshot{
		Version: api.SnapshotVersion,
		Nodes:   []api.Node{{Name: "n0", Allocatable: append(gpus(8), api.Amount{Resource: api.Pods, Value: 9})}, {Name: "n1", Allocatable: append(gpus(8), api.Amount{Resource: api.Pods, Value: 9})}},
		Queues:  []api.Queue{{Name: "q"}},
		Gangs:   []api.Gang{{Key: "team/g", Queue: "q", Priority: 3, Group: api.Group{Min: 2, Size: 4}}},
		Pods:    []api.Pod{member(0, "n0"), going, member(2, ""), foreign, pod("solo/p", "", "n0", 4)},
		Evictions: []api.Eviction{
			{Pod: going.Key, UID: going.UID, Version: 1, Cause: api.Preempted, For: "solo/p", At: time.Unix(0, 0), Until: time.Unix(1<<40, 0)},
		},
	})
	m.Freshen()
	got := Tallies(m, "")
	for i := range got {
		got[i].Eviction = api.Eviction{}
	}
	want := []Tally{
		{Key: "solo/p", Min: 1, Size: 1, Placed: 1, GPUs: 4, Held: 4, Loose: 4},
		{Key: "team/g", Queue: "q", Priority: 3, Min: 2, Size: 4, Placed: 2, GPUs: 6, Held: 4, Loose: 4, Evicting: 1},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("tallies (-want +got):\n%s", diff)
	}
	if n := len(Tallies(m, "solo")); n != 1 {
		t.Errorf("%d workloads in one namespace", n)
	}
	all := Holders(m, "solo/q", gpu, func(n *cluster.Node) bool { return n.Name == "n0" })
	if diff := cmp.Diff([]Held{{"solo/p", 4}, {"team/g", 2}, {"kube/other", 1}}, all); diff != "" {
		t.Errorf("holders (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]Held{{"team/g", 2}, {"kube/other", 1}}, Holders(m, "solo/p", gpu, func(n *cluster.Node) bool { return n.Name == "n0" })); diff != "" {
		t.Errorf("holders but for one of them (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]Held{{"team/g", 4}}, Charged(m, "q", gpu)); diff != "" {
		t.Errorf("charged (-want +got):\n%s", diff)
	}
}
