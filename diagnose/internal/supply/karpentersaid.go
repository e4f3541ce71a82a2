package supply

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/kube/dialect/karpenter"
)

// KarpenterSaid returns it.
func KarpenterSaid(c *check.Case) *karpenter.Message {
	if !c.Exists {
		return nil
	}
	for _, e := range c.EventsOf(c.Pod, "FailedScheduling", "Nominated") {
		if w, ok := karpenter.ParseMessage(e.Message); ok {
			w.Event = e
			return &w
		}
	}
	return nil
}

// KarpenterEvidence is where it can be read.
func KarpenterEvidence(w *karpenter.Message, c *check.Case) []facts.Evidence {
	if w == nil {
		return nil
	}
	return []facts.Evidence{autoscalerEvent(c.Pod, w.Event)}
}

// autoscalerEvent is an event as evidence.
func autoscalerEvent(of facts.Object, e *corev1.Event) facts.Evidence {
	return facts.Evidence{Object: facts.RefTo(of).In(), Field: "events[reason=" + e.Reason + "]", Value: e.Message}
}

// How long Karpenter gives a machine to be launched, and to become a node.
const (
	KarpenterLaunches  = 5 * time.Minute
	KarpenterRegisters = 15 * time.Minute
)
