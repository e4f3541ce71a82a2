package metrics

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/engine/why"
)

func leads() Process { return Process{Leads: true, Questions: 7, Shed: 1, Unreachable: time.Second} }

// sample is a scheduler with that many queues that has done one of everything.
func sample(t *testing.T, queues int) *Recorder {
	t.Helper()
	f := Figures{GPU: "gpu", At: time.Date(2026, 11, 17, 9, 0, 0, 0, time.UTC), Work: Work{Cycles: 5, Discrepancies: 1, Unseen: 2 * time.Second}, Fleet: engine.Report{Largest: []engine.Largest{{Model: "H100", Level: "rack", GPUs: 16}, {Model: "H100", Level: "node", GPUs: 8}, {Model: "H100", GPUs: 24}}}}
	f.Fleet.All.GPUs, f.Fleet.All.Allocated, f.Fleet.All.InUse = 32, 12, 16
	for i := range queues {
		q := engine.QueueUse{Known: true}
		q.Name = fmt.Sprintf("team-%04d", i)
		q.At, q.Spent, q.GPUSeconds = f.At, []int64{900}, 3600
		q.Budgets = []engine.Budget{{Resource: "gpu", Seconds: 3600, Period: time.Hour}}
		f.Queues = append(f.Queues, q)
	}
	f.Queues = append(f.Queues, engine.QueueUse{Queue: engine.Queue{Name: "made-up"}})
	f.Tallies = []engine.Tally{{User: "ann", Held: 8}, {User: "ann", Held: 4}, {Held: 2}, {User: "bob"}}
	f.Fleet.Pools = []engine.Usage{{Pool: "h100", Nodes: 4, GPUs: 32, Allocated: 12}}
	f.Plan.Waiting = []engine.Waiting{{Cause: why.ClusterFull}, {Cause: why.ClusterFull}}
	r := New(leads, func() (Figures, error) { return f, nil })
	plan := &engine.Plan{
		Starts:    []engine.Start{{Placements: make([]engine.Placement, 4)}},
		Evictions: []engine.Eviction{{Cause: engine.Reclaimed}, {Cause: engine.Reclaimed}},
	}
	r.Cycle([]engine.Change{{Refusal: &engine.Refusal{}}, {}}, plan, 3*time.Millisecond)
	r.Started("team-0001", 4, 2*time.Second)
	r.Estimated(3 * time.Second)
	r.Estimated(-time.Second)
	r.Seen(40 * time.Millisecond)
	r.Evicted(engine.Reclaimed, 8, 10*time.Minute)
	return r
}

