package engine_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/berth-dev/berth/engine"
)

// A cluster that is full and has a long line: 5,000 nodes of 8 GPUs, 4,000 jobs in 200 queues that hold all of them,
// and 10,000 more that wait. Ten jobs hold 100 GPUs: of 1, 1, 2, 4, 4, 8, 8, 8, 16 and 48.

// queue order is a job's shape: pods of so many GPUs.
type jobShape struct {
	pods int
	gpus int64
}

var jobShapes = []jobShape{{1, 1}, {1, 1}, {1, 2}, {1, 4}, {1, 4}, {1, 8}, {1, 8}, {1, 8}, {2, 8}, {6, 8}}

// fullSite is a snapshot of such a cluster.
type fullSite struct {
	snapshot engine.Snapshot
	version  uint64
}

func (f *fullSite) next() uint64 {
	f.version++
	return f.version
}

func newFullSite(nodes, queues, jobs int) *fullSite {
	f := &fullSite{snapshot: engine.Snapshot{Version: engine.SnapshotVersion}}
	for i := range nodes {
		f.snapshot.Nodes = append(f.snapshot.Nodes, engine.Node{
			Name: fmt.Sprintf("node-%05d", i), Version: f.next(), Pool: "p",
			Labels:      map[string]string{"kubernetes.io/hostname": fmt.Sprintf("node-%05d", i), benchRack: fmt.Sprintf("rack-%04d", i/16)},
			Allocatable: engine.Resources{{Resource: engine.CPU, Value: 192_000}, {Resource: engine.Memory, Value: 2 << 40}, {Resource: engine.Pods, Value: 110}, {Resource: benchGPU, Value: 8}},
		})
	}
	departments := max(1, queues/10)
	for d := range departments {
		f.snapshot.Queues = append(f.snapshot.Queues, engine.Queue{Name: fmt.Sprintf("dep-%03d", d), Version: f.next(), Quota: engine.Resources{{Resource: benchGPU, Value: int64(nodes * 8 / departments)}}})
	}
	for q := range queues {
		f.snapshot.Queues = append(f.snapshot.Queues, engine.Queue{
			Name: f.queue(q), Version: f.next(), Parent: fmt.Sprintf("dep-%03d", q%departments), Quota: engine.Resources{{Resource: benchGPU, Value: int64(nodes * 8 / queues)}},
		})
	}
	f.fill(jobs, queues)
	return f
}

func (f *fullSite) queue(i int) string { return fmt.Sprintf("team-%03d", i) }

// fill places jobs on nodes: pods of 8 on whole nodes, smaller ones one node after the other.
func (f *fullSite) fill(jobs, queues int) {
	node, free := 0, int64(8)
	take := func(gpus int64) string {
		if free < gpus {
			node, free = node+1, 8
		}
		name := f.snapshot.Nodes[min(node, len(f.snapshot.Nodes)-1)].Name
		free -= gpus
		return name
	}
	for _, small := range []bool{false, true} {
		for i := range jobs {
			// Queues with an odd number have half again as much as their quota, others half.
			q := i % queues
			if q%2 == 0 && i%4 < 2 {
				q = (q + 1) % queues
			}
			sh := jobShapes[i%len(jobShapes)]
			if (sh.gpus < 8) != small {
				continue
			}
			changes := f.job(fmt.Sprintf("run/job-%05d", i), q, sh, 0)
			for _, c := range changes {
				if c.Gang != nil {
					f.snapshot.Gangs = append(f.snapshot.Gangs, *c.Gang)
					continue
				}
				p := *c.Pod
				p.Node, p.Started = take(sh.gpus), benchNow.Add(-time.Duration(1+i%300)*time.Minute)
				f.snapshot.Pods = append(f.snapshot.Pods, p)
			}
		}
	}
}

// job makes a job of the queue: a pod, or a gang of them.
func (f *fullSite) job(key string, queue int, sh jobShape, priority int32) []engine.Change {
	created := benchNow.Add(-time.Duration(f.version%1000) * time.Second)
	pod := func(name string) *engine.Pod {
		spec := anywhere(sh.gpus)
		return &engine.Pod{Key: name, UID: name, Version: f.next(), Created: created, Spec: spec, Evictable: true}
	}
	if sh.pods == 1 {
		p := pod(key)
		p.Queue, p.Priority = f.queue(queue), priority
		return []engine.Change{{Pod: p}}
	}
	out := []engine.Change{{Gang: &engine.Gang{Key: key, Version: f.next(), Queue: f.queue(queue), Priority: priority, Created: created, Group: engine.Group{Min: sh.pods}}}}
	for r := range sh.pods {
		p := pod(fmt.Sprintf("%s-%d", key, r))
		p.Gang, p.Rank = key, r
		out = append(out, engine.Change{Pod: p})
	}
	return out
}

const benchRack = "topology.example/rack"

func fullConfig() engine.Config {
	return engine.Config{Packing: benchPacking(), Levels: []engine.Level{{Name: "rack", Label: benchRack}}}
}

