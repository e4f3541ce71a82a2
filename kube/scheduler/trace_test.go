package scheduler

import (
	"net/url"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/kube/trace"
)

func tracedPod(name string, created int64, running int64) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name, CreationTimestamp: metav1.Unix(created, 0)}}
	if running > 0 {
		p.Status = corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Unix(running, 0)}}}}}
	}
	return p
}

// A span goes from the first pod's creation until the last pod runs, whenever that is noticed.
func TestSpanOfAWorkload(t *testing.T) {
	at := func(s int64) time.Time { return time.Unix(s, 0) }
	for _, c := range []struct {
		name  string
		looks []map[string]*corev1.Pod
		end   int64
		event string
	}{
		{"runs whole", []map[string]*corev1.Pod{
			{"team/a": tracedPod("a", 100, 0), "team/b": tracedPod("b", 99, 120)},
			{"team/a": tracedPod("a", 100, 125), "team/b": tracedPod("b", 99, 120)},
		}, 125, "running"},
		{"one is gone once it ran", []map[string]*corev1.Pod{
			{"team/a": tracedPod("a", 100, 0), "team/b": tracedPod("b", 99, 120)},
			{"team/a": tracedPod("a", 100, 125)},
		}, 125, "running"},
		{"one is gone before it was seen", []map[string]*corev1.Pod{
			{"team/a": tracedPod("a", 100, 0), "team/b": tracedPod("b", 99, 120)},
			{"team/b": tracedPod("b", 99, 120)},
		}, 202, "over"},
	} {
		tr := newTracer(trace.New(&url.URL{}, "", nil))
		tr.begin("team/gang/it", "research", []*corev1.Pod{tracedPod("a", 100, 0), tracedPod("b", 99, 0)}, at(110))
		w := tr.open["team/gang/it"]
		var span trace.Span
		for i, is := range c.looks {
			var over bool
			span, over = w.seen(is, at(201+int64(i)))
			if over != (i == len(c.looks)-1) {
				t.Errorf("%s: look %d: over is %v", c.name, i, over)
			}
		}
		if !span.Start.Equal(at(99)) || !span.End.Equal(at(c.end)) || span.Failed != "" {
			t.Errorf("%s: from %v to %v, failed %q", c.name, span.Start, span.End, span.Failed)
		}
		want := []trace.Event{{Name: "decided", At: at(110)}, {Name: c.event, At: at(c.end)}}
		if diff := cmp.Diff(want, span.Events); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
}

// One that never runs is given up, and what is followed is bounded.
func TestSpansAreBounded(t *testing.T) {
	tr := newTracer(trace.New(&url.URL{}, "", nil))
	now := time.Unix(1000, 0)
	for i := range tracedMost + 10 {
		tr.begin(string(rune('a'+i%26))+time.Duration(i).String(), "", []*corev1.Pod{tracedPod("a", 1, 0)}, now)
	}
	if len(tr.open) != tracedMost {
		t.Errorf("%d are followed, want %d", len(tr.open), tracedMost)
	}
	stuck := func(string) []*corev1.Pod { return []*corev1.Pod{tracedPod("a", 1, 0)} }
	tr.look(stuck, now.Add(tracedFor))
	if len(tr.open) != tracedMost {
		t.Errorf("%d are followed after an hour", len(tr.open))
	}
	tr.look(stuck, now.Add(tracedFor+time.Second))
	if len(tr.open) != 0 {
		t.Errorf("%d are followed for ever", len(tr.open))
	}
	var none *tracer
	none.started(nil, nil, now)
}
