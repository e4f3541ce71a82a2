package scheduler

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/cluster"
)

// Who looks sees what a scheduler would do, and neither does it nor says anything.
func TestLookChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, node("n1", "r1", 2), pod("a", 1), pod("b", 1, "gang", "g", "min", "2"), pod("done", 1))
		w.edit("done", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })
		state, err := readState(context.Background(), w.client, Options{queues: w.queues})
		if err != nil {
			t.Fatal(err)
		}
		want := "start default/a on n1, wait default/gang/g: gang-incomplete"
		if diff := cmp.Diff(want, brief(state.Plan(time.Now()))); diff != "" {
			t.Error(diff)
		}
		w.after(time.Minute)
		if len(w.tried()) > 0 || len(w.patched()) > 0 {
			t.Errorf("it bound %v and wrote %v", w.tried(), w.patched())
		}
	})
}

func TestLookEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		w := newWorld(t)
		if s, err := readState(ctx, w.client, Options{queues: w.queues}); err == nil {
			t.Errorf("a look at nothing: %v", s.Dump())
		}
	})
}

func brief(p engine.Plan) string {
	out := ""
	for _, s := range p.Starts {
		for _, at := range s.Placements {
			out += "start " + at.Pod + " on " + at.Node + ", "
		}
	}
	for _, w := range p.Waiting {
		out += "wait " + w.Gang + ": " + string(w.Cause)
	}
	return out
}

// Who looks knows what was decided and not finished, as who takes over would: it would evict nobody else.
func TestLookKnowsOfEvictions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := teams(t)
		ends := w.ends(10 * time.Minute)
		w.start()
		w.after(time.Minute)
		w.add(pod("a0", 1, "queue", "a"))
		w.rest()
		if len(ends.ended()) != 1 {
			t.Fatalf("ended %q", ends.ended())
		}
		state, err := readState(t.Context(), w.client, Options{queues: w.queues})
		if err != nil {
			t.Fatal(err)
		}
		if plan := state.Plan(time.Now()); len(plan.Evictions) > 0 || len(state.Dump().Holds) != 1 {
			t.Errorf("would evict %+v, holds %+v", plan.Evictions, state.Dump().Holds)
		}
	})
}

// A model of a cluster's objects does what a scheduler that looks at the cluster would.
func TestModelAgreesWithLook(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		things := anyThings(rt)
		synctest.Test(t, func(t *testing.T) {
			racks := []engine.Level{{Name: "rack", Label: "rack"}}
			w := newWorld(t)
			m := cluster.NewModel(cluster.ModelOptions{Engine: engine.Config{Levels: racks}})
			for _, o := range things {
				w.add(o.(runtime.Object))
				m.Set(o)
			}
			time.Sleep(time.Minute) // old enough not to wait for controllers
			state, err := readState(context.Background(), w.client, Options{queues: w.queues, Engine: engine.Config{Levels: racks}})
			if err != nil {
				rt.Fatal(err)
			}
			for _, o := range things {
				p, ok := o.(*corev1.Pod)
				if !ok {
					continue
				}
				e, starts, _ := m.Try(keyOf(p), noon)
				want, at := state.Try(e.Workload, noon)
				if diff := cmp.Diff(want, e) + cmp.Diff(at, starts); diff != "" {
					rt.Fatalf("%s (-look +model):\n%s", p.Name, diff)
				}
			}
		})
	})
}

var noon = time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)

// anyThings are a few nodes, queues, groups, controllers and pods of ours, in any order.
func anyThings(t *rapid.T) []metav1.Object {
	some := func(label string, most int) int { return rapid.IntRange(0, most).Draw(t, label) }
	var out []metav1.Object
	for i := range 1 + some("nodes", 3) {
		out = append(out, node(fmt.Sprint("n", i), fmt.Sprint("r", some("rack", 1)), int64(some("gpus", 4))))
	}
	if some("queue", 1) == 1 {
		out = append(out, limit("q", int64(some("limit", 4)), nil))
	}
	out = append(out, group("g", int32(1+some("minimum", 2))), job("train", int32(1+some("pods", 2)), "gang", "train", "topology-required", "rack"))
	for i := range some("pods", 6) {
		p := pod(fmt.Sprint("p", i), int64(some("asks", 3)))
		switch some("kind", 4) {
		case 0:
			p.Spec.SchedulingGroup = grouped("", rapid.SampledFrom([]string{"g", "none"}).Draw(t, "group")).Spec.SchedulingGroup
		case 1:
			p.OwnerReferences = ownedPod("train", i).OwnerReferences
		case 2:
			p.Annotations["berth.dev/queue"] = "q"
		}
		if some("bound", 2) == 0 {
			p.Spec.NodeName = "n0"
		}
		p.UID = types.UID(p.Name)
		out = append(out, p)
	}
	return rapid.Permutation(out).Draw(t, "order")
}
