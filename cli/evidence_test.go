package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/version"

	"github.com/berth-dev/berth/engine/why"
	"github.com/berth-dev/berth/kube/answer"
)

// smallCluster is one GPU node, full, and a pod that waits for it.
func smallCluster() map[string]any {
	gpus := func(n string) corev1.ResourceList {
		return corev1.ResourceList{"nvidia.com/gpu": resource.MustParse(n), "cpu": resource.MustParse("8"), "pods": resource.MustParse("10")}
	}
	pod := func(name, node string) corev1.Pod {
		p := corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, UID: types.UID("uid-" + name), CreationTimestamp: metav1.NewTime(time.Now().Add(-time.Hour))},
			Spec: corev1.PodSpec{NodeName: node, SchedulerName: "default-scheduler", Containers: []corev1.Container{{
				Name: "main", Image: "busybox:1", Env: []corev1.EnvVar{{Name: "PASSWORD", Value: "hunter2"}},
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}, Limits: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}},
			}}},
			Status: corev1.PodStatus{Phase: corev1.PodPending},
		}
		if node != "" {
			p.Status.Phase = corev1.PodRunning
		}
		return p
	}
	return map[string]any{
		"/version": version.Info{GitVersion: "v1.37.1"},
		"/api/v1/nodes?limit=500": corev1.NodeList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "NodeList"}, Items: []corev1.Node{{
			ObjectMeta: metav1.ObjectMeta{Name: "gpu-1", UID: "n1", Labels: map[string]string{"nvidia.com/gpu.product": "H100"}},
			Status:     corev1.NodeStatus{Capacity: gpus("1"), Allocatable: gpus("1"), Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
		}}},
		"/api/v1/pods?limit=500": corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Items: []corev1.Pod{pod("llm-first", "gpu-1"), pod("llm-second", "")}},
	}
}

