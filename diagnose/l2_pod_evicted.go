package diagnose

import (
	"fmt"
	"slices"

	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

var podEvictedCheck = Check{
	Cause: "pod-evicted", Layer: L2, Owner: Platform, Stage: Run, Rank: 50,
	Title:   "The node threw the pod out",
	Meaning: "The kubelet ended the pod to save the node: memory, disk or process numbers ran short there, the pod wrote more than its share, or the node was shut down. A controller makes another; a bare pod stays as it is.",
	Remedy:  "Give the pod requests and limits that match what it uses, or free the node of what fills it.",
	Not:     "The program failed.",
	Find:    podEvicted,
}

func podEvicted(c *Case) []Finding {
	if c.State != facts.Failed || !slices.Contains([]string{"Evicted", "NodeShutdown", "Terminated", "Shutdown", "Preempting"}, c.Pod.Status.Reason) {
		return nil
	}
	f := Finding{
		Message:  fmt.Sprintf("node %s threw out %s: %s", c.Pod.Spec.NodeName, c.refused(), wording.Shortened(c.Pod.Status.Message, 200)),
		Evidence: []facts.Evidence{c.failure()},
	}
	if wording.Mentions(c.Pod.Status.Message, "exceeds the limit", "exceeded its local ephemeral storage limit", "exceeds the total limit") {
		f.Layer, f.Owner, f.Advice = L4, ML, "Write less to the container's disk and its emptyDirs, or raise their limits."
	}
	return []Finding{f}
}
