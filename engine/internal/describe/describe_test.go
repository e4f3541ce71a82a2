package describe

import (
	"testing"
	"time"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/census"
	"github.com/berth-dev/berth/engine/why"
	"github.com/google/go-cmp/cmp"
)

func TestDescribe(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	plan := api.Plan{
		Now: now,
		Starts: []api.Start{
			{Gang: "team/a", Kind: api.Begin, Placements: []api.Placement{
				{Pod: "team/a-8", Node: "n1"}, {Pod: "team/a-9", Node: "n1"}, {Pod: "team/a-10", Node: "n2"}, {Pod: "team/a-11", Node: "n2"}, {Pod: "team/a-12", Node: "n3"},
			}},
			{Gang: "team/b", Kind: api.Repair, Model: "H100", Placements: []api.Placement{
				{Pod: "team/b-x", Node: "n3", Devices: []string{"n3/gpu-0", "n3/gpu-1"}}, {Pod: "team/b-y", Node: "n4", Devices: []string{"GPU-77"}},
			}},
		},
		Waiting: []api.Waiting{{Gang: "team/c", Verdict: why.Blocked, Cause: why.QueueMissing, Gates: []why.Gate{
			{Cause: why.QueueMissing, Object: "q", Certificate: -1},
			{Cause: why.GangIncomplete, Object: "team/c", Need: 2, Certificate: -1},
		}}},
		Changes: []api.Change{
			{Assumption: &api.Assumption{}}, {Assumption: &api.Assumption{}},
			{Gone: &api.Ref{Kind: api.KindHold}}, {Gone: &api.Ref{Kind: api.KindAssumption}}, {Gone: &api.Ref{Kind: api.KindAssumption}},
		},
		WakeAt: now.Add(90 * time.Second),
	}
	want := `starts team/a (begin)
  n[1-2]: team/a-[8-11], 2 each
  n3: team/a-12
starts team/b (repair, H100)
  n3: team/b-x on gpu-[0-1]
  n4: team/b-y on GPU-77
waits team/c: blocked, queue-missing
  queue q does not exist
  also gang-incomplete: team/c needs 2 members to start; 0 exist
memory: adds 2 assumptions, drops 2 assumptions, drops 1 hold
wakes +1m30s
`
	if diff := cmp.Diff(want, Plan(plan)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := Plan(api.Plan{Now: now}); got != "nothing to do\n" {
		t.Errorf("an empty plan reads %q", got)
	}
}

func TestDescribePolicy(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	evicted := func(pod string, cause api.EvictionCause, to string, at time.Duration) api.Eviction {
		return api.Eviction{Pod: pod, Cause: cause, For: "team/a", To: to, At: now.Add(at)}
	}
	borrows := func(pod string, gpus int64) api.Start {
		s := api.Start{Gang: pod, Kind: api.Begin, Placements: []api.Placement{{Pod: pod, Node: "n0"}}}
		if gpus > 0 {
			s.Borrowed = api.Resources{{Resource: "nvidia.com/gpu", Value: gpus}}
		}
		return s
	}
	plan := api.Plan{
		Now: now,
		Starts: []api.Start{
			borrows("x-0", 0), borrows("x-1", 1), borrows("x-2", 2),
			{Gang: "g", Kind: api.Begin, Model: "H100", Borrowed: api.Resources{{Resource: "cpu", Value: 1000}, {Resource: "nvidia.com/gpu", Value: 8}}, Placements: []api.Placement{{Pod: "g-0", Node: "n1"}}},
		},
		Evictions: []api.Eviction{
			evicted("b-0", api.Reclaimed, "", 0), evicted("b-1", api.Reclaimed, "", 0), evicted("c", api.Preempted, "", 30*time.Second),
			evicted("d", api.Moved, "n3", 0), {Pod: "e", Cause: api.MaxRun, At: now},
		},
		Promises: []api.Promise{{Gang: "team/big", Since: now, Start: now.Add(time.Hour), Nodes: []string{"n0", "n1"}}},
		Changes: []api.Change{
			{Hold: &api.Hold{}}, {Hold: &api.Hold{}}, {Eviction: &api.Eviction{}}, {Promise: &api.Promise{}}, {RunTimeEstimate: &api.RunTimeEstimate{}},
			{Usage: &api.QueueUsage{}}, {Gone: &api.Ref{Kind: api.KindEviction}}, {Gone: &api.Ref{Kind: api.KindPromise}},
		},
	}
	want := `starts x-0 (begin)
  n0: x-0
starts single pods (begin, borrows 3 nvidia.com/gpu)
  n0: x-[1-2]
starts g (begin, H100, borrows 1 cpu + 8 nvidia.com/gpu)
  n1: g-0
evicts b-[0-1] (reclaimed for team/a)
evicts c (preempted for team/a, at +30s)
evicts d (moved to n3 for team/a)
evicts e (max-run)
promises team/big a start at +1h on n[0-1]
memory: adds 2 holds, adds 1 eviction, adds 1 promise, adds 1 run-time-estimate, drops 1 eviction, drops 1 promise
`
	if diff := cmp.Diff(want, Plan(plan)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if plan.Starts[1].Borrowed[0].Value != 1 {
		t.Error("describing the plan changed it")
	}
}

func TestDescribeQueues(t *testing.T) {
	gpus := func(n int64) api.Resources { return api.Resources{{Resource: "nvidia.com/gpu", Value: n}} }
	got := Queues([]census.QueueUse{
		{Queue: api.Queue{Name: "z", Quota: gpus(4), Lend: gpus(1)}, Known: true, Used: gpus(6), Borrowed: gpus(2), Warnings: []string{"promises more"}},
		{Queue: api.Queue{Name: "a", Parent: "z", Quota: gpus(8), Limits: gpus(16)}, Depth: 1, Known: true, Used: gpus(4), Lent: gpus(2), Waiting: census.Crowd{Workloads: 2}},
		{Queue: api.Queue{Name: "lost", Parent: "nowhere"}, Known: true, Problem: "no parent"},
		{Queue: api.Queue{Name: "gone"}, Used: gpus(1)},
	})
	want := `z: quota 4 nvidia.com/gpu, lends at most 1 nvidia.com/gpu, uses 6 nvidia.com/gpu, borrows 2 nvidia.com/gpu
  warning: promises more
  a: quota 8 nvidia.com/gpu, limit 16 nvidia.com/gpu, uses 4 nvidia.com/gpu, lends 2 nvidia.com/gpu, 2 waiting
lost: has no effect, uses nothing
gone: does not exist, uses 1 nvidia.com/gpu
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := Queues(nil); got != "no queues\n" {
		t.Errorf("no queues read %q", got)
	}
}

func TestSinglePodsAreToldTogether(t *testing.T) {
	single := func(pod, node, model string) api.Start {
		return api.Start{Gang: pod, Kind: api.Begin, Model: model, Placements: []api.Placement{{Pod: pod, Node: node}}}
	}
	plan := api.Plan{Starts: []api.Start{
		single("a-0", "n0", ""), single("a-1", "n0", ""), single("a-2", "n1", ""),
		single("a-3", "n1", "H100"),
		{Gang: "g", Kind: api.Begin, Placements: []api.Placement{{Pod: "g-0", Node: "n1"}}},
		single("a-4", "n1", ""),
	}}
	want := `starts single pods (begin)
  n0: a-[0-1]
  n1: a-2
starts a-3 (begin, H100)
  n1: a-3
starts g (begin)
  n1: g-0
starts a-4 (begin)
  n1: a-4
`
	if diff := cmp.Diff(want, Plan(plan)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(plan.Starts[0].Placements) != 1 {
		t.Error("describing the plan changed it")
	}
}

func TestFold(t *testing.T) {
	for _, c := range []struct{ names, want []string }{
		{nil, nil},
		{[]string{"a-0", "a-1", "a-2"}, []string{"a-[0-2]"}},
		{[]string{"a-9", "a-10", "b-11"}, []string{"a-[9-10]", "b-11"}},
		{[]string{"n08", "n09", "n10"}, []string{"n[08-10]"}},
		{[]string{"n8", "n09"}, []string{"n8", "n09"}},
		{[]string{"a-1", "a-0", "a-0"}, []string{"a-1", "a-0", "a-0"}},
		{[]string{"x", "x", "y1"}, []string{"x", "x", "y1"}},
		{[]string{"a-99999999999999999999", "a-100000000000000000000"}, []string{"a-99999999999999999999", "a-100000000000000000000"}},
	} {
		if diff := cmp.Diff(c.want, fold(c.names)); diff != "" {
			t.Errorf("fold(%q) (-want +got):\n%s", c.names, diff)
		}
	}
}

func TestSince(t *testing.T) {
	now := time.Unix(0, 0)
	for d, want := range map[time.Duration]string{
		0: "+0s", 30 * time.Second: "+30s", time.Minute: "+1m", time.Hour: "+1h", time.Hour + time.Minute: "+1h1m",
		10 * time.Minute: "+10m", -90 * time.Second: "-1m30s", 1500 * time.Millisecond: "+1.5s",
	} {
		if got := since(now, now.Add(d)); got != want {
			t.Errorf("%v reads %s, want %s", d, got, want)
		}
	}
}

func TestDescribeReport(t *testing.T) {
	got := Report(census.Report{
		All:   census.Usage{Nodes: 16, FreeNodes: 4, GPUs: 128, Allocated: 12, InUse: 96},
		Pools: []census.Usage{{Pool: "train", Nodes: 1, GPUs: 8, Allocated: 8, InUse: 8}},
		Largest: []census.Largest{
			{Level: "", GPUs: 116}, {Level: "rack", Domain: "r1", GPUs: 1}, {Level: api.NodeLevel, Domain: "n12", GPUs: 8},
			{Model: "H100", Level: api.NodeLevel, Domain: "n3", GPUs: 2},
		},
	})
	want := `all: 12 of 128 GPUs on 16 nodes, 4 free; utilisation 9.4 %, fragmentation 87.5 %
pool train: 8 of 8 GPUs on 1 node, 0 free; utilisation 100.0 %, fragmentation 0.0 %
largest job:
  116 GPUs in all
  1 GPU in one rack, r1
  8 GPUs on one node, n12
largest job of H100:
  2 GPUs on one node, n3
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestDescribeExplanation(t *testing.T) {
	now := time.Unix(0, 0)
	got := Explanation(why.Explanation{
		Workload: "team/a", Now: now, Verdict: why.Impossible, Cause: why.TopologyFragmented, Ahead: 2, Steps: 7,
		Gates:     []why.Gate{{Cause: why.TopologyFragmented, Certificate: 0}},
		Releasing: []why.Amount{{Resource: "nvidia.com/gpu", Value: 2}}, ReleasedBy: now.Add(time.Minute),
		Certificates: []why.Certificate{{
			Need: 4, Level: "rack", Segment: 2, SegmentLevel: "node", Total: 3, IfEvicted: 2,
			Request: []why.Amount{{Resource: "nvidia.com/gpu", Value: 1}},
			Domains: []why.Domain{
				{Name: "", Fits: 1, Rows: []why.Row{{Class: 0, Nodes: 1, Fits: 1, Example: "n9", Short: []why.Short{{Resource: "nvidia.com/gpu", Nodes: 1, By: 1}}}}},
				{Name: "r1", Fits: 2, Segments: 1, Rows: []why.Row{{Class: 0, Nodes: 2, Fits: 2, Example: "n1", Removed: []why.Clause{{Kind: why.ByCordon, Nodes: 1}}}}},
			},
			Classes: []why.Class{{Labels: []string{"rack=r1"}, Taints: []string{"a=b:NoSchedule"}, Cordoned: true, Models: []string{"H100"}, Allocatable: []why.Amount{{Resource: "nvidia.com/gpu", Value: 8}}, PerEmpty: 8}},
		}},
	})
	want := `team/a: impossible, topology-fragmented; 2 ahead; 7 steps
  needs 4 pods of 1 nvidia.com/gpu in segments of 2, each on one node, all in one rack; the best, r1, fits 1 whole segment (3 pods in all); nvidia.com/gpu short by 1 on 1 node; 1 node cordoned; 1 node in no rack
  2 nvidia.com/gpu on the way out, gone by +1m
certificate 0: 3 fit in all; by resources alone 2 in the best place, if all that may be evicted or is leaving were gone
  no rack fits 1, 0 whole segments
    1 node of class 0, such as n9: 1 fit; nvidia.com/gpu short by 1 on 1 node
  r1 fits 2, 1 whole segment
    2 nodes of class 0, such as n1: 2 fit; 1 node cordoned
  class 0: 8 nvidia.com/gpu, model H100, label rack=r1, taint a=b:NoSchedule, cordoned; 8 fit when empty
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestDescribeRejected(t *testing.T) {
	got := Rejected([]api.Rejected{{Ref: api.Ref{Kind: api.KindPod, Key: "team/a-0", Version: 3}, Reason: "asks for -1 cpu"}})
	if diff := cmp.Diff("pod team/a-0: asks for -1 cpu\n", got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := Rejected(nil); got != "nothing\n" {
		t.Errorf("no rejections read %q", got)
	}
}
