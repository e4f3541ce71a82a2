package life

import (
	"fmt"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

// Failure is evidence of how the pod failed as a whole.
func Failure(c *check.Case) facts.Evidence {
	return facts.Evidence{Object: facts.RefTo(c.Pod).In(), Field: "status.reason", Value: c.Pod.Status.Reason + ": " + wording.Shortened(c.Pod.Status.Message, 200)}
}

// Refused names the pod, and how often its like met the same end.
func Refused(c *check.Case) string {
	n := 0
	for _, p := range c.All {
		if facts.StateOf(p) == facts.Failed && p.Status.Reason == c.Pod.Status.Reason {
			n++
		}
	}
	if n < 2 {
		return "pod " + c.Pod.Name
	}
	return fmt.Sprintf("%d pods, such as %s", n, c.Pod.Name)
}
