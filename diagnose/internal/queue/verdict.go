package queue

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/engine/why"
)

// Shut are the engine's own findings of a cause, where it found that before it looked at any node; where the engine
// cannot be asked, what Berth's scheduler said to the pod.
func Shut(c *check.Case, cause why.Cause) []check.Finding {
	f := c.Fit
	if f == nil {
		return Told(c, cause)
	}
	var out []check.Finding
	for _, g := range f.Gates {
		if g.Cause == cause {
			out = append(out, check.Finding{
				Message:  g.Sentence(f.Certificates),
				Evidence: []facts.Evidence{{Object: facts.RefTo(c.Pod).In(), Field: "the engine's verdict", Value: string(f.Verdict)}},
			})
		}
	}
	return out
}

// Told is what Berth's scheduler said to a pod that waits, where its reason is the cause: GangMissing for gang-missing.
func Told(c *check.Case, cause why.Cause) []check.Finding {
	if c.State != facts.Pending {
		return nil
	}
	for _, s := range c.Pod.Status.Conditions {
		if s.Type == corev1.PodScheduled && s.Status == corev1.ConditionFalse && strings.EqualFold(s.Reason, strings.ReplaceAll(string(cause), "-", "")) {
			return []check.Finding{{
				Message:  "pod " + c.Pod.Name + ": " + s.Message,
				Evidence: []facts.Evidence{{Object: facts.RefTo(c.Pod).In(), Field: "status.conditions[PodScheduled]", Value: s.Reason + ": " + s.Message}},
			}}
		}
	}
	return nil
}
