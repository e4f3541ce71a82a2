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

// A kube-scheduler that runs as static pods with a configuration file may have profiles of any name, however many hosts it runs on.
func TestAStaticSchedulerMayHaveProfiles(t *testing.T) {
	for _, c := range []struct {
		flag string
		want facts.SchedulerState
	}{{"--config=/etc/kubernetes/sched.yaml", facts.SchedulerUnclear}, {"--leader-elect=true", facts.SchedulerAbsent}} {
		f := &facts.Facts{}
		for _, host := range []string{"cp-0", "cp-1"} {
			f.Pods = append(f.Pods, &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-scheduler-" + host, OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: host}}},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "kube-scheduler", Image: "registry.k8s.io/kube-scheduler:v1.35.0", Command: []string{"kube-scheduler", c.flag}}}},
				Status:     corev1.PodStatus{Phase: corev1.PodRunning},
			})
		}
		if got, _, _ := f.Scheduler("bin-packing"); got != c.want {
			t.Errorf("with %s scheduler bin-packing is %s, want %s", c.flag, got, c.want)
		}
	}
}
