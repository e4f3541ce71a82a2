package scheduler

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// message is that of the pod's PodScheduled condition.
func (w *world) message(name string) string {
	for _, c := range w.pod(name).Status.Conditions {
		if c.Type == corev1.PodScheduled {
			return c.Message
		}
	}
	return ""
}

// A pod says by when it was promised to start, and says it again when that changes, without another event.
func TestAPodSaysWhatItWasPromised(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, node("n1", "r1", 2), promised("q", 2), pod("runs", 1, "queue", "q", "expected-run", "1h"))
		w.start()
		w.edit("runs", func(p *corev1.Pod) { p.Status.StartTime = new(metav1.Now()) })
		w.add(pod("big", 2, "queue", "q"))
		w.after(3 * time.Minute)
		if got := w.message("big"); !strings.Contains(got, "; promised a start by 01:") || !strings.HasSuffix(got, " UTC") {
			t.Fatalf("message %q", got)
		}
		events, patches := len(w.said("big")), len(w.patched())
		w.after(20 * time.Minute)
		if n := len(w.patched()) - patches; n > 1 {
			t.Errorf("%d patches though nothing changed: %q", n, w.patched()[patches:])
		}
		longer := pod("longer", 1, "queue", "q", "expected-run", "26h")
		longer.Spec.NodeName, longer.Status.StartTime = "n1", new(metav1.Now())
		w.add(longer)
		w.remove("pods", "default", "runs")
		w.after(3 * time.Minute)
		if got := w.message("big"); !strings.Contains(got, "; promised a start by 2000-01-02 02:") {
			t.Errorf("message %q", got)
		}
		if diff := cmp.Diff(events, len(w.said("big"))); diff != "" {
			t.Errorf("events: %s", diff)
		}
	})
}

// What is borrowed is said once for a workload, when it starts.
func TestAStartSaysWhatItBorrows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, append(gang("g", 3, "queue", "b", "preemptible", "true"), node("n1", "r1", 4), promised("a", 3), promised("b", 1), pod("own", 1, "queue", "a"))...)
		w.start()
		w.after(time.Minute)
		said := slices.Concat(w.said("g-0"), w.said("g-1"), w.said("g-2"))
		borrows := slices.DeleteFunc(slices.Clone(said), func(s string) bool { return !strings.Contains(s, "default/gang/g borrows 2 nvidia.com/gpu") })
		if len(said) != 3 || len(borrows) != 1 {
			t.Errorf("said %q", said)
		}
		if got := w.said("own"); len(got) != 1 || strings.Contains(got[0], "borrow") {
			t.Errorf("said %q of what is its own", got)
		}
	})
}
