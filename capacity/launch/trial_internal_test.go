package launch

import (
	"testing"
	"time"

	"github.com/berth-dev/berth/engine"
)

// Who waits without being offered anything was not refused: else every round would be played again for nothing.
func TestWaitingIsNotRefused(t *testing.T) {
	gpus := engine.Resources{{Resource: "nvidia.com/gpu", Value: 8}}
	like := func(int, string, Source) engine.Node {
		return engine.Node{Allocatable: append(engine.Resources{{Resource: engine.Pods, Value: 10}}, gpus...)}
	}
	w := World{Now: time.Date(2026, 1, 5, 12, 0, 0, 0, time.UTC), Pools: []Pool{{Name: "pool", From: []Source{{Capacity: OnDemand}}, Max: 1, Like: like}}}
	for _, name := range []string{"one", "two"} {
		w.Cluster.Pods = append(w.Cluster.Pods, engine.Pod{Key: "team/" + name, UID: name, Version: 1, Spec: engine.Spec{Requests: gpus}})
	}
	d := newDecider(w)
	d.trial = d.newTrial()
	if refusals, used := d.use(d.trial.next(w.Now)); refusals || used {
		t.Errorf("without machines: refusals %t, used %t; want neither", refusals, used)
	}
	changes, _ := d.offer(d.byName["pool"], 0, 0, 1, make(map[string]int), false)
	d.trial.state.Apply(changes...)
	if refusals, used := d.use(d.trial.next(w.Now)); refusals || !used {
		t.Errorf("with a machine for one of two: refusals %t, used %t; want none, and one that uses it", refusals, used)
	}
	if len(d.trial.waiting) != 1 {
		t.Errorf("waiting: %v, want one", d.trial.waiting)
	}
}
