package engine_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/berth-dev/berth/engine"
)

// timedSite is a full cluster whose 4,000 jobs say how long they run: up to ten hours.
func timedSite(nodes, queues, jobs int) *fullSite {
	f := newFullSite(nodes, queues, jobs)
	said := func(i int) engine.Terms {
		return engine.Terms{Expected: 5*time.Hour + time.Duration(i*7919%36_000)*time.Second/2}
	}
	for i := range f.snapshot.Gangs {
		f.snapshot.Gangs[i].Terms = said(i)
	}
	for i := range f.snapshot.Pods {
		if p := &f.snapshot.Pods[i]; p.Gang == "" {
			p.Terms = said(i)
		}
	}
	return f
}

// large is a gang of 64 x 8 GPUs that is first in line, and for which nobody is evicted or moved.
func (f *fullSite) large(key string, layout engine.Layout) []engine.Change {
	changes := f.job(key, 0, jobShape{64, 8}, 9)
	changes[0].Gang.Terms.Patient, changes[0].Gang.Layout = true, layout
	return changes
}

func (f *fullSite) gone(changes []engine.Change) (out []engine.Change) {
	for _, c := range changes {
		ref := &engine.Ref{Kind: engine.KindPod, Version: f.next()}
		if c.Gang != nil {
			ref.Kind, ref.Key = engine.KindGang, c.Gang.Key
		} else {
			ref.Key = c.Pod.Key
		}
		out = append(out, engine.Change{Gone: ref})
	}
	return out
}

// BenchmarkPolicyPromise gives a gang of 64 x 8 GPUs a start time in a cluster of 5,000 nodes full of 4,000 jobs: a new
// one, one that stands while a job elsewhere ends, and none because nothing says when it ends; and forecasts 100 jobs.
func BenchmarkPolicyPromise(b *testing.B) {
	cfg := fullConfig()
	cfg.Moves.Off = true
	load := func(f *fullSite) *engine.State { return engine.Load(f.snapshot, cfg) }
	plan := func(b *testing.B, s *engine.State, promises int) engine.Plan {
		p := s.Plan(benchNow)
		if len(p.Promises) != promises {
			b.Fatalf("%d promises, want %d: %s", len(p.Promises), promises, engine.Describe(p))
		}
		return p
	}
	once := func(f *fullSite, promises int) func(*testing.B) {
		return func(b *testing.B) {
			s, turn := load(f), 0
			s.Plan(benchNow)
			var took time.Duration
			for b.Loop() {
				turn++
				gang := f.large(fmt.Sprintf("team/large-%d", turn), engine.Layout{})
				s.Apply(gang...)
				start := time.Now()
				plan(b, s, promises)
				took += time.Since(start)
				s.Apply(f.gone(gang)...)
			}
			b.ReportMetric(float64(took.Nanoseconds())/float64(turn), "ns/plan")
		}
	}
	timed := timedSite(5_000, 200, 4_000)
	b.Run("new", once(timed, 1))
	b.Run("unknown", once(newFullSite(5_000, 200, 4_000), 0))
	b.Run("stands", func(b *testing.B) {
		s := load(timed)
		s.Apply(timed.large("team/large", engine.Layout{})...)
		s.Apply(plan(b, s, 1).Changes...)
		for b.Loop() {
			b.StopTimer()
			p := timed.snapshot.Pods[len(timed.snapshot.Pods)-1]
			p.Version = timed.next()
			s.Apply(engine.Change{Pod: &p})
			b.StartTimer()
			plan(b, s, 1)
		}
	})
	b.Run("forecast100", func(b *testing.B) {
		s := load(timed)
		for i := range 100 {
			s.Apply(timed.job(fmt.Sprintf("wait/job-%05d", i), i%200, jobShapes[i%len(jobShapes)], 0)...)
		}
		for b.Loop() {
			if all := s.Forecast(benchNow, 100); len(all) != 100 || all[99].Likely.IsZero() {
				b.Fatalf("%d estimates, the last %+v", len(all), all[len(all)-1])
			}
		}
	})
}
