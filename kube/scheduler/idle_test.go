package scheduler

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
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
