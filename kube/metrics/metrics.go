// Package metrics has the scheduler's figures for Prometheus: what is counted as it happens (Recorder), and what is asked
// of the scheduler when somebody scrapes (Figures). Nothing in it decides; the engine knows nothing of it. kube/scheduler
// feeds it, and kube/answer serves what it writes, to those who may read it.
//
// Labels are bounded: codes of Berth's own vocabulary, kinds that the scheduler writes, levels of its configuration, and the
// first queues and GPU models of a cluster. Nobody who may create pods can make a series.
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
	namespace, subsystem = "berth", "scheduler"

	// maxKinds, maxQueues and maxModels bound the values of labels. What is beyond is "other", or left out and counted.
	maxKinds  = 64
	maxQueues = 500
	maxModels = 32
	// maxLabel is the most bytes of a label that comes from an object.
	maxLabel = 128
)

// Recorder counts for the life of a process, whoever leads meanwhile. A nil one counts nothing.
type Recorder struct {
	registry *prometheus.Registry

	cycles    prometheus.Histogram
	changes   prometheus.Histogram
	placed    prometheus.Histogram
	waits     *prometheus.HistogramVec
	evictions *prometheus.CounterVec
	writes    *prometheus.CounterVec
	refusals  prometheus.Counter

	mu    sync.Mutex
	kinds map[string]bool
}

func name(n, help string) prometheus.Opts {
	return prometheus.Opts{Namespace: namespace, Subsystem: subsystem, Name: n, Help: help}
}

func histogram(n, help string, buckets []float64) prometheus.HistogramOpts {
	return prometheus.HistogramOpts{Namespace: namespace, Subsystem: subsystem, Name: n, Help: help, Buckets: buckets}
}

// New makes a recorder that asks ask for what is only worth knowing when somebody looks.
func New(ask func() (Figures, error)) *Recorder {
	r := &Recorder{
		registry: prometheus.NewRegistry(), kinds: make(map[string]bool),
		cycles:    prometheus.NewHistogram(histogram("cycle_duration_seconds", "How long cycles take: taking in changes, planning, handing on.", prometheus.ExponentialBuckets(0.0001, 4, 10))),
		changes:   prometheus.NewHistogram(histogram("cycle_changes", "Changes of the cluster that a cycle takes in.", prometheus.ExponentialBuckets(1, 4, 8))),
		placed:    prometheus.NewHistogram(histogram("plan_placements", "Pods that a plan with any places.", prometheus.ExponentialBuckets(1, 4, 8))),
		waits:     prometheus.NewHistogramVec(histogram("start_wait_seconds", "From the creation of a workload's first pod to the decision that it starts, by its number of pods.", prometheus.ExponentialBuckets(0.01, 4, 12)), []string{"pods"}),
		evictions: prometheus.NewCounterVec(prometheus.CounterOpts(name("evictions_planned_total", "Pods that plans chose to evict, by cause.")), []string{"cause"}),
		writes:    prometheus.NewCounterVec(prometheus.CounterOpts(name("api_writes_total", "Writes to the API server, by verb, resource and status code; code 0 had no answer.")), []string{"verb", "resource", "code"}),
		refusals:  prometheus.NewCounter(prometheus.CounterOpts(name("refusals_total", "Nodes that refused a pod, or bindings that the API server refused: tried elsewhere."))),
	}
	r.registry.MustRegister(r.cycles, r.changes, r.placed, r.waits, r.evictions, r.writes, r.refusals, asked{ask})
	return r
}

// Cycle notes one cycle: what it took in, what it decided, and how long it took.
func (r *Recorder) Cycle(changes []engine.Change, plan *engine.Plan, took time.Duration) {
	if r == nil {
		return
	}
	r.cycles.Observe(took.Seconds())
	r.changes.Observe(float64(len(changes)))
	placed := 0
	for i := range plan.Starts {
		placed += len(plan.Starts[i].Placements)
	}
	if placed > 0 {
		r.placed.Observe(float64(placed))
	}
	for i := range plan.Evictions {
		r.evictions.WithLabelValues(string(plan.Evictions[i].Cause)).Inc()
	}
	for i := range changes {
		if changes[i].Refusal != nil {
			r.refusals.Inc()
		}
	}
}

// Started notes that a workload of so many pods starts after waiting so long.
func (r *Recorder) Started(pods int, waited time.Duration) {
	if r != nil {
		r.waits.WithLabelValues(sizeOf(pods)).Observe(max(0, waited.Seconds()))
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
		return "other"
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
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.kinds[kind] && len(r.kinds) >= maxKinds {
		return "other"
	}
	r.kinds[kind] = true
	return kind
}

// Text is everything in Prometheus' text format.
func (r *Recorder) Text() (string, error) {
	families, err := r.registry.Gather()
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
