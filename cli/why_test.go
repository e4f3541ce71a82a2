package cli

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/diagnose"
	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
)

var update = flag.Bool("update", false, "rewrite the golden files in testdata")

// golden compares with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s:\n%s", path, diff)
	}
}

var whyTime = time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)

// wholeDiagnosis has every field.
func wholeDiagnosis() diagnose.Diagnosis {
	return diagnose.Diagnosis{
		APIVersion: diagnose.APIVersion, Kind: diagnose.Kind, Target: facts.Ref{Kind: "Job", Namespace: "team-a", Name: "train"},
		State: facts.Pending, Layer: check.L3, Cause: "cluster-full", Owner: check.Scheduler,
		Summary: "the pod asks for 8 nvidia.com/gpu, and of 16 on the 2 nodes that match 4 are free",
		Blockers: []diagnose.Blocker{
			{
				Layer: check.L3, Cause: "cluster-full", Owner: check.Scheduler, Binding: true,
				Message: "the pod asks for 8 nvidia.com/gpu, and of 16 on the 2 nodes that match 4 are free",
				Evidence: []facts.Evidence{
					{Object: "node/h100-0", Field: `status.allocatable["nvidia.com/gpu"], less what its pods request`, Value: "4"},
					{Object: "node/h100-1", Field: `status.allocatable["nvidia.com/gpu"], less what its pods request`, Value: "0"},
					{Object: "pod/team-a/train-0", Field: "spec.containers[0].resources", Value: "8 nvidia.com/gpu"},
					{Object: "pod/team-b/other-0", Field: "spec.nodeName", Value: "h100-1"},
				},
			},
			{Layer: check.L3, Cause: "quota-exceeded", Owner: check.Scheduler, Binding: true, Message: "quota gpus allows 8 nvidia.com/gpu and 8 are used"},
			{
				Layer: check.L2, Cause: "node-cordoned", Owner: check.Platform, Message: "node h100-2 is cordoned, and would do",
				Evidence: []facts.Evidence{{Object: "node/h100-2", Field: "spec.unschedulable", Value: "true"}},
			},
		},
		Fixes: []diagnose.Fix{
			{
				Side: edit.Workload, Edit: "wait until 12:30:00 UTC", Verified: true, Assumes: "job/other of team-b ends when its deadline is over",
				Outcome: "it starts: node h100-1 has room",
			},
			{
				Side: edit.Cluster, Edit: "uncordon node h100-2", Verified: true, Outcome: "it starts: node h100-2 has room",
				Command: "kubectl uncordon h100-2 && kubectl get node h100-2 >out\nkubectl get pods",
			},
		},
		ETA: &facts.ETA{
			Earliest: whyTime.Add(30 * time.Minute), Likely: whyTime.Add(13 * time.Hour),
			Because: "job/other of team-b has a deadline",
		},
		Unseen:  []facts.Unseen{{Resource: "resourcequotas", Reason: "forbidden"}, {Resource: "pods", Except: "team-a", Reason: "forbidden"}, {Resource: "jobs.batch", Except: "team-a", Reason: "forbidden"}, {Resource: "clusterqueues.kueue.x-k8s.io", Reason: "no answer in time"}},
		Created: whyTime.Add(-5 * time.Minute),
	}
}

// unprovenDiagnosis has no fix that was verified, and is told without seeing nodes or logs.
func unprovenDiagnosis() diagnose.Diagnosis {
	return diagnose.Diagnosis{
		Target: facts.Ref{Kind: "Pod", Namespace: "team-a", Name: "web-0"}, State: facts.Pending, Layer: check.L3, Cause: "no-matching-node", Owner: check.User,
		Summary: "of 3 nodes none will do: 3 without the labels that the pod asks for; which they are cannot be seen",
		Blockers: []diagnose.Blocker{{
			Layer: check.L3, Cause: "no-matching-node", Owner: check.User, Binding: true, Message: "of 3 nodes none will do: 3 without the labels that the pod asks for; which they are cannot be seen",
			Evidence: []facts.Evidence{{Object: "pod/team-a/web-0", Field: `status.conditions[type="PodScheduled"].message`, Value: "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector."}},
		}},
		Advice:  "Compare the node selector with the nodes, or ask somebody who may see them.",
		Unseen:  []facts.Unseen{{Resource: "nodes", Reason: "forbidden"}, {Resource: "pods/log", Namespace: "team-a", Reason: "forbidden"}},
		Created: whyTime.Add(-40 * time.Second),
	}
}

