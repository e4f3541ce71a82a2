package life

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

// Failure is evidence of how the pod failed as a whole.
func Failure(c *check.Case) facts.Evidence {
	return facts.Evidence{Object: facts.RefTo(c.Pod).In(), Field: "status.reason", Value: c.Pod.Status.Reason + ": " + wording.Shortened(c.Pod.Status.Message, 200)}
}

// Disrupted is the condition with which whoever ended the pod before its time says so; nil: nobody did.
func Disrupted(p *corev1.Pod) *corev1.PodCondition {
	for i := range p.Status.Conditions {
		if k := &p.Status.Conditions[i]; k.Type == corev1.DisruptionTarget && k.Status == corev1.ConditionTrue {
			return k
		}
	}
	return nil
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
