package scheduler

import (
	"context"
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
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/dialect/hami"
)

var nodesResource = schema.GroupVersionResource{Version: "v1", Resource: "nodes"}

// hamiNode has two GPUs of 16,000 MiB, each of which ten pods may share.
func hamiNode(name string) *corev1.Node {
	n := node(name, "r1", 20)
	n.Annotations = map[string]string{hami.KeyRegister: hami.Register([]hami.Device{
		{ID: "GPU-" + name + "-0", Count: 10, Memory: 16000, Cores: 100, Type: "NVIDIA-T4", Mode: hami.Core, Health: true},
		{ID: "GPU-" + name + "-1", Index: 1, Count: 10, Memory: 16000, Cores: 100, Type: "NVIDIA-T4", Mode: hami.Core, Health: true},
	})}
	return n
}

// vgpu is a pod that asks for so many MiB of a GPU, and a share of its compute.
func vgpu(name string, memory, cores int64) *corev1.Pod {
	p := pod(name, 1)
	r := p.Spec.Containers[0].Resources.Requests
	r["nvidia.com/gpumem"] = *resource.NewQuantity(memory, resource.DecimalSI)
	r["nvidia.com/gpucores"] = *resource.NewQuantity(cores, resource.DecimalSI)
	return p
}

func (w *world) lockOf(node string) string {
	n, err := w.client.Tracker().Get(nodesResource, "", node)
	if err != nil {
		w.t.Fatal(err)
	}
	return n.(*corev1.Node).Annotations[hami.KeyLock]
}

// unlock does as HAMi's plugin does when it has given a pod its devices.
func (w *world) unlock(node string) {
	n, err := w.client.Tracker().Get(nodesResource, "", node)
	if err != nil {
		w.t.Fatal(err)
	}
	free := n.(*corev1.Node).DeepCopy()
	delete(free.Annotations, hami.KeyLock)
	locked(w, func() bool { free.ResourceVersion = w.next(); return true })
	if err := w.client.Tracker().Update(nodesResource, free, ""); err != nil {
		w.t.Fatal(err)
	}
	w.rest()
}

// Pods are bound to a node of HAMi one at a time, with what its plugin is to give to them. Whoever has the lock first is first.
func TestBindsForHAMi(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, hamiNode("n1"), vgpu("a", 8000, 30), vgpu("b", 8000, 30))
		at := fmt.Sprint(time.Now().Unix())
		w.start()
		w.after(2 * time.Second)
		first, second := "a", "b"
		if slices.Equal(w.done(), []string{"b n1"}) {
			first, second = second, first
		}
		if diff := cmp.Diff([]string{first + " n1"}, w.done()); diff != "" {
			t.Fatalf("bound while the node is locked (-want +got):\n%s", diff)
		}
		_, namespace, name, ok := hami.LockedFor(w.lockOf("n1"))
		if !ok || namespace != "default" || name != first {
			t.Errorf("the node is locked by %q", w.lockOf("n1"))
		}
		got := map[string]string{}
		for _, key := range []string{hami.KeyNode, hami.KeyToAllocate, hami.KeyAllocated, hami.KeyBindPhase, hami.KeyBindTime, hami.KeyTime} {
			got[key] = w.pod(first).Annotations[key]
		}
		want := map[string]string{
			hami.KeyNode: "n1", hami.KeyBindPhase: "allocating", hami.KeyBindTime: at, hami.KeyTime: at,
			hami.KeyToAllocate: "GPU-n1-0,NVIDIA,8000,30:;", hami.KeyAllocated: "GPU-n1-0,NVIDIA,8000,30:;",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("bound with (-want +got):\n%s", diff)
		}
		w.unlock("n1")
		w.after(5 * time.Second)
		if diff := cmp.Diff([]string{"n1", "n1"}, w.at("a", "b")); diff != "" {
			t.Error(diff)
		}
		if got := w.pod(second).Annotations[hami.KeyToAllocate]; got != "GPU-n1-0,NVIDIA,8000,30:;" {
			t.Errorf("%s gets %q, and not the rest of the first GPU", second, got)
		}
	})
}

// Volcano's plugin for vGPUs is served under Volcano's names.
func TestBindsForVolcanosPlugin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := hami.Volcano()
		n := node("n1", "r1", 0)
		n.Annotations = map[string]string{e.Register: e.Registration([]hami.Device{{ID: "GPU-0", Count: 10, Memory: 16000, Type: "NVIDIA-T4", Mode: hami.Core, Health: true}})}
		for name, has := range map[string]int64{e.Count: 10, e.Memory: 16000, e.Cores: 100} {
			n.Status.Allocatable[corev1.ResourceName(name)] = *resource.NewQuantity(has, resource.DecimalSI)
		}
		p := pod("a", 0)
		for name, wants := range map[string]int64{e.Count: 1, e.Memory: 8000, e.Cores: 30} {
			p.Spec.Containers[0].Resources.Requests[corev1.ResourceName(name)] = *resource.NewQuantity(wants, resource.DecimalSI)
		}
		w := newWorld(t, n, p)
		w.start()
		w.after(2 * time.Second)
		if diff := cmp.Diff([]string{"a n1"}, w.done()); diff != "" {
			t.Fatalf("bound (-want +got):\n%s", diff)
		}
		got := w.pod("a").Annotations
		if got[e.Allocated] != "GPU-0,NVIDIA,8000,30:" || got[e.Node] != "n1" || got[e.BindPhase] != "allocating" {
			t.Error("bound with", got)
		}
		on, err := w.client.Tracker().Get(nodesResource, "", "n1")
		if err != nil {
			t.Fatal(err)
		}
		if _, namespace, name, ok := hami.LockedFor(on.(*corev1.Node).Annotations[e.LockKey]); !ok || namespace != "default" || name != "a" {
			t.Error("locks:", on.(*corev1.Node).Annotations)
		}
	})
}

