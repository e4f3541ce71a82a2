package engine_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/engine/internal/oracle"
	"github.com/berth-dev/berth/internal/scenario"
	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the answers in scenarios/*.txtar")

// TestScenarios plays every story and compares the engine's answers with those in the file.
func TestScenarios(t *testing.T) {
	eachStory(t, func(t *testing.T, story *scenario.Story, data []byte) {
		got, err := scenario.Run(story)
		if err != nil {
			t.Fatal(err)
		}
		if *update {
			if err := os.WriteFile(filepath.Join(scenarios, story.Name), got, 0o644); err != nil {
				t.Fatal(err)
			}
			return
		}
		if diff := cmp.Diff(string(data), string(got)); diff != "" {
			t.Errorf("%s, which teaches: %s\n(-want +got):\n%s", story.Name, story.Teaches, diff)
		}
	})
}

// TestScenariosWithFewClasses plays every story with no more than one class of pods kept: classes are forgotten all the time,
// and that changes no answer.
func TestScenariosWithFewClasses(t *testing.T) {
	eachStory(t, func(t *testing.T, story *scenario.Story, data []byte) {
		story.Config.Classes = 1
		got, err := scenario.Run(story)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(data), string(got)); diff != "" {
			t.Errorf("%s (-with many +with one):\n%s", story.Name, diff)
		}
	})
}

// TestScenariosKeepTheLaw asks, after every step of every story: does planning leave the state alone, and
// does a state loaded from the dump give the same answers, also where no more than one class is kept, and does a plan made just
// before WakeAt say the same?
func TestScenariosKeepTheLaw(t *testing.T) {
	eachStory(t, func(t *testing.T, story *scenario.Story, _ []byte) {
		p := scenario.NewPlayer(story)
		for i, step := range story.Steps {
			if _, err := p.Do(step); err != nil {
				t.Fatal(err)
			}
			if checkLaw(t, i, p, story); t.Failed() {
				return
			}
		}
	})
}

func checkLaw(t *testing.T, step int, p *scenario.Player, story *scenario.Story) {
	t.Helper()
	before := p.State.Dump()
	plan := p.State.Plan(p.Now)
	if diff := cmp.Diff(before, p.State.Dump()); diff != "" {
		t.Errorf("step %d: Plan changed the state (-before +after):\n%s", step, diff)
	}
	if wrong := beforeWake(before, story.Config, plan); wrong != "" {
		t.Errorf("step %d: %s", step, wrong)
	}
	loaded := engine.Load(before, story.Config)
	if diff := cmp.Diff(before, loaded.Dump()); diff != "" {
		t.Errorf("step %d: the dump differs after loading it (-first +loaded):\n%s", step, diff)
	}
	if diff := cmp.Diff(plan, loaded.Plan(p.Now)); diff != "" {
		t.Errorf("step %d: the plan differs after loading the dump (-first +loaded):\n%s", step, diff)
	}
	few := story.Config
	few.Classes = 1
	if diff := cmp.Diff(plan, engine.Load(before, few).Plan(p.Now)); diff != "" {
		t.Errorf("step %d: the plan differs where classes are forgotten all the time (-with many +with one):\n%s", step, diff)
	}
	if diff := cmp.Diff(p.State.Report(), loaded.Report()); diff != "" {
		t.Errorf("step %d: the report differs after loading the dump (-first +loaded):\n%s", step, diff)
	}
	if err := oracle.Valid(judged(p.State), story.Config, p.Now, plan); err != nil {
		t.Errorf("step %d: the plan is not lawful: %v", step, err)
	}
	for _, w := range plan.Waiting {
		if diff := cmp.Diff(p.State.Explain(w.Gang, p.Now, 0), loaded.Explain(w.Gang, p.Now, 0)); diff != "" {
			t.Errorf("step %d: the explanation of %s differs after loading the dump (-first +loaded):\n%s", step, w.Gang, diff)
		}
	}
}

const scenarios = "../scenarios"

// eachStory runs a test for every file, under its name.
func eachStory(t *testing.T, test func(t *testing.T, story *scenario.Story, data []byte)) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(scenarios, "*.txtar"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios found: %v", err)
	}
	for _, file := range files {
		name := filepath.Base(file)
		t.Run(strings.TrimSuffix(name, ".txtar"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			story, err := scenario.Parse(name, data)
			if err != nil {
				t.Fatal(err)
			}
			test(t, story, data)
		})
	}
}
