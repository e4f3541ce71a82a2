package scheduler

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/engine"
)

// Who looks sees what a scheduler would do, and neither does it nor says anything.
func TestLookChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, node("n1", "r1", 2), pod("a", 1), pod("b", 1, "gang", "g", "min", "2"), pod("done", 1))
		w.edit("done", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })
		state, err := look(context.Background(), w.client, Options{queues: w.queues})
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
		if s, err := look(ctx, w.client, Options{queues: w.queues}); err == nil {
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
		state, err := look(t.Context(), w.client, Options{queues: w.queues})
		if err != nil {
			t.Fatal(err)
		}
		if plan := state.Plan(time.Now()); len(plan.Evictions) > 0 || len(state.Dump().Holds) != 1 {
			t.Errorf("would evict %+v, holds %+v", plan.Evictions, state.Dump().Holds)
		}
	})
}
