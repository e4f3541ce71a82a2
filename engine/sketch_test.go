package engine_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/berth-dev/berth/engine"
)

// A sketch does what the plan does where few questions are asked, and leaves the state as it was: the next plan proves what it says.
func TestSketch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg, history := anyConfig(t), anyHistory(t)
		s := lived(cfg, history)
		first := answers(t, s, noon)
		for _, at := range []time.Time{noon, noon.Add(time.Hour)} {
			want, got := lived(cfg, history).Plan(at), s.Sketch(at)
			if diff := cmp.Diff(effects(want), effects(got)); diff != "" {
				t.Fatalf("the sketch does something else (-plan +sketch):\n%s", diff)
			}
		}
		if diff := cmp.Diff(first, answers(t, s, noon)); diff != "" {
			t.Fatalf("after a sketch (-before +after):\n%s", diff)
		}
	})
}

// effects is what a plan does: what it says, and when it is made again, left out.
func effects(p engine.Plan) any {
	var waiting []string
	for _, w := range p.Waiting {
		waiting = append(waiting, w.Gang)
	}
	return []any{p.Starts, p.Evictions, p.Promises, waiting}
}
