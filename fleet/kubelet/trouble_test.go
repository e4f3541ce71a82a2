package kubelet

import (
	"context"
	"errors"
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
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/berth-dev/berth/fleet/shell"
	"github.com/berth-dev/berth/fleet/storage"
)

// failWrites makes status writes fail with the given errors, one each, before they succeed.
func (w *world) failWrites(errs ...error) {
	synctest.Wait() // the fake client's list of reactors has no lock
	w.client.PrependReactor("update", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if a.GetSubresource() != "status" || len(errs) == 0 {
			return false, nil, nil
		}
		err := errs[0]
		errs = errs[1:]
		return true, nil, err
	})
}

func TestStatusIsWrittenInTheEnd(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	conflict := apierrors.NewConflict(pods, "p", errors.New("changed"))
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.failWrites(conflict, errors.New("connection lost"), apierrors.NewInternalError(errors.New("etcd")), conflict)
		w.create(testPod("p", "pause"))
		time.Sleep(5 * time.Second)
		if phase := w.get("p").Status.Phase; phase != corev1.PodRunning {
			t.Errorf("phase %s", phase)
		}
	})
}

// A status that the API server will never take must not keep the pod from ending.
func TestInvalidStatusDoesNotStopThePod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.failWrites(apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "p", nil))
		w.create(testPod("p", "busybox", command("sleep", "60"), policy(corev1.RestartPolicyNever)))
		time.Sleep(61 * time.Second)
		synctest.Wait()
		if phase := w.get("p").Status.Phase; phase != corev1.PodSucceeded {
			t.Errorf("phase %s", phase)
		}
	})
}

// A terminating pod holds what it has until its containers have stopped.
func TestTerminatingPodHoldsItsDevices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.create(testPod("old", "example.com/train", gpus(8), annotate("sim.berth.dev/ignore-sigterm", "true")))
		w.remove("old", 30*time.Second)
		w.create(testPod("early", "pause", gpus(1)))
		time.Sleep(31 * time.Second)
		synctest.Wait()
		w.create(testPod("late", "pause", gpus(8)))
		got := []string{w.get("early").Status.Reason, string(w.get("late").Status.Phase)}
		if diff := cmp.Diff([]string{"UnexpectedAdmissionError", "Running"}, got); diff != "" {
			t.Error(diff)
		}
	})
}

// A shorter grace period that comes later counts.
func TestGracePeriodCanShrink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.create(testPod("p", "example.com/train", annotate("sim.berth.dev/ignore-sigterm", "true")))
		w.remove("p", time.Hour)
		time.Sleep(time.Minute)
		w.remove("p", 5*time.Second)
		time.Sleep(6 * time.Second)
		synctest.Wait()
		if w.exists("p") {
			t.Error("the first grace period still counts")
		}
	})
}

// A pod that was over and being deleted when the process died still waits for its kubelet.
func TestFinishesWhatAnEarlierLifeLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := metav1.Now()
		w := newWorld(t, testPod("p", "pause", func(p *corev1.Pod) {
			p.Status.Phase, p.Status.StartTime = corev1.PodFailed, &now
			p.DeletionTimestamp, p.DeletionGracePeriodSeconds, p.Finalizers = &now, new(int64(30)), []string{"x"}
		}))
		synctest.Wait()
		if w.exists("p") {
			t.Error("the pod was left behind")
		}
	})
}

