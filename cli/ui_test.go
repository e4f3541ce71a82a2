package cli

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/kube/answer"
	"github.com/berth-dev/berth/web"
)

// questionsTo asks as the page does.
func questionsTo(kubeconfig string) *uiQuestions {
	o := &uiOptions{streams: quiet}
	o.kubeconfig, o.program, o.small = kubeconfig, "berth", true
	return &uiQuestions{o: o}
}

// same holds what the page is told to what a command prints as JSON, but for fields that the page has besides.
func same(t *testing.T, value any, besides []string, args ...string) {
	t.Helper()
	_, stdout, stderr := run(t, args...)
	var want, got map[string]any
	if err := json.Unmarshal([]byte(stdout), &want); err != nil {
		t.Fatalf("berth %v: %v\n%s%s", args, err, stdout, stderr)
	}
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	for _, m := range []map[string]any{want, got} {
		for _, field := range append(besides, "at") {
			delete(m, field)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("berth %v: -command +page\n%s", args, diff)
	}
}

// TestPageAndCommandsAgree asks the same of both.
func TestPageAndCommandsAgree(t *testing.T) {
	t.Setenv("BERTH_HOME", t.TempDir())
	cluster := smallCluster()
	cluster[answers+"/workloads"] = answer.WorkloadList{Items: []answer.Workload{promisedJob(), waitingJob(), runningJob()}}
	cluster[answers+"/queues"] = answer.QueueList{Items: []answer.Queue{{Weight: 1}}}
	path := apiServer(t, cluster)
	q, ctx := questionsTo(path), context.Background()
	for _, name := range []string{"llm-first", "llm-second"} {
		v, err := q.Why(ctx, facts.Ref{Kind: "Pod", Namespace: "a", Name: name})
		if err != nil {
			t.Fatal(err)
		}
		same(t, v, []string{"advice", "created"}, "why", "pod/"+name, "-n", "a", "-o", "json", "--kubeconfig", path)
	}
	queues, workloads, err := q.Line(ctx)
	if err != nil {
		t.Fatal(err)
	}
	same(t, workloads, nil, "jobs", "-A", "-o", "json", "--kubeconfig", path)
	same(t, queues, nil, "queue", "-o", "json", "--kubeconfig", path)
	for _, by := range capacityBys {
		v, _, err := q.Capacity(ctx, by)
		if err != nil {
			t.Fatal(err)
		}
		same(t, v, []string{"lost"}, "capacity", "--by", by, "-o", "json", "--kubeconfig", path) // lost since when the page looked first
	}
}

// TestPageOfOneWhoMayNotSeeAll is shown their namespace.
func TestPageOfOneWhoMayNotSeeAll(t *testing.T) {
	t.Setenv("BERTH_HOME", t.TempDir())
	no := apierrors.NewForbidden(schema.GroupResource{Group: answer.Group, Resource: "workloads"}, "", errors.New("ask"))
	path := apiServer(t, map[string]any{
		answers + "/workloads": no, answers + "/queues": no,
		answers + "/namespaces/a/workloads": answer.WorkloadList{Items: []answer.Workload{waitingJob()}},
		answers + "/namespaces/a/queues":    answer.QueueList{},
	})
	_, workloads, err := questionsTo(path).Line(context.Background())
	if err != nil || len(workloads.Items) != 1 {
		t.Errorf("%d workloads, %v", len(workloads.Items), err)
	}
}

// TestShape is a Job that check understands.
func TestShape(t *testing.T) {
	t.Setenv("BERTH_HOME", t.TempDir())
	q := questionsTo(apiServer(t, smallCluster()))
	for _, c := range []struct {
		shape web.Shape
		want  string
	}{
		{web.Shape{Pods: 1, GPUs: 1, Level: "rack", Queue: "none", Model: "no-such"}, `"verdict":"never"`},
	} {
		v, err := q.Fit(context.Background(), c.shape)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := json.Marshal(v)
		if !strings.Contains(string(text), c.want) {
			t.Errorf("%+v: %s", c.shape, text)
		}
	}
	if _, err := q.Happened(context.Background(), time.Now(), time.Now()); err == nil || !strings.Contains(err.Error(), "is not on this machine") {
		t.Errorf("the log of a cluster elsewhere: %v", err)
	}
}

func TestUIRefuses(t *testing.T) {
	t.Setenv("BERTH_HOME", t.TempDir())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, taken, _ := net.SplitHostPort(l.Addr().String())
	path := apiServer(t, smallCluster())
	for _, c := range []struct {
		args string
		code int
		errs string
	}{
		{"ui x", exitUsage, "x"},
		{"ui --port 70000", exitUsage, "a port is a number from 1 to 65535"},
		{"ui --metrics - --kubeconfig " + path, exitUsage, "give a file or a URL"},
		{"ui", exitUnknown, `there is no cluster "berth"`},
		{"ui --kubeconfig " + path + " --port " + taken, exitFailed, "is taken: choose another with --port"},
	} {
		code, _, stderr := run(t, strings.Fields(c.args)...)
		if code != c.code || !strings.Contains(stderr, c.errs) {
			t.Errorf("berth %s: %d %s", c.args, code, stderr)
		}
	}
}

// TestPagePast is what the page is told of a decision log: the account is that of the command.
func TestPagePast(t *testing.T) {
	t.Setenv("BERTH_HOME", t.TempDir())
	now := time.Now()
	q := questionsTo(apiServer(t, smallCluster()))
	for what, ask := range map[string]func() error{
		"cost":    func() error { _, _, err := q.Cost(t.Context(), "queue", now.Add(-time.Hour), now); return err },
		"past":    func() error { _, _, err := q.Past(t.Context(), now.Add(-time.Hour), now, 10); return err },
		"moments": func() error { _, err := q.Moments(t.Context(), now); return err },
	} {
		if err := ask(); err == nil || !strings.Contains(err.Error(), "is not on this machine") {
			t.Errorf("%s of a cluster elsewhere: %v", what, err)
		}
	}
	if _, _, err := q.Cost(t.Context(), "shoe size", now.Add(-time.Hour), now); err == nil || !strings.Contains(err.Error(), `"shoe size"`) {
		t.Errorf("%v", err)
	}
}

// TestLogIsForWhoMaySeeAll keeps everybody's work from who may see a part of it.
func TestLogIsForWhoMaySeeAll(t *testing.T) {
	v, cfg, dir := &answer.Viewer{Namespace: "a"}, &rest.Config{Host: "http://127.0.0.1:1"}, t.TempDir()
	if c := clusterOf(v, answer.Rights{Nodes: true, Pods: true}, cfg, "", dir); c.decisions != dir || c.partly {
		t.Errorf("closed to who may see all: %+v", c)
	}
	o := &uiOptions{streams: quiet}
	for _, r := range []answer.Rights{{}, {Nodes: true, Workloads: true, PodsHere: true}, {Pods: true}} {
		if o.found = clusterOf(v, r, cfg, "", dir); o.found.decisions != "" || o.found.config.WrapTransport == nil {
			t.Errorf("%+v: %+v", r, o.found)
		}
	}
	q := &uiQuestions{o: o}
	now := time.Now()
	for what, ask := range map[string]func() error{
		"cost":     func() error { _, _, err := q.Cost(t.Context(), "queue", now.Add(-time.Hour), now); return err },
		"past":     func() error { _, _, err := q.Past(t.Context(), now.Add(-time.Hour), now, 10); return err },
		"moments":  func() error { _, err := q.Moments(t.Context(), now); return err },
		"happened": func() error { _, err := q.Happened(t.Context(), now, now); return err },
	} {
		if err := ask(); err == nil || !strings.Contains(err.Error(), "for those who may list nodes") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestPagePorts gives each page a port that nobody could foresee, and the one that was asked for.
func TestPagePorts(t *testing.T) {
	seen := make(map[string]bool)
	for range 8 {
		l, err := (&uiOptions{}).listen()
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		at := l.Addr().(*net.TCPAddr)
		if !at.IP.IsLoopback() || at.Port < firstPort || seen[at.String()] {
			t.Errorf("%s, after %v", at, seen)
		}
		seen[at.String()] = true
	}
	for asked := range seen {
		_, port, _ := net.SplitHostPort(asked)
		n, _ := strconv.Atoi(port)
		if _, err := (&uiOptions{port: n}).listen(); err == nil || !strings.Contains(err.Error(), "port "+port+" is taken") {
			t.Errorf("a port that is taken: %v", err)
		}
	}
}
