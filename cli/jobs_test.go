package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	v1alpha1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/engine/why"
	"github.com/berth-dev/berth/kube/answer"
)

const answers = "/apis/" + answer.GroupVersion

var jobsTime = time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)

func waitingJob() answer.Workload {
	return answer.Workload{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "gang.second", CreationTimestamp: metav1.NewTime(jobsTime.Add(-3 * time.Minute))},
		Owner:      &answer.Owner{Kind: "Job", Name: "second"}, Queue: "research", State: answer.Waiting, Pods: answer.Pods{Size: 4, Min: 4, Waiting: 4}, GPUs: 4,
		Position: &answer.Position{Place: 2, Of: 5, InQueue: 1, Ahead: []answer.Reference{{Namespace: "b", Name: "pod.x"}}},
		Verdict:  why.Impossible, Cause: why.ClusterFull, Sentence: "needs 4 pods of 1 nvidia.com/gpu; 0 fit",
		ETA:   &answer.ETA{Earliest: jobsTime.Add(10 * time.Minute), Likely: jobsTime.Add(12 * time.Minute), Because: "job/first ends"},
		Gates: []why.Gate{{Cause: why.ClusterFull, Need: 4}},
		Certificates: []why.Certificate{{
			Need: 4, Request: []why.Amount{{Resource: "nvidia.com/gpu", Value: 1}},
			Domains: []why.Domain{{Rows: []why.Row{
				{Nodes: 2, Example: "n1", Short: []why.Short{{Resource: "nvidia.com/gpu", Nodes: 2, By: 1}}},
				{Class: 1, Nodes: 1, Example: "cpu-1", Removed: []why.Clause{{Kind: why.ByTaint, Detail: "cpu=:NoSchedule", Nodes: 1}}},
			}}},
			Classes: []why.Class{{}, {}},
		}},
		Holders: &answer.Holders{
			Resource: "nvidia.com/gpu", Items: []answer.Holder{{Reference: answer.Reference{Namespace: "a", Name: "gang.first", Owner: &answer.Owner{Kind: "Job", Name: "first"}}, Amount: 4}},
			Others: answer.Others{Workloads: 3, Amount: 12},
		},
	}
}

func runningJob() answer.Workload {
	return answer.Workload{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "gang.first", CreationTimestamp: metav1.NewTime(jobsTime.Add(-time.Hour))},
		Owner:      &answer.Owner{Kind: "Job", Name: "first"}, Priority: 10, State: answer.Running, Pods: answer.Pods{Size: 4, Min: 4, Placed: 4, Running: 4}, GPUs: 4,
	}
}

// promisedJob is first in line.
func promisedJob() answer.Workload {
	return answer.Workload{
		ObjectMeta: metav1.ObjectMeta{Namespace: "b", Name: "pod.x", CreationTimestamp: metav1.NewTime(jobsTime.Add(-time.Hour))}, Queue: "research",
		State: answer.Waiting, Pods: answer.Pods{Size: 1, Min: 1, Waiting: 1}, GPUs: 8, Position: &answer.Position{Place: 1, Of: 5, InQueue: 1},
		Verdict: why.Blocked, Cause: why.MakingRoom, Sentence: "waits for 4 pods to end for it",
		ETA:     &answer.ETA{Earliest: jobsTime.Add(time.Minute), Likely: jobsTime.Add(time.Minute), Because: "4 pods are ending for it"},
		Promise: &answer.Promise{Start: jobsTime.Add(125 * time.Minute), Since: jobsTime.Add(-time.Minute)},
	}
}

// evictedJob gives back what it borrowed.
func evictedJob() answer.Workload {
	w := runningJob()
	w.Name, w.Owner, w.Queue, w.Borrowed = "gang.guest", &answer.Owner{Kind: "Job", Name: "guest"}, "guests", 4
	w.Evicting = &answer.Evicting{Pods: 4, Cause: "reclaimed", For: &answer.Reference{Namespace: "b", Name: "pod.x"}, At: jobsTime.Add(30 * time.Second)}
	return w
}

func TestTheLine(t *testing.T) {
	line := []answer.Workload{promisedJob(), waitingJob(), evictedJob(), runningJob()}
	line[3].Borrowed = 2
	for _, wide := range []bool{false, true} {
		var got strings.Builder
		if err := printJobs(&got, line, jobsTable{all: true, wide: wide, now: jobsTime}); err != nil {
			t.Fatal(err)
		}
		golden(t, fmt.Sprintf("jobs-wide-%t.txt", wide), got.String())
	}
}

func TestALineIsCut(t *testing.T) {
	line := []answer.Workload{waitingJob(), runningJob()}
	line[0].ETA = nil
	for columns, want := range map[int]string{
		100: `NAMESPACE  NAME        QUEUE     PRIORITY  STATE    PODS  GPUS  POSITION  ETA  AGE  WHY
a          job/second  research  0         waiting  0/4   4     2         -    3m   needs 4 pods ...
a          job/first   -         10        running  4/4   4     -         -    60m  -
`,
		80: `NAMESPACE  NAME        QUEUE     STATE    GPUS  POSITION  ETA  WHY
a          job/second  research  waiting  4     2         -    needs 4 pods o...
a          job/first   -         running  4     -         -    -
`,
	} {
		var got strings.Builder
		if err := printJobs(&got, line, jobsTable{all: true, columns: columns, now: jobsTime}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got.String()); diff != "" {
			t.Errorf("%d columns:\n%s", columns, diff)
		}
	}
}

