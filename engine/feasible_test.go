package engine_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/engine/why"
)

// A node is feasible exactly when the pod, told to go there and nowhere else, starts.
func TestFeasibleIsWhereThePodWouldStart(t *testing.T) {
	often(t, 10, func(t *rapid.T) {
		cfg, snap := anyConfig(t), anyCluster(t)
		p := engine.Pod{Key: "pod", UID: "u", Spec: anySpec(t), Priority: pick[int32](t, 0, 5)}
		anyMemory(t, &snap, engine.Gang{Key: "pod"}, []engine.Pod{p})
		var want []string
		for _, n := range snap.Nodes {
			only := p
			only.NodeName = n.Name
			if p.NodeName != "" && p.NodeName != n.Name {
				continue
			}
			if verdict(engine.Schedule(plus(snap, only), noon, cfg), "pod") == why.Placed {
				want = append(want, n.Name)
			}
		}
		if diff := cmp.Diff(want, engine.Load(plus(snap, p), cfg).Feasible("pod", noon)); diff != "" {
			t.Fatalf("feasible nodes (-where it starts +Feasible):\n%s\n%s", diff, text(t, plus(snap, p)))
		}
	})
}

// plus is the snapshot with one more pod.
func plus(snap engine.Snapshot, p engine.Pod) engine.Snapshot {
	snap.Pods = append(slices.Clone(snap.Pods), p)
	return snap
}

// Asking where a pod could be changes no other answer.
func TestAskingForNodesChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := lived(anyConfig(t), anyHistory(t))
		before := answers(t, s, noon)
		for _, key := range workloads(s.Dump()) {
			s.Feasible(key, soon(t))
		}
		if diff := cmp.Diff(before, answers(t, s, noon)); diff != "" {
			t.Fatalf("after asking:\n%s", diff)
		}
	})
}