func healthyDiagnosis() diagnose.Diagnosis {
	return diagnose.Diagnosis{
		Target: facts.Ref{Kind: "Pod", Namespace: "team-a", Name: "web"}, State: facts.Running, Layer: check.None, Cause: diagnose.Healthy, Owner: check.Nobody,
		Summary: "it runs", Created: whyTime.Add(-26 * time.Hour),
	}
}

// calmDiagnosis waits by its author's own word: nothing is wrong, and something is to be said.
func calmDiagnosis() diagnose.Diagnosis {
	return diagnose.Diagnosis{
		Target: facts.Ref{Kind: "Deployment", Namespace: "team-b", Name: "api"}, State: facts.Absent, Layer: check.None, Cause: "scaled-to-zero", Owner: check.User,
		Summary:  "deployment api asks for 0 replicas",
		Blockers: []diagnose.Blocker{{Layer: check.L4, Cause: "scaled-to-zero", Owner: check.User, Message: "deployment api asks for 0 replicas"}},
	}
}

func unknownDiagnosis() diagnose.Diagnosis {
	return diagnose.Diagnosis{
		Target: facts.Ref{Kind: "Pod", Namespace: "team-b", Name: "odd"}, State: facts.Pending, Layer: check.None, Cause: diagnose.Unknown, Owner: check.Nobody,
		Summary: "nothing that can be seen keeps it", Unseen: []facts.Unseen{{Resource: "nodes", Reason: "forbidden"}}, Created: whyTime.Add(-3 * time.Hour),
	}
}

// The fields are a contract with other tools: a change here is a change for them.
func TestWhyAsJSON(t *testing.T) {
	whole, healthy := wholeDiagnosis(), healthyDiagnosis()
	var got strings.Builder
	for _, value := range []any{whole, diagnose.DiagnosisList{APIVersion: diagnose.APIVersion, Kind: diagnose.ListKind, Items: []diagnose.Diagnosis{healthy}, Unseen: whole.Unseen}, diagnose.DiagnosisList{Items: []diagnose.Diagnosis{}}} {
		if done, err := printData(&got, value, "json"); !done || err != nil {
			t.Fatal(done, err)
		}
	}
	golden(t, "why.json", got.String())
}

func TestWhyPages(t *testing.T) {
	whole, unproven, healthy, calm, unknown := wholeDiagnosis(), unprovenDiagnosis(), healthyDiagnosis(), calmDiagnosis(), unknownDiagnosis()
	var got strings.Builder
	for _, c := range []struct {
		title string
		page  whyPage
		of    *diagnose.Diagnosis
	}{
		{"in full", whyPage{}, &whole},
		{"wide", whyPage{wide: true}, &whole},
		{"60 columns", whyPage{columns: 60}, &whole},
		{"in colour", whyPage{columns: 100, colour: true}, &unproven},
		{"healthy", whyPage{}, &healthy},
		{"held back by its author", whyPage{}, &calm},
		{"unknown", whyPage{}, &unknown},
	} {
		c.page.now = whyTime
		got.WriteString("-- " + c.title + " --\n" + c.page.one(c.of))
	}
	golden(t, "why.txt", string(harmless([]byte(got.String())))) // as a terminal gets it
}

func TestWhyTable(t *testing.T) {
	list := diagnose.DiagnosisList{
		Items:  []diagnose.Diagnosis{wholeDiagnosis(), unprovenDiagnosis(), calmDiagnosis(), unknownDiagnosis()},
		Unseen: []facts.Unseen{{Resource: "nodes", Reason: "forbidden"}, {Resource: "pods", Except: "team-a", Reason: "forbidden"}},
	}
	var got strings.Builder
	for _, c := range []struct {
		title string
		page  whyPage
	}{
		{"of all namespaces", whyPage{all: true}},
		{"of one, 100 columns", whyPage{columns: 100}},
		{"wide", whyPage{wide: true}},
	} {
		c.page.now = whyTime
		got.WriteString("-- " + c.title + " --\n" + c.page.table(list))
	}
	golden(t, "why-table.txt", got.String())
}