func TestOneJob(t *testing.T) {
	var got strings.Builder
	w := waitingJob()
	if err := printWorkload(&got, &w, jobsTime); err != nil {
		t.Fatal(err)
	}
	want := `job/second in namespace a

  Workload   gang.second
  State      waiting
  Pods       0 of 4 run, 0 have a node; 4 start together
  GPUs       4
  Queue      research
  Priority   0
  Age        3m
  In line    2 of 5, 1 in queue research
  Ahead      pod/x of b
  Expected   about 12:12 UTC (in 12m), at the earliest 12:10 UTC: job/first ends

Waits: cluster-full
  Nodes of the right kind exist, but what is free on all of them together is not enough.
  - needs 4 pods of 1 nvidia.com/gpu
  - 0 fit

Proof: where 4 pods of 1 nvidia.com/gpu could go
  NODES   FIT   FOR EXAMPLE   WHY NOT MORE
  2       0     n1            nvidia.com/gpu short by at least 1 on 2 nodes
  1       0     cpu-1         taint cpu=:NoSchedule excludes 1 node

Who has nvidia.com/gpu on the nodes that it could use
  WORKLOAD    NAMESPACE   HAS
  job/first   a           4
  3 others                12
`
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Error(diff)
	}
}

// What was promised, and what has to be given back, is on the job's page.
func TestJobsWithAFuture(t *testing.T) {
	var got strings.Builder
	for _, w := range []answer.Workload{promisedJob(), evictedJob()} {
		if err := printWorkload(&got, &w, jobsTime); err != nil {
			t.Fatal(err)
		}
		got.WriteString("\n")
	}
	golden(t, "jobs-future.txt", got.String())
}

