package diagnose_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/diagnose"
	"github.com/berth-dev/berth/diagnose/check"
)

var update = flag.Bool("update", false, "write docs/reasons.md anew")

// TestReasons holds docs/reasons.md to the checks: it is made of them.
func TestReasons(t *testing.T) {
	const file = "../docs/reasons.md"
	want := reasons()
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("%s is not what the checks say (-checks +file); write it with: go test ./diagnose -run TestReasons -update\n%s", file, diff)
	}
}

var layers = []struct {
	check.Layer
	title string
}{
	{check.L1, "L1, capacity supply: is there a claim on hardware?"},
	{check.L2, "L2, provisioning: is it a Ready node that advertises healthy GPUs?"},
	{check.L3, "L3, scheduling: will the work be admitted and placed?"},
	{check.L4, "L4, workload: does the placed work start, and get on?"},
	{check.None, "Nothing to do"},
}

func reasons() string {
	var b strings.Builder
	b.WriteString(`# Why work waits: every cause

<!-- Made from the checks in diagnose/ by: go test ./diagnose -run TestReasons -update -->

` + "`berth why`" + ` names one of these causes, and lists others that it noticed. The code in the first column is what
scripts see (` + "`-o json`" + `, field ` + "`cause`" + `); codes are added, never renamed.

| cause | layer | owner | in a few words |
|---|---|---|---|
`)
	for _, l := range layers {
		for _, c := range diagnose.Checks() {
			if c.Layer == l.Layer {
				fmt.Fprintf(&b, "| [`%s`](#%s) | %s | %s | %s |\n", c.Cause, c.Cause, c.Layer, c.Owner, c.Title)
			}
		}
	}
	for _, l := range layers {
		head := false
		for _, c := range diagnose.Checks() {
			if c.Layer != l.Layer {
				continue
			}
			if !head {
				fmt.Fprintf(&b, "\n## %s\n", l.title)
				head = true
			}
			fmt.Fprintf(&b, "\n### %s\n\n**%s.** %s Whose: %s.\n\n*What usually helps.* %s\n", c.Cause, strings.TrimSuffix(c.Title, "."), c.Meaning, c.Owner, c.Remedy)
			if c.Not != "" {
				fmt.Fprintf(&b, "\n*What it is not.* %s\n", c.Not)
			}
		}
	}
	return b.String()
}