// No line that could be broken is wider than the terminal.
func TestWhyFitsTheTerminal(t *testing.T) {
	whole := wholeDiagnosis()
	whole.Fixes = nil // commands and long words stay whole
	for columns := 55; columns < 120; columns += 5 {
		for _, line := range strings.Split(whyPage{columns: columns, now: whyTime}.one(&whole), "\n") {
			if words := strings.Fields(line); len([]rune(line)) > columns && len(words) > 2 {
				t.Errorf("%d columns: %d are taken by %q", columns, len([]rune(line)), line)
			}
		}
	}
}

func TestWhyArguments(t *testing.T) {
	for _, c := range []struct {
		args string
		want facts.Ref
		errs string // a part of what is said, where it is wrong
	}{
		{"", facts.Ref{}, ""},
		{"job/x", facts.Ref{Kind: "Job", Name: "x"}, ""},
		{"job x", facts.Ref{Kind: "Job", Name: "x"}, ""},
		{"x", facts.Ref{Name: "x"}, ""},
		{"job", facts.Ref{Name: "job"}, ""},
		{"jobs.batch/x", facts.Ref{Kind: "Job", Name: "x"}, ""},
		{"Job/x", facts.Ref{Kind: "Job", Name: "x"}, ""},
		{"po/x", facts.Ref{Kind: "Pod", Name: "x"}, ""},
		{"deploy x", facts.Ref{Kind: "Deployment", Name: "x"}, ""},
		{"pytorchjobs.kubeflow.org/x", facts.Ref{Kind: "PyTorchJob", Name: "x"}, ""},
		{"/x", facts.Ref{}, `"/x" is neither NAME nor KIND/NAME`},
		{"job/", facts.Ref{}, `"job/" is neither NAME nor KIND/NAME`},
		{"job/a/b", facts.Ref{}, `"job/a/b" is neither NAME nor KIND/NAME`},
		{"job/x team-a", facts.Ref{}, `"job/x" names it whole: give KIND/NAME or KIND NAME; -n gives the namespace`},
		{"job a/b", facts.Ref{}, `neither NAME nor KIND/NAME`},
		{"frobnicate/x", facts.Ref{}, `"frobnicate" is no kind of work: ask about a pod, job`},
		{"frobnicate x", facts.Ref{}, `"frobnicate" is no kind of work`},
		{"secret/x", facts.Ref{}, `"secret" is no kind of work`},
		{"node/x", facts.Ref{}, `"node" is no kind of work`},
	} {
		o := &whyOptions{}
		err := o.parse(strings.Fields(c.args))
		if c.errs == "" && (err != nil || o.target != c.want) || c.errs != "" && (err == nil || !strings.Contains(err.Error(), c.errs)) {
			t.Errorf("berth why %s: got %+v, %v; want %+v, %q", c.args, o.target, err, c.want, c.errs)
		}
	}
}

