package cluster

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/kube/convert"
)

// A model reads a pod that is in a queue as it was decided about, however the pod and its controllers were edited, and one
// without terms, as one that is made anew, as it is.
func TestModelKeepsTerms(t *testing.T) {
	p := ownedPod("train", 0, "queue", "q")
	p.Status.Conditions = []corev1.PodCondition{{Type: convert.Admitted, Status: corev1.ConditionTrue,
		Message: convert.Record{Queue: "q", Keys: convert.Keys{v1alpha1.KeyQueue: "q"}}.Text()}}
	m := racked(node("n1", "r1", 8), limit("q", 0, nil), limit("r", 8, nil), job("train", 1), p)
	expect(t, m, map[string]string{"train-0": "blocked exceeds-queue-maximum"})
	edited := p.DeepCopy()
	edited.Annotations["berth.dev/queue"] = "r"
	m.Set(edited, job("train", 1, "queue", "r"))
	expect(t, m, map[string]string{"train-0": "blocked exceeds-queue-maximum"})
	anew := edited.DeepCopy()
	anew.Status.Conditions = nil
	m.Set(anew)
	expect(t, m, map[string]string{"train-0": "placed train-0@n1"})
	m.Set(p)
	expect(t, m, map[string]string{"train-0": "blocked exceeds-queue-maximum"})
	m.Delete(limit("q", 0, nil)) // what waits in a queue that is gone is in none
	expect(t, m, map[string]string{"train-0": "blocked queue-missing"})
	m.Set(edited)
	expect(t, m, map[string]string{"train-0": "placed train-0@n1"})
}

// Whether work is held is read at any time, unlike its terms: also of a pod that was decided about, from its controller.
func TestHoldIsReadAtAnyTime(t *testing.T) {
	decided := ownedPod("train", 0, "queue", "q")
	decided.Status.Conditions = []corev1.PodCondition{{Type: convert.Admitted, Status: corev1.ConditionTrue,
		Message: convert.Record{Queue: "q", Keys: convert.Keys{v1alpha1.KeyQueue: "q"}}.Text()}}
	m := racked(node("n1", "r1", 8), limit("q", 8, nil), job("train", 1), decided)
	expect(t, m, map[string]string{"train-0": "placed train-0@n1"})
	m.Set(job("train", 1, "hold", "true"))
	expect(t, m, map[string]string{"train-0": "blocked workload-held"})
	m.Set(job("train", 1, "hold", "false"))
	expect(t, m, map[string]string{"train-0": "placed train-0@n1"})
	itself := decided.DeepCopy()
	itself.Annotations[v1alpha1.KeyHold] = "true"
	m.Set(itself)
	expect(t, m, map[string]string{"train-0": "blocked workload-held"})
	released := decided.DeepCopy()
	released.Annotations[v1alpha1.KeyHold] = "false"
	m.Set(released, job("train", 1, "hold", "true")) // the nearest word counts
	expect(t, m, map[string]string{"train-0": "placed train-0@n1"})
	m.Set(decided, job("train", 1, "hold", "maybe"))
	expect(t, m, map[string]string{"train-0": "invalid invalid-object"})
}

func TestStoppedQueue(t *testing.T) {
	stopped := func(p v1alpha1.StopPolicy) *v1alpha1.BerthQueue {
		q := limit("q", 8, nil)
		q.Spec.StopPolicy = p
		return q
	}
	m := racked(node("n1", "r1", 8), stopped(v1alpha1.StopHold), pod("a", 1, "queue", "q"))
	expect(t, m, map[string]string{"a": "blocked queue-stopped"})
	m.Set(stopped("Sideways")) // the API server refuses it; rather nothing starts
	expect(t, m, map[string]string{"a": "blocked queue-stopped"})
	m.Set(stopped(v1alpha1.StopNone))
	expect(t, m, map[string]string{"a": "placed a@n1"})
}
