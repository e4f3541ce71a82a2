package ksm

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

func page() string {
	then := metav1.NewTime(time.Unix(1700000000, 0))
	gpu := func(n int64) corev1.ResourceList {
		return corev1.ResourceList{"nvidia.com/gpu": *resource.NewQuantity(n, resource.DecimalSI), corev1.ResourceCPU: resource.MustParse("500m"), "unknown": resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("1Gi")}
	}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n0", CreationTimestamp: then, Labels: map[string]string{"node-role.kubernetes.io/worker": ""}},
		Spec:       corev1.NodeSpec{Unschedulable: true, Taints: []corev1.Taint{{Key: "k", Value: `quo"te`, Effect: corev1.TaintEffectNoSchedule}}},
		Status:     corev1.NodeStatus{Allocatable: gpu(7), Capacity: gpu(8), Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}},
	}
	waits := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "b", Name: "waits", UID: "u1"},
		Spec:       corev1.PodSpec{SchedulerName: "berth", Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: gpu(4), Limits: gpu(4)}}}},
		Status:     corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable"}}},
	}
	refused := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "refused", UID: "u2", CreationTimestamp: then, OwnerReferences: []metav1.OwnerReference{{Kind: "Job", Name: "j"}}},
		Spec:       corev1.PodSpec{NodeName: "n0", Containers: []corev1.Container{{Name: "c", Image: "busybox"}}},
		Status: corev1.PodStatus{Phase: corev1.PodFailed, Reason: "UnexpectedAdmissionError", ContainerStatuses: []corev1.ContainerStatus{{
			Name: "c", RestartCount: 3, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
			LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "OOMKilled"}},
		}}},
	}
	return string(Append(nil, []*corev1.Node{node}, []*corev1.Pod{waits, refused}))
}

func TestWhatRulesAskFor(t *testing.T) {
	var got []string
	for _, want := range []string{
		`kube_node_status_allocatable{node="n0",resource="nvidia_com_gpu",unit="integer"} 7`,
		`kube_node_status_capacity{node="n0",resource="cpu",unit="core"} 0.5`,
		`kube_node_status_condition{node="n0",condition="Ready",status="unknown"} 1`,
		`kube_node_status_condition{node="n0",condition="Ready",status="true"} 0`,
		`kube_node_spec_unschedulable{node="n0"} 1`,
		`kube_node_spec_taint{node="n0",key="k",value="quo\"te",effect="NoSchedule"} 1`,
		`kube_node_role{node="n0",role="worker"} 1`,
		`kube_pod_status_phase{namespace="b",pod="waits",uid="u1",phase="Pending"} 1`,
		`kube_pod_status_unschedulable{namespace="b",pod="waits",uid="u1"} 1`,
		`kube_pod_container_resource_requests{namespace="b",pod="waits",uid="u1",container="c",node="",resource="nvidia_com_gpu",unit="integer"} 4`,
		`kube_pod_container_resource_requests{namespace="b",pod="waits",uid="u1",container="c",node="",resource="memory",unit="byte"} 1073741824`,
		`kube_pod_scheduler{namespace="b",pod="waits",uid="u1",name="berth"} 1`,
		`kube_pod_status_reason{namespace="a",pod="refused",uid="u2",reason="UnexpectedAdmissionError"} 1`,
		`kube_pod_owner{namespace="a",pod="refused",uid="u2",owner_kind="Job",owner_name="j",owner_is_controller="false"} 1`,
		`kube_pod_container_status_waiting_reason{namespace="a",pod="refused",uid="u2",container="c",reason="CrashLoopBackOff"} 1`,
		`kube_pod_container_status_last_terminated_reason{namespace="a",pod="refused",uid="u2",container="c",reason="OOMKilled"} 1`,
		`# TYPE kube_pod_container_status_restarts_total counter`,
		`kube_pod_container_status_restarts_total{namespace="a",pod="refused",uid="u2",container="c"} 3`,
		`kube_pod_created{namespace="a",pod="refused",uid="u2"} 1700000000`,
	} {
		if !strings.Contains("\n"+page(), "\n"+want+"\n") {
			got = append(got, want)
		}
	}
	if diff := cmp.Diff([]string(nil), got); diff != "" {
		t.Errorf("missing: %s\n%s", diff, page())
	}
	for _, not := range []string{`resource="unknown"`, `kube_pod_status_unschedulable{namespace="a"`} {
		if strings.Contains(page(), not) {
			t.Errorf("%s is told", not)
		}
	}
}

// A name and its labels are told once, whatever objects say: Prometheus refuses a page with duplicates.
func TestNoSampleTwice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringMatching(`[a-z"\\\n/]{0,3}`)
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "p"}}
		p.Status.Reason = rapid.SampledFrom([]string{"", "Evicted", "Shutdown", "x"}).Draw(t, "reason")
		for range rapid.IntRange(0, 3).Draw(t, "conditions") {
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodConditionType(word.Draw(t, "type")), Reason: rapid.SampledFrom([]string{"Evicted", "x"}).Draw(t, "of")})
		}
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: corev1.NodeStatus{Capacity: corev1.ResourceList{}}}
		for range rapid.IntRange(0, 3).Draw(t, "resources") {
			n.Status.Capacity[corev1.ResourceName(word.Draw(t, "resource"))] = resource.MustParse("1")
		}
		seen := map[string]bool{}
		for _, line := range strings.Split(strings.TrimSpace(string(Append(nil, []*corev1.Node{n}, []*corev1.Pod{p}))), "\n") {
			series := line[:max(0, strings.LastIndexByte(line, ' '))]
			if !strings.HasPrefix(line, "#") && seen[series] {
				t.Fatalf("twice: %s", line)
			}
			seen[series] = true
		}
	})
}

func TestPromtoolAcceptsIt(t *testing.T) {
	tool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed")
	}
	cmd := exec.Command(tool, "check", "metrics")
	cmd.Stdin = strings.NewReader(page())
	out, err := cmd.CombinedOutput()
	var errors []string
	for _, line := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		if line != "" && !strings.Contains(line, "metric names should not contain abbreviated units") && !strings.Contains(line, "_info") && !strings.Contains(line, "non-counter") {
			errors = append(errors, line)
		}
	}
	if err != nil && len(errors) > 0 {
		t.Errorf("promtool: %v\n%s", err, strings.Join(errors, "\n"))
	}
}
