package diagnose

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/diagnose/facts"
)

// What has no effect is in the diagnosis of the work that asks for it, of its PodGroup too, and in no other.
func TestUnheeded(t *testing.T) {
	pod := func(name string, says map[string]string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name, UID: types.UID(name), Annotations: says}}
	}
	event := func(kind, name, reason, message string) *corev1.Event {
		return &corev1.Event{InvolvedObject: corev1.ObjectReference{Kind: kind, Namespace: "team", Name: name, UID: types.UID(name)}, Reason: reason, Message: message}
	}
	f := &facts.Facts{Objects: facts.Objects{
		Pods: []*corev1.Pod{pod("a", map[string]string{"pod-group-name": "g"}), pod("b", nil)},
		Events: []*corev1.Event{
			event("Pod", "a", notHonoured, "Not honoured yet: kai.scheduler/x (without effect); kai.scheduler/y (without effect)"),
			event("Pod", "a", "Scheduled", "Successfully assigned: here"), event("PodGroup", "g", notHonoured, "Not honoured yet: spec.odd"),
		},
	}}
	for name, want := range map[string][]string{"a": {"kai.scheduler/x (without effect)", "kai.scheduler/y (without effect)", "spec.odd"}, "b": nil} {
		top, err := f.Find(facts.Ref{Kind: "Pod", Namespace: "team", Name: name})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, unheeded(f, top)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
