package scheduler

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The watch gives an older version of a pod after a newer one: the newer stays.
func TestOlderVersionComesLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, node("n1", "r1", 1), pod("a", 1), pod("b", 1))
		old := w.pod("a").DeepCopy()
		w.edit("a", func(p *corev1.Pod) { p.Spec.NodeName = "n1" })
		s := w.still(t)
		s.feed.Set(old)
		s.cycle(time.Now())
		if s.feed.Pod("default/a").Spec.NodeName != "n1" || s.binds.queue.left > 0 {
			t.Errorf("took the older version: %d to bind", s.binds.queue.left)
		}
	})
}

// An end that the watch missed comes with the last version known, as does that of a pod which was given again
// under a version of ours.
func TestMissedDeletion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, node("n1", "r1", 1), pod("a", 1), pod("b", 1))
		w.edit("a", func(p *corev1.Pod) { p.Spec.NodeName = "n1" })
		s := w.still(t)
		s.cycle(time.Now())
		s.feed.Remove(w.pod("a"))
		s.cycle(time.Now())
		if i, ok := s.binds.queue.next(); !ok || i.Pod != "default/b" {
			t.Errorf("b is not bound: %v", i)
		}
	})
}

func TestEndedPodFreesItsGPU(t *testing.T) {
	for _, phase := range []corev1.PodPhase{corev1.PodSucceeded, corev1.PodFailed} {
		t.Run(string(phase), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, node("n1", "r1", 1), pod("a", 1))
				w.start()
				w.add(pod("b", 1))
				w.rest()
				if diff := cmp.Diff([]string{"n1", ""}, w.at("a", "b")); diff != "" {
					t.Fatal(diff)
				}
				w.edit("a", func(p *corev1.Pod) { p.Status.Phase = phase })
				w.rest()
				if diff := cmp.Diff([]string{"n1"}, w.at("b")); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

// A pod on its way out keeps its GPU until it is gone.
func TestTerminatingPodHoldsItsGPU(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, node("n1", "r1", 1), pod("a", 1))
		w.start()
		w.edit("a", func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Now().Add(time.Second)} })
		w.add(pod("b", 1))
		w.after(time.Minute)
		if diff := cmp.Diff([]string{""}, w.at("b")); diff != "" {
			t.Fatal(diff)
		}
		w.remove("pods", "default", "a")
		w.rest()
		if diff := cmp.Diff([]string{"n1"}, w.at("b")); diff != "" {
			t.Error(diff)
		}
	})
}

func TestGatedPodWaitsForItsGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gated := pod("a", 1)
		gated.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/wait"}}
		w := newWorld(t, node("n1", "r1", 1), gated)
		w.start()
		w.after(time.Minute)
		if len(w.tried()) > 0 || len(w.patched()) > 0 {
			t.Fatalf("tried %q, wrote %q", w.tried(), w.patched())
		}
		w.edit("a", func(p *corev1.Pod) { p.Spec.SchedulingGates = nil })
		w.rest()
		if diff := cmp.Diff([]string{"n1"}, w.at("a")); diff != "" {
			t.Error(diff)
		}
	})
}

func TestOtherSchedulersPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		theirs, waiting := pod("theirs", 1, "gang", "g"), pod("waiting", 1)
		theirs.Spec.SchedulerName, theirs.Spec.NodeName = "default-scheduler", "n1"
		waiting.Spec.SchedulerName = "default-scheduler"
		w := newWorld(t, node("n1", "r1", 1), theirs, waiting, pod("ours", 1))
		w.start()
		w.after(time.Minute)
		if len(w.tried()) > 0 {
			t.Fatalf("tried %q", w.tried())
		}
		if w.condition("waiting") != "" || len(w.said("waiting")) > 0 {
			t.Errorf("wrote about another's pod: %q", w.said("waiting"))
		}
		w.remove("pods", "default", "theirs")
		w.rest()
		if diff := cmp.Diff([]string{"n1"}, w.at("ours")); diff != "" {
			t.Error(diff)
		}
	})
}

// A member of a running gang is replaced: the new one joins it, in the rack where the others are.
func TestReplacementJoinsItsGang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, append(gang("g", 3, "topology-required", "rack"), node("n1", "r1", 2), node("n2", "r1", 2), node("n3", "r2", 8))...)
		w.edit("g-0", func(p *corev1.Pod) { p.Spec.NodeName = "n1" })
		w.edit("g-1", func(p *corev1.Pod) { p.Spec.NodeName = "n1" })
		w.edit("g-2", func(p *corev1.Pod) { p.Spec.NodeName = "n2" })
		w.start()
		w.remove("pods", "default", "g-2")
		w.rest()
		w.add(pod("g-2x", 1, "gang", "g", "min", "3", "topology-required", "rack"))
		w.rest()
		if diff := cmp.Diff([]string{"g-2x n2"}, w.done()); diff != "" {
			t.Error(diff)
		}
	})
}

// A new scheduler finds what the last one left: what is bound counts, what was under way goes on.
func TestRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, append(gang("g", 4), node("n1", "r1", 4), node("n2", "r1", 2))...)
		w.answer(func(b *corev1.Binding) error {
			if b.Name > "g-1" {
				return fmt.Errorf("connection refused")
			}
			return nil
		})
		stop := w.start()
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"n1", "n1", "", ""}, w.at("g-0", "g-1", "g-2", "g-3")); diff != "" {
			t.Fatal(diff)
		}
		w.answer(nil)
		w.start()
		w.add(pod("b", 2))
		w.rest()
		w.start() // and a third, on a cluster where nothing is left to do
		if diff := cmp.Diff([]string{"n1", "n1", "n1", "n1", "n2"}, w.at("g-0", "g-1", "g-2", "g-3", "b")); diff != "" {
			t.Error(diff)
		}
		if len(w.done()) != 5 {
			t.Errorf("bound %q", w.done())
		}
	})
}

// Nothing is kept of what is gone.
func TestMemoryOfPodsThatAreGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, node("n1", "r1", 1))
		s := w.still(t)
		for i := range 50 {
			p := pod(fmt.Sprintf("p-%d", i), 9, "gang", fmt.Sprintf("g-%d", i%5), "min", "nonsense", "typo", "x")
			p.UID, p.ResourceVersion = types.UID(p.Name), fmt.Sprint(1000+i)
			s.feed.Set(p)
			s.cycle(time.Now())
			s.feed.Refuse("default/"+p.Name, "n1", "no")
			s.feed.Remove(p)
			s.cycle(time.Now())
		}
		if got := len(s.reports.said); got != 0 {
			t.Errorf("%d things remembered", got)
		}
	})
}
