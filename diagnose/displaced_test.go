package diagnose_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/diagnose"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/kube/cluster"
)

// Work that was preempted again and again is not well because there is room for it now.
func TestRepeatedPreemptionIsRead(t *testing.T) {
	now := time.Date(2026, 11, 16, 12, 0, 0, 0, time.UTC)
	for _, times := range []int{0, 1, 3} {
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "train", UID: "j", CreationTimestamp: metav1.NewTime(now.Add(-time.Hour))}, Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{SchedulerName: corev1.DefaultSchedulerName, Containers: []corev1.Container{{Name: "main", Image: "a:1"}}}}}}
		pod := (&facts.Facts{}).PodFrom(job, 7)
		pod.UID, pod.CreationTimestamp = "p", metav1.NewTime(now.Add(-2*time.Minute))
		f := &facts.Facts{At: now, Kubernetes: "v1.37.1"}
		room := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourcePods: resource.MustParse("9")}
		f.Nodes = []*corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "n", CreationTimestamp: job.CreationTimestamp}, Status: corev1.NodeStatus{Allocatable: room, Capacity: room, Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}}}
		f.Jobs, f.Pods = []*batchv1.Job{job}, []*corev1.Pod{pod}
		for i := range times {
			f.Events = append(f.Events, &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: fmt.Sprint(i)}, Type: corev1.EventTypeNormal, Reason: "Preempted", Message: "Preempted by pod 1234 on node n", InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "team", Name: fmt.Sprintf("train-%d", i)}, LastTimestamp: metav1.NewTime(now.Add(-time.Duration(10-i) * time.Minute))})
		}
		got, err := diagnose.New(f, cluster.NewModel(cluster.ModelOptions{})).Why(facts.Ref{Kind: "Job", Namespace: "team", Name: "train"})
		if err != nil {
			t.Fatal(err)
		}
		if said := strings.Contains(fmt.Sprint(got.Blockers), "preempted 3 times within the hour, last train-2"); said != (times == 3) {
			t.Errorf("preempted %d times: %s %s: %v", times, got.Cause, got.Summary, got.Blockers)
		}
	}
}