func TestETAs(t *testing.T) {
	at := func(d time.Duration) time.Time { return jobsTime.Add(d) }
	for want, w := range map[string]answer.Workload{
		"-":               {State: answer.Waiting},
		"~12m":            {State: answer.Waiting, ETA: &answer.ETA{Earliest: at(0), Likely: at(12 * time.Minute)}},
		"~0s":             {State: answer.Waiting, ETA: &answer.ETA{Likely: at(-time.Minute)}},
		"by 14:05":        {State: answer.Waiting, ETA: &answer.ETA{Likely: at(time.Minute)}, Promise: &answer.Promise{Start: at(125 * time.Minute)}},
		"by Nov 17 12:00": {State: answer.Waiting, Promise: &answer.Promise{Start: at(48 * time.Hour)}},
	} {
		if got := etaOf(&w, jobsTime); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	for _, w := range []answer.Workload{{State: answer.Waiting, ETA: &answer.ETA{Earliest: at(time.Hour)}}, {State: answer.Running, Promise: &answer.Promise{Start: at(0)}}} {
		if got := etaOf(&w, jobsTime); got != "-" {
			t.Errorf("got %q of %+v", got, w)
		}
	}
}

// apiServer answers by path, and a kubeconfig leads there. A value that is an error is told as one.
func apiServer(t *testing.T, answers map[string]any) (kubeconfig string) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		value, ok := answers[r.URL.RequestURI()]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if err, ok := value.(*apierrors.StatusError); ok {
			status := err.Status()
			status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
			w.WriteHeader(int(status.Code))
			value = status
		}
		_ = json.NewEncoder(w).Encode(value)
	}))
	t.Cleanup(s.Close)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: c, clusters: [{name: c, cluster: {server: "%s"}}], contexts: [{name: c, context: {cluster: c, user: u, namespace: a}}], users: [{name: u, user: {token: t}}]}`, s.URL)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestJobsExitCodes(t *testing.T) {
	t.Setenv("BERTH_HOME", t.TempDir())
	workloads := schema.GroupResource{Group: answer.Group, Resource: "workloads"}
	list := func(items ...answer.Workload) any { return answer.WorkloadList{Items: items} }
	path := apiServer(t, map[string]any{
		answers + "/namespaces/a/workloads":             list(waitingJob(), runningJob()),
		answers + "/namespaces/a/workloads?of=second":   list(waitingJob()),
		answers + "/namespaces/a/workloads?of=first":    list(runningJob()),
		answers + "/namespaces/a/workloads?of=nobody":   list(),
		answers + "/namespaces/a/workloads?of=gone":     list(answer.Workload{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "pod.gone"}}),
		answers + "/namespaces/a/workloads/gang.second": waitingJob(),
		answers + "/namespaces/a/workloads/gang.first":  runningJob(),
		answers + "/namespaces/a/workloads/pod.gone":    apierrors.NewNotFound(workloads, "pod.gone"),
		answers + "/workloads":                          apierrors.NewForbidden(workloads, "", fmt.Errorf("no")),
		answers + "/namespaces/b/workloads":             apierrors.NewServiceUnavailable("no leader"),
		answers + "/queues":                             apierrors.NewForbidden(workloads, "", fmt.Errorf("no")),
		answers + "/namespaces/a/queues":                answer.QueueList{Items: []answer.Queue{{ObjectMeta: metav1.ObjectMeta{Name: "research"}}}},
	})
	none := apiServer(t, nil)
	work := apiServer(t, map[string]any{ // pods may not be listed
		"/apis/batch/v1/namespaces/a/jobs?limit=500": batchv1.JobList{Items: []batchv1.Job{{ObjectMeta: metav1.ObjectMeta{Name: "train"}}, {ObjectMeta: metav1.ObjectMeta{Name: "other"}}}},
	})
	objects := apiServer(t, map[string]any{"/apis/berth.dev/v1alpha1/berthqueues": v1alpha1.BerthQueueList{Items: []v1alpha1.BerthQueue{{
		ObjectMeta: metav1.ObjectMeta{Name: "research"},
		Spec:       v1alpha1.QueueSpec{Resources: []v1alpha1.QueueResource{{Name: "nvidia.com/gpu", Limit: new(resource.MustParse("16"))}, {Name: "cpu", Limit: new(resource.MustParse("1500m"))}}},
		Status:     v1alpha1.QueueStatus{Running: 1, Waiting: 2, Resources: []v1alpha1.QueueUse{{Name: "nvidia.com/gpu", Used: resource.MustParse("8"), Wanted: resource.MustParse("4")}}},
	}}}})
	for _, c := range []struct {
		args      string
		code      int
		out, errs string
	}{
		{"jobs --kubeconfig " + path, exitOK, "job/second", ""},
		{"jobs -o name --kubeconfig " + path, exitOK, "job/second\njob/first\n", ""},
		{"jobs second --kubeconfig " + path, exitFailed, "Who has nvidia.com/gpu", ""},
		{"jobs second -o json --kubeconfig " + path, exitFailed, `"place": 2`, ""},
		{"jobs first --kubeconfig " + path, exitOK, "4 of 4 run", ""},
		{"jobs nobody --kubeconfig " + path, exitUnknown, "", `no workload in namespace a is "nobody"`},
		{"jobs gone --kubeconfig " + path, exitUnknown, "", "not found"},
		{"jobs -A --kubeconfig " + path, exitUnknown, "", "give -n NAMESPACE"},
		{"jobs -n b --kubeconfig " + path, exitUnknown, "", "the scheduler does not answer now (no leader)"},
		{"jobs --kubeconfig " + none, exitUnknown, "", "this cluster has no answers to give"},
		{"queue --kubeconfig " + none, exitUnknown, "", "this cluster has no answers to give"},
		{"queue --kubeconfig " + objects, exitOK, "research   -       8      -          -      2         -       0           -\n", "Below is what the queues themselves say."},
		{"queue -o wide --kubeconfig " + objects, exitOK, "research   -       16 nvidia.com/gpu, 1.5 cpu   1        8 nvidia.com/gpu   -          -      1         2         4 nvidia.com/gpu   -", "Below is what the queues themselves say."},
		{"queue research --kubeconfig " + objects, exitOK, "research   -       8  ", "Below is what the queues themselves say."},
		{"queue -o name --kubeconfig " + path, exitOK, "research\n", ""},
		{"queue research --kubeconfig " + path, exitOK, "job/second", ""},
		{"queue lost --kubeconfig " + path, exitUnknown, "", `there is no queue "lost"`},
		{"__complete queue --kubeconfig " + path + " r", exitOK, "research\n:4\n", "Completion ended"},
		{"__complete jobs --kubeconfig " + path + " job/s", exitOK, "job/second\n:4\n", "Completion ended"},
		{"__complete jobs --kubeconfig " + path + " fi", exitOK, "first\n:4\n", "Completion ended"},
		{"__complete jobs --kubeconfig " + path + " job/first ", exitOK, ":4\n", "Completion ended"},
		{"__complete why --kubeconfig " + work + " t", exitOK, "train\n:4\n", "Completion ended"},
		{"jobs", exitUnknown, "", `there is no cluster "berth"`},
		{"jobs a b", exitUsage, "", "accepts at most 1 arg"},
		{"jobs -o xml", exitUsage, "", "--output"},
		{"jobs -A -n x", exitUsage, "", "all-namespaces"},
	} {
		code, stdout, stderr := run(t, strings.Fields(c.args)...)
		if code != c.code || !strings.Contains(stdout, c.out) || !strings.Contains(stderr, c.errs) || c.errs == "" && stderr != "" || c.out == "" && stdout != "" {
			t.Errorf("berth %s: code %d, stdout %q, stderr %q; want %d, %q, %q", c.args, code, stdout, stderr, c.code, c.out, c.errs)
		}
	}
}
