package l4

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/life"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

var runningWithoutProgressCheck = check.Check{
	Cause: "running-without-progress", Layer: check.L4, Owner: check.ML, Stage: check.Run, Rank: 30,
	Title:   "All ranks run and none gets on",
	Meaning: "Every pod of the work has its node and runs, and the log's last lines say that a collective waits or timed out. The GPUs are held and idle.",
	Remedy:  "Restart all ranks together; look for the rank that was lost, and at the network between the nodes (NCCL_DEBUG=INFO). A shorter time-out loses less.",
	Not:     "It is Pending, or the scheduler is at fault: everything is placed.",
	Find:    runningWithoutProgress,
}

func runningWithoutProgress(c *check.Case) []check.Finding {
	if c.State != facts.Running || c.Pod.DeletionTimestamp != nil || facts.Unsettled(c.Pod) || !crewRuns(c) {
		return nil
	}
	for _, k := range life.ContainersOf(c.Pod) {
		s, ok := stalled(life.Tail(c.Facts, c.Pod, k.Name))
		if !ok || k.Status.State.Running != nil && c.Now.Sub(k.Status.State.Running.StartedAt.Time) < meetIn {
			continue
		}
		what := "a collective has waited or timed out"
		if s.meeting {
			what = "the ranks do not find each other"
		}
		return []check.Finding{{
			Message:  fmt.Sprintf("all %d pods run, and %s: pod %s says %q", len(crew(c.Facts, c.Pod))+1, what, c.Pod.Name, wording.Shortened(s.line, 140)),
			Evidence: []facts.Evidence{{Object: facts.RefTo(c.Pod).In(), Field: "log of " + k.Name, Value: wording.Shortened(s.line, 300)}},
		}}
	}
	return nil
}

// crewRuns says whether no peer of the pod waits or is still to be made: else that is the reason.
func crewRuns(c *check.Case) bool {
	n, _ := absentPeers(c.Facts, c.Pod)
	return n == 0 && !slices.ContainsFunc(crew(c.Facts, c.Pod), func(p *corev1.Pod) bool {
		s := facts.StateOf(p)
		return s == facts.Pending || s == facts.Gated || s == facts.Starting
	})
}