// A binding that is refused gives the lock back.
func TestRefusedBindingUnlocksTheNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, hamiNode("n1"), vgpu("a", 8000, 0))
		w.answer(func(*corev1.Binding) error { return apierrors.NewForbidden(podKind, "a", errors.New("no")) })
		w.start()
		if len(w.tried()) == 0 || w.lockOf("n1") != "" {
			t.Errorf("tried %q, and the node is locked by %q", w.tried(), w.lockOf("n1"))
		}
	})
}

// What cannot be on any card names the largest one; and a lock of a pod that is gone keeps nobody out.
func TestTooLargeForHAMi(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := hamiNode("n1")
		n.Annotations[hami.KeyLock] = hami.Lock(time.Now(), "default", "gone")
		w := newWorld(t, n, vgpu("huge", 999999, 0), vgpu("a", 100, 0))
		w.start()
		w.after(3 * time.Second)
		if diff := cmp.Diff([]string{"", "n1"}, w.at("huge", "a")); diff != "" {
			t.Error(diff)
		}
		want := []string{"FailedScheduling: one pod needs 999999 MiB of GPU memory; the largest card has 16000 MiB"}
		if diff := cmp.Diff(want, w.said("huge")); diff != "" {
			t.Errorf("said (-want +got):\n%s", diff)
		}
	})
}

// Parts count in the queue: what its limit leaves starts, the rest waits, and the status says how much of a GPU that is.
func TestPartsCountInTheirQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := limit("q", 1, nil)
		q.Spec.Resources[0].Limit = new(resource.MustParse("1200m"))
		w := newWorld(t, hamiNode("n1"), q)
		for _, name := range []string{"a", "b", "c"} {
			p := vgpu(name, 8000, 30)
			p.Annotations = map[string]string{"berth.dev/queue": "q"}
			w.add(p)
		}
		w.start()
		for range 3 {
			w.unlock("n1")
			w.after(2 * statusEvery)
		}
		if diff := cmp.Diff([]string{"n1", "n1", ""}, w.at("a", "b", "c")); diff != "" {
			t.Fatal(diff)
		}
		if diff := cmp.Diff([]v1alpha1.QueueUse{use("nvidia.com/gpu", "1", "500m")}, w.queues.status("q").Resources); diff != "" {
			t.Error(diff)
		}
		pending := ""
		for _, c := range w.pod("c").Status.Conditions {
			if c.Type == corev1.PodScheduled {
				pending = c.Message
			}
		}
		if !strings.Contains(pending, "needs 0.5 nvidia.com/gpu of queue q, which uses 1 of 1.2") {
			t.Errorf("c is told %q", pending)
		}
	})
}

// A scheduler that is killed while the victim ends has a successor that keeps the card on which room is made: a pod that comes meanwhile and
// would fit beside the victim does not get what was free there.
func TestASuccessorKeepsPartsOfACard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ranked := func(p *corev1.Pod, priority int32) *corev1.Pod {
			p.Spec.Priority = &priority
			return p
		}
		w := newWorld(t, hamiNode("n1"), ranked(vgpu("old", 12000, 0), 0))
		w.ends(10 * time.Minute)
		o := &orders{w: w}
		stop := w.start(o.options)
		w.after(2 * time.Second)
		w.unlock("n1")
		w.add(ranked(vgpu("beside", 15000, 0), 100))
		w.after(2 * time.Second)
		w.unlock("n1")
		if diff := cmp.Diff([]string{"n1", "n1"}, w.at("old", "beside")); diff != "" {
			t.Fatal(diff)
		}
		w.add(ranked(vgpu("new", 15000, 0), 50))
		w.after(2 * time.Second)
		want := []engine.HeldCard{{ID: "n1/GPU-n1-0", Part: &engine.Part{Cards: 1, Memory: 15000}}}
		if diff := cmp.Diff(want, o.cards()); diff != "" {
			t.Fatalf("held before the restart (-want +got):\n%s", diff)
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		o = &orders{w: w}
		w.start(o.options)
		w.add(ranked(vgpu("small", 3000, 0), 0))
		w.after(time.Minute)
		if diff := cmp.Diff(want, o.cards()); diff != "" {
			t.Errorf("held by the successor (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{""}, w.at("small")); diff != "" {
			t.Errorf("small has what is held: %s", diff)
		}
		w.after(10 * time.Minute)
		w.unlock("n1")
		if diff := cmp.Diff([]string{"n1"}, w.at("new")); diff != "" {
			t.Error(diff)
		}
	})
}

// cards are those that are held, as of the last plan.
func (o *orders) cards() (out []engine.HeldCard) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, h := range o.last.Holds {
		out = append(out, h.Cards...)
	}
	return out
}

// A binding that was not answered may have gone through: the node stays locked for its pod.
func TestUnansweredBindingKeepsTheNodeLocked(t *testing.T) {
	for name, answer := range map[string]error{
		"hung":                context.DeadlineExceeded,
		"the server ended it": apierrors.NewTimeoutError("request did not complete within the requested timeout", 1),
		"the connection went": errors.New("connection reset by peer"),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, hamiNode("n1"), vgpu("a", 8000, 30), vgpu("b", 8000, 30))
				w.lose = func(*corev1.Binding) error { return answer }
				w.start()
				w.after(5 * time.Second)
				if got := w.done(); len(got) != 1 || w.lockOf("n1") == "" {
					t.Errorf("bound %q, and the node is locked by %q", got, w.lockOf("n1"))
				}
			})
		})
	}
}