// bundleOf takes evidence of the cluster.
func bundleOf(t *testing.T, kubeconfig string, more ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "evidence.tar.zst")
	code, stdout, stderr := run(t, append([]string{"evidence", "-o", path, "--kubeconfig", kubeconfig}, more...)...)
	if code != exitOK || !strings.Contains(stdout, "sha256:") || !strings.Contains(stderr, "read 1 node and 2 pods") {
		t.Fatalf("berth evidence: code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	return path
}

var since = regexp.MustCompile(`\b\d+[smh](\d+[sm])?\b`)

// Every read command prints from the bundle what it prints from the cluster.
func TestFromIsTheSame(t *testing.T) {
	t.Setenv("BERTH_HOME", t.TempDir())
	cluster := smallCluster()
	cluster[answers+"/workloads"] = answer.WorkloadList{Items: []answer.Workload{waitingJob(), runningJob()}}
	cluster[answers+"/namespaces/a/workloads"] = answer.WorkloadList{Items: []answer.Workload{waitingJob(), runningJob()}}
	cluster[answers+"/namespaces/b/workloads"] = answer.WorkloadList{}
	cluster[answers+"/workloads?state=waiting"] = answer.WorkloadList{Items: []answer.Workload{waitingJob()}}
	cluster[answers+"/namespaces/a/workloads?of=second"] = answer.WorkloadList{Items: []answer.Workload{waitingJob()}}
	cluster[answers+"/namespaces/a/workloads?of=first"] = answer.WorkloadList{Items: []answer.Workload{runningJob()}}
	cluster[answers+"/namespaces/a/workloads?of=nobody"] = answer.WorkloadList{}
	cluster[answers+"/namespaces/a/workloads/gang.second"] = waitingJob()
	cluster[answers+"/namespaces/a/workloads/gang.first"] = runningJob()
	research := answer.Queue{ObjectMeta: metav1.ObjectMeta{Name: "research"}, Limits: []why.Amount{{Resource: "nvidia.com/gpu", Value: 16}}}
	cluster[answers+"/queues"] = answer.QueueList{Items: []answer.Queue{research}}
	cluster[answers+"/queues/research"] = research
	cluster[answers+"/queues/lost"] = apierrors.NewNotFound(schema.GroupResource{Group: answer.Group, Resource: "queues"}, "lost")
	kubeconfig := apiServer(t, cluster)
	bundle := bundleOf(t, kubeconfig)
	for _, args := range []string{
		"jobs", "jobs -A", "jobs -n b", "jobs -A --waiting", "jobs second", "jobs second -o json", "jobs first", "jobs nobody", "jobs -o name",
		"queue", "queue research", "queue lost", "queue -o json", "why", "why -A -o json", "why llm-second", "why pod/llm-second -o json", "why nobody",
	} {
		code, stdout, stderr := run(t, append(strings.Fields(args), "--kubeconfig", kubeconfig)...)
		code2, stdout2, stderr2 := run(t, append(strings.Fields(args), "--from", bundle)...)
		same := func(s string) string { return since.ReplaceAllString(s, "AGE") }
		if code != code2 || same(stdout) != same(stdout2) || stderr != stderr2 {
			t.Errorf("berth %s: code %d, stdout\n%s\nstderr %q; from the bundle %d, stdout\n%s\nstderr %q", args, code, stdout, stderr, code2, stdout2, stderr2)
		}
		if stdout == "" && stderr == "" {
			t.Errorf("berth %s prints nothing", args)
		}
	}
}

func TestEvidenceExitCodes(t *testing.T) {
	t.Setenv("BERTH_HOME", t.TempDir())
	kubeconfig := apiServer(t, smallCluster())
	bundle := bundleOf(t, kubeconfig, "-n", "a")
	data, err := os.ReadFile(bundle)
	if err != nil {
		t.Fatal(err)
	}
	bad := filepath.Join(t.TempDir(), "bad")
	if err := os.WriteFile(bad, data[:len(data)-20], 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args      string
		code      int
		out, errs string
	}{
		{"evidence show " + bundle, exitOK, "| H100 | 1 | 1 | 1 | 1 | 1 | 1 | 0 |", ""},
		{"evidence show " + bundle, exitOK, "| pod/a/llm-second | pending |", ""},
		{"evidence show -o json " + bundle, exitOK, `"kubernetes": "v1.37.1"`, ""},
		{"evidence show -o xml " + bundle, exitUsage, "", "-o xml"},
		{"evidence show " + bad, exitUnknown, "", "get another copy"},
		{"evidence show " + kubeconfig, exitUnknown, "", "no bundle"},
		{"evidence show none.tar.zst", exitUnknown, "", "none.tar.zst"},
		{"evidence show", exitUsage, "", "accepts 1 arg"},
		{"evidence what", exitUsage, "", `unknown command "what"`},
		{"evidence -o " + bundle + " --kubeconfig " + kubeconfig, exitFailed, "", "exists already"},
		{"evidence -n a -A", exitUsage, "", "all-namespaces"},
		{"evidence", exitUnknown, "", `there is no cluster "berth"`},
		{"why -A --from " + bad, exitUnknown, "", "get another copy"},
		{"jobs --from " + bad, exitUnknown, "", "get another copy"},
		{"queue --from " + bad, exitUnknown, "", "get another copy"},
		{"jobs --from " + bundle, exitUnknown, "", "the bundle has no answers of a scheduler: when it was taken, this cluster has no answers to give"},
		{"why --from x --kubeconfig y", exitUsage, "", "from"},
		{"jobs --from x --name y", exitUsage, "", "from"},
	} {
		code, stdout, stderr := run(t, strings.Fields(c.args)...)
		if code != c.code || !strings.Contains(stdout, c.out) || !strings.Contains(stderr, c.errs) || c.out == "" && stdout != "" {
			t.Errorf("berth %s: code %d, stdout %q, stderr %q; want %d, %q, %q", c.args, code, stdout, stderr, c.code, c.out, c.errs)
		}
	}
	left, _ := filepath.Glob(filepath.Join(filepath.Dir(bundle), ".berth-evidence-*"))
	if len(left) > 0 {
		t.Errorf("half a bundle is left: %v", left)
	}
}

func TestRedactedEvidence(t *testing.T) {
	t.Setenv("BERTH_HOME", t.TempDir())
	kubeconfig := apiServer(t, smallCluster())
	bundle := bundleOf(t, kubeconfig, "--redact")
	code, stdout, stderr := run(t, "evidence", "show", bundle)
	if code != exitOK || strings.Contains(stdout, "llm") || strings.Contains(stdout, "gpu-1") || !strings.Contains(stdout, "Names are redacted") {
		t.Errorf("code %d, stdout %s, stderr %s", code, stdout, stderr)
	}
	_, plain, _ := run(t, "why", "-A", "-o", "json", "--kubeconfig", kubeconfig)
	code, redacted, _ := run(t, "why", "-A", "-o", "json", "--from", bundle)
	for _, field := range []string{"state", "layer", "cause", "owner"} {
		found := regexp.MustCompile(fmt.Sprintf(`"%s": "[^"]*"`, field))
		if got, want := found.FindString(redacted), found.FindString(plain); got != want || want == "" {
			t.Errorf("%s, without redaction %s", got, want)
		}
	}
	if code != exitFailed {
		t.Errorf("code %d", code)
	}
}

func TestEvidenceName(t *testing.T) {
	at := time.Date(2026, 11, 15, 12, 0, 0, 0, time.FixedZone("here", 3600))
	for cluster, want := range map[string]string{
		"dev":                "berth-evidence-dev-20261115T110000Z.tar.zst",
		"":                   "berth-evidence-cluster-20261115T110000Z.tar.zst",
		"../arn:aws:eks/x y": "berth-evidence-arn-aws-eks-x-y-20261115T110000Z.tar.zst",
	} {
		if got := evidenceName(cluster, at); got != want {
			t.Errorf("%q: %s, want %s", cluster, got, want)
		}
	}
}
