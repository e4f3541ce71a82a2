package place

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/engine/why"
	"github.com/berth-dev/berth/kube/report"
)

// BerthSaid is what Berth wrote of the pod if it waits for this cause: the condition, whose sentence is for people to read, and
// the data beside it. A Berth from before there was data wrote the cause as the condition's reason, unless other nodes
// would help: of such a pod nothing is known.
func BerthSaid(c *check.Case, cause why.Cause) (s corev1.PodCondition, data report.Pending, ok bool) {
	for _, s = range c.Pod.Status.Conditions {
		if s.Type != corev1.PodScheduled || s.Status != corev1.ConditionFalse {
			continue
		}
		if data, ok = report.PendingOf(c.Pod); ok {
			return s, data, data.Cause == cause
		}
		return s, report.Pending{Cause: cause}, s.Reason == report.CauseReason(cause)
	}
	return corev1.PodCondition{}, report.Pending{}, false
}
