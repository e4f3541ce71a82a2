package diagnose_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/diagnose/facts"
)

// A scheduler serves the names of the pods that it speaks of, whatever it is called itself.
func TestServedBy(t *testing.T) {
	pod := func(name, scheduler string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name}, Spec: corev1.PodSpec{SchedulerName: scheduler}}
	}
	event := func(pod, by string) *corev1.Event {
		return &corev1.Event{InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "team", Name: pod}, ReportingController: by}
	}
	f := &facts.Facts{Objects: facts.Objects{
		Pods:   []*corev1.Pod{pod("a", "default-scheduler"), pod("b", "volcano")},
		Events: []*corev1.Event{event("a", "berth"), event("a", "kubelet"), event("b", "volcano"), event("gone", "berth")},
	}}
	if diff := cmp.Diff([]string{"berth", "default-scheduler"}, f.ServedBy("berth")); diff != "" {
		t.Error(diff)
	}
}