func TestVolumesAndLastWords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "m", Namespace: "default"}, Data: map[string]string{"k": "from map"}})
		script := "cat /conf/deep/k /info/name /sub/k; echo shared >/scratch/f; echo bye >/dev/termination-log; exit 2"
		w.create(testPod("p", "busybox", command("sh", "-c", script), policy(corev1.RestartPolicyNever), func(p *corev1.Pod) {
			m := corev1.LocalObjectReference{Name: "m"}
			p.Spec.Volumes = []corev1.Volume{
				{Name: "conf", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: m, Items: []corev1.KeyToPath{{Key: "k", Path: "deep/k"}}}}},
				{Name: "all", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: m}}}}}},
				{Name: "info", VolumeSource: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{{Path: "name", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}}}}},
				{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			}
			p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{
				{Name: "conf", MountPath: "/conf", ReadOnly: true}, {Name: "info", MountPath: "/info"}, {Name: "scratch", MountPath: "/scratch"},
				{Name: "all", MountPath: "/sub/k", SubPath: "k"},
			}
		}))
		log, err := w.logs("p", corev1.PodLogOptions{})
		if want := "from mappfrom map"; log != want || err != nil {
			t.Errorf("log %q, %v; want %q", log, err, want)
		}
		if got := w.get("p").Status.ContainerStatuses[0].State.Terminated.Message; got != "bye\n" {
			t.Errorf("termination message %q", got)
		}
	})
}

func TestMissingClaim(t *testing.T) {
	_, err := newSources(fake.NewClientset(), shell.NewBudget()).volume(context.Background(), testPod("p", "pause"), &corev1.Volume{
		Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "none"}},
	})
	if err == nil || !strings.Contains(err.Error(), `unmounted volumes=[v], unattached volumes=[], failed to process volumes=[v]: error processing PVC default/none: failed to fetch PVC from API server: persistentvolumeclaims "none" not found`) {
		t.Errorf("error %v", err)
	}
}

func TestSpoiltAnnotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.create(testPod("p", "example.com/train", policy(corev1.RestartPolicyNever), annotate("sim.berth.dev/run", "soon")))
		log, _ := w.logs("p", corev1.PodLogOptions{})
		if s := w.get("p").Status; s.Phase != corev1.PodFailed || !strings.Contains(log, "sim.berth.dev/run") {
			t.Errorf("phase %s, log %q", s.Phase, log)
		}
	})
}

func TestWorthTelling(t *testing.T) {
	controlled := func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "r", UID: "r", Controller: new(true)}}
	}
	got := []bool{
		worthTelling(testPod("p", "pause")),
		worthTelling(testPod("p", "pause", controlled)),
		worthTelling(testPod("p", "pause", controlled, policy(corev1.RestartPolicyNever))),
		worthTelling(testPod("p", "pause", controlled, func(p *corev1.Pod) { p.Finalizers = []string{"x"} })),
	}
	if diff := cmp.Diff([]bool{true, false, true, true}, got); diff != "" {
		t.Error(diff)
	}
}

// A pod whose volumes cannot be had has no sandbox and so no address.
func TestNoAddressBeforeTheSandbox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.create(testPod("p", "busybox", func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{Name: "s", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "none"}}}}
		}))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		s := w.get("p").Status
		if diff := cmp.Diff([]any{"waiting ContainerCreating", "10.8.0.2", ""}, []any{state(&s.ContainerStatuses[0]), s.HostIP, s.PodIP}); diff != "" {
			t.Error(diff)
		}
	})
}

// A volume that cannot be attached or mounted keeps its pod waiting, in the words of whoever tries.
func TestVolumesThatFail(t *testing.T) {
	for what, want := range map[string]string{"attach": "FailedAttachVolume", "mount": "FailedMount", "": ""} {
		synctest.Test(t, func(t *testing.T) {
			claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data"}, Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "pv"}, Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound}}
			pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}}
			pv.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: storage.Provisioner, VolumeAttributes: map[string]string{storage.FailsParameter: what}}
			w := newWorld(t, claim, pv)
			defer w.shutdown()
			w.create(testPod("p", "ubuntu", command("sleep", "999"), func(p *corev1.Pod) {
				p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
			}))
			time.Sleep(time.Second)
			synctest.Wait()
			got := w.get("p").Status.ContainerStatuses[0].State
			if failed := slices.Contains(w.reasons("p"), want); want != "" && (!failed || got.Running != nil) || want == "" && got.Running == nil {
				t.Errorf("%q: %v, %v", what, w.reasons("p"), got)
			}
		})
	}
}