// balance gives every queue the quota that it holds, so that nobody owes anybody anything, and lets all that runs say
// for how long.
func (f *fullSite) balance() {
	held := map[string]int64{}
	gangs := map[string]*engine.Gang{}
	for i := range f.snapshot.Gangs {
		g := &f.snapshot.Gangs[i]
		g.Terms.Expected = time.Duration(6+i%7) * time.Hour
		gangs[g.Key] = g
	}
	for i := range f.snapshot.Pods {
		p := &f.snapshot.Pods[i]
		p.Terms.Expected = time.Duration(6+i%7) * time.Hour
		queue := p.Queue
		if g := gangs[p.Gang]; g != nil {
			queue = g.Queue
		}
		held[queue] += amount(p.Requests, benchGPU)
	}
	for i := range f.snapshot.Queues {
		q := &f.snapshot.Queues[i]
		if q.Parent != "" {
			q.Quota = engine.Resources{{Resource: benchGPU, Value: held[q.Name]}}
			held[q.Parent] += held[q.Name]
		}
	}
	for i := range f.snapshot.Queues {
		if q := &f.snapshot.Queues[i]; q.Parent == "" {
			q.Quota = engine.Resources{{Resource: benchGPU, Value: held[q.Name]}}
		}
	}
}

// line makes 10,000 workloads that wait, of the given number of priorities.
func (f *fullSite) line(priorities int) (out []engine.Change) {
	for i := range 10_000 {
		out = append(out, f.job(fmt.Sprintf("wait/job-%05d", i), i%200, jobShapes[i%len(jobShapes)], int32(i/200%priorities))...)
	}
	return out
}

// BenchmarkPolicyCycle plans with 10,000 workloads waiting and every queue at its quota: from a state that has just been
// told of them, and when ten things changed since the last plan: nine of those that wait, and a pod that ended, whose
// place somebody takes.
func BenchmarkPolicyCycle(b *testing.B) {
	f := newFullSite(5_000, 200, 4_000)
	f.balance()
	waiting := f.line(1)
	b.Run("all", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			s := engine.Load(f.snapshot, fullConfig())
			s.Apply(waiting...)
			b.StartTimer()
			if plan := s.Plan(benchNow); len(plan.Waiting) != 10_000 {
				b.Fatalf("%d wait", len(plan.Waiting))
			}
		}
	})
	b.Run("ten", func(b *testing.B) {
		s := engine.Load(f.snapshot, fullConfig())
		s.Apply(waiting...)
		s.Apply(s.Plan(benchNow).Changes...)
		for turn := 0; b.Loop(); turn++ {
			b.StopTimer()
			changes := f.ten(turn)
			b.StartTimer()
			s.Apply(changes...)
			plan := s.Plan(benchNow)
			b.StopTimer()
			if len(plan.Starts) == 0 {
				b.Fatal("nobody takes the place that came free")
			}
			s.Apply(plan.Changes...)
			f.bind(s, plan)
			b.StartTimer()
		}
	})
}

// ten are ten changes: nine workloads that wait are written to, and a small pod that runs ends.
func (f *fullSite) ten(turn int) (out []engine.Change) {
	for i := turn * 10; len(out) < 9; i++ {
		if sh := jobShapes[i%len(jobShapes)]; sh.pods == 1 && sh.gpus > 4 {
			out = append(out, f.job(fmt.Sprintf("wait/job-%05d", i%10_000), i%200, sh, 0)...)
		}
	}
	n := 0
	for i := range f.snapshot.Pods {
		if p := &f.snapshot.Pods[i]; p.Gang == "" && amount(p.Requests, benchGPU) == 1 {
			if n == turn {
				return append(out, engine.Change{Gone: &engine.Ref{Kind: engine.KindPod, Key: p.Key, Version: f.next()}})
			}
			n++
		}
	}
	return out
}

// bind gives the pods of the plan, which waited in line, their nodes.
func (f *fullSite) bind(s *engine.State, plan engine.Plan) {
	f.version += 1 << 20 // above the plan's own
	for _, start := range plan.Starts {
		for _, x := range start.Placements {
			var i int
			fmt.Sscanf(x.Pod, "wait/job-%d", &i)
			p := &engine.Pod{Key: x.Pod, UID: x.UID, Version: f.next(), Created: benchNow, Spec: anywhere(jobShapes[i%len(jobShapes)].gpus), Evictable: true, Node: x.Node, Started: benchNow}
			p.Queue = f.queue(i % 200)
			s.Apply(engine.Change{Pod: p})
		}
	}
}

// BenchmarkPolicyStorm plans where half of the queues owe the others a quarter of all GPUs, and of those that wait a
// third each have the priorities 0, 1 and 2: thousands of pods are evicted in one plan.
func BenchmarkPolicyStorm(b *testing.B) {
	f := newFullSite(5_000, 200, 4_000)
	waiting := f.line(3)
	evicted := 0
	for b.Loop() {
		b.StopTimer()
		s := engine.Load(f.snapshot, fullConfig())
		s.Apply(waiting...)
		b.StartTimer()
		evicted = len(s.Plan(benchNow).Evictions)
	}
	b.ReportMetric(float64(evicted), "evictions")
}
