// Package metrics has the scheduler's figures for Prometheus: what is counted as it happens (Recorder), and what is asked
// of the scheduler when somebody scrapes (Figures). Nothing in it decides; the engine knows nothing of it. kube/scheduler
// feeds it, and kube/answer serves what it writes, to those who may read it.
//
// Labels are bounded: codes of Berth's own vocabulary, kinds that the scheduler writes, levels of its configuration, and the
// first queues, pools and GPU models of a cluster; of users the few who hold most. Nobody who may create pods can make series
// without end.
package metrics

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"github.com/berth-dev/berth/engine"
)

const (
	// maxKinds and those below it bound the values of labels. What is beyond is "other", or left out and counted.
	maxKinds        = 64
	maxQueues       = 500
	maxModels       = 32
	maxPools        = 200
	maxUsers        = 20
	maxReservations = 100
	// maxLabel is the most bytes of a label that comes from an object.
	maxLabel = 128
)

var (
	cycleTime    = histogram("scheduler_cycle_duration_seconds", "How long cycles take: taking in changes, planning, handing on.")
	cycleChanges = histogram("scheduler_cycle_changes", "Changes of the cluster that a cycle takes in.")
	placements   = histogram("scheduler_plan_placements", "Pods that a plan with any places.")
	startWait    = histogram("scheduler_start_wait_seconds", "From the creation of a workload's first pod to the decision that it starts, by its number of pods.", "pods")
	etaError     = histogram("scheduler_eta_error_seconds", "How far the first estimate of a workload's start was off when it started, by whether it started earlier or later.", "side")
	watchLag     = histogram("scheduler_watch_lag_seconds", "From the API server's answer to a binding until the watch shows it.")
	planned      = counter("scheduler_evictions_planned_total", "Pods that plans chose to evict, by cause.", "cause")
	lost         = counter("scheduler_evicted_gpu_seconds_total", "Work lost by evictions, by cause: GPUs of the pod, times its run since it started, or since its last checkpoint where it says how often it makes one.", "cause")
	writes       = counter("scheduler_api_writes_total", "Writes to the API server, by verb, resource and status code; code 0 had no answer.", "verb", "resource", "code")
	refusals     = counter("scheduler_refusals_total", "Nodes that refused a pod, or bindings that the API server refused: tried elsewhere.")
	queueStarts  = counter("queue_starts_total", "Workloads of a queue that started.", "queue")
	queueWait    = counter("queue_start_wait_seconds_total", "How long the workloads of a queue that started had waited, added up.", "queue")
)

// Recorder counts for the life of a process, whoever leads meanwhile. A nil one counts nothing.
type Recorder struct {
	registry *prometheus.Registry

	cycles, changes, placed, waits, etas, lags              *prometheus.HistogramVec
	planned, lost, writes, refusals, queueStarts, queueWait *prometheus.CounterVec

	mu            sync.Mutex
	kinds, queues map[string]bool // that have series
}

// New makes a recorder that asks for what is only worth knowing when somebody looks: of this process, and of the scheduler
// that leads in it.
func New(process func() Process, ask func() (Figures, error)) *Recorder {
	waits := prometheus.ExponentialBuckets(0.01, 4, 12)
	r := &Recorder{
		registry: prometheus.NewRegistry(), kinds: make(map[string]bool), queues: make(map[string]bool),
		cycles:  cycleTime.observes(prometheus.ExponentialBuckets(0.0001, 4, 10)),
		changes: cycleChanges.observes(prometheus.ExponentialBuckets(1, 4, 8)),
		placed:  placements.observes(prometheus.ExponentialBuckets(1, 4, 8)),
		waits:   startWait.observes(waits),
		etas:    etaError.observes(prometheus.ExponentialBuckets(1, 4, 9)),
		lags:    watchLag.observes(prometheus.ExponentialBuckets(0.001, 4, 8)),
		planned: planned.counts(), lost: lost.counts(), writes: writes.counts(), refusals: refusals.counts(),
		queueStarts: queueStarts.counts(), queueWait: queueWait.counts(),
	}
	for _, one := range []*prometheus.HistogramVec{r.cycles, r.changes, r.placed, r.lags} {
		one.WithLabelValues() // it has no labels, and is there from the start
	}
	r.refusals.WithLabelValues()
	r.registry.MustRegister(r.cycles, r.changes, r.placed, r.waits, r.etas, r.lags, r.planned, r.lost, r.writes, r.refusals, r.queueStarts, r.queueWait, asked{process, ask})
	return r
}

