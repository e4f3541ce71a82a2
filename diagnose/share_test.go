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
	"github.com/berth-dev/berth/engine/why"
	"github.com/berth-dev/berth/kube/cluster"
)

// A pod for which nobody is evicted because of its queue's fair share is told so. Only the scheduler knows the share: alone in line the pod
// would have another.
func TestAShareThatSparesOthersIsTold(t *testing.T) {
	now := time.Date(2026, 11, 18, 8, 0, 0, 0, time.UTC)
	long := metav1.NewTime(now.Add(-time.Hour))
	gpus := func(n string) corev1.ResourceList {
		return corev1.ResourceList{"nvidia.com/gpu": resource.MustParse(n), corev1.ResourcePods: resource.MustParse("99"), corev1.ResourceCPU: resource.MustParse("64")}
	}
	pod := func(name, node, asks string) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name, UID: types.UID("p-" + name), CreationTimestamp: long}}
		p.Spec = corev1.PodSpec{SchedulerName: "berth", NodeName: node, Containers: []corev1.Container{{Name: "main", Image: "a:1", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse(asks)}}}}}
		p.Status.Phase = corev1.PodPending
		if node != "" {
			p.Status.Phase = corev1.PodRunning
		}
		return p
	}
	share := why.Share{Queue: "speech", Resource: "nvidia.com/gpu", Fair: 2, With: 3}
	for _, told := range []why.Share{share, {}} {
		f := &facts.Facts{At: now, Kubernetes: "v1.37.1"}
		f.Pods = []*corev1.Pod{pod("low", "n", "4"), pod("high", "", "3")}
		f.Nodes = []*corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "n", CreationTimestamp: long}, Status: corev1.NodeStatus{Allocatable: gpus("4"), Capacity: gpus("4"), Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}}}
		gate := why.Gate{Cause: why.ClusterFull, Need: 1, Certificate: -1, Share: told}
		f.Served = &facts.Served{Scheduler: "berth", Names: []string{"berth"}, Workloads: map[string]facts.ServedWorkload{
			"team/pod.high": {Explanation: why.Explanation{Verdict: why.Impossible, Cause: why.ClusterFull, Gates: []why.Gate{gate}}},
		}}
		got, err := diagnose.New(f, cluster.NewModel(cluster.ModelOptions{})).Why(facts.Ref{Kind: "Pod", Namespace: "team", Name: "high"})
		if err != nil {
			t.Fatal(err)
		}
		if said := strings.Contains(got.Summary, "queue speech would have 3 nvidia.com/gpu with it, and its fair share is 2"); got.Cause != why.ClusterFull || said != (told == share) {
			t.Errorf("of share %+v: %s: %s", told, got.Cause, got.Summary)
		}
	}
}
