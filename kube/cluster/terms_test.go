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
