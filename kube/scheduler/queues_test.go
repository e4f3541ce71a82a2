package scheduler

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-dev/berth/api/v1alpha1"
)

var namespacesResource = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}

// tenant is the namespace default, where the world's pods are, with labels as key, value.
func tenant(keysAndValues ...string) *corev1.Namespace {
	n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default", Labels: map[string]string{}}}
	for i := 0; i+1 < len(keysAndValues); i += 2 {
		n.Labels[keysAndValues[i]] = keysAndValues[i+1]
	}
	return n
}

// relabel gives the namespace other labels.
func (w *world) relabel(keysAndValues ...string) {
	w.t.Helper()
	n := tenant(keysAndValues...)
	w.mu.Lock()
	n.ResourceVersion = w.next()
	w.mu.Unlock()
	if err := w.client.Tracker().Update(namespacesResource, n, ""); err != nil {
		w.t.Fatal(err)
	}
	w.rest()
}

// conditions are those of several pods.
func (w *world) conditions(names ...string) (out []string) {
	for _, name := range names {
		out = append(out, w.condition(name))
	}
	return out
}

// A pod that names a queue which is not there waits for it, and one that waits when its queue goes says so. What
// runs is left alone.
func TestQueueComesAndGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, node("n1", "r1", 8), pod("a", 2, "queue", "q"), pod("b", 2, "queue", "q"))
		w.start()
		if diff := cmp.Diff([]string{"False QueueMissing", "False QueueMissing"}, w.conditions("a", "b")); diff != "" {
			t.Fatal(diff)
		}
		w.add(limit("q", 2, nil))
		w.rest()
		if diff := cmp.Diff([]string{"n1", ""}, w.at("a", "b")); diff != "" {
			t.Fatal(diff)
		}
		w.queues.remove("q")
		w.rest()
		if diff := cmp.Diff([]string{"n1", ""}, w.at("a", "b")); diff != "" {
			t.Fatal(diff)
		}
		w.add(limit("q", 4, nil))
		w.rest()
		want := []string{
			"FailedScheduling: queue q does not exist",
			"FailedScheduling: needs 2 nvidia.com/gpu of queue q, which uses 2 of 2",
			"FailedScheduling: queue q does not exist",
			"Scheduled: Successfully assigned default/b to n1",
		}
		if diff := cmp.Diff(want, w.said("b")); diff != "" {
			t.Error(diff)
		}
	})
}

// Over its limit a workload waits with a reason that no autoscaler acts on, until the limit is raised.
func TestQueueLimitIsRaised(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, node("n1", "r1", 8), limit("q", 2, nil), limit("other", 1, nil), pod("a", 2, "queue", "q"))
		w.start()
		w.add(pod("b", 1, "queue", "q"))
		w.add(pod("c", 3, "queue", "q"))
		w.rest()
		if diff := cmp.Diff([]string{"", "False OverQueueLimit", "False ExceedsQueueMaximum"}, w.conditions("a", "b", "c")); diff != "" {
			t.Fatal(diff)
		}
		w.queues.edit("q", raise(3))
		w.rest()
		if diff := cmp.Diff([]string{"n1", "n1", ""}, w.at("a", "b", "c")); diff != "" {
			t.Error(diff)
		}
	})
}

// A limit for what nobody asks for keeps nobody out.
func TestQueueLimitsAnotherResource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := limit("q", 2, nil)
		q.Spec.Resources = append(q.Spec.Resources, v1alpha1.QueueResource{Name: "example.com/fpga", Limit: new(resource.MustParse("0"))})
		w := newWorld(t, node("n1", "r1", 8), q, pod("a", 2, "queue", "q"))
		w.start()
		if diff := cmp.Diff([]string{"n1"}, w.at("a")); diff != "" {
			t.Error(diff)
		}
	})
}

