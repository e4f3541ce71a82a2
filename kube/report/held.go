package report

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// Held is the place that is kept for a pod while its victims end: the message of the condition berth.dev/PlaceHeld, as
// JSON. The sentence is the one of the pod's wait.
//
// Version 1, 2026-11-16, before which the message was a sentence. Fields are added, never renamed.
type Held struct {
	Node string `json:"node"`
	// Mark is the mark of the pod's workload, by which victims in other namespaces name it (Eviction.For).
	Mark string `json:"mark"`
}

// Condition is the place as a condition of the pod.
func (h Held) Condition(since metav1.Time) corev1.PodCondition {
	text, err := json.Marshal(h)
	if err != nil {
		panic("place that is held: " + err.Error()) // it has no field that cannot be written
	}
	return corev1.PodCondition{Type: v1alpha1.PodPlaceHeld, Status: corev1.ConditionTrue, Reason: "MakingRoom", Message: string(text), LastTransitionTime: since}
}

// HeldOf is the place that is kept for the pod, as its status says; false for none, or nothing that can be read.
func HeldOf(p *corev1.Pod) (h Held, ok bool) {
	for i := range p.Status.Conditions {
		c := &p.Status.Conditions[i]
		if c.Type == v1alpha1.PodPlaceHeld && c.Status == corev1.ConditionTrue {
			return h, json.Unmarshal([]byte(c.Message), &h) == nil && h.Node != ""
		}
	}
	return Held{}, false
}
