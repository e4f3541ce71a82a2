package scheduler

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// Work that names no queue does not keep a team from its quota, whatever it is made of, whether or not anybody made the
// default queue, and also where its object comes and goes.
func TestWorkWithoutAQueueIsReclaimed(t *testing.T) {
	objects := map[string][]runtime.Object{
		"pods":        {pod("x-0", 1), pod("x-1", 1)},
		"native gang": gang("x", 2),
		"pod group":   {group("x", 2), grouped("x-0", "x"), grouped("x-1", "x")},
	}
	for _, kind := range []string{"pods", "native gang", "pod group"} {
		for _, made := range []string{"no object", "object", "object goes", "other queues come later"} {
			t.Run(kind+", "+made, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, node("n1", "r1", 2))
					ends := w.ends(time.Second)
					for _, o := range objects[kind] {
						w.add(o.DeepCopyObject())
					}
					if made != "other queues come later" {
						w.add(promised("a", 1))
					}
					if strings.HasPrefix(made, "object") {
						w.add(promised(v1alpha1.DefaultQueue, 0))
					}
					w.start()
					if diff := cmp.Diff([]string{"n1", "n1"}, w.at("x-0", "x-1")); diff != "" {
						t.Fatal(diff)
					}
					switch made {
					case "object goes":
						w.queues.remove(v1alpha1.DefaultQueue)
					case "other queues come later":
						w.add(promised("a", 1))
					}
					w.after(time.Minute)
					w.add(pod("a0", 1, "queue", "a"))
					w.after(time.Minute)
					if diff := cmp.Diff([]string{"n1"}, w.at("a0")); diff != "" {
						t.Fatalf("%s\na0 says %q; ended %q", diff, w.said("a0"), ends.ended())
					}
					for _, said := range ends.ended() {
						if !strings.HasSuffix(said, ": queue default had borrowed 2 nvidia.com/gpu") {
							t.Errorf("said %q", said)
						}
					}
				})
			})
		}
	}
}

// What asks for no device, belongs to a DaemonSet or to a node itself, or is critical for the system is not evicted for a
// quota, also where the quota is of the CPUs that it has. It is not kept from starting either, unless it asks for GPUs.
func TestWhatIsNeverReclaimed(t *testing.T) {
	critical := func(p *corev1.Pod) { p.Spec.Priority = new(int32(2_000_000_000)) }
	daemon := func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "agent", UID: "d", Controller: new(true)}}
	}
	for name, change := range map[string]func(*corev1.Pod){
		"CPU only":   func(*corev1.Pod) {},
		"DaemonSet":  daemon,
		"mirror pod": func(p *corev1.Pod) { p.Annotations[corev1.MirrorPodAnnotationKey] = "x" },
		"static pod": func(p *corev1.Pod) { p.Annotations["kubernetes.io/config.source"] = "file" },
		"critical":   critical,
		"node critical": func(p *corev1.Pod) {
			p.Spec.Priority = new(int32(2_000_001_000))
		},
	} {
		for _, gpus := range []int64{0, 1} {
			if name == "CPU only" && gpus > 0 {
				continue
			}
			t.Run(fmt.Sprint(name, " with ", gpus), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, node("n1", "r1", 1))
					ends := w.ends(time.Second)
					x := pod("x", gpus)
					x.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("60")
					change(x)
					w.add(x)
					w.start()
					if diff := cmp.Diff([]string{"n1"}, w.at("x")); diff != "" {
						t.Fatal(diff)
					}
					a := promised("a", 1)
					a.Spec.Resources = append(a.Spec.Resources, v1alpha1.QueueResource{Name: "cpu", Quota: new(resource.MustParse("64"))})
					w.add(a)
					w.after(time.Hour)
					for _, asks := range []int64{0, 1} {
						p := pod(fmt.Sprint("a", asks), asks, "queue", "a")
						p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("60")
						w.add(p)
					}
					w.after(time.Minute)
					if got := ends.ended(); len(got) > 0 {
						t.Errorf("ended %q", got)
					}
					y := pod("y", gpus)
					y.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("1")
					change(y)
					w.add(node("n2", "r1", 8))
					w.add(y)
					w.after(time.Minute)
					if gpus == 0 && w.pod("y").Spec.NodeName == "" {
						t.Errorf("y waits: %q", w.said("y"))
					}
					if want := "False OverQuota"; gpus > 0 && w.condition("y") != want {
						t.Errorf("y: %q, want %s: nothing could ask its GPU back", w.condition("y"), want)
					}
				})
			})
		}
	}
}

// Where no queue is promised anything a plain pod just starts, and one that may not be evicted too: with no queues, with
// the default queue alone, and beside a queue that has a limit and no quota.
func TestNobodyWaitsWhereNothingIsPromised(t *testing.T) {
	for name, queues := range map[string][]*v1alpha1.BerthQueue{
		"no queues":          nil,
		"default alone":      {promised(v1alpha1.DefaultQueue, 0)},
		"another with limit": {limit("q", 1, nil)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, node("n1", "r1", 8), pod("plain", 1), pod("firm", 1, "preemptible", "false"), pod("cpu", 0))
				for _, q := range queues {
					w.add(q)
				}
				w.start()
				if got := w.at("plain", "firm", "cpu"); slices.Contains(got, "") {
					t.Errorf("at %q", got)
				}
			})
		})
	}
}

// An administrator's own default queue counts: with a quota it is not borrowing.
func TestTheDefaultQueueIsTheAdministrators(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, node("n1", "r1", 2), promised("a", 2), promised(v1alpha1.DefaultQueue, 1), pod("x", 1, "preemptible", "false"), pod("y", 1))
		ends := w.ends(time.Second)
		w.start()
		w.after(time.Minute)
		w.add(pod("a0", 1, "queue", "a"))
		w.add(pod("a1", 1, "queue", "a"))
		w.after(time.Minute)
		if got := ends.ended(); len(got) != 1 || !strings.Contains(got[0], "y") {
			t.Errorf("ended %q", got)
		}
	})
}
