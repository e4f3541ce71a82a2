package l4

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

var rolloutPausedCheck = check.Check{
	Cause: "rollout-paused", Layer: check.L4, Owner: check.User, Stage: check.Create, Rank: 4,
	Title:   "The Deployment's rollout is paused",
	Meaning: "Somebody has paused the Deployment: a change of its template makes no new pods until it is resumed. Pods that run go on.",
	Remedy:  "Resume the rollout when the change should take effect.",
	Find:    rolloutPaused,
}

// rolloutPaused looks only where the pause shows: a change waits that the controller has seen and not carried out.
func rolloutPaused(c *check.Case) []check.Finding {
	d, ok := c.Top.(*appsv1.Deployment)
	if !ok || !d.Spec.Paused || ptr.Deref(d.Spec.Replicas, 1) == 0 || d.Status.UpdatedReplicas >= ptr.Deref(d.Spec.Replicas, 1) {
		return nil
	}
	return []check.Finding{{
		Healthy: true, Message: fmt.Sprintf("%s is paused: %d of %s %s of its newest template", facts.RefTo(d), d.Status.UpdatedReplicas, wording.Number(ptr.Deref(d.Spec.Replicas, 1), "pod"), wording.InNumber(d.Status.UpdatedReplicas, "is", "are")),
		Evidence: []facts.Evidence{{Object: facts.RefTo(d).In(), Field: "spec.paused", Value: "true"}},
		Advice:   fmt.Sprintf("To go on: kubectl rollout resume deployment %s -n %s", d.Name, d.Namespace),
	}}
}
