package convert

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/engine"
)

// teams is the cluster of docs/queues.md: three nodes of eight GPUs, and the queues of the example.
type teams struct {
	t       *testing.T
	state   *engine.State
	queues  map[string]engine.Queue
	pods    map[string]engine.Pod
	now     time.Time
	version uint64
}

func newTeams(t *testing.T) *teams {
	w := &teams{t: t, state: engine.Load(engine.Snapshot{}, engine.Config{}), queues: map[string]engine.Queue{}, pods: map[string]engine.Pod{}, now: noon}
	for i := range 3 {
		w.version++
		w.state.Apply(engine.Change{Node: &engine.Node{Name: fmt.Sprintf("n%d", i), Version: w.version, Allocatable: engine.Resources{{Resource: "nvidia.com/gpu", Value: 8}, {Resource: "pods", Value: 99}}}})
	}
	text, err := os.ReadFile("../../examples/queue-teams.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for doc := range strings.SplitSeq(string(text), "\n---\n") {
		var q v1alpha1.BerthQueue
		if err := yaml.Unmarshal([]byte(doc), &q); err == nil && q.Kind == v1alpha1.QueueKind {
			w.queues[q.Name] = Queue(&q)
			w.edit(q.Name, func(*engine.Queue) {})
		}
	}
	return w
}

// edit changes a queue.
func (w *teams) edit(name string, change func(*engine.Queue)) {
	q := w.queues[name]
	change(&q)
	w.version++
	q.Version = w.version
	w.queues[name] = q
	w.state.Apply(engine.Change{Queue: &q})
}

// ask adds pods of one GPU to the queue.
func (w *teams) ask(queue string, n int, evictable bool) {
	for range n {
		w.version++
		p := engine.Pod{
			Key: fmt.Sprintf("%s/p%03d", queue, w.version), UID: "u", Version: w.version, Queue: queue, Evictable: evictable, Created: w.now,
			Spec: engine.Spec{Requests: engine.Resources{{Resource: "nvidia.com/gpu", Value: 1}}},
		}
		w.pods[p.Key] = p
		w.state.Apply(engine.Change{Pod: &p})
	}
}

// settle plans and carries out until nothing is left to do, and returns how many pods each queue runs. What is evicted
// is gone at once, and asked for again.
func (w *teams) settle() map[string]int {
	for range 100 {
		w.now = w.now.Add(time.Minute)
		plan := w.state.Plan(w.now)
		for i := range plan.Changes {
			w.version = max(w.version, changeVersion(&plan.Changes[i]))
		}
		w.state.Apply(plan.Changes...)
		for _, s := range plan.Starts {
			for _, at := range s.Placements {
				p := w.pods[at.Pod]
				w.version++
				p.Version, p.Node, p.Started = w.version, at.Node, w.now
				w.pods[at.Pod] = p
				w.state.Apply(engine.Change{Pod: &p})
			}
		}
		for _, e := range plan.Evictions {
			w.version++
			w.state.Apply(engine.Change{Gone: &engine.Ref{Kind: engine.KindPod, Key: e.Pod, Version: w.version}})
			queue := w.pods[e.Pod].Queue
			delete(w.pods, e.Pod)
			w.ask(queue, 1, true)
		}
		if len(plan.Starts)+len(plan.Evictions) == 0 {
			return w.running()
		}
	}
	w.t.Fatal("it does not come to rest")
	return nil
}

func changeVersion(c *engine.Change) uint64 {
	if c.Gone != nil {
		return c.Gone.Version
	}
	ref, _ := c.Ref()
	return ref.Version
}

func (w *teams) running() map[string]int {
	out := make(map[string]int)
	for p := range maps.Values(w.pods) {
		if p.Node != "" {
			out[p.Queue]++
		}
	}
	return out
}

// end has the queue's pods, waiting and running, go away.
func (w *teams) end(queue string) {
	for _, key := range slices.Sorted(maps.Keys(w.pods)) {
		if w.pods[key].Queue == queue {
			w.version++
			w.state.Apply(engine.Change{Gone: &engine.Ref{Kind: engine.KindPod, Key: key, Version: w.version}})
			delete(w.pods, key)
		}
	}
}

func (w *teams) expect(what string, want map[string]int) {
	w.t.Helper()
	if diff := cmp.Diff(want, w.settle()); diff != "" {
		w.t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// The figures of docs/queues.md are the engine's.
func TestQueuesInFigures(t *testing.T) {
	w := newTeams(t)
	w.ask("vision", 24, true)
	w.expect("borrowing", map[string]int{"vision": 24})
	w.ask("speech", 8, true)
	w.expect("reclaim", map[string]int{"vision": 16, "speech": 8})
	w.ask("product", 8, true)
	w.expect("reclaim through the tree", map[string]int{"vision": 8, "speech": 8, "product": 8})
	w.end("product")
	w.ask("speech", 16, true)
	w.expect("what is over", map[string]int{"vision": 10, "speech": 14})

	w = newTeams(t)
	w.edit("product", func(q *engine.Queue) { q.Lend = engine.Resources{{Resource: "nvidia.com/gpu", Value: 4}} })
	w.ask("vision", 24, true)
	w.expect("lending less", map[string]int{"vision": 20})

	w = newTeams(t)
	w.edit("vision", func(q *engine.Queue) { q.Limits = engine.Resources{{Resource: "nvidia.com/gpu", Value: 12}} })
	w.ask("vision", 24, true)
	w.expect("a limit", map[string]int{"vision": 12})

	w = newTeams(t)
	w.ask("vision", 24, false)
	w.expect("work that cannot be given back", map[string]int{"vision": 8})
}
