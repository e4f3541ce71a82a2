package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/engine/why"
	"github.com/berth-dev/berth/kube/answer"
)

// No start is told of a workload whose queue is shut, or whose head may never start, and it is said why.
func TestETAOfABlockedWorkload(t *testing.T) {
	w := &answer.Workload{State: answer.Waiting, ETA: &answer.ETA{Cause: why.BehindTheHead, Because: "waits behind a/gang/x, whose start is unknown"}}
	if got := etaOf(w, jobsTime); got != "blocked" {
		t.Errorf("in the table: %q", got)
	}
	if got := expected(w.ETA, jobsTime); strings.Contains(got, "in 0s") || !strings.Contains(got, "no start") || !strings.Contains(got, "a/gang/x") {
		t.Errorf("in full: %q", got)
	}
	w.ETA = &answer.ETA{Because: "no running workload has a known end"}
	if got := etaOf(w, jobsTime); got != "-" {
		t.Errorf("unknown: %q", got)
	}
	w.ETA = &answer.ETA{Likely: jobsTime.Add(time.Minute)}
	if got := etaOf(w, jobsTime); got != "~60s" {
		t.Errorf("likely: %q", got)
	}
}
