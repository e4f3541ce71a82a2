package cluster

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func TestTurnedAway(t *testing.T) {
	got := map[string]bool{}
	for _, reason := range []string{"UnexpectedAdmissionError", "OutOfcpu", "OutOfnvidia.com/gpu", "NodeAffinity", "NodePorts", "TaintToleration", "Error", "Evicted", "DeadlineExceeded", "NodeLost"} {
		got[reason] = turnedAway(&corev1.PodStatus{Phase: corev1.PodFailed, Reason: reason, Message: "words"})
	}
	want := map[string]bool{
		"UnexpectedAdmissionError": true, "OutOfcpu": true, "OutOfnvidia.com/gpu": true, "NodeAffinity": true, "NodePorts": true, "TaintToleration": true,
		"Error": false, "Evicted": false, "DeadlineExceeded": false, "NodeLost": false,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if !turnedAway(&corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: "Pod was rejected: The node had condition: [DiskPressure]."}) {
		t.Error("a kubelet under pressure rejects pods too")
	}
	if turnedAway(&corev1.PodStatus{Phase: corev1.PodRunning, Reason: "NodePorts"}) {
		t.Error("a running pod was not rejected")
	}
}
