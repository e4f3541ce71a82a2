package engine_test

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-dev/berth/engine"
)

// With objects fixed, and evicted work waiting again, plans come to rest, and nobody is evicted more than twice. Under the
// default policy the second time is for a workload that was evicted itself since: a borrower that starts again while the victim
// of a preemption is on its way out gives way when that victim, which is within its queue's quota, comes back. Under strict
// it may also be for the next head of a queue, and under timeshare for one whose turn comes later.
func TestEvictionsComeToRest(t *testing.T) {
	often(t, 5, func(t *rapid.T) {
		r := anyRing(t, 4, 8, false)
		for i := range r.snap.Queues {
			r.snap.Queues[i].MinRun = 0
		}
		r.snap.Disruptions = nil
		for i, n := 0, upTo(t, 3); i < n; i++ {
			p := engine.Pod{Key: "late-" + string(rune('0'+i)), Version: 1, Queue: pick(t, "a", "b", "c"), Priority: int32(upTo(t, 2)), Created: noon.Add(-time.Hour), Evictable: true, Spec: gpus(int64(1 + upTo(t, 2)))}
			r.snap.Pods = append(r.snap.Pods, p)
		}
		level := rapid.Bool().Draw(t, "level")
		for i := range r.snap.Gangs {
			if level {
				r.snap.Gangs[i].Priority = 0
			}
		}
		for i := range r.snap.Pods {
			if level {
				r.snap.Pods[i].Priority = 0
			}
		}
		r.cfg.Policy = pick(t, engine.Default, engine.TimeShare, engine.Strict)
		r.cfg.Moves.Off = true
		w := &world{state: engine.Load(r.snap, r.cfg), now: noon, evicted: map[string]int{}}
		turns := 0
		for w.turn() {
			if turns++; turns > 20 {
				t.Fatalf("still at work after %d turns, evicted: %v\n%s\n%s", turns, w.evicted, strings.Join(w.log, "\n"), text(t, r.snap))
			}
			w.now = w.now.Add(time.Second) // within the time for which places are held
		}
		if w.again != "" && r.cfg.Policy == engine.Default {
			t.Fatalf("%s\n%s\n%s", w.again, strings.Join(w.log, "\n"), text(t, r.snap))
		}
		for key, n := range w.evicted {
			if n > 2 {
				t.Fatalf("policy %s: %s was evicted %d times\n%s\n%s", r.cfg.Policy, key, n, strings.Join(w.log, "\n"), text(t, r.snap))
			}
		}
	})
}
