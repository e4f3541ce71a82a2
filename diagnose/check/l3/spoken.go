package l3

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/queue"
)

// spokenOf says whether a scheduler, or somebody who knows of its decisions, has said something of the pod.
func spokenOf(c *check.Case) bool {
	for _, s := range c.Pod.Status.Conditions {
		if s.Type == corev1.PodScheduled {
			return true
		}
	}
	for _, g := range []*unstructured.Unstructured{queue.VolcanoGroup(c), queue.KaiGroup(c)} { // whose conditions are their schedulers' words
		if g != nil && slices.ContainsFunc(facts.ConditionsOf(g), func(k facts.Condition) bool { return !k.Since.Before(c.Pod.CreationTimestamp.Time) }) {
			return true
		}
	}
	return c.Exists && (len(c.EventsOf(c.Pod, "FailedScheduling", "Scheduled", "Preempted", "WaitingOnPermit")) > 0 || c.HeardFrom(c.Pod.Spec.SchedulerName, c.Pod))
}
