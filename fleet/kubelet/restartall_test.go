package kubelet

import (
	"bytes"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

// A worker that exits with 42 asks for the whole pod: its peer and the init container start anew,
// although the pod's policy is Never, and all keep their GPUs and their files.
func TestRestartAllContainers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.create(testPod("p", "busybox", command("sh", "-c", "sleep 10; test -f /d/b || exit 42; sleep 1000"), gpus(2), policy(corev1.RestartPolicyNever), withPeer))
		gpusBefore := w.get("p").Annotations[gpuAnnotation]
		time.Sleep(5 * time.Second)
		synctest.Wait()
		before := statesOf(w.get("p"))
		time.Sleep(10 * time.Second)
		synctest.Wait()
		after := w.get("p")
		lines := func(container string) string { return logOf(t, w, "p", container) }
		want := []any{
			map[string]string{"i": "terminated Completed 0 x0", "c": "running x0", "peer": "running x0"},
			map[string]string{"i": "terminated Completed 0 x1", "c": "running x1", "peer": "running x1"},
			corev1.PodRunning, gpusBefore, corev1.ConditionFalse, "a b\n",
		}
		got := []any{
			before, statesOf(after), after.Status.Phase, after.Annotations[gpuAnnotation],
			findCondition(after.Status.Conditions, corev1.AllContainersRestarting).Status, lines("i"),
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		last := after.Status.ContainerStatuses[1].LastTerminationState.Terminated
		if last == nil || last.Reason != restartingAll || last.ExitCode != 137 {
			t.Errorf("peer's last state: %+v", last)
		}
	})
}

// withPeer gives the pod a rule for exit code 42, a second container and an init container that
// leaves a file more in a shared volume each time it runs.
func withPeer(p *corev1.Pod) {
	never := corev1.ContainerRestartPolicyNever
	mount := []corev1.VolumeMount{{Name: "d", MountPath: "/d"}}
	p.Spec.Volumes = []corev1.Volume{{Name: "d", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	p.Spec.InitContainers = []corev1.Container{{
		Name: "i", Image: "busybox", VolumeMounts: mount,
		Command: []string{"sh", "-c", "test -f /d/a && touch /d/b; touch /d/a; echo $(ls /d)"},
	}}
	p.Spec.Containers[0].VolumeMounts, p.Spec.Containers[0].RestartPolicy = mount, &never
	p.Spec.Containers[0].RestartPolicyRules = []corev1.ContainerRestartRule{{
		Action:    corev1.ContainerRestartRuleActionRestartAllContainers,
		ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{Operator: corev1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{42}},
	}}
	p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "peer", Image: "busybox", Command: []string{"sleep", "1000"}})
}

// statesOf gives every container's state and restarts by name.
func statesOf(p *corev1.Pod) map[string]string {
	all := map[string]string{}
	for _, list := range [][]corev1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
		for i := range list {
			all[list[i].Name] = fmt.Sprintf("%s x%d", state(&list[i]), list[i].RestartCount)
		}
	}
	return all
}

func logOf(t *testing.T, w *world, pod, container string) string {
	t.Helper()
	var out bytes.Buffer
	r := ref(pod)
	r.Container = container
	if err := w.k.Logs(t.Context(), r, &corev1.PodLogOptions{}, &out); err != nil {
		t.Error(err)
	}
	return out.String()
}
