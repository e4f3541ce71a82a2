package engine_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/berth-dev/berth/engine"
)

// claims measures what a workload that comes to a full cluster costs a plan. Half of the cluster's queues hold
// half again as much as their quota, and one holds nothing of it.
func claims(b *testing.B, make func(f *fullSite, turn int) []engine.Change, check func(*testing.B, engine.Plan)) {
	f := newFullSite(5_000, 200, 4_000)
	f.snapshot.Queues = append(f.snapshot.Queues, engine.Queue{Name: "owner", Version: f.next(), Quota: engine.Resources{{Resource: benchGPU, Value: 40_000}}})
	s := engine.Load(f.snapshot, fullConfig())
	s.Apply(s.Plan(benchNow).Changes...) // what queues have spent is added up once a minute
	f.version += 1 << 20
	turn := 0
	put := func() (took time.Duration) {
		turn++
		changes := make(f, turn)
		s.Apply(changes...)
		start := time.Now()
		plan := s.Plan(benchNow)
		took = time.Since(start)
		check(b, plan)
		for _, c := range changes {
			ref := &engine.Ref{Kind: engine.KindGang, Version: f.next()}
			if c.Pod != nil {
				ref.Kind, ref.Key = engine.KindPod, c.Pod.Key
			} else {
				ref.Key = c.Gang.Key
			}
			s.Apply(engine.Change{Gone: ref})
		}
		// Elsewhere a pod comes or changes, so that no answer can be last turn's.
		s.Apply(engine.Change{Pod: &engine.Pod{
			Key: "stir/stir", UID: "stir", Version: f.next(), Node: fmt.Sprintf("node-%05d", turn*7919%5_000), Queue: f.queue(turn % 200), Evictable: true, Started: benchNow,
			Spec: engine.Spec{Requests: engine.Resources{{Resource: engine.CPU, Value: 10}}},
		}})
		return took
	}
	put()
	var total time.Duration
	n := 0
	for b.Loop() {
		total += put()
		n++
	}
	b.ReportMetric(float64(total.Nanoseconds())/float64(n), "ns/plan")
}

// owned is a job of the queue that holds nothing of its quota.
func owned(f *fullSite, key string, sh jobShape, layout engine.Layout) []engine.Change {
	changes := f.job(key, 0, sh, 0)
	for _, c := range changes {
		if c.Gang != nil {
			c.Gang.Queue, c.Gang.Layout = "owner", layout
		} else if c.Pod.Gang == "" {
			c.Pod.Queue = "owner"
		}
	}
	return changes
}

// evicts checks that so many GPUs are evicted at the least.
func evicts(least int) func(*testing.B, engine.Plan) {
	return func(b *testing.B, plan engine.Plan) {
		if len(plan.Starts) > 0 || len(plan.Evictions) < least {
			b.Fatalf("%d start and %d are evicted, want none and at least %d", len(plan.Starts), len(plan.Evictions), least)
		}
	}
}

func evictsNobody(b *testing.B, plan engine.Plan) {
	if len(plan.Starts)+len(plan.Evictions) > 0 || len(plan.Waiting) != 1 {
		b.Fatalf("%d start, %d are evicted and %d wait", len(plan.Starts), len(plan.Evictions), len(plan.Waiting))
	}
}

// BenchmarkPolicyReclaimOne takes one GPU back from who borrowed it.
func BenchmarkPolicyReclaimOne(b *testing.B) {
	claims(b, func(f *fullSite, turn int) []engine.Change {
		return owned(f, "new/one", jobShape{1, 1}, engine.Layout{})
	}, evicts(1))
}

// BenchmarkPolicyReclaim500x8 takes 4,000 GPUs back for one job.
func BenchmarkPolicyReclaim500x8(b *testing.B) {
	claims(b, func(f *fullSite, turn int) []engine.Change {
		return owned(f, "new/large", jobShape{500, 8}, engine.Layout{})
	}, evicts(500))
}

// BenchmarkPolicyNoEvictionHelps proves that no eviction helps: because too little is borrowed in all, because too little
// is in one rack, and because the claimant has no right to any of it.
func BenchmarkPolicyNoEvictionHelps(b *testing.B) {
	b.Run("all", func(b *testing.B) {
		claims(b, func(f *fullSite, turn int) []engine.Change {
			return owned(f, "new/all", jobShape{3_000, 8}, engine.Layout{})
		}, evictsNobody)
	})
	b.Run("rack", func(b *testing.B) {
		claims(b, func(f *fullSite, turn int) []engine.Change {
			return owned(f, "new/rack", jobShape{16, 8}, engine.Layout{Required: "rack"})
		}, evictsNobody)
	})
	b.Run("right", func(b *testing.B) {
		claims(b, func(f *fullSite, turn int) []engine.Change { return f.job("new/right", 9, jobShape{1, 1}, 0) }, evictsNobody)
	})
}
