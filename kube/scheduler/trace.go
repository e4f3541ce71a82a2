package scheduler

import (
	"context"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/trace"
)

// tracer makes one span of each workload that this scheduler starts: from the creation of its first pod, over the decision, until
// all its pods run. It looks once a second at those that were decided and do not all run yet; the times are the objects' own.
type tracer struct {
	out *trace.Exporter

	mu   sync.Mutex
	open map[string]*traced // by workload
}

// traced is a workload that was decided and does not run yet.
type traced struct {
	span    trace.Span
	pods    map[string]time.Time // by key: since when it runs; zero: not yet
	decided time.Time
	gone    bool // a pod of it was over or deleted before it was seen running
}

const (
	// tracedMost bounds how many workloads are followed at once; those beyond have no span.
	tracedMost = 4096
	// tracedFor is how long one is followed: a pod whose image cannot be pulled is not, for ever.
	tracedFor = time.Hour
	traceLook = time.Second
)

func newTracer(out *trace.Exporter) *tracer {
	if out == nil {
		return nil
	}
	return &tracer{out: out, open: make(map[string]*traced)}
}

// started notes that workloads were decided. What joins a workload that runs already is part of no span.
func (t *tracer) started(s *scheduler, starts []engine.Start, now time.Time) {
	if t == nil {
		return
	}
	for i := range starts {
		if start := &starts[i]; start.Kind == engine.Begin {
			t.begin(start.Gang, s.feed.QueueOf(start.Gang), s.feed.PodsOf(start.Gang), now)
		}
	}
}

func (t *tracer) begin(workload, queue string, pods []*corev1.Pod, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(pods) == 0 || len(t.open) >= tracedMost && t.open[workload] == nil {
		return
	}
	w := &traced{decided: now, pods: make(map[string]time.Time, len(pods))}
	first := pods[0]
	for _, p := range pods {
		w.pods[p.Namespace+"/"+p.Name] = time.Time{}
		if p.CreationTimestamp.Before(&first.CreationTimestamp) {
			first = p
		}
	}
	w.span = trace.Span{
		Seed: workload + " " + string(first.UID), Name: "workload", Start: first.CreationTimestamp.Time, Events: []trace.Event{{Name: "decided", At: now}},
		Attributes: []trace.Attribute{
			{Key: "berth.workload", Text: workload}, {Key: "k8s.namespace.name", Text: first.Namespace}, {Key: "berth.pods", Number: int64(len(pods))},
		},
	}
	if queue != "" {
		w.span.Attributes = append(w.span.Attributes, trace.Attribute{Key: "berth.queue", Text: queue})
	}
	t.open[workload] = w
}

// run looks after the open ones until ctx ends.
func (t *tracer) run(ctx context.Context, podsOf func(workload string) []*corev1.Pod) {
	tick := time.NewTicker(traceLook)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			t.look(podsOf, now)
		}
	}
}

// look closes the spans of workloads that run whole, have lost a pod before, or were followed long enough.
func (t *tracer) look(podsOf func(workload string) []*corev1.Pod, now time.Time) {
	t.mu.Lock()
	names := maps.Clone(t.open)
	t.mu.Unlock()
	for name, w := range names { // in no order: each is by itself
		is := make(map[string]*corev1.Pod)
		for _, p := range podsOf(name) {
			is[p.Namespace+"/"+p.Name] = p
		}
		span, over := w.seen(is, now)
		if !over {
			continue
		}
		t.out.Send(span)
		t.mu.Lock()
		if t.open[name] == w { // not begun anew meanwhile
			delete(t.open, name)
		}
		t.mu.Unlock()
	}
}

// seen takes in how the workload's pods are now, and says whether its span is over.
func (w *traced) seen(is map[string]*corev1.Pod, now time.Time) (trace.Span, bool) {
	missing, last, name := 0, w.decided, "running"
	for key, since := range w.pods {
		if p := is[key]; since.IsZero() && p != nil {
			since = runsSince(p)
			w.pods[key] = since
		}
		switch {
		case !since.IsZero() && since.After(last):
			last = since
		case since.IsZero() && is[key] == nil:
			w.gone, w.pods[key], last = true, now, now // over or deleted, and never seen running
		case since.IsZero():
			missing++
		}
	}
	if w.gone {
		name = "over"
	}
	span := w.span
	switch {
	case missing == 0:
		span.End = last
		span.Events = append(span.Events[:len(span.Events):len(span.Events)], trace.Event{Name: name, At: last})
	case now.Sub(w.decided) > tracedFor:
		span.End, span.Failed = now, "not all pods run"
	default:
		return span, false
	}
	return span, true
}

// runsSince is since when all containers of the pod run, zero while they do not.
func runsSince(p *corev1.Pod) time.Time {
	var last time.Time
	if p.Status.Phase != corev1.PodRunning {
		return last
	}
	for _, c := range p.Status.ContainerStatuses {
		switch {
		case c.State.Running != nil && c.State.Running.StartedAt.After(last):
			last = c.State.Running.StartedAt.Time
		case c.State.Waiting != nil:
			return time.Time{}
		}
	}
	if last.IsZero() && p.Status.StartTime != nil { // a feed that keeps no statuses of containers
		last = p.Status.StartTime.Time
	}
	return last
}
