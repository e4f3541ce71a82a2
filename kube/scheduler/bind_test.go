package scheduler

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/cluster"
)

var podKind = schema.GroupResource{Resource: "pods"}

func TestBindsAGangWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, append(gang("g", 4), node("n1", "r1", 4))...)
		w.start()
		if diff := cmp.Diff([]string{"n1", "n1", "n1", "n1"}, w.at("g-0", "g-1", "g-2", "g-3")); diff != "" {
			t.Error(diff)
		}
		if got := len(w.said("g-0")); got != 1 {
			t.Errorf("%d events, want Scheduled alone: %q", got, w.said("g-0"))
		}
	})
}

func TestGangWithoutRoomBindsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, append(gang("g", 4), node("n1", "r1", 3))...)
		w.start()
		w.after(10 * time.Minute)
		if len(w.tried()) > 0 {
			t.Errorf("tried %q", w.tried())
		}
		if got := w.condition("g-0"); got != "False Unschedulable" {
			t.Errorf("condition %q", got)
		}
	})
}

// What the server will not have is said on the pod, as upstream says it, and what it waits for after that too.
func TestRefusedBindingIsSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, node("n1", "r1", 1), pod("a", 1))
		w.answer(func(*corev1.Binding) error { return apierrors.NewForbidden(podKind, "a", errors.New("no")) })
		w.start()
		var reasons []string
		for _, s := range w.said("a") {
			reasons = append(reasons, strings.SplitN(s, ";", 2)[0])
		}
		want := []string{
			`FailedScheduling: the binding to node n1 was refused: pods "a" is forbidden: no`,
			"FailedScheduling: needs 1 pod of 1 nvidia.com/gpu",
		}
		if diff := cmp.Diff(want, reasons); diff != "" {
			t.Error(diff)
		}
		if got := w.condition("a"); got != "False Unschedulable" {
			t.Errorf("condition %q", got)
		}
	})
}

// A refusal of the server keeps the gang from the node for 30 seconds, and no longer.
func TestRefusedBindingGoesElsewhere(t *testing.T) {
	for name, refusal := range map[string]error{
		"invalid":   apierrors.NewInvalid(schema.GroupKind{Kind: "Binding"}, "a", nil),
		"forbidden": apierrors.NewForbidden(podKind, "a", errors.New("no")),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, node("n1", "r1", 1), node("n2", "r1", 2), pod("a", 1))
				w.answer(func(b *corev1.Binding) error {
					if b.Target.Name == "n1" {
						return refusal
					}
					return nil
				})
				w.start()
				if diff := cmp.Diff([]string{"a n1", "a n2"}, w.tried()); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

func TestRefusedNodeIsTriedAgainAfterAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, node("n1", "r1", 1), pod("a", 1))
		refused := true
		w.answer(func(*corev1.Binding) error {
			if refused {
				return apierrors.NewForbidden(podKind, "a", errors.New("no"))
			}
			return nil
		})
		w.start()
		w.after(cluster.RefuseFor - 2*time.Second)
		if diff := cmp.Diff([]string{"a n1"}, w.tried()); diff != "" {
			t.Errorf("before it is time: %s", diff)
		}
		locked(w, func() bool { refused = false; return true })
		w.after(4 * time.Second)
		if diff := cmp.Diff([]string{"n1"}, w.at("a")); diff != "" {
			t.Error(diff)
		}
	})
}

// A server that refuses whatever the node, as in a namespace that is going, is not asked about every node.
func TestRefusedEverywhereIsSlowedDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pod("a", 1))
		for i := range 100 {
			w.add(node(fmt.Sprintf("n%d", i), "r1", 1))
		}
		w.answer(func(*corev1.Binding) error { return apierrors.NewForbidden(podKind, "a", errors.New("no")) })
		w.start()
		w.after(cluster.RefuseFor - 2*time.Second)
		if got := len(w.tried()); got != patience {
			t.Errorf("%d requests, want %d", got, patience)
		}
		w.after(10 * time.Minute)
		if got := len(w.tried()); got > 25*patience {
			t.Errorf("%d requests in ten minutes", got)
		}
		w.answer(nil)
		w.after(2 * cluster.RefuseFor)
		if len(w.done()) != 1 {
			t.Error("not bound when it could be")
		}
	})
}

