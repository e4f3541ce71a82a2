package report

import (
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/engine"
)

// Held is the place that is kept for a pod while its victims end: the message of the condition berth.dev/PlaceHeld, as
// JSON. The sentence is the one of the pod's wait.
//
// Version 1, 2026-11-16, before which the message was a sentence. Fields are added, never renamed.
type Held struct {
	Node string `json:"node"`
	// Mark is the mark of the pod's workload, by which victims in other namespaces name it (Eviction.For).
	Mark string `json:"mark"`
	// Named is what is kept there by name, for all pods of the workload together: one of those that are nominated for the node says it.
	// Since 2026-11-17.
	Named
}

// Named is what a place keeps that is more than an amount: parts of GPUs, or whole ones on a node that gives parts, and devices for
// claims, with what parts of GPUs among those count in queues.
type Named struct {
	Cards   []engine.HeldCard `json:"cards,omitempty"`
	Devices []string          `json:"devices,omitempty"`
	Claimed int64             `json:"claimed,omitempty"`
}

// Equal says whether the two are the same.
func (n *Named) Equal(o *Named) bool {
	return n.Claimed == o.Claimed && slices.Equal(n.Devices, o.Devices) && slices.EqualFunc(n.Cards, o.Cards, func(a, b engine.HeldCard) bool {
		return a.ID == b.ID && (a.Part == nil) == (b.Part == nil) && (a.Part == nil || *a.Part == *b.Part)
	})
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
