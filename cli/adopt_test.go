package cli

import (
	"regexp"
	"testing"
	"time"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/record"
)

// TestAdoptADay reports on the log of a scheduler in the shadow of another: what the other bound, and when Berth would have started it.
func TestAdoptADay(t *testing.T) {
	dir, start := t.TempDir(), time.Date(2026, 11, 1, 8, 0, 0, 0, time.UTC)
	w := record.Start(record.Options{Dir: dir, Berth: "v1"}, engine.Config{})
	state := engine.Load(engine.Snapshot{}, engine.Config{})
	cycle := func(at time.Time, changes ...engine.Change) {
		state.Apply(changes...)
		w.Cycle(at, changes, state.Plan(at))
	}
	pod := func(name, node string, gpus int64, version uint64, started time.Time) engine.Change {
		p := engine.Pod{Key: "team/" + name, UID: name, Node: node, Version: version, Started: started, Created: start}
		p.Requests = engine.Resources{{Resource: "nvidia.com/gpu", Value: gpus}}
		return engine.Change{Pod: &p}
	}
	cycle(start, engine.Change{Node: &engine.Node{Name: "n", Version: 1, Allocatable: engine.Resources{{Resource: "nvidia.com/gpu", Value: 2}, {Resource: "pods", Value: 10}}}}, pod("first", "", 1, 2, time.Time{}))
	later := start.Add(10 * time.Minute)
	cycle(later, pod("first", "n", 1, 3, later), pod("wide", "", 2, 4, time.Time{}), pod("small", "", 1, 5, time.Time{}))
	w.Close()
	text := ok(t, "adopt", "--from", "kai", "--decisions", dir, "-o", "wide")
	for _, want := range []string{
		`As of the last decision, .*The log does not say which fields have no effect`,
		`(?m)^-  +1  +2  +1  +1  +1  +0$`,
		`(?m)^pod/first .* runs, from \S.*08:10:00\S*  +runs, from \S.*08:00:00`,
		`(?m)^pod/small .* waits  +starts on n, from `,
		`(?m)^pod/wide .* waits  +waits: `,
	} {
		if !regexp.MustCompile(want).MatchString(text) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	if code, _, stderr := run(t, "adopt", "--from", "kai", "--decisions", t.TempDir()); code != exitUnknown || stderr == "" {
		t.Errorf("%d %s", code, stderr)
	}
}
