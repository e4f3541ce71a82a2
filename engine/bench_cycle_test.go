package engine_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/berth-dev/berth/engine"
)

// A cluster that is full and has a long line: 5,000 nodes of 8 GPUs, 4,000 jobs in 200 queues that hold all of them,
// and 10,000 more that wait. Ten jobs hold 100 GPUs: of 1, 1, 2, 4, 4, 8, 8, 8, 16 and 48.

// lane is a job's shape: pods of so many GPUs.
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
	return engine.Config{Levels: []engine.Level{{Name: "rack", Label: benchRack}}}
}

// BenchmarkPolicyCycle plans with 10,000 workloads waiting: from a state that has just been told of them, and when
// ten things changed since the last plan.
func BenchmarkPolicyCycle(b *testing.B) {
	f := newFullSite(5_000, 200, 4_000)
	s := engine.Load(f.snapshot, fullConfig())
	var waiting []engine.Change
	for i := range 10_000 {
		waiting = append(waiting, f.job(fmt.Sprintf("wait/job-%05d", i), i%200, jobShapes[i%len(jobShapes)], int32(i/200%3))...)
	}
	s.Apply(waiting...)
	plan := s.Plan(benchNow)
	s.Apply(plan.Changes...)
	b.Logf("first plan: %d start, %d evictions, %d wait, %d certificates", len(plan.Starts), len(plan.Evictions), len(plan.Waiting), len(plan.Certificates))
	b.Run("all", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			fresh := engine.Load(f.snapshot, fullConfig())
			fresh.Apply(waiting...)
			b.StartTimer()
			fresh.Plan(benchNow)
		}
	})
	b.Run("ten", func(b *testing.B) {
		turn := 0
		for b.Loop() {
			b.StopTimer()
			var changes []engine.Change
			for k := range 10 {
				i := (turn*10 + k) % 10_000
				key := fmt.Sprintf("wait/job-%05d", i)
				sh := jobShapes[i%len(jobShapes)]
				if sh.pods > 1 {
					continue
				}
				c := f.job(key, i%200, sh, int32(i/200%3))
				changes = append(changes, c...)
			}
			turn++
			b.StartTimer()
			s.Apply(changes...)
			s.Plan(benchNow)
		}
	})
}
