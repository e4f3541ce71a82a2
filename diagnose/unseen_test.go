package diagnose

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/engine/why"
)

// Where nodes cannot be seen, what the scheduler wrote on the pod is all there is.
func TestWordsOfTheSchedulerWithoutNodes(t *testing.T) {
	now := time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		scheduler, reason, message string
		data                       why.Cause // beside the sentence
		want                       why.Cause
	}{
		{"berth", "Unschedulable", "needs 3 pods of 8 nvidia.com/gpu; 2 fit; nvidia.com/gpu short by 8 on 1 node", why.ClusterFull, why.ClusterFull},
		{"berth", "Unschedulable", "needs 1 pod of 8 nvidia.com/gpu; 0 fit; taint team=a:NoSchedule excludes 3 nodes", why.NoMatchingNode, why.NoMatchingNode},
		{"berth", "Unschedulable", "one pod needs 16 nvidia.com/gpu; the largest node has 8", why.LargerThanAnyNode, why.LargerThanAnyNode},
		{"berth", "Unschedulable", "needs 4 pods of 8 nvidia.com/gpu, all in one rack; the best, r1, fits 2 (6 in all); nvidia.com/gpu short by 8 on 1 node", why.TopologyFragmented, why.TopologyFragmented},
		{"berth", "ExceedsQueueMaximum", "needs 24 nvidia.com/gpu of queue research, whose limit is 16", "", why.ExceedsQueueMaximum},
		{"berth", "Unschedulable", "one pod needs 16 nvidia.com/gpu; the largest node has 8", "", Unknown},
		{"default-scheduler", "Unschedulable", "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector. preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling.", "", why.NoMatchingNode},
		{"mine", "Unschedulable", "the moon is not full", "", Unknown},
	} {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "p", UID: "p", CreationTimestamp: metav1.NewTime(now.Add(-20 * time.Second))},
			Spec:       corev1.PodSpec{SchedulerName: c.scheduler, Containers: []corev1.Container{{Name: "main", Image: "i"}}},
			Status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
				Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: c.reason, Message: c.message,
			}}},
		}
		if c.data != "" {
			pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
				Type: "berth.dev/PendingCause", Status: corev1.ConditionTrue, Message: `{"cause":"` + string(c.data) + `"}`,
			})
		}
		f := &facts.Facts{At: now, Kubernetes: "v1.37.1", Objects: facts.Objects{Pods: []*corev1.Pod{pod}}, Unseen: []facts.Unseen{
			{Resource: "nodes", Reason: "forbidden"}, {Resource: "pods", Except: "a", Reason: "forbidden"}, {Resource: "berthqueues.berth.dev", Reason: "forbidden"},
			{Resource: "leases.coordination.k8s.io", Reason: "forbidden"}, {Resource: "deployments.apps", Reason: "forbidden"},
		}}
		d, err := New(f, nil).Why(facts.Ref{Kind: "Pod", Namespace: "a", Name: "p"})
		if err != nil {
			t.Fatal(err)
		}
		if d.Cause != c.want || len(d.Fixes) > 0 || c.want == Unknown && !strings.Contains(d.Summary, c.message) {
			t.Errorf("%q: got %s (%s) with %d fixes, want %s", c.message, d.Cause, d.Summary, len(d.Fixes), c.want)
		}
	}
}
