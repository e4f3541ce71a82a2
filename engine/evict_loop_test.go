package engine_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-dev/berth/engine"
)

// With objects fixed, and evicted work waiting again, plans come to rest, and nobody is evicted twice.
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
		r.cfg.Policy = pick(t, engine.Default, engine.TimeShare, engine.Strict)
		r.cfg.Moves.Off = true
		w := &world{state: engine.Load(r.snap, r.cfg), now: noon, evicted: map[string]int{}}
		turns := 0
		for w.turn() {
			if turns++; turns > 40 {
				t.Fatalf("still at work after %d turns, evicted: %v\n%s", turns, w.evicted, text(t, r.snap))
			}
			w.now = w.now.Add(time.Minute)
		}
		for key, n := range w.evicted {
			if n > 1 {
				t.Fatalf("%s was evicted %d times\n%s", key, n, text(t, r.snap))
			}
		}
	})
}
