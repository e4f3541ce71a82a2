package scenario

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/rogpeppe/go-internal/txtar"
)

// FuzzParse reads anything without harm, and what it accepts means the same after it was written again.
func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("../../scenarios/*.txtar")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte("x\n-- config --\nshape gpus=1 weight=3\n-- start --\nnode n[0-3] model=A:1,B:3 cliques=2\npods a-[0-9] on=n[0-3] devices=gpu-[0-7]\n-- then -1h --\nlose n0 1\n-- plan --\n"))
	f.Add([]byte("x\n-- config --\npolicy strict\nheads 2\nrate A 2\nmoves background 60\n-- start --\nqueue q[0-1] parent=p quota=gpus=8,gpus@A=1 lend=cpu=1 budget=gpus=1h/24h fair-users min-run=1m\n" +
		"gang t/g core grace=1s expected=1h\npods t/g-[0-1] gang=t/g terminating release=+1s budgets=b,a started=-1h\ndisruption b allowed=1\nbooking k queue=q0 nodes=n[0-1] from=+1h to=+2h\n" +
		"-- then +1s --\nleave\neviction t/g-0 moved to=n1\npromise t/g start=+1h nodes=n1\nusage q0 spent=1,2\nrun-time-estimate l count=1 short=1s\nend t/g\n-- queues --\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		story, err := Parse("f", data)
		if err != nil {
			return
		}
		again, err := Parse("f", txtar.Format(story.archive))
		if err != nil {
			t.Fatalf("written again, it does not parse: %v", err)
		}
		if diff := cmp.Diff(steps(story), steps(again), cmpopts.IgnoreUnexported(Step{})); diff != "" {
			t.Errorf("written again, it differs:\n%s", diff)
		}
		apply(story)
	})
}

// steps is what a story shows of its steps.
func steps(s *Story) []Step {
	var out []Step
	for _, st := range s.Steps {
		out = append(out, Step{Kind: st.Kind, Title: st.Title, After: st.After, Key: st.Key, Want: st.Want})
	}
	return out
}

// apply plays the changes alone; a mistake that shows only now is fine.
func apply(s *Story) {
	w := newWorld(&s.Config, startTime)
	for _, st := range s.Steps {
		w.now = w.now.Add(st.After)
		for _, e := range st.edits {
			if e.apply(w) != nil {
				return
			}
		}
		w.tell(0)
	}
}
