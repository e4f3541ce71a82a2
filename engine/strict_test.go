package engine_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/engine/why"
)

// In a strict queue nobody is passed, whatever the policy: of two of its workloads the one that goes first, by priority, age and key, starts
// first, unless no node is for it. Whoever waits behind another waits behind one that does wait. In the queue beside it, which has
// the same work, nobody waits behind anybody; and a strict queue in which nothing waits is like any other.
func TestStrictQueue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := engine.Config{Policy: pick(t, "", engine.TimeShare), Overtake: -1, Heads: pick(t, 0, 1, -1)}
		limit, quota := int64(upTo(t, 20)), int64(upTo(t, 12))
		queue := func(name string, strict bool) engine.Queue {
			q := engine.Queue{Name: name, Version: 1, Strict: strict, Limits: engine.Resources{{Resource: gpu, Value: limit}}}
			if quota > 0 {
				q.Quota = engine.Resources{{Resource: gpu, Value: quota}}
			}
			return q
		}
		snap := engine.Snapshot{Version: engine.SnapshotVersion, Nodes: eights(1 + upTo(t, 2)), Queues: []engine.Queue{queue("loose", false), queue("strict", true)}}
		pods := map[string]engine.Pod{}
		for i := range 2 + upTo(t, 8) {
			p := engine.Pod{
				Key: fmt.Sprintf("ns/p%d", i), Version: 1, UID: fmt.Sprint(i), Queue: pick(t, "strict", "strict", "loose"), Priority: pick[int32](t, 0, 0, 5),
				Created: noon.Add(-time.Duration(upTo(t, 60)) * time.Minute), Evictable: seldom(t, 1), Owner: "job",
				Spec: engine.Spec{Requests: engine.Resources{{Resource: gpu, Value: pick[int64](t, 1, 2, 4, 8, 9)}}},
			}
			pods[p.Key] = p
			snap.Pods = append(snap.Pods, p)
		}
		state := engine.Load(snap, cfg)
		plan := state.Plan(noon)
		waits := map[string]engine.Waiting{}
		for _, w := range plan.Waiting {
			waits[w.Gang] = w
		}
		before := func(a, b engine.Pod) bool {
			if a.Priority != b.Priority {
				return a.Priority > b.Priority
			}
			if c := a.Created.Compare(b.Created); c != 0 {
				return c < 0
			}
			return a.Key < b.Key
		}
		noNode := func(w engine.Waiting) bool {
			return !slices.ContainsFunc(w.Gates, func(g why.Gate) bool { return g.Cause != why.LargerThanAnyNode })
		}
		for _, s := range plan.Starts {
			for _, x := range s.Placements {
				for key, w := range waits {
					head, passed := pods[key], pods[x.Pod]
					if head.Queue == "strict" && passed.Queue == "strict" && before(head, passed) && !noNode(w) {
						t.Fatalf("%s starts and passes %s\n%s\n%s", x.Pod, key, text(t, snap), text(t, plan))
					}
				}
			}
		}
		for key, w := range waits {
			for _, g := range w.Gates {
				if g.Cause != why.BehindTheHead {
					continue
				}
				head, ok := waits[g.Object]
				if !ok || pods[key].Queue != "strict" || pods[g.Object].Queue != "strict" || slices.ContainsFunc(head.Gates, func(g why.Gate) bool { return g.Cause == why.BehindTheHead }) {
					t.Fatalf("%s waits behind %s\n%s\n%s", key, g.Object, text(t, snap), text(t, plan))
				}
			}
		}
		if sketch := engine.Load(snap, cfg).Sketch(noon); starts(sketch) != starts(plan) {
			t.Fatalf("a sketch starts %s, a plan %s", starts(sketch), starts(plan))
		}
	})
}

// starts are the pods that the plan places, sorted.
func starts(p engine.Plan) string {
	var out []string
	for _, s := range p.Starts {
		for _, x := range s.Placements {
			out = append(out, x.Pod)
		}
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}
