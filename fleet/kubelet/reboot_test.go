package kubelet

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func deleteNow() metav1.DeleteOptions { return metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))} }

// summary is what a reboot changes of a pod.
func summary(p *corev1.Pod) []any {
	c := p.Status.ContainerStatuses[0]
	last := ""
	if c.LastTerminationState.Terminated != nil {
		last = state(&corev1.ContainerStatus{State: c.LastTerminationState})
	}
	return []any{p.Status.Phase, state(&c), c.RestartCount, last, p.Annotations[gpuAnnotation]}
}

func TestMachineLosesPower(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.create(testPod("always", "busybox", command("sleep", "1000"), gpus(4)))
		w.create(testPod("never", "busybox", command("sleep", "1000"), policy(corev1.RestartPolicyNever)))
		before, writes := w.get("always"), w.writes.Load()
		w.setDown("n0", true)
		w.create(testPod("waits", "pause"))
		time.Sleep(time.Hour)
		if n := w.writes.Load(); n != writes {
			t.Errorf("a machine without power wrote %d statuses", n-writes)
		}
		w.setDown("n0", false)
		synctest.Wait()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		gpus := before.Annotations[gpuAnnotation]
		want := [][]any{
			{corev1.PodRunning, "running", int32(1), "terminated Unknown 255", gpus},
			{corev1.PodFailed, "terminated Unknown 255", int32(0), "", ""},
			{corev1.PodRunning, "running", int32(0), "", ""},
		}
		got := [][]any{summary(w.get("always")), summary(w.get("never")), summary(w.get("waits"))}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

// After a restart of this process, pods that held devices have the same ones before a newcomer is
// admitted, whoever is looked at first.
func TestProcessRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.create(testPod("b", "busybox", command("sleep", "1000"), gpus(6)))
		gpusOfB := w.get("b").Annotations[gpuAnnotation]
		w.shutdown()
		w.addMachine("n0", 8) // a new process starts with empty device managers
		w.create(testPod("a", "pause", gpus(4)))
		w.start()
		synctest.Wait()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		a, b := w.get("a"), w.get("b")
		if diff := cmp.Diff([]any{corev1.PodRunning, "running", int32(1), "terminated Unknown 255", gpusOfB}, summary(b)); diff != "" {
			t.Error(diff)
		}
		if a.Status.Reason != "UnexpectedAdmissionError" {
			t.Errorf("newcomer: %s %s", a.Status.Phase, a.Status.Reason)
		}
	})
}

func TestDeletedWhileDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.create(testPod("p", "pause"))
		w.setDown("n0", true)
		w.remove("p", 30*time.Second)
		time.Sleep(time.Hour)
		if !w.exists("p") {
			t.Error("a kubelet without power deleted its pod")
		}
		w.setDown("n0", false)
		synctest.Wait()
		if w.exists("p") {
			t.Error("the pod was not finished when the machine came back")
		}
	})
}

// A pod that is refused while it is being deleted goes away, whichever comes first.
func TestRefusedWhileBeingDeleted(t *testing.T) {
	for name, story := range map[string]func(*world){
		"deleted, then refused": func(w *world) {
			w.setDown("n0", true)
			w.create(testPod("p", "pause", gpus(9)))
			w.remove("p", 30*time.Second)
			w.setDown("n0", false)
		},
		"refused, then deleted": func(w *world) {
			w.create(testPod("p", "pause", gpus(9)))
			w.remove("p", 30*time.Second)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				story(w)
				time.Sleep(time.Minute)
				synctest.Wait()
				if w.exists("p") {
					t.Errorf("it stays: %+v", w.get("p").Status)
				}
			})
		})
	}
}
