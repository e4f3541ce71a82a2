package diagnose_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/diagnose"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/kube/cluster"
)

// A fix makes room for whoever comes first: where others that wait go before the target and would take it, the fix says so.
func TestFixesNameWhoGoesFirst(t *testing.T) {
	now := time.Date(2026, 11, 16, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)) }
	cpu := func(n string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(n), corev1.ResourcePods: resource.MustParse("9")}
	}
	pod := func(name string, age time.Duration, priority int32, asks string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name, UID: types.UID(name), CreationTimestamp: ago(age)},
			Spec:   corev1.PodSpec{SchedulerName: corev1.DefaultSchedulerName, Priority: &priority, Containers: []corev1.Container{{Name: "main", Image: "a:1", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(asks)}}}}},
			Status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: "0/1 nodes are available: 1 node(s) were unschedulable.", LastTransitionTime: ago(age)}}}}
	}
	for _, c := range []struct {
		name  string
		rival *corev1.Pod
		said  bool
	}{
		{"nobody else", nil, false},
		{"older", pod("other", 40*time.Minute, 0, "4"), true},
		{"of a higher priority", pod("other", time.Minute, 5, "4"), true},
		{"younger", pod("other", time.Minute, 0, "4"), false},
		{"of a lower priority", pod("other", 40*time.Minute, -1, "4"), false},
		{"room for both", pod("other", 40*time.Minute, 0, "1"), false},
		{"no place for it in any case", pod("other", 40*time.Minute, 0, "40"), false},
	} {
		f := &facts.Facts{At: now, Kubernetes: "v1.37.1"}
		f.Nodes = []*corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "n", CreationTimestamp: ago(time.Hour)}, Spec: corev1.NodeSpec{Unschedulable: true, Taints: []corev1.Taint{{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}}}, Status: corev1.NodeStatus{Allocatable: cpu("5"), Capacity: cpu("5"), Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}}}
		f.Pods = []*corev1.Pod{pod("train", 20*time.Minute, 0, "4")}
		if c.rival != nil {
			f.Pods = append(f.Pods, c.rival)
		}
		got, err := diagnose.New(f, cluster.NewModel(cluster.ModelOptions{})).Why(facts.Ref{Kind: "Pod", Namespace: "team", Name: "train"})
		if err != nil {
			t.Fatal(err)
		}
		if len(got.Fixes) == 0 {
			t.Fatalf("%s: no fix: %s %s", c.name, got.Cause, got.Summary)
		}
		if said := strings.Contains(got.Fixes[0].Assumes, "pod team/other, which waits too and goes first"); said != c.said {
			t.Errorf("%s: %q assumes %q", c.name, got.Fixes[0].Edit, got.Fixes[0].Assumes)
		}
	}
}