// What passes is tried again, with the same node, and binds once.
func TestBusyServerIsAskedAgain(t *testing.T) {
	for name, busy := range map[string]error{
		"429":     apierrors.NewTooManyRequests("slow down", 1),
		"500":     apierrors.NewInternalError(errors.New("etcd")),
		"503":     apierrors.NewServiceUnavailable("starting"),
		"network": errors.New("connection reset by peer"),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, node("n1", "r1", 1), node("n2", "r1", 1), pod("a", 1))
				left := 3
				w.answer(func(*corev1.Binding) error {
					if left--; left >= 0 {
						return busy
					}
					return nil
				})
				w.start()
				w.after(5 * time.Second)
				if diff := cmp.Diff([]string{"a n1", "a n1", "a n1", "a n1"}, w.tried()); diff != "" {
					t.Error(diff)
				}
				if diff := cmp.Diff([]string{"a n1"}, w.done()); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

// The server bound the pod and its answer was lost: the second try meets 409, and that is a success.
func TestLostAnswerIsNotASecondBinding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, node("n1", "r1", 1), node("n2", "r1", 1), pod("a", 1))
		w.lose = func(*corev1.Binding) error { return errors.New("connection reset by peer") }
		w.start()
		w.add(pod("b", 1))
		w.rest()
		if diff := cmp.Diff([]string{"a n1", "b n2"}, w.done()); diff != "" {
			t.Error(diff)
		}
		w.after(5 * time.Second) // events are written behind bindings
		if got := w.said("a"); len(got) != 1 {
			t.Errorf("said %q, want Scheduled once", got)
		}
	})
}

// Somebody else bound the pod between plan and request.
func TestAlreadyBoundElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, node("n1", "r1", 1), node("n2", "r1", 1), pod("a", 1))
		first := true
		w.answer(func(b *corev1.Binding) error {
			if first {
				first = false
				other := b.DeepCopy()
				other.Target.Name = "n2"
				return w.assign(other)
			}
			return nil
		})
		w.start()
		w.add(pod("b", 1))
		w.rest()
		if diff := cmp.Diff([]string{"a n2", "b n1"}, w.done()); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]string{"a n1", "b n1"}, w.tried()); diff != "" {
			t.Errorf("requests: %s", diff)
		}
	})
}

// The pod was replaced by another of its name: that one is bound, under its own UID.
func TestUIDDiffers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, node("n1", "r1", 1), pod("a", 1))
		first := true
		w.answer(func(b *corev1.Binding) error {
			if !first {
				return nil
			}
			first = false
			if err := w.client.Tracker().Delete(podsResource, "default", "a"); err != nil {
				t.Error(err)
			}
			p := pod("a", 1)
			p.UID, p.ResourceVersion, p.CreationTimestamp = "second", w.next(), metav1.Now()
			if err := w.client.Tracker().Add(p); err != nil {
				t.Error(err)
			}
			return nil
		})
		w.start()
		if diff := cmp.Diff([]string{"a n1", "a n1"}, w.tried()); diff != "" {
			t.Error(diff)
		}
		if p := w.pod("a"); p.UID != "second" || p.Spec.NodeName != "n1" {
			t.Errorf("%s on %q", p.UID, p.Spec.NodeName)
		}
	})
}

// 404: the pod went while it was being bound. It is not tried again, and its room is free.
func TestPodDeletedWhileBinding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, node("n1", "r1", 1), pod("a", 1))
		w.answer(func(b *corev1.Binding) error {
			if b.Name == "a" {
				if err := w.client.Tracker().Delete(podsResource, "default", "a"); err != nil {
					t.Error(err)
				}
			}
			return nil
		})
		w.start()
		w.add(pod("b", 1))
		w.rest()
		if diff := cmp.Diff([]string{"a n1", "b n1"}, w.tried()); diff != "" {
			t.Error(diff)
		}
	})
}

// Until the watch tells what a 404 was about, the pod is not tried again and its room is not given away.
func TestNotFoundWaitsForTheWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, node("n1", "r1", 1), node("n2", "r1", 1), pod("a", 1))
		s := w.still(t)
		s.cycle(time.Now())
		w.remove("pods", "default", "a")
		i, _ := s.binds.queue.next()
		s.binds.bind(t.Context(), i)
		s.cycle(time.Now())
		if i, ok := s.binds.queue.next(); ok || len(w.tried())+len(w.patched()) != 1 {
			t.Errorf("tried %q, wrote %q, and %s to come", w.tried(), w.patched(), i.Pod)
		}
	})
}

