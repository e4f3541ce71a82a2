package scheduler

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/berth-dev/berth/kube/report"
)

// halfGang is a gang of three of which the last cannot start: its node is gone, and nothing else is free.
func halfGang(t *testing.T, w *world) {
	t.Helper()
	w.remove("nodes", "", "n2")
	w.remove("pods", "default", "g-2")
	w.rest()
}

func (w *world) names() []string {
	list, err := w.client.CoreV1().Pods("default").List(w.t.Context(), metav1.ListOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	var out []string
	for _, p := range list.Items {
		out = append(out, p.Name)
	}
	slices.Sort(out)
	return out
}

func ownedGang(w *world) {
	w.add(job("g", 3, "gang", "g"))
	for i := range 3 {
		w.add(ownedPod("g", i))
	}
}

// A gang that cannot have its minimum back is let go after the grace time, not before, and each member says why.
func TestAGangUnderItsMinimumIsLetGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, node("n1", "r1", 2), node("n2", "r1", 1))
		var targets []string
		w.client.PrependReactor("delete", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
			p := w.pod(a.(clienttesting.DeleteAction).GetName())
			for _, c := range p.Status.Conditions {
				if c.Type == corev1.DisruptionTarget {
					targets = append(targets, p.Name+" "+c.Reason)
				}
			}
			return false, nil, nil
		})
		ownedGang(w)
		w.start(func(o *Options) { o.GangGrace = time.Minute })
		if len(w.done()) != 3 {
			t.Fatalf("bound %v", w.done())
		}
		halfGang(t, w)
		w.add(ownedPod("g", 3))
		w.after(50 * time.Second)
		if diff := cmp.Diff([]string{"g-0", "g-1", "g-3"}, w.names()); diff != "" {
			t.Fatalf("before the time is up: %s", diff)
		}
		w.after(20 * time.Second)
		if diff := cmp.Diff([]string{"g-3"}, w.names()); diff != "" {
			t.Errorf("after the time is up: %s", diff)
		}
		slices.Sort(targets)
		if diff := cmp.Diff([]string{"g-0 GangUnderMinimum", "g-1 GangUnderMinimum"}, targets); diff != "" {
			t.Error(diff)
		}
		w.add(ownedPod("g", 4))
		w.add(ownedPod("g", 5))
		w.add(node("n3", "r1", 1))
		w.rest()
		if diff := cmp.Diff([]string{"n1", "n1", "n3"}, slices.Sorted(slices.Values(w.at("g-3", "g-4", "g-5")))); diff != "" {
			t.Errorf("the gang does not start again whole: %s", diff)
		}
	})
}

// One that gets its member back in time stays.
func TestAGangThatIsRepairedStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, node("n1", "r1", 2), node("n2", "r1", 1))
		ownedGang(w)
		w.start(func(o *Options) { o.GangGrace = time.Minute })
		halfGang(t, w)
		w.add(ownedPod("g", 3))
		w.after(50 * time.Second)
		w.add(node("n3", "r1", 1))
		w.after(5 * time.Minute)
		if diff := cmp.Diff([]string{"n1", "n1", "n3"}, slices.Sorted(slices.Values(w.at("g-0", "g-1", "g-3")))); diff != "" {
			t.Error(diff)
		}
	})
}

// Pods that nobody would make again stay, and say so once.
func TestBarePodsAreNotLetGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, append(gang("g", 3), node("n1", "r1", 2), node("n2", "r1", 1))...)
		w.start(func(o *Options) { o.GangGrace = time.Minute })
		halfGang(t, w)
		w.add(pod("g-3", 1, "gang", "g", "min", "3"))
		w.after(10 * time.Minute)
		if diff := cmp.Diff([]string{"g-0", "g-1", "g-3"}, w.names()); diff != "" {
			t.Error(diff)
		}
		said := slices.DeleteFunc(w.said("g-0"), func(s string) bool { return !strings.HasPrefix(s, report.UnderMinimum) })
		if len(said) != 1 || !strings.Contains(said[0], "no controller") {
			t.Errorf("said %q", said)
		}
	})
}

// A deletion that is refused is tried again a grace time later, and nothing else breaks.
func TestLettingGoIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, node("n1", "r1", 2), node("n2", "r1", 1))
		refused := 0
		w.client.PrependReactor("delete", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
			if refused++; refused <= 2 {
				return true, nil, apierrors.NewForbidden(podKind, "g", errors.New("no"))
			}
			return false, nil, nil
		})
		ownedGang(w)
		w.start(func(o *Options) { o.GangGrace = time.Minute })
		halfGang(t, w)
		w.add(ownedPod("g", 3))
		w.after(3 * time.Minute)
		if diff := cmp.Diff([]string{"g-3"}, w.names()); diff != "" {
			t.Error(diff)
		}
	})
}

// A gang that lacks a member which nobody makes is let go as well: it would hold its GPUs for ever.
func TestAGangThatLacksAMemberIsLetGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, node("n1", "r1", 3))
		ownedGang(w)
		w.start(func(o *Options) { o.GangGrace = time.Minute })
		w.remove("pods", "default", "g-2")
		w.after(50 * time.Second)
		if diff := cmp.Diff([]string{"g-0", "g-1"}, w.names()); diff != "" {
			t.Fatalf("before the time is up: %s", diff)
		}
		w.after(20 * time.Second)
		if got := w.names(); len(got) > 0 {
			t.Errorf("after the time is up: %q", got)
		}
	})
}

// A gang of which some members have succeeded is not under its minimum, whoever made them.
func TestAGangThatIsFinishingIsNotLetGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, node("n1", "r1", 3), group("g", 3))
		for i := range 3 {
			p := grouped(fmt.Sprintf("g-%d", i), "g")
			yes := true
			p.OwnerReferences = []metav1.OwnerReference{{Kind: "PyTorchJob", UID: "unknown kind", Controller: &yes}}
			w.add(p)
		}
		w.start(func(o *Options) { o.GangGrace = time.Minute })
		w.edit("g-0", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })
		w.edit("g-1", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })
		w.after(10 * time.Minute)
		if diff := cmp.Diff([]string{"g-0", "g-1", "g-2"}, w.names()); diff != "" {
			t.Error(diff)
		}
	})
}
