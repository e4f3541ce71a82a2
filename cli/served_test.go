package cli

import (
	"encoding/json"
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-dev/berth/diagnose"
	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/engine/why"
	"github.com/berth-dev/berth/kube/answer"
)

// berthCluster is smallCluster with its pods scheduled by Berth, and room for the one that waits.
func berthCluster() map[string]any {
	cluster := smallCluster()
	pods := cluster["/api/v1/pods?limit=500"].(corev1.PodList)
	for i := range pods.Items {
		pods.Items[i].Spec.SchedulerName = "berth"
	}
	nodes := cluster["/api/v1/nodes?limit=500"].(corev1.NodeList)
	for _, list := range []corev1.ResourceList{nodes.Items[0].Status.Capacity, nodes.Items[0].Status.Allocatable} {
		q := list["nvidia.com/gpu"]
		q.Set(8)
		list["nvidia.com/gpu"] = q
	}
	return cluster
}

// strictAnswers are those of a scheduler with a policy and levels of its own, behind whose head the pod waits.
func strictAnswers() map[string]any {
	second := answer.Workload{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "pod.llm-second"}, State: answer.Waiting,
		Pods: answer.Pods{Size: 1, Min: 1, Waiting: 1, Names: []string{"llm-second"}}, Position: &answer.Position{Place: 2, Of: 2},
		Verdict: why.Blocked, Cause: why.BehindTheHead, Sentence: "waits behind a/gang/large",
		Gates: []why.Gate{{Cause: why.BehindTheHead, Object: "a/gang/large", Certificate: -1}},
		ETA:   &answer.ETA{Cause: why.BehindTheHead, Because: "waits behind a/gang/large, whose start is unknown"},
	}
	config := answer.Configuration{ObjectMeta: metav1.ObjectMeta{Name: "berth"}, SchedulerNames: []string{"berth"}, Engine: engine.Config{Policy: engine.Strict, Levels: []engine.Level{{Name: "hall", Label: "example.com/hall"}}}}
	short := second
	short.Gates, short.Pods.Names = nil, nil
	return map[string]any{
		answers + "/queues":                                answer.QueueList{},
		answers + "/configurations":                        answer.ConfigurationList{Items: []answer.Configuration{config}},
		answers + "/workloads":                             answer.WorkloadList{Items: []answer.Workload{short}},
		answers + "/namespaces/a/workloads/pod.llm-second": second,
		answers + "/namespaces/a/configurations":           answer.ConfigurationList{Items: []answer.Configuration{config}},
	}
}

func whyJSON(t *testing.T, args ...string) diagnose.Diagnosis {
	t.Helper()
	code, stdout, stderr := run(t, append([]string{"why", "pod/llm-second", "-n", "a", "-o", "json"}, args...)...)
	var d diagnose.Diagnosis
	if err := json.Unmarshal([]byte(stdout), &d); err != nil {
		t.Fatalf("code %d: %v\n%s%s", code, err, stdout, stderr)
	}
	return d
}

// The answer about a pod of Berth's starts from what the live scheduler says, also from a bundle. Where that cannot be asked,
// it is said that a model with default configuration answers: to which nothing stands in the way.
func TestWhyStartsFromTheScheduler(t *testing.T) {
	t.Setenv("BERTH_HOME", t.TempDir())
	cluster := berthCluster()
	maps.Copy(cluster, strictAnswers())
	kubeconfig := apiServer(t, cluster)
	bundle := bundleOf(t, kubeconfig)
	for _, from := range [][]string{{"--kubeconfig", kubeconfig}, {"--from", bundle}} {
		d := whyJSON(t, from...)
		if d.Cause != why.BehindTheHead || d.Layer != check.L3 || d.Scheduler == nil || !d.Scheduler.Answers || d.Scheduler.Cause != why.BehindTheHead {
			t.Errorf("%v: %+v, scheduler %+v", from, d, d.Scheduler)
		}
		if d.ETA == nil || !d.ETA.Likely.IsZero() || !strings.Contains(d.ETA.Because, "no start is expected") {
			t.Errorf("%v: eta %+v", from, d.ETA)
		}
	}
	golden(t, "why-served.json", indented(t, whyJSON(t, "--kubeconfig", kubeconfig).Scheduler))

	silent := apiServer(t, berthCluster())
	d := whyJSON(t, "--kubeconfig", silent)
	if d.Scheduler == nil || d.Scheduler.Answers || d.Scheduler.Why == "" || d.Cause != diagnose.Healthy && d.Cause != diagnose.Unknown && d.Cause != "no-such-scheduler" {
		t.Errorf("silent: %+v, scheduler %+v", d, d.Scheduler)
	}
	if _, stdout, _ := run(t, "why", "pod/llm-second", "-n", "a", "--kubeconfig", silent); !strings.Contains(strings.Join(strings.Fields(stdout), " "), "a model of it with the default configuration") {
		t.Errorf("nobody says what was asked instead:\n%s", stdout)
	}
}

// What could not be asked is worded the same from the cluster and from a bundle of it, whether nobody answers or the caller may
// not ask.
func TestWhyOfASilentSchedulerIsTheSameLater(t *testing.T) {
	t.Setenv("BERTH_HOME", t.TempDir())
	forbidden := func(what string) any {
		return apierrors.NewForbidden(schema.GroupResource{Group: answer.Group, Resource: what}, "", errors.New("User \"a\" cannot list"))
	}
	for name, more := range map[string]map[string]any{
		"silent":    nil,
		"forbidden": {answers + "/configurations": forbidden("configurations"), answers + "/namespaces/a/configurations": forbidden("configurations"), answers + "/queues": forbidden("queues"), answers + "/namespaces/default/queues": forbidden("queues"), answers + "/namespaces/default/configurations": forbidden("configurations")},
	} {
		cluster := berthCluster()
		maps.Copy(cluster, more)
		kubeconfig := apiServer(t, cluster)
		now, later := whyJSON(t, "--kubeconfig", kubeconfig), whyJSON(t, "--from", bundleOf(t, kubeconfig))
		if diff := cmp.Diff(now.Scheduler, later.Scheduler); diff != "" || now.Scheduler == nil || now.Scheduler.Answers {
			t.Errorf("%s (-now +later):\n%s", name, diff)
		}
	}
}

func indented(t *testing.T, value any) string {
	t.Helper()
	b, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(b) + "\n"
}

// A bundle whose names are replaced still has the scheduler's word about the pod.
func TestWhyFromARedactedBundle(t *testing.T) {
	t.Setenv("BERTH_HOME", t.TempDir())
	cluster := berthCluster()
	maps.Copy(cluster, strictAnswers())
	bundle := bundleOf(t, apiServer(t, cluster), "--redact")
	_, stdout, stderr := run(t, "why", "-A", "-o", "json", "--from", bundle)
	var list diagnose.DiagnosisList
	if err := json.Unmarshal([]byte(stdout), &list); err != nil || len(list.Items) != 1 {
		t.Fatalf("%v\n%s%s", err, stdout, stderr)
	}
	if d := list.Items[0]; d.Cause != why.BehindTheHead || d.Scheduler == nil || d.Scheduler.Cause != why.BehindTheHead || strings.Contains(stdout, "llm-second") {
		t.Errorf("%s", stdout)
	}
}