func text(t *testing.T, r *Recorder) string {
	t.Helper()
	out, err := r.Text()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestFigures(t *testing.T) {
	got := text(t, sample(t, 2))
	for _, line := range []string{
		`berth_pending_workloads{cause="cluster-full"} 2`,
		`berth_fleet_schedulable_gpus 32`, `berth_fleet_allocated_gpus 12`, `berth_fleet_fragmentation_ratio 0.25`,
		`berth_fleet_largest_job_gpus{level="rack",model="H100"} 16`,
		`berth_fleet_largest_job_gpus{level="cluster",model="H100"} 24`,
		`berth_pool_allocated_gpus{pool="h100"} 12`,
		`berth_queue_used_gpus{queue="team-0001"} 0`,
		`berth_queue_budget_spent_ratio{queue="team-0001",resource="gpu"} 0.25`,
		`berth_queue_gpu_seconds_total{queue="team-0001"} 3600`,
		`berth_queue_start_wait_seconds_total{queue="team-0001"} 2`,
		`berth_user_used_gpus{user="ann"} 12`, `berth_user_used_gpus{user=""} 2`, `berth_user_used_gpus{user="other"} 0`,
		`berth_scheduler_leading 1`, `berth_scheduler_questions_total 7`, `berth_scheduler_api_unreachable_seconds 1`,
		`berth_scheduler_audit_discrepancies_total 1`, `berth_scheduler_watch_behind_seconds 2`,
		`berth_scheduler_eta_error_seconds_sum{side="later"} 3`, `berth_scheduler_eta_error_seconds_sum{side="earlier"} 1`,
		`berth_scheduler_watch_lag_seconds_sum 0.04`,
		`berth_scheduler_evicted_gpu_seconds_total{cause="reclaimed"} 4800`,
		`berth_scheduler_evictions_planned_total{cause="reclaimed"} 2`,
		`berth_scheduler_refusals_total 1`,
		`berth_scheduler_cycle_duration_seconds_count 1`,
		`berth_scheduler_plan_placements_sum 4`,
		`berth_scheduler_start_wait_seconds_sum{pods="2-8"} 2`,
	} {
		if !strings.Contains(got, line+"\n") {
			t.Errorf("no %q in:\n%s", line, got)
		}
	}
	if strings.Contains(got, "made-up") {
		t.Error("a queue that a pod made up has series")
	}
}

// The names are those that Prometheus' own linter asks for, and promtool where there is one.
func TestNamesAreAsPrometheusWantsThem(t *testing.T) {
	got := text(t, sample(t, 2))
	problems, err := promlint.New(strings.NewReader(got)).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
	program, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed (package prometheus of Debian)")
	}
	check := exec.Command(program, "check", "metrics")
	check.Stdin = strings.NewReader(got)
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// However many queues there are, and however long their names, a scrape stays small.
func TestSeriesAreBounded(t *testing.T) {
	few, many := text(t, sample(t, maxQueues)), text(t, sample(t, 5*maxQueues))
	if a, b := strings.Count(few, "\n"), strings.Count(many, "\n"); a != b {
		t.Errorf("%d lines, and %d with more queues", a, b)
	}
	if !strings.Contains(many, fmt.Sprintf("berth_queues_without_series %d\n", 4*maxQueues)) || len(many) > 2<<20 {
		t.Errorf("%d bytes", len(many))
	}
	r := New(leads, func() (Figures, error) {
		f := Figures{Queues: []engine.QueueUse{{Known: true}, {Known: true}}}
		f.Queues[0].Name, f.Queues[1].Name = strings.Repeat("x", 300)+"\xff", strings.Repeat("x", 400)
		for i := range 100 {
			f.Fleet.Largest = append(f.Fleet.Largest, engine.Largest{Model: fmt.Sprintf("\xff%d", i), Level: "node"})
		}
		return f, nil
	})
	if got := strings.Count(text(t, r), "berth_fleet_largest_job_gpus{"); got != maxModels {
		t.Errorf("%d models, want %d", got, maxModels)
	}
	for i := range 2 * maxKinds {
		r.kind(fmt.Sprintf("/apis/a/v1/kind%d/x", i))
	}
	if len(r.kinds) != maxKinds || r.kind("/apis/a/v1/another/x") != "other" {
		t.Errorf("%d kinds", len(r.kinds))
	}
}

func TestWritesAreCountedByResource(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.Method == http.MethodDelete {
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer server.Close()
	r := New(func() Process { return Process{} }, func() (Figures, error) { return Figures{}, errors.New("another one leads") })
	client := &http.Client{Transport: r.Through(http.DefaultTransport)}
	for _, q := range []struct{ method, path string }{
		{"GET", "/api/v1/pods"}, {"POST", "/api/v1/namespaces/a/pods/p/binding"}, {"DELETE", "/api/v1/namespaces/a/pods/p"}, {"PATCH", "/api/v1/namespaces/a"},
		{"PATCH", "/apis/berth.dev/v1alpha1/berthqueues/q/status"}, {"PUT", "/x"}, {"PATCH", "/api/v1/namespaces/a/status"},
	} {
		request, err := http.NewRequest(q.method, server.URL+q.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
	}
	got := text(t, r)
	for _, line := range []string{
		`{code="200",resource="pods/binding",verb="post"} 1`, `{code="404",resource="pods",verb="delete"} 1`, `{code="200",resource="namespaces",verb="patch"} 1`,
		`{code="200",resource="berthqueues/status",verb="patch"} 1`, `{code="200",resource="other",verb="put"} 1`, `{code="200",resource="namespaces/status",verb="patch"} 1`,
	} {
		if !strings.Contains(got, "berth_scheduler_api_writes_total"+line+"\n") {
			t.Errorf("no %s in:\n%s", line, got)
		}
	}
	if strings.Contains(got, "berth_fleet") || !strings.Contains(got, "berth_scheduler_leading 0\n") || strings.Contains(got, `verb="get"`) {
		t.Errorf("one that does not lead has figures, or reads are counted:\n%s", got)
	}
}

func TestNobodyCounts(t *testing.T) {
	var r *Recorder
	r.Cycle(nil, &engine.Plan{}, time.Second)
	r.Started("q", 1, time.Second)
	r.Estimated(time.Second)
	r.Seen(time.Second)
	r.Evicted(engine.Moved, 1, time.Second)
}
