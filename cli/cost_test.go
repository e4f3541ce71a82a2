package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/record"
)

// TestCostRefuses holds the command to its usage.
func TestCostRefuses(t *testing.T) {
	for args, want := range map[string]string{
		"cost --by team":                   "--by",
		"cost -o name":                     "-o",
		"cost --since soon":                "--since",
		"cost --since 9999w":               "366 days",
		"cost --since 1h --until 2h":       "not before",
		"cost --from x.tar.zst":            "give the folder",
		"cost --from x --unpriced ./there": "unpriced",
	} {
		code, _, stderr := run(t, strings.Fields(args)...)
		if code != exitUsage || !strings.Contains(stderr, want) {
			t.Errorf("%s: %d %s", args, code, stderr)
		}
	}
	if code, _, stderr := run(t, "cost", "--unpriced", t.TempDir()); code != exitUnknown || !strings.Contains(stderr, "no decisions are recorded") {
		t.Errorf("%d %s", code, stderr)
	}
}

// TestCostOfALog is a bill of a copied log: 2 GPUs for an hour, of which one is held for 30 minutes.
func TestCostOfALog(t *testing.T) {
	dir, start := t.TempDir(), time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	w := record.Start(record.Options{Dir: dir}, engine.Config{})
	node := engine.Change{Node: &engine.Node{Name: "n", Version: 1, Allocatable: engine.Resources{{Resource: "nvidia.com/gpu", Value: 2}}}}
	pod := func(node string, version uint64) engine.Change {
		p := engine.Pod{Key: "team/=evil", UID: "u", Queue: "research", Node: node, Version: version}
		p.Requests = engine.Resources{{Resource: "nvidia.com/gpu", Value: 1}}
		return engine.Change{Pod: &p}
	}
	w.Cycle(start, []engine.Change{node, pod("", 2)}, engine.Plan{})
	w.Cycle(start.Add(30*time.Minute), []engine.Change{pod("n", 3)}, engine.Plan{})
	w.Cycle(start.Add(time.Hour), []engine.Change{{Gone: &engine.Ref{Kind: engine.KindPod, Key: "team/=evil", Version: 4}}}, engine.Plan{})
	w.Close()
	span := []string{"cost", "--unpriced", "--since", "2026-11-01T00:00:00Z", "--until", "2026-11-02T00:00:00Z", dir}
	got := strings.Split(ok(t, span...), "\n")[:4]
	want := []string{
		"QUEUE      GPU-HOURS   COST      IDLE   WAITING   MEAN WAIT   LOST   OF UNUSED   WITH IT",
		"research   0.500       unknown   ?      0.500     30m0s       -      -           -",
		"(unused)   1.500       unknown   ?      0         -           -      -           -",
		"paid       2.000       unknown   ?      0.500     30m0s       -      -           -",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if text := ok(t, span...); !strings.Contains(text, "\nUnused: 1.500 free.\n") {
		t.Errorf("what nobody held: %s", text)
	}
	if text := ok(t, append(span, "-o", "json")...); !strings.Contains(text, `"unusedBy": [`) || !strings.Contains(text, `"name": "schedulable"`) {
		t.Errorf("what nobody held, as JSON: %s", text)
	}
	lines := strings.Split(ok(t, append(span, "-o", "csv", "--by", "namespace")...), "\n")
	wantCSV := []string{
		strings.Join(focusHead, ","),
		`,,2026-11-01T00:00:00Z,2026-11-02T00:00:00Z,Usage,GPUs held by namespace team,2026-11-01T00:00:00Z,2026-11-02T00:00:00Z,0.500000,GPU-Hours,,Compute,GPU cluster,"{""berth.dev/namespace"":""team""}",,0.000000,0.500000,0.000000`,
		`,,2026-11-01T00:00:00Z,2026-11-02T00:00:00Z,Usage,GPUs that nobody held,2026-11-01T00:00:00Z,2026-11-02T00:00:00Z,1.500000,GPU-Hours,,Compute,GPU cluster,{},,0.000000,0.000000,0.000000`,
		"",
	}
	if diff := cmp.Diff(wantCSV, lines); diff != "" {
		t.Error(diff)
	}
	text := ok(t, append(span, "-o", "json")...)
	for _, want := range []string{`"version": 2`, `"gpuMilliseconds": 1800000`, `"unpricedGPUMilliseconds": 5400000`, `"meanWaitMilliseconds": 1800000`} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
}
