package scheduler

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
)

func use(name, used, wanted string) v1alpha1.QueueUse {
	return v1alpha1.QueueUse{Name: name, Used: resource.MustParse(used), Wanted: resource.MustParse(wanted)}
}

// The status says what is held and asked for, of GPUs and of what is limited, gangs as one workload.
func TestQueueStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := limit("q", 6, nil)
		q.Spec.Resources = append(q.Spec.Resources, v1alpha1.QueueResource{Name: "cpu", Limit: new(resource.MustParse("100"))})
		leaving := pod("leaving", 1, "queue", "q")
		leaving.Spec.NodeName = "n1"
		leaving.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1"), "cpu": resource.MustParse("1500m")}
		leaving.DeletionTimestamp, leaving.Finalizers = &metav1.Time{Time: time.Now().Add(time.Hour)}, []string{"example.com/f"}
		foreign := pod("foreign", 1, "queue", "q")
		foreign.Spec.SchedulerName, foreign.Spec.NodeName = "default-scheduler", "n1"
		w := newWorld(t, append(gang("g", 2, "queue", "q"), node("n1", "r1", 8), q, leaving, foreign, limit("idle", 1, nil))...)
		w.start()
		w.add(pod("big", 9, "queue", "q"))
		unready := claiming("unready", "data")
		unready.Annotations["berth.dev/queue"] = "q"
		w.add(unready)
		w.add(pod("nobody's", 1))
		w.after(statusEvery + time.Second)
		valid := []metav1.Condition{{Type: "Valid", Status: "True", Reason: "Valid"}}
		want := v1alpha1.QueueStatus{Running: 2, Waiting: 2, Resources: []v1alpha1.QueueUse{use("cpu", "1500m", "0"), use("nvidia.com/gpu", "3", "10")}, Conditions: valid}
		if diff := cmp.Diff(want, w.queues.status("q")); diff != "" {
			t.Error(diff)
		}
		want = v1alpha1.QueueStatus{Resources: []v1alpha1.QueueUse{use("nvidia.com/gpu", "0", "0")}, Conditions: valid}
		if diff := cmp.Diff(want, w.queues.status("idle")); diff != "" {
			t.Error(diff)
		}
	})
}

// However much changes, a queue's status is written once in five seconds, while work only runs once in a minute, and
// not at all when nothing changed: not after a restart either.
func TestQueueStatusIsWrittenSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, node("n1", "r1", 8), limit("q", 1, nil))
		stop := w.start()
		for i := range 100 {
			w.add(pod(fmt.Sprint("p", i), 1, "queue", "q"))
			w.after(100 * time.Millisecond)
		}
		if n := w.queues.written(); n < 2 || n > 3 {
			t.Errorf("%d times in ten seconds", n)
		}
		w.after(time.Minute)
		if got := w.queues.status("q"); got.Running != 1 || got.Waiting != 99 {
			t.Errorf("status %+v", got)
		}
		n := w.queues.written()
		w.edit("p0", func(p *corev1.Pod) { p.Labels = map[string]string{"a": "b"} })
		w.after(time.Minute)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		w.start()
		w.after(time.Minute)
		if more := w.queues.written() - n; more > 2 {
			t.Errorf("%d times in two minutes though nothing changed but what was spent", more)
		}
		w.remove("pods", "default", "p0")
		for i := range 99 {
			w.remove("pods", "default", fmt.Sprint("p", i+1))
		}
		w.after(2 * time.Minute)
		n = w.queues.written()
		w.after(time.Hour)
		if more := w.queues.written() - n; more != 0 {
			t.Errorf("%d times though nothing changed", more)
		}
	})
}

// Statuses that cannot be written keep nobody waiting, and are written when they can be.
func TestQueueStatusIsRefused(t *testing.T) {
	for name, err := range map[string]error{
		"forbidden": apierrors.NewForbidden(queuesResource.GroupResource(), "q", errors.New("no")),
		"conflict":  apierrors.NewConflict(queuesResource.GroupResource(), "q", errors.New("no")),
		"gone":      apierrors.NewNotFound(queuesResource.GroupResource(), "q"),
		"away":      errors.New("connection refused"),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, node("n1", "r1", 8), limit("q", 1, nil), pod("a", 1, "queue", "q"))
				w.queues.deny(err)
				w.start()
				w.after(time.Minute)
				if diff := cmp.Diff([]string{"n1"}, w.at("a")); diff != "" {
					t.Fatal(diff)
				}
				w.queues.deny(nil)
				w.add(pod("b", 1, "queue", "q"))
				w.after(time.Minute)
				if got := w.queues.status("q"); got.Running != 1 || got.Waiting != 1 {
					t.Errorf("status %+v", got)
				}
			})
		})
	}
}

// Who decides without writing writes no status.
func TestShadowWritesNoQueueStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, node("n1", "r1", 8), limit("q", 1, nil), pod("a", 1, "queue", "q"))
		w.start(func(o *Options) { o.Shadow = true })
		w.after(time.Minute)
		if n := w.queues.written(); n != 0 {
			t.Errorf("%d times", n)
		}
	})
}
