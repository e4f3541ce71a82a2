package l2

import (
	"fmt"
	"slices"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/life"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

var podEvictedCheck = check.Check{
	Cause: "pod-evicted", Layer: check.L2, Owner: check.Platform, Stage: check.Run, Rank: 50,
	Title:   "The node threw the pod out",
	Meaning: "The kubelet ended the pod to save the node: memory, disk or process numbers ran short there, the pod wrote more than its share, or the node was shut down. A controller makes another; a bare pod stays as it is.",
	Remedy:  "Give the pod requests and limits that match what it uses, or free the node of what fills it.",
	Not:     "The program failed.",
	Find:    podEvicted,
}

func podEvicted(c *check.Case) []check.Finding {
	if c.State != facts.Failed || !slices.Contains([]string{"Evicted", "NodeShutdown", "Terminated", "Shutdown", "Preempting"}, c.Pod.Status.Reason) {
		return nil
	}
	f := check.Finding{
		Message:  fmt.Sprintf("node %s threw out %s: %s", c.Pod.Spec.NodeName, life.Refused(c), wording.Shortened(c.Pod.Status.Message, 200)),
		Evidence: []facts.Evidence{life.Failure(c)},
	}
	if wording.Mentions(c.Pod.Status.Message, "exceeds the limit", "exceeded its local ephemeral storage limit", "exceeds the total limit") {
		f.Layer, f.Owner, f.Advice = check.L4, check.ML, "Write less to the container's disk and its emptyDirs, or raise their limits."
	}
	return []check.Finding{f}
}