// A member of a gang is gone, or its node is, between plan and binding: none of the gang is bound until it can
// be bound whole.
func TestWorldMovesBetweenPlanAndBind(t *testing.T) {
	for name, move := range map[string]func(*scheduler, *world){
		"pod":  func(s *scheduler, w *world) { s.feed.Remove(w.pod("g-1")) },
		"node": func(s *scheduler, w *world) { s.feed.Remove(node("n2", "r1", 1)) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, append(gang("g", 2), node("n1", "r1", 1), node("n2", "r1", 1))...)
				s := w.still(t)
				s.cycle(time.Now())
				move(s, w)
				for i, ok := s.binds.queue.next(); ok; i, ok = s.binds.queue.next() {
					s.binds.bind(t.Context(), i)
				}
				s.cycle(time.Now())
				if len(w.tried()) > 0 || s.binds.queue.left > 0 {
					t.Errorf("tried %q, %d to come", w.tried(), s.binds.queue.left)
				}
			})
		})
	}
}

// still is a scheduler that knows the world's pods and nodes, and does only what it is told.
func (w *world) still(t *testing.T, change ...func(*Options)) *scheduler {
	t.Helper()
	o := Options{}.normal()
	for _, c := range change {
		c(&o)
	}
	s, err := newScheduler(w.client, o)
	if err != nil {
		t.Fatal(err)
	}
	nodes, _ := w.client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	for i := range nodes.Items {
		s.feed.Set(&nodes.Items[i])
	}
	pods, _ := w.client.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
	for i := range pods.Items {
		s.feed.Set(&pods.Items[i])
	}
	return s
}

// A binding that waited so long that its assumption may end under way is not sent.
func TestLateBindingIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, node("n1", "r1", 1), pod("a", 1))
		s := w.still(t)
		s.cycle(time.Now())
		time.Sleep(assumeFor/2 + time.Second)
		i, _ := s.binds.queue.next()
		s.binds.bind(t.Context(), i)
		if len(w.tried()) > 0 {
			t.Errorf("tried %q", w.tried())
		}
		s.cycle(time.Now())
		if _, ok := s.binds.queue.next(); !ok {
			t.Error("not planned again")
		}
	})
}

func TestPassing(t *testing.T) {
	var got []int
	for code := http.StatusBadRequest; code < 600; code++ {
		if passing(&apierrors.StatusError{ErrStatus: metav1.Status{Code: int32(code)}}) {
			got = append(got, code)
		}
	}
	if !slices.Contains(got, 429) || !slices.Contains(got, 500) || got[1] != 500 {
		t.Errorf("passing: %v", got)
	}
}

// A gang that begins and grows in one plan is bound as one, and the plan stays as it is.
func TestStartsOfAGangAreJoined(t *testing.T) {
	at := func(pod string) engine.Placement { return engine.Placement{Pod: pod, Node: "n"} }
	starts := []engine.Start{
		{Gang: "a", Kind: engine.Begin, Placements: []engine.Placement{at("a-0")}},
		{Gang: "b", Kind: engine.Begin, Placements: []engine.Placement{at("b")}},
		{Gang: "a", Kind: engine.Grow, Borrowed: engine.Resources{{Resource: "gpu", Value: 1}}, Placements: []engine.Placement{at("a-1")}},
	}
	want := []*engine.Start{
		{Gang: "a", Kind: engine.Begin, Borrowed: engine.Resources{{Resource: "gpu", Value: 1}}, Placements: []engine.Placement{at("a-0"), at("a-1")}},
		{Gang: "b", Kind: engine.Begin, Placements: []engine.Placement{at("b")}},
	}
	if diff := cmp.Diff(want, joined(starts)); diff != "" || len(starts[0].Placements) != 1 {
		t.Error(diff, starts[0])
	}
}

// What becomes of a binding of a pod that is gone says nothing of the pod that was made in its place.
func TestAPodIsMadeAgainWhileItsBindingFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, node("n1", "r1", 1), pod("a", 1))
		w.answer(func(*corev1.Binding) error {
			return apierrors.NewInternalError(errors.New(`failed calling webhook "x": no`))
		})
		var mu sync.Mutex
		starts := make(map[string]int)
		w.start(func(o *Options) {
			o.plan = func(s *engine.State, now time.Time) engine.Plan {
				plan := s.Plan(now)
				mu.Lock()
				defer mu.Unlock()
				for _, s := range plan.Starts {
					for _, p := range s.Placements {
						starts[p.UID]++
					}
				}
				return plan
			}
		})
		w.after(20 * time.Second)
		w.remove("pods", "default", "a")
		again := pod("a", 1)
		again.UID = "again"
		w.add(again)
		w.after(30 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		if starts["again"] != 1 {
			t.Errorf("planned %d times, want once", starts["again"])
		}
	})
}
