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

	"github.com/berth-dev/berth/api/v1alpha1"
)

// promised is a queue with a quota of GPUs.
func promised(name string, gpus int64) *v1alpha1.BerthQueue {
	return &v1alpha1.BerthQueue{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.QueueSpec{
		Resources: []v1alpha1.QueueResource{{Name: "nvidia.com/gpu", Quota: resource.NewQuantity(gpus, resource.DecimalSI)}},
	}}
}

// teams is two teams with a quota of two of the four GPUs each, of which b has all.
func teams(t *testing.T) *world {
	w := newWorld(t, node("n1", "r1", 2), node("n2", "r1", 2), promised("a", 2), promised("b", 2))
	for i := range 4 {
		w.add(pod(fmt.Sprint("b", i), 1, "queue", "b", "preemptible", "true"))
	}
	return w
}

// What a team was promised comes back when it asks, from who borrowed it, and it is said for whom and why.
func TestQuotaComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := teams(t)
		ends := w.ends(10 * time.Second)
		w.start()
		w.after(time.Minute)
		if diff := cmp.Diff(4, len(w.done())); diff != "" {
			t.Fatal(diff)
		}
		w.add(pod("a0", 1, "queue", "a"))
		w.add(pod("a1", 1, "queue", "a"))
		w.after(time.Minute)
		if at := w.at("a0", "a1"); slices.Contains(at, "") {
			t.Fatalf("a is at %q; ended %q; a0 says %q", at, ends.ended(), w.said("a0"))
		}
		got := ends.ended()
		if len(got) != 2 {
			t.Errorf("ended %q", got)
		}
		for _, said := range got {
			if !strings.Contains(said, "Reclaimed, reclaimed for pod default/a") || !strings.HasSuffix(said, ": queue b had borrowed 2 nvidia.com/gpu") {
				t.Errorf("said %q", said)
			}
		}
		w.after(time.Hour)
		if n := len(ends.ended()); n != 2 {
			t.Errorf("ended %q", ends.ended())
		}
	})
}

// However often the scheduler is killed, and at whatever moment, one victim is taken for one beneficiary, also where the
// victim does not name it.
func TestColdRestartsEvictNobodyTwice(t *testing.T) {
	for _, namespace := range []string{"default", "team-a"} {
		for _, after := range []time.Duration{0, 3 * time.Millisecond, 5 * time.Millisecond, 20 * time.Millisecond, 100 * time.Millisecond, 5 * time.Second, 9 * time.Second} {
			t.Run(namespace+" "+after.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { restarts(t, namespace, after) })
			})
		}
	}
}

func restarts(t *testing.T, namespace string, after time.Duration) {
	w := teams(t)
	ends := w.ends(10 * time.Second)
	stop := w.start()
	w.after(time.Minute)
	p := pod("a0", 1, "queue", "a")
	p.Namespace = namespace
	w.add(p)
	for range 3 {
		w.after(after)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		stop = w.start()
	}
	w.after(time.Minute)
	got, err := w.client.Tracker().Get(podsResource, namespace, "a0")
	if err != nil || got.(*corev1.Pod).Spec.NodeName == "" {
		t.Errorf("a0 waits: %v %v", got, err)
	}
	ended := ends.ended()
	if len(ended) != 1 || strings.Contains(ended[0], "/a0") != (namespace == "default") {
		t.Errorf("ended %q", ended)
	}
}
