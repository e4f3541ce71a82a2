package scheduler

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/kube/telemetry"
)

// That a pod is idle is read off its status, which its author cannot write, and not off what the author writes: neither when
// it is created nor later.
func TestOnlyTheNodeSaysThatAPodIsIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := limit("q", 8, nil)
		q.Spec.ReclaimIdleAfter = &metav1.Duration{Duration: 10 * time.Minute}
		long := "2000-01-01T00:00:00Z"
		w := newWorld(t, node("n1", "r1", 2), q, pod("x", 1, "queue", "q", "idle-since", long), pod("y", 1, "queue", "q"))
		ends := w.ends(time.Second)
		w.start()
		w.edit("y", func(p *corev1.Pod) { p.Annotations["berth.dev/idle-since"] = long })
		w.after(time.Hour)
		w.add(pod("z", 1))
		w.after(time.Minute)
		if got := ends.ended(); len(got) > 0 {
			t.Fatalf("ended %q", got)
		}
		w.edit("y", func(p *corev1.Pod) {
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: v1alpha1.PodIdle, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()})
		})
		w.after(9 * time.Minute)
		if got := ends.ended(); len(got) > 0 {
			t.Fatalf("ended %q", got)
		}
		w.after(2 * time.Minute)
		if diff := cmp.Diff([]string{"n1"}, w.at("z")); diff != "" {
			t.Errorf("%s\nended %q", diff, ends.ended())
		}
	})
}

// gauge is a source of readings that a test turns.
type gauge struct {
	mu    sync.Mutex
	reads int
	at    map[string]int // percent by pod of namespace default
	err   error
}

func (g *gauge) set(pod string, percent int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.at[pod] = percent
}

func (g *gauge) fail(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.err = err
}

func (g *gauge) Read(_ context.Context, nodes []string) ([]telemetry.Reading, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.reads++
	if g.err != nil {
		return nil, g.err
	}
	var out []telemetry.Reading
	for pod, percent := range g.at {
		out = append(out, telemetry.Reading{Namespace: "default", Pod: pod, Percent: percent})
	}
	return out, nil
}

// measured is a world with a queue that gives back what is below 10 % for ten minutes, and pods x and y that run in it.
func measured(t *testing.T) (*world, *ends, *gauge, func(*Options)) {
	q := limit("q", 8, nil)
	q.Spec.ReclaimIdleAfter, q.Spec.IdleBelow = &metav1.Duration{Duration: 10 * time.Minute}, 10
	w := newWorld(t, node("n1", "r1", 2), q, pod("x", 1, "queue", "q"), pod("y", 1, "queue", "q"))
	g := &gauge{at: map[string]int{"x": 9, "y": 10}}
	use := func(o *Options) { o.telemetry = g }
	return w, w.ends(time.Second), g, use
}

func (w *world) running(names ...string) {
	for _, name := range names {
		w.edit(name, func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning })
	}
}

// GPUs that are below the queue's threshold for its window are reclaimed, for anybody who waits, and those at it are not.
func TestIdleGPUsAreReclaimed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, ends, _, use := measured(t)
		w.start(use)
		w.running("x", "y")
		w.add(pod("z", 1))
		w.after(9 * time.Minute)
		if got := ends.ended(); len(got) > 0 {
			t.Fatalf("ended %q before the window is over", got)
		}
		c := idleOf(w.pod("x"))
		if c == nil || c.Status != corev1.ConditionTrue || c.Message != "its busiest GPU was never above 9 %, and counts as idle below 10 %" || time.Since(c.LastTransitionTime.Time) < 8*time.Minute {
			t.Errorf("x says %+v", c)
		}
		if c := idleOf(w.pod("y")); c != nil {
			t.Errorf("y says %+v", c)
		}
		w.after(90 * time.Second)
		if diff := cmp.Diff([]string{"x Idle, ended for pod default/z: its GPUs did nothing"}, ends.ended()); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]string{"n1", "n1"}, w.at("y", "z")); diff != "" {
			t.Error(diff)
		}
	})
}

// One moment of work begins the window anew, and so does a time without metrics, and a scheduler that starts: what is not measured
// is not idle.
func TestTheWindowBeginsAnew(t *testing.T) {
	for name, interrupt := range map[string]func(*world, *gauge, func()){
		"work": func(w *world, g *gauge, _ func()) {
			g.set("x", 80)
			w.after(20 * time.Second)
			g.set("x", 0)
		},
		"no metrics": func(w *world, g *gauge, _ func()) {
			g.fail(errors.New("connection refused"))
			w.after(2 * time.Minute)
			g.fail(nil)
		},
		"another scheduler": func(_ *world, _ *gauge, again func()) { again() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, ends, g, use := measured(t)
				stop := w.start(use)
				w.running("x", "y")
				w.add(pod("z", 1))
				w.after(9 * time.Minute)
				interrupt(w, g, func() { _ = stop(); w.start(use) })
				w.rest()
				if c := idleOf(w.pod("x")); c == nil || c.Status != corev1.ConditionFalse {
					t.Errorf("x says %+v", c)
				}
				w.after(9 * time.Minute)
				if got := ends.ended(); len(got) > 0 {
					t.Fatalf("ended %q", got)
				}
				w.after(2 * time.Minute)
				if len(ends.ended()) != 1 {
					t.Errorf("ended %q", ends.ended())
				}
			})
		})
	}
}

// Nothing is read while no queue wants to know, and pods that have not started are not measured.
func TestGPUsAreReadOnlyForQueuesThatAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, ends, g, use := measured(t)
		w.queues.edit("q", func(q *v1alpha1.BerthQueue) { q.Spec.ReclaimIdleAfter = nil })
		w.start(use)
		w.running("x", "y")
		w.add(pod("z", 1))
		w.after(time.Hour)
		if g.reads > 0 || len(ends.ended()) > 0 {
			t.Errorf("read %d times, ended %q", g.reads, ends.ended())
		}
	})
}

// A scheduler that measures nothing takes back what one before it measured: its queue would reclaim what works by now.
func TestNobodyMeasuresAnyMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := limit("q", 8, nil)
		q.Spec.ReclaimIdleAfter = &metav1.Duration{Duration: 10 * time.Minute}
		p := pod("x", 1, "queue", "q")
		p.Spec.NodeName, p.Status.Phase = "n1", corev1.PodRunning
		p.Status.Conditions = []corev1.PodCondition{{Type: v1alpha1.PodIdle, Status: corev1.ConditionTrue, Reason: idleMeasured, LastTransitionTime: metav1.Now()}}
		w := newWorld(t, node("n1", "r1", 1), q, p)
		ends := w.ends(time.Second)
		w.start()
		w.add(pod("z", 1))
		w.after(time.Hour)
		if got := ends.ended(); len(got) > 0 {
			t.Fatalf("ended %q", got)
		}
		if c := idleOf(w.pod("x")); c == nil || c.Status != corev1.ConditionFalse {
			t.Errorf("x says %v", c)
		}
	})
}
