package diagnose_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/diagnose"
	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/kube/cluster"
)

// A scheduler that refuses a pod by a rule that nobody else knows is the answer, whether or not there is room.
func TestASchedulersOwnRuleIsTheAnswer(t *testing.T) {
	now := time.Date(2026, 11, 16, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		scheduler, message string
		asks               string
		own                string // what is quoted; "": it is no rule of its own
	}{
		{"default-scheduler", "0/1 nodes are available: 1 node(s) exceeded the license seats of floor 3.", "1", "license seats of floor 3"},
		{"default-scheduler", "0/1 nodes are available: 1 node(s) exceeded the license seats of floor 3.", "40", "license seats of floor 3"},
		{"default-scheduler", "0/1 nodes are available: 1 Insufficient cpu, 1 thermal headroom is too small. preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.", "40", "thermal headroom"},
		{"yunikorn", "queue root.team is over its limit", "40", "queue root.team"},
		{"default-scheduler", "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.", "40", ""},
	} {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "train", UID: "p", CreationTimestamp: metav1.NewTime(now.Add(-time.Hour))},
			Spec:   corev1.PodSpec{SchedulerName: c.scheduler, Containers: []corev1.Container{{Name: "main", Image: "a:1", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(c.asks)}}}}},
			Status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: c.message, LastTransitionTime: metav1.NewTime(now.Add(-time.Hour))}}}}
		room := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourcePods: resource.MustParse("9")}
		f := &facts.Facts{At: now, Kubernetes: "v1.37.1"}
		f.Pods = []*corev1.Pod{p}
		f.Nodes = []*corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "n", CreationTimestamp: metav1.NewTime(now.Add(-time.Hour))}, Status: corev1.NodeStatus{Allocatable: room, Capacity: room, Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}}}
		got, err := diagnose.New(f, cluster.NewModel(cluster.ModelOptions{})).Why(facts.Ref{Kind: "Pod", Namespace: "team", Name: "train"})
		if err != nil {
			t.Fatal(err)
		}
		said := got.Cause == "controller-reports" && got.Layer == check.L3 && got.Owner == check.Scheduler
		if own := c.own != ""; said != own || !strings.Contains(got.Summary, c.own) || own && len(got.Fixes) > 0 {
			t.Errorf("%s says %q of %s cpu: %s %s %s: %s; fixes %v", c.scheduler, c.message, c.asks, got.Layer, got.Cause, got.Owner, got.Summary, got.Fixes)
		}
	}
}
