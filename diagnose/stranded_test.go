package diagnose_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/diagnose"
	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/kube/cluster"
)

// A pod on a node that is not Ready is never healthy, whatever state it is in and however new that is, and is listed; but for
// what runs on every node, and for pods of a node that is booting.
func TestPodsOnNodesThatAreNotReady(t *testing.T) {
	now := time.Date(2026, 11, 16, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)) }
	for _, c := range []struct {
		name    string
		status  corev1.ConditionStatus
		since   time.Duration
		age     time.Duration // of the node
		phase   corev1.PodPhase
		gone    bool // the node
		healthy bool
	}{
		{name: "ready", status: corev1.ConditionTrue, since: time.Hour, age: time.Hour, phase: corev1.PodRunning, healthy: true},
		{name: "just silent", status: corev1.ConditionUnknown, since: time.Second, age: time.Hour, phase: corev1.PodRunning},
		{name: "not ready", status: corev1.ConditionFalse, since: 10 * time.Second, age: time.Hour, phase: corev1.PodRunning},
		{name: "long silent", status: corev1.ConditionUnknown, since: time.Hour, age: 2 * time.Hour, phase: corev1.PodRunning},
		{name: "starting there", status: corev1.ConditionUnknown, since: time.Minute, age: time.Hour, phase: corev1.PodPending},
		{name: "booting", status: corev1.ConditionFalse, since: 20 * time.Second, age: 20 * time.Second, phase: corev1.PodPending, healthy: true},
		{name: "node gone", phase: corev1.PodRunning, gone: true},
		{name: "over", status: corev1.ConditionUnknown, since: time.Hour, age: time.Hour, phase: corev1.PodSucceeded, healthy: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "train", UID: "p", CreationTimestamp: ago(19 * time.Second)}, Spec: corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Name: "main", Image: "a:1"}}}}
			start := ago(15 * time.Second)
			p.Status = corev1.PodStatus{Phase: c.phase, StartTime: &start}
			if c.phase == corev1.PodRunning {
				p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: start}}}}
			}
			f := &facts.Facts{At: now, Kubernetes: "v1.37.1", Objects: facts.Objects{Pods: []*corev1.Pod{p}}}
			if !c.gone {
				f.Nodes = []*corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "n", CreationTimestamp: ago(c.age)}, Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: c.status, Reason: "Said", LastTransitionTime: ago(c.since)}}}}}
			}
			d := diagnose.New(f, cluster.NewModel(cluster.ModelOptions{}))
			got, err := d.Why(facts.Ref{Kind: "Pod", Namespace: "team", Name: "train"})
			if err != nil {
				t.Fatal(err)
			}
			if healthy := got.Layer == check.None; healthy != c.healthy || !c.healthy && (got.Layer != check.L2 || got.Owner != check.Platform || len(d.Waiting("team")) != 1) {
				t.Errorf("%s %s %s: %s; listed %v", got.Layer, got.Cause, got.Owner, got.Summary, d.Waiting("team"))
			}
		})
	}
}
