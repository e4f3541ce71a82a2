package diagnose_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/diagnose"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/kube/cluster"
)

// A rollout that is stuck while pods of the last revision run is undone, whatever the change was: the answer shows the field,
// and going back is among the fixes.
func TestGoingBackIsAmongTheFixes(t *testing.T) {
	now := time.Date(2026, 11, 16, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)) }
	crashed := func(s *corev1.PodStatus) {
		s.Phase = corev1.PodRunning
		s.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", RestartCount: 5, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}, LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 2, Reason: "Error", StartedAt: ago(time.Minute), FinishedAt: ago(time.Minute)}}}}
	}
	waits := func(s *corev1.PodStatus) {
		s.Phase = corev1.PodPending
		s.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector.", LastTransitionTime: ago(10 * time.Minute)}}
	}
	for _, c := range []struct {
		name   string
		change func(*corev1.PodSpec)
		status func(*corev1.PodStatus)
		ready  int // pods of the last revision
		field  string
		undone bool
	}{
		{"command of a program that fails", func(s *corev1.PodSpec) { s.Containers[0].Command = []string{"sh", "-c"} }, crashed, 1, "spec.template.spec.containers[0].command", true},
		{"last revision not seen to run", func(s *corev1.PodSpec) { s.Containers[0].Command = []string{"sh", "-c"} }, crashed, 0, "spec.template.spec.containers[0].command", true},
		{"change that does not touch the program", func(s *corev1.PodSpec) { s.TerminationGracePeriodSeconds = new(int64(7)) }, crashed, 0, "", false},
		{"selector that no node meets", func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{"disk": "quick"} }, waits, 0, "", true},
		{"two changes", func(s *corev1.PodSpec) {
			s.NodeSelector, s.TerminationGracePeriodSeconds = map[string]string{"disk": "quick"}, new(int64(7))
		}, waits, 1, "spec.template.spec.nodeSelector", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			spec := corev1.PodSpec{SchedulerName: corev1.DefaultSchedulerName, Containers: []corev1.Container{{Name: "main", Image: "a:1", Command: []string{"serve"}, Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}}}}}
			broken := *spec.DeepCopy()
			c.change(&broken)
			d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "serve", UID: "d", CreationTimestamp: ago(time.Hour)}, Spec: appsv1.DeploymentSpec{Replicas: new(int32(1)), Template: corev1.PodTemplateSpec{Spec: broken}}}
			f := &facts.Facts{At: now, Kubernetes: "v1.37.1"}
			f.Deployments = []*appsv1.Deployment{d}
			f.Nodes = []*corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "n", CreationTimestamp: ago(time.Hour), Labels: map[string]string{corev1.LabelHostname: "n"}}, Status: corev1.NodeStatus{
				Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourcePods: resource.MustParse("9")}, Capacity: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourcePods: resource.MustParse("9")},
				Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}}}
			for i, s := range []corev1.PodSpec{spec, broken} {
				r := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: fmt.Sprintf("serve-%d", i), UID: types.UID(fmt.Sprintf("r%d", i)), Annotations: map[string]string{"deployment.kubernetes.io/revision": fmt.Sprint(i + 6)}, CreationTimestamp: ago(time.Duration(50-10*i) * time.Minute), OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(d, appsv1.SchemeGroupVersion.WithKind("Deployment"))}}, Spec: appsv1.ReplicaSetSpec{Replicas: new(int32(i)), Template: corev1.PodTemplateSpec{Spec: s}}}
				f.ReplicaSets = append(f.ReplicaSets, r)
				p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: fmt.Sprintf("serve-%d-x", i), UID: types.UID(fmt.Sprintf("p%d", i)), CreationTimestamp: r.CreationTimestamp, OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(r, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))}}, Spec: *s.DeepCopy()}
				if i == 0 && c.ready == 0 {
					continue
				}
				if i == 0 || f.Nodes[0].Labels["disk"] != "" || broken.NodeSelector == nil {
					p.Spec.NodeName = "n"
				}
				p.Status = corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
				if i == 1 {
					p.Status = corev1.PodStatus{}
					c.status(&p.Status)
				}
				f.Pods = append(f.Pods, p)
			}
			got, err := diagnose.New(f, cluster.NewModel(cluster.ModelOptions{})).Why(facts.Ref{Kind: "Deployment", Namespace: "team", Name: "serve"})
			if err != nil {
				t.Fatal(err)
			}
			undone := false
			for _, fix := range got.Fixes {
				undone = undone || fix.Verified && fix.Command == "kubectl rollout undo deployment/serve -n team --to-revision=6"
			}
			shown := fmt.Sprint(got.Blockers)
			if undone != c.undone || c.field != "" && !strings.Contains(shown, c.field) {
				t.Errorf("undone %v, want %v; field %q\n%s: %s\n%s\nfixes %+v", undone, c.undone, c.field, got.Cause, got.Summary, shown, got.Fixes)
			}
		})
	}
}