func TestWhyExitCodes(t *testing.T) {
	t.Setenv("BERTH_HOME", t.TempDir())
	no := func(what string) any {
		return apierrors.NewForbidden(schema.GroupResource{Resource: what}, "", nil)
	}
	cluster := apiServer(t, smallCluster())
	tenant := smallCluster()
	tenant["/api/v1/nodes?limit=500"] = no("nodes")
	tenant["/api/v1/namespaces/a/pods?limit=500"] = tenant["/api/v1/pods?limit=500"]
	tenant["/api/v1/pods?limit=500"] = no("pods")
	tenant["/api"] = metav1.APIVersions{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIVersions"}, Versions: []string{"v1"}}
	tenant["/api/v1"] = metav1.APIResourceList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"}, GroupVersion: "v1", APIResources: []metav1.APIResource{
		{Name: "pods", Namespaced: true, Kind: "Pod", Verbs: []string{"list"}}, {Name: "nodes", Kind: "Node", Verbs: []string{"list"}},
	}}
	tenant["/apis"] = metav1.APIGroupList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIGroupList"}}
	within := apiServer(t, tenant)
	nobody := apiServer(t, map[string]any{
		"/version": tenant["/version"], "/api": tenant["/api"], "/api/v1": tenant["/api/v1"], "/apis": tenant["/apis"], "/api/v1/nodes?limit=500": no("nodes"),
		"/api/v1/pods?limit=500": no("pods"), "/api/v1/namespaces/a/pods?limit=500": no("pods"),
	})
	closed := filepath.Join(t.TempDir(), "closed")
	if err := os.WriteFile(closed, []byte(`{apiVersion: v1, kind: Config, current-context: c, clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}], contexts: [{name: c, context: {cluster: c}}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args      string
		code      int
		out, errs string
	}{
		{"why pod/llm-first --kubeconfig " + cluster, exitOK, "Why        It runs.\n", ""},
		{"why llm-first -o json --kubeconfig " + cluster, exitOK, `"cause": "healthy"`, ""},
		{"why llm-first -o name --kubeconfig " + cluster, exitOK, "pod/llm-first\n", ""},
		{"why pod llm-second --kubeconfig " + cluster, exitFailed, "x L3 scheduling", ""},
		{"why --kubeconfig " + cluster, exitFailed, "pod/llm-second", ""},
		{"why -o name --kubeconfig " + cluster, exitFailed, "pod/llm-second\n", ""},
		{"why -n b --kubeconfig " + cluster, exitOK, "", "Nothing waits in namespace b that can be seen; not seen: namespaces"},
		{"why -n b -o json --kubeconfig " + cluster, exitOK, `"items": []`, ""},
		{"why pod/none --kubeconfig " + cluster, exitUnknown, "", "error: pod/none in namespace a does not exist: check the name, or give -n NAMESPACE\n"},
		{"why none --kubeconfig " + cluster, exitUnknown, "", `nothing called "none" in namespace a`},
		{"why llm-second --kubeconfig " + within, exitFailed, "nodes (forbidden); outside namespace a: pods (forbidden)", ""},
		{"why -A --kubeconfig " + within, exitFailed, "outside namespace a: pods", ""},
		{"why -n b --kubeconfig " + within, exitUnknown, "", "pods in namespace b cannot be read"},
		{"why pod/none -n b --kubeconfig " + within, exitUnknown, "", "cannot be seen"},
		{"why -A --kubeconfig " + nobody, exitUnknown, "", "error: pods cannot be read in all namespaces (forbidden): give -n NAMESPACE\n"},
		{"why --kubeconfig " + nobody, exitUnknown, "", "error: pods in namespace a cannot be read (forbidden)"},
		{"why --kubeconfig " + closed, exitUnknown, "", "error: cannot reach the API server at http://127.0.0.1:1: dial tcp 127.0.0.1:1: connect: connection refused; check the address"},
		{"why", exitUnknown, "", `there is no cluster "berth"`},
		{"why frobnicate/x", exitUsage, "", `"frobnicate" is no kind of work`},
		{"why -A x", exitUsage, "", "give a name or -A, not both"},
		{"why -A -n b", exitUsage, "", "all-namespaces"},
		{"why a b c", exitUsage, "", "accepts at most 2 arg"},
		{"why -o xml", exitUsage, "", `--output "xml"`},
	} {
		code, stdout, stderr := run(t, strings.Fields(c.args)...)
		if code != c.code || !strings.Contains(stdout, c.out) || !strings.Contains(stderr, c.errs) || c.errs == "" && stderr != "" || c.out == "" && stdout != "" || strings.Count(stderr, "\n") > 1 {
			t.Errorf("berth %s: code %d, stdout\n%s\nstderr %q; want %d, %q, %q", c.args, code, stdout, stderr, c.code, c.out, c.errs)
		}
	}
}

// Who may not read nodes is not told their names, though pods that may be read run on them.
func TestWhyOfOneWhoMayNotReadNodes(t *testing.T) {
	full := smallCluster()
	pods := full["/api/v1/pods?limit=500"].(corev1.PodList)
	pods.Items[1].Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
		Message: "0/1 nodes are available: 1 Insufficient nvidia.com/gpu. preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.",
	}}
	pods.Items[1].Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("1")
	full["/api/v1/nodes?limit=500"] = apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "", nil)
	full["/api"] = metav1.APIVersions{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIVersions"}, Versions: []string{"v1"}}
	full["/api/v1"] = metav1.APIResourceList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"}, GroupVersion: "v1", APIResources: []metav1.APIResource{{Name: "nodes", Kind: "Node", Verbs: []string{"list"}}}}
	code, stdout, stderr := run(t, "why", "llm-second", "-o", "wide", "--kubeconfig", apiServer(t, full))
	if code != exitFailed || stderr != "" || !strings.Contains(stdout, "x L3 scheduling     cluster-full") || !strings.Contains(stdout, "? L2 provisioning   not seen") {
		t.Errorf("code %d, stdout\n%s\nstderr %s", code, stdout, stderr)
	}
	if strings.Contains(stdout, "gpu-1") {
		t.Errorf("a node is named:\n%s", stdout)
	}
}

// Of a gang of which some would fit, the room that there is is not called taken.
func TestWhyOfAGangLargerThanTheRoom(t *testing.T) {
	cluster := smallCluster()
	nodes := cluster["/api/v1/nodes?limit=500"].(corev1.NodeList)
	for _, list := range []corev1.ResourceList{nodes.Items[0].Status.Capacity, nodes.Items[0].Status.Allocatable} {
		list["nvidia.com/gpu"] = resource.MustParse("2")
	}
	pods := cluster["/api/v1/pods?limit=500"].(corev1.PodList)
	waiting := pods.Items[1]
	pods.Items = nil
	for _, name := range []string{"g-0", "g-1", "g-2"} {
		p := *waiting.DeepCopy()
		p.Name, p.UID, p.Spec.SchedulerName = name, types.UID(name), "berth"
		p.Annotations = map[string]string{"berth.dev/gang": "g", "berth.dev/min": "3"}
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "needs 3 pods of 1 nvidia.com/gpu; 2 fit; nvidia.com/gpu short by 1 on 1 node"}}
		pods.Items = append(pods.Items, p)
	}
	cluster["/api/v1/pods?limit=500"] = pods
	code, stdout, _ := run(t, "why", "g-0", "-o", "json", "--kubeconfig", apiServer(t, cluster))
	const want = "each of 3 pods that start together asks for 1 nvidia.com/gpu, and of 2 on node gpu-1, the only one that matches, 2 are free: not enough for 1 of them"
	if code != exitFailed || !strings.Contains(stdout, want) || !strings.Contains(stdout, `"cause": "cluster-full"`) {
		t.Errorf("code %d, stdout\n%s", code, stdout)
	}
}

// The ClusterRole in docs/why.md names every kind that is read, and none besides.
func TestTheRightsInTheDocumentation(t *testing.T) {
	page, err := os.ReadFile("../docs/why.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```yaml\n")
	text, _, _ := strings.Cut(rest, "```")
	var role rbacv1.ClusterRole
	if err := yaml.UnmarshalStrict([]byte(text), &role); err != nil {
		t.Fatal(err)
	}
	type of struct{ group, resource string }
	known, groups := map[of]bool{{"", "pods/log"}: true}, map[string]bool{}
	for _, k := range facts.Kinds {
		known[of{k.Group, k.Resource}] = true
		groups[k.Group] = true
	}
	for _, k := range []of{ // built-in kinds that are read beside the table
		{"scheduling.k8s.io", "workloads"}, {"storage.k8s.io", "csidrivers"},
		{"storage.k8s.io", "csistoragecapacities"}, {"storage.k8s.io", "volumeattachments"}, {"storage.k8s.io", "volumeattributesclasses"},
	} {
		known[k] = true
	}
	told := map[of]bool{}
	for _, rule := range role.Rules {
		for _, resource := range rule.Resources {
			found := false
			for _, group := range rule.APIGroups {
				told[of{group, resource}] = true
				found = found || known[of{group, resource}]
			}
			if !found {
				t.Errorf("nobody reads %s of %v", resource, rule.APIGroups)
			}
		}
		for _, group := range rule.APIGroups {
			if !groups[group] {
				t.Errorf("nobody reads anything of %s", group)
			}
		}
	}
	for what := range known {
		if !told[what] {
			t.Errorf("the role lacks %s of %q", what.resource, what.group)
		}
	}
}