// Cycle notes one cycle: what it took in, what it decided, and how long it took.
func (r *Recorder) Cycle(changes []engine.Change, plan *engine.Plan, took time.Duration) {
	if r == nil {
		return
	}
	r.cycles.WithLabelValues().Observe(took.Seconds())
	r.changes.WithLabelValues().Observe(float64(len(changes)))
	placed := 0
	for i := range plan.Starts {
		placed += len(plan.Starts[i].Placements)
	}
	if placed > 0 {
		r.placed.WithLabelValues().Observe(float64(placed))
	}
	for i := range plan.Evictions {
		r.planned.WithLabelValues(string(plan.Evictions[i].Cause)).Inc()
	}
	for i := range changes {
		if changes[i].Refusal != nil {
			r.refusals.WithLabelValues().Inc()
		}
	}
}

// Started notes that a workload of so many pods of the queue starts after waiting so long.
func (r *Recorder) Started(queue string, pods int, waited time.Duration) {
	if r == nil {
		return
	}
	seconds := max(0, waited.Seconds())
	r.waits.WithLabelValues(sizeOf(pods)).Observe(seconds)
	label := r.bounded(r.queues, labelOf(queue), maxQueues)
	r.queueStarts.WithLabelValues(label).Inc()
	r.queueWait.WithLabelValues(label).Add(seconds)
}

// Estimated notes that a workload started that much later than was first estimated, or earlier.
func (r *Recorder) Estimated(late time.Duration) {
	switch {
	case r == nil:
	case late < 0:
		r.etas.WithLabelValues("earlier").Observe(-late.Seconds())
	default:
		r.etas.WithLabelValues("later").Observe(late.Seconds())
	}
}

// Seen notes how long the watch took to show a binding that the API server had taken.
func (r *Recorder) Seen(after time.Duration) {
	if r != nil {
		r.lags.WithLabelValues().Observe(max(0, after.Seconds()))
	}
}

// Evicted notes that a pod with so many GPUs was evicted, whose last checkpoint, or start, was that long ago.
func (r *Recorder) Evicted(cause engine.EvictionCause, gpus int64, ran time.Duration) {
	if r != nil {
		r.lost.WithLabelValues(string(cause)).Add(float64(gpus) * max(0, ran.Seconds()))
	}
}

// sizeOf groups workloads by their number of pods.
func sizeOf(pods int) string {
	switch {
	case pods <= 1:
		return "1"
	case pods <= 8:
		return "2-8"
	case pods <= 64:
		return "9-64"
	}
	return "65+"
}

// Through is a transport whose writes are counted.
func (r *Recorder) Through(next http.RoundTripper) http.RoundTripper { return counting{next, r} }

type counting struct {
	next http.RoundTripper
	to   *Recorder
}

func (c counting) RoundTrip(q *http.Request) (*http.Response, error) {
	answer, err := c.next.RoundTrip(q)
	if q.Method == http.MethodGet || q.Method == http.MethodHead {
		return answer, err
	}
	code := "0"
	if err == nil {
		code = strconv.Itoa(answer.StatusCode)
	}
	c.to.writes.WithLabelValues(strings.ToLower(q.Method), c.to.kind(q.URL.Path), code).Inc()
	return answer, err
}

// kind is the resource that a path of the API is of, as RBAC names it: pods/binding.
func (r *Recorder) kind(path string) string {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case len(parts) > 2 && parts[0] == "api":
		parts = parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		parts = parts[3:]
	default:
		return other
	}
	if len(parts) > 2 && parts[0] == "namespaces" {
		if parts[2] != "status" && parts[2] != "finalize" {
			parts = parts[2:]
		}
	}
	kind := parts[0]
	if len(parts) > 2 {
		kind += "/" + parts[2]
	}
	return r.bounded(r.kinds, kind, maxKinds)
}

// bounded is the label, or "other" if as many as may have series have them and it is not among them.
func (r *Recorder) bounded(have map[string]bool, label string, most int) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !have[label] && len(have) >= most {
		return other
	}
	have[label] = true
	return label
}

// Text is everything in Prometheus' text format.
func (r *Recorder) Text() (string, error) { return write(r.registry) }

func write(from prometheus.Gatherer) (string, error) {
	families, err := from.Gather()
	if err != nil {
		return "", fmt.Errorf("gather metrics: %w", err)
	}
	var b bytes.Buffer
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&b, f); err != nil {
			return "", fmt.Errorf("write metrics: %w", err)
		}
	}
	return b.String(), nil
}