// Which namespaces may use a queue follows their labels.
func TestQueueIsOpenToSomeNamespaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, node("n1", "r1", 8), limit("q", 8, map[string]string{"team": "a"}), tenant("team", "b"), pod("x", 1, "queue", "q"))
		w.start()
		if diff := cmp.Diff([]string{"False QueueForbidden"}, w.conditions("x")); diff != "" {
			t.Fatal(diff)
		}
		w.relabel("team", "a")
		if diff := cmp.Diff([]string{"n1"}, w.at("x")); diff != "" {
			t.Fatal(diff)
		}
		w.remove("namespaces", "", "default")
		w.rest()
		w.add(pod("y", 1, "queue", "q"))
		w.rest()
		if diff := cmp.Diff([]string{"False QueueForbidden"}, w.conditions("y")); diff != "" {
			t.Fatal(diff)
		}
		w.add(tenant("team", "a"))
		w.rest()
		w.queues.edit("q", func(q *v1alpha1.BerthQueue) { q.Spec.NamespaceSelector.MatchLabels["team"] = "c" })
		w.rest()
		w.add(pod("z", 1, "queue", "q"))
		w.rest()
		if diff := cmp.Diff([]string{"n1", "n1", ""}, w.at("x", "y", "z")); diff != "" {
			t.Error(diff)
		}
	})
}

// A selector that makes no sense opens the queue to nobody, and the queue says so.
func TestQueueSelectorMakesNoSense(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, node("n1", "r1", 8), limit("q", 8, map[string]string{"a b": "c"}), tenant(), pod("x", 1, "queue", "q"))
		w.start()
		if diff := cmp.Diff([]string{"False QueueForbidden"}, w.conditions("x")); diff != "" {
			t.Error(diff)
		}
		c := w.queues.status("q").Conditions
		if len(c) != 1 || c[0].Type != v1alpha1.QueueValid || c[0].Status != metav1.ConditionFalse {
			t.Fatalf("conditions %v", c)
		}
		w.queues.edit("q", func(q *v1alpha1.BerthQueue) { q.Spec.NamespaceSelector = nil })
		w.after(statusEvery + time.Second)
		if c := w.queues.status("q").Conditions; c[0].Status != metav1.ConditionTrue || c[0].Message != "" {
			t.Errorf("conditions %v", c)
		}
		if diff := cmp.Diff([]string{"n1"}, w.at("x")); diff != "" {
			t.Error(diff)
		}
	})
}

// A workload that names no queue is charged to its namespace's, else to the one called default, else to none; what
// it names itself counts first. What waits stays with the queue that it entered, for as long as that lets it.
func TestQueueOfNamespace(t *testing.T) {
	own := grouped("group-0", "group")
	own.Annotations["berth.dev/queue"] = "own"
	for name, workload := range map[string]struct {
		pods  []*corev1.Pod
		named bool
	}{
		"pod":                     {pods: []*corev1.Pod{pod("x", 1)}},
		"native gang":             {pods: []*corev1.Pod{pod("x", 1, "gang", "g")}},
		"pod group":               {pods: []*corev1.Pod{grouped("x", "group")}},
		"pod with claims":         {pods: []*corev1.Pod{claiming("x", "data")}},
		"pod that names one":      {pods: []*corev1.Pod{pod("x", 1, "queue", "own")}, named: true},
		"pod of group that names": {pods: []*corev1.Pod{own}, named: true},
		"native gang that names":  {pods: []*corev1.Pod{pod("x", 1, "gang", "g", "queue", "own")}, named: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				claim, volume := boundClaim("data", "r1")
				w := newWorld(t, claim, volume, group("group", 1), tenant())
				for _, p := range workload.pods {
					w.add(p.DeepCopy())
				}
				w.start()
				wait := func(want, named string) {
					t.Helper()
					w.rest()
					if workload.named {
						want = named
					}
					if diff := cmp.Diff("False "+want, w.condition(workload.pods[0].Name)); diff != "" {
						t.Error(diff)
					}
				}
				wait("Unschedulable", "QueueMissing")
				w.relabel("berth.dev/queue", "later")
				wait("QueueMissing", "QueueMissing")
				w.add(limit("own", 9, nil))
				w.add(limit("later", 9, map[string]string{"team": "a"}))
				wait("QueueForbidden", "Unschedulable")
				w.relabel("berth.dev/queue", "own")
				wait("Unschedulable", "Unschedulable")
				w.add(limit(v1alpha1.DefaultQueue, 0, nil))
				w.relabel("berth.dev/queue", "later")
				wait("Unschedulable", "Unschedulable")
				w.relabel()
				wait("Unschedulable", "Unschedulable")
				w.queues.remove("own")
				wait("ExceedsQueueMaximum", "QueueMissing")
				w.queues.remove(v1alpha1.DefaultQueue)
				wait("Unschedulable", "QueueMissing")
			})
		})
	}
}

