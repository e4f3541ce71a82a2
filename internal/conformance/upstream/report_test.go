package main

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPatchNeedsEachPlaceOnce(t *testing.T) {
	whole := "before\n" + edits[0].after + "between\n" + edits[1].after + "after\n"
	got, err := patch([]byte(whole))
	want := "before\n" + edits[0].after + edits[0].add + "between\n" + edits[1].after + edits[1].add + "after\n"
	if diff := cmp.Diff(want, string(got)); err != nil || diff != "" {
		t.Errorf("patch: %v (-want +got):\n%s", err, diff)
	}
	for _, odd := range []string{"nothing of it", whole + edits[1].after} {
		if _, err := patch([]byte(odd)); err == nil || !strings.Contains(err.Error(), "patch.go") {
			t.Errorf("patch of %q: %v", odd, err)
		}
	}
}

func TestExactly(t *testing.T) {
	if diff := cmp.Diff(`^TestA$/^one_\(of_two\)\+$`, exactly("TestA/one_(of_two)+")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestParse(t *testing.T) {
	got := parse("folder", "=== RUN   TestA\n    x_test.go:1: --- FAIL: not a word\n--- FAIL: TestA (1.00s)\n    --- PASS: TestA/one (0.50s)\n    --- FAIL: TestA/two/three (0.50s)\n--- SKIP: TestB (0.00s)\n")
	want := outcomes{"folder.TestA": "FAIL", "folder.TestA/one": "PASS", "folder.TestA/two/three": "FAIL", "folder.TestB": "SKIP"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// A case that fails and is not listed, one that passes and is, and a test that says nothing are all surprises.
func TestReport(t *testing.T) {
	listed := []exception{{key: "d.T/known", at: "x_test.go:1"}, {key: "d.T/mended", at: "x_test.go:2"}}
	got := outcomes{"d.T": "FAIL", "d.T/fine": "PASS", "d.T/known": "FAIL", "d.T/mended": "PASS", "d.T/new": "FAIL", "d.T/of": "FAIL", "d.T/of/several": "PASS", "d.T/not-for-us": "SKIP", "d.Whole": "PASS"}
	r := judge(got, []test{{dir: "d", name: "T"}, {dir: "d", name: "Whole"}, {dir: "d", name: "Silent"}}, listed)
	var counts []int
	for _, l := range r.lines {
		counts = append(counts, l.passed, l.failed, l.excepted)
	}
	if diff := cmp.Diff([]int{3, 1, 1, 1, 0, 0, 0, 0, 0}, counts); diff != "" {
		t.Errorf("passed, failed, excepted (-want +got):\n%s", diff)
	}
	want := []string{
		"d.T/mended: passes, and is among the exceptions",
		"d.T/new: fails, and is not among the exceptions",
		"d.Silent: nothing was heard of it",
	}
	if diff := cmp.Diff(want, r.surprises); diff != "" {
		t.Errorf("surprises (-want +got):\n%s", diff)
	}
}

// Every exception and every case left for later is of a test that is run.
func TestTablesAgree(t *testing.T) {
	known := map[string]bool{}
	for _, x := range tests {
		known[x.key()] = true
	}
	for _, e := range exceptions {
		if !slices.ContainsFunc(tests, func(t test) bool { return e.key == t.key() || strings.HasPrefix(e.key, t.key()+"/") }) {
			t.Errorf("exception %s is of no test that is run", e.key)
		}
	}
	for _, d := range later {
		if !known[d.dir+"."+d.test] {
			t.Errorf("%s.%s is not run, so no case of it is left for later", d.dir, d.test)
		}
		if _, err := regexp.Compile(d.name); err != nil {
			t.Errorf("cases %q: %v", d.name, err)
		}
	}
}
