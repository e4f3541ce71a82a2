package preempt

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/quantity"
)

// What is looked at before a trial is enough for it: a queue of the claimant that holds too much in the trial could be known
// to do so before it, and the claim of a workload in line is what it would be if it were made in the trial.
func TestTrialsFindWhatWasLookedAt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(4, 8)
		few := func(label string) int64 { return rapid.Int64Range(0, 16).Draw(t, label) }
		w.snap.Queues = append(w.snap.Queues,
			api.Queue{Name: "org", Version: 1, Quota: gpus(few("quota of the org"))},
			api.Queue{Name: "team", Version: 1, Parent: "org", Quota: gpus(few("quota of the team"))},
			api.Queue{Name: "other", Version: 1, Parent: "org", Quota: gpus(few("quota of the other team"))})
		// On each node runs something of some queue, and some of it is on its way out.
		for i := range 4 {
			p := api.Pod{Key: fmt.Sprint("runs-", i), UID: "u", Version: 1, Queue: rapid.SampledFrom([]string{"borrower", "team", "other"}).Draw(t, "queue"),
				Node: fmt.Sprintf("n%02d", i), Evictable: rapid.Bool().Draw(t, "evictable"), Priority: rapid.Int32Range(-1, 1).Draw(t, "priority"),
				Spec: api.Spec{Requests: gpus(rapid.Int64Range(1, 8).Draw(t, "holds"))}}
			if rapid.IntRange(0, 3).Draw(t, "leaves") == 0 {
				p.Terminating, p.ReleaseAt = true, noon.Add(time.Minute)
			}
			w.snap.Pods = append(w.snap.Pods, p)
		}
		if rapid.Bool().Draw(t, "held") {
			w.snap.Holds = append(w.snap.Holds, api.Hold{Gang: rapid.SampledFrom([]string{"new", "waits-0"}).Draw(t, "for"), Version: 1, Node: "n00", Requests: gpus(2), Until: noon.Add(time.Minute)})
		}
		pending := func(key, queue string) {
			w.snap.Pods = append(w.snap.Pods, api.Pod{Key: key, Version: 1, Queue: queue, Evictable: true, Spec: api.Spec{Requests: gpus(rapid.Int64Range(1, 8).Draw(t, "asks"))}})
		}
		pending("new", "team")
		for i := range 3 {
			pending(fmt.Sprint("waits-", i), rapid.SampledFrom([]string{"owed", "other"}).Draw(t, "queue"))
		}
		s, y := w.load()
		var line []*cluster.Gang
		for i := range 3 {
			line = append(line, s.m.Pods[fmt.Sprint("waits-", i)].In)
		}
		y.Waiting = func(visit func(*cluster.Gang) bool) {
			for _, g := range line {
				visit(g)
			}
		}
		y.Behind = func(*cluster.Gang) bool { return false }
		g := s.m.Pods["new"].In
		before, may := y.newClaim(g, g.TurnNow()), make(map[*cluster.Queue]bool)
		for q := before.q; q != nil; q = q.Parent {
			may[q] = before.mayExceed(q)
		}
		starts := y.StartsBeside
		y.StartsBeside = func(o *cluster.Gang, turn cluster.Turn) bool {
			ok := starts(o, turn)
			for q := before.q; q != nil && o == g && ok; q = q.Parent {
				if held := q.Committed(quantity.DimGPU); held > q.Quota.At(quantity.DimGPU) && !may[q] {
					t.Fatalf("queue %s holds %d in the trial, which nobody foresaw", q.Name, held)
				}
			}
			for _, a := range y.waiting {
				if len(a.gangs) == 0 || y.m.HasHeld(a.gangs[0]) || o != g {
					continue
				}
				kept, anew := a.claimOf(y, a.gangs[0]), y.newClaim(a.gangs[0], a.gangs[0].TurnNow())
				if diff := cmp.Diff([]any{anew.t.Key, anew.needs, anew.own, anew.dims, anew.gpus, anew.unrated}, []any{kept.t.Key, kept.needs, kept.own, kept.dims, kept.gpus, kept.unrated}); diff != "" {
					t.Fatalf("- made anew, + kept: %s", diff)
				}
			}
			return ok
		}
		y.MakeRoom(g, g.TurnNow(), full)
	})
}

// The places that a claimant may have are all those that it has a right to, each asked for by itself.
func TestOutbidListsAllPlaces(t *testing.T) {
	found := 0
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(4, 8)
		few := func(label string) int64 { return rapid.Int64Range(0, 12).Draw(t, label) }
		w.snap.Queues = append(w.snap.Queues,
			api.Queue{Name: "org", Version: 1, Quota: gpus(few("quota of the org"))},
			api.Queue{Name: "team", Version: 1, Parent: "org", Quota: gpus(few("quota of the team"))},
			api.Queue{Name: "other", Version: 1, Parent: "org", Quota: gpus(few("quota of the other team"))})
		pod := func(key string) {
			w.snap.Pods = append(w.snap.Pods, api.Pod{Key: key, Version: 1, Queue: rapid.SampledFrom([]string{"borrower", "team", "other", ""}).Draw(t, "queue"),
				Evictable: rapid.IntRange(0, 3).Draw(t, "evictable") > 0, Priority: rapid.Int32Range(-1, 1).Draw(t, "priority"), Spec: api.Spec{Requests: gpus(rapid.Int64Range(1, 8).Draw(t, "asks"))}})
		}
		pod("new")
		for i := range 4 {
			key := fmt.Sprint("held-", i)
			pod(key)
			w.snap.Holds = append(w.snap.Holds, api.Hold{Gang: key, Version: 1, Node: fmt.Sprintf("n%02d", i), Requests: w.snap.Pods[len(w.snap.Pods)-1].Requests, Until: noon.Add(time.Minute)})
		}
		s, y := w.load()
		g := s.m.Pods["new"].In
		c := y.newClaim(g, g.TurnNow())
		c.sharing = c.sharesKept()
		var want []string
		for _, key := range cluster.SortedKeys(s.m.Holds) {
			if _, ok := c.outbids(s.m.Holds[key]); ok {
				want = append(want, key)
			}
		}
		var got []string
		for _, h := range c.outbid() {
			got = append(got, h.Ref().Key)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("- by itself, + listed: %s", diff)
		}
		found += len(want)
	})
	if found == 0 && !testing.Short() { // of few cases there may be none
		t.Error("no place was outbid")
	}
}