// What ran before there were queues comes into the first that there is for it, gangs and lone pods alike, and stays there.
func TestRunningWorkEntersItsFirstQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, append(gang("g", 2), node("n1", "r1", 8), tenant(), pod("a", 2))...)
		w.start()
		w.relabel("berth.dev/queue", "q")
		w.add(limit("q", 4, nil))
		w.add(limit("r", 4, nil))
		w.rest()
		w.add(pod("b", 1, "queue", "q"))
		w.rest()
		if diff := cmp.Diff([]string{"FailedScheduling: needs 1 nvidia.com/gpu of queue q, which uses 4 of 4"}, w.said("b")); diff != "" {
			t.Error(diff)
		}
		w.relabel("berth.dev/queue", "r")
		w.add(pod("c", 4, "queue", "r"))
		w.rest()
		if diff := cmp.Diff([]string{"", "n1"}, w.at("b", "c")); diff != "" {
			t.Error(diff)
		}
	})
}

// The watch gives a pod again in the version that is known, after its namespace went to another queue and before
// the next plan: to the engine that is a newer pod, and not one that contradicts itself.
func TestPodComesAgainAfterItsNamespaceMoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, node("n1", "r1", 8), pod("a", 1))
		s := w.still(t)
		s.feed.Set(tenant())
		s.cycle(time.Now())
		s.feed.Set(tenant("berth.dev/queue", "zz"))
		s.feed.Set(w.pod("a"))
		s.feed.Set(w.pod("a"))
		s.feed.Settle()
		if bad := s.state.Apply(s.inbox.take()...); len(bad) > 0 {
			t.Fatal(bad)
		}
		if got := s.state.Dump().Pods[0].Queue; got != "zz" {
			t.Errorf("charged to %q", got)
		}
		s.feed.Remove(w.pod("a"))
		s.cycle(time.Now())
		if left := s.state.Dump().Pods; len(left) > 0 {
			t.Errorf("still there: %v", left)
		}
	})
}

// On a cluster without the kind the scheduler runs, and notices when it is installed, and when it is gone.
func TestQueueKindIsNotInstalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, node("n1", "r1", 8), pod("a", 1), pod("b", 1, "queue", "q"))
		w.queues.install(false)
		w.start()
		if diff := cmp.Diff([]string{"n1", ""}, w.at("a", "b")); diff != "" {
			t.Fatal(diff)
		}
		if diff := cmp.Diff("False QueueMissing", w.condition("b")); diff != "" {
			t.Fatal(diff)
		}
		w.queues.install(true)
		w.add(limit("q", 1, nil))
		w.after(2 * time.Minute)
		if diff := cmp.Diff([]string{"n1"}, w.at("b")); diff != "" {
			t.Fatal(diff)
		}
		w.queues.install(false)
		w.after(2 * time.Minute)
		w.add(pod("c", 1, "queue", "q"))
		w.rest()
		if diff := cmp.Diff("False QueueMissing", w.condition("c")); diff != "" {
			t.Error(diff)
		}
	})
}
