package kubelet

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func TestWarmPodRunsWithOneWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.create(testPod("p", "registry.k8s.io/pause:3.10", gpus(2)))
		pod := w.get("p")
		s := pod.Status
		conditions := map[corev1.PodConditionType]corev1.ConditionStatus{}
		for _, c := range s.Conditions {
			conditions[c.Type] = c.Status
		}
		want := map[corev1.PodConditionType]corev1.ConditionStatus{
			"PodReadyToStartContainers": "True", "Initialized": "True", "Ready": "True", "ContainersReady": "True", "PodScheduled": "True",
		}
		if diff := cmp.Diff(want, conditions); diff != "" {
			t.Error(diff)
		}
		got := []any{s.Phase, s.HostIP, s.PodIP, state(&s.ContainerStatuses[0]), s.ContainerStatuses[0].Ready, len(recordedGPUs(pod)["c"]), w.writes.Load()}
		if diff := cmp.Diff([]any{corev1.PodRunning, "10.8.0.2", "10.244.0.2", "running", true, 2, int64(1)}, got); diff != "" {
			t.Error(diff)
		}
		time.Sleep(time.Hour)
		if n := w.writes.Load(); n != 1 {
			t.Errorf("an hour later there were %d writes", n)
		}
	})
}

func TestEndsAndRestartPolicies(t *testing.T) {
	tests := []struct {
		name   string
		pod    *corev1.Pod
		phase  corev1.PodPhase
		states string
	}{
		{"never, exit 0", testPod("p", "busybox", command("true"), policy(corev1.RestartPolicyNever)), corev1.PodSucceeded, "terminated Completed 0"},
		{"never, exit 1", testPod("p", "busybox", command("false"), policy(corev1.RestartPolicyNever)), corev1.PodFailed, "terminated Error 1"},
		{"on failure, exit 0", testPod("p", "busybox", command("true"), policy(corev1.RestartPolicyOnFailure)), corev1.PodSucceeded, "terminated Completed 0"},
		{"on failure, exit 1", testPod("p", "busybox", command("false"), policy(corev1.RestartPolicyOnFailure)), corev1.PodRunning, "waiting CrashLoopBackOff"},
		{"always, exit 0", testPod("p", "busybox", command("true")), corev1.PodRunning, "waiting CrashLoopBackOff"},
		{"no command, no stdin", testPod("p", "ubuntu:24.04", policy(corev1.RestartPolicyNever)), corev1.PodSucceeded, "terminated Completed 0"},
		{"simulated program", testPod("p", "vllm/vllm-openai:v0.11.0"), corev1.PodRunning, "running"},
		{
			"out of memory", testPod("p", "example.com/train", policy(corev1.RestartPolicyNever), annotate("sim.berth.dev/memory", "2Gi"), request(corev1.ResourceMemory, "1Gi")),
			corev1.PodFailed, "terminated OOMKilled 137",
		},
		{"missing image", testPod("p", "example.com/does-not-exist"), corev1.PodPending, "waiting ImagePullBackOff"},
		{"bad image name", testPod("p", "Example/UPPER"), corev1.PodPending, "waiting InvalidImageName"},
		{
			"never pulled", testPod("p", "busybox", func(p *corev1.Pod) { p.Spec.Containers[0].ImagePullPolicy = corev1.PullNever }),
			corev1.PodPending, "waiting ErrImageNeverPull",
		},
		{
			"cuda too new", testPod("p", "nvidia/cuda:13.1.0-base-ubuntu24.04", command("nvidia-smi"), gpus(1), policy(corev1.RestartPolicyNever)),
			corev1.PodFailed, "terminated StartError 128",
		},
		{"unknown command", testPod("p", "busybox", command("frobnicate"), policy(corev1.RestartPolicyNever)), corev1.PodFailed, "terminated StartError 128"},
		{"unknown argument", testPod("p", "ubuntu", func(p *corev1.Pod) { p.Spec.Containers[0].Args = []string{"frobnicate"} }, policy(corev1.RestartPolicyNever)), corev1.PodFailed, "terminated StartError 128"},
		{"unknown path", testPod("p", "python:3.12", command("/opt/frobnicate"), policy(corev1.RestartPolicyNever)), corev1.PodFailed, "terminated StartError 128"},
		{"unknown command, restarted", testPod("p", "busybox", command("frobnicate")), corev1.PodRunning, "waiting CrashLoopBackOff"},
		{"unknown command of an unknown image", testPod("p", "example.com/train", command("frobnicate")), corev1.PodRunning, "running"},
		{"described command", testPod("p", "ubuntu", command("frobnicate"), annotate("sim.berth.dev/run", "1h")), corev1.PodRunning, "running"},
		{"nvidia-smi without a GPU", testPod("p", "example.com/train", command("nvidia-smi"), policy(corev1.RestartPolicyNever)), corev1.PodFailed, "terminated StartError 128"},
		{"nvidia-smi by its path without a GPU", testPod("p", "nvidia/cuda:12.8.0-base-ubuntu24.04", command("/usr/bin/nvidia-smi"), policy(corev1.RestartPolicyNever)), corev1.PodFailed, "terminated StartError 128"},
		{"nvidia-smi with one", testPod("p", "nvidia/cuda:12.8.0-base-ubuntu24.04", command("nvidia-smi"), gpus(1), policy(corev1.RestartPolicyNever)), corev1.PodSucceeded, "terminated Completed 0"},
		{"cuda fits", testPod("p", "nvidia/cuda:12.8.0-base-ubuntu24.04", command("true"), gpus(1), policy(corev1.RestartPolicyNever)), corev1.PodSucceeded, "terminated Completed 0"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.create(tt.pod)
				time.Sleep(5 * time.Second)
				s := w.get("p").Status
				if diff := cmp.Diff([]string{string(tt.phase), tt.states}, []string{string(s.Phase), state(&s.ContainerStatuses[0])}); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

// Restarts come at once, then after 10, 20, 40 seconds and so on to 5 minutes.
func TestCrashLoopBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.create(testPod("p", "busybox", command("false")))
		var counts []int32
		for range 8 {
			counts = append(counts, w.get("p").Status.ContainerStatuses[0].RestartCount)
			time.Sleep(20 * time.Second)
			synctest.Wait()
		}
		if diff := cmp.Diff([]int32{1, 2, 3, 3, 4, 4, 4, 4}, counts); diff != "" {
			t.Error(diff)
		}
		got := w.get("p").Status.ContainerStatuses[0].State.Waiting.Message
		if want := "back-off 2m40s restarting failed container=c pod=p_default(uid-p)"; got != want {
			t.Errorf("message %q, want %q", got, want)
		}
	})
}

func TestDeletion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.create(testPod("quick", "busybox", command("sleep", "1000"), gpus(8)))
		w.create(testPod("stubborn", "example.com/train", annotate("sim.berth.dev/ignore-sigterm", "true")))
		w.remove("quick", 30*time.Second)
		w.remove("stubborn", 30*time.Second)
		if w.exists("quick") {
			t.Error("a process that minds SIGTERM holds its pod")
		}
		time.Sleep(29 * time.Second)
		synctest.Wait()
		if !w.exists("stubborn") {
			t.Error("a process that ignores SIGTERM was not given its grace period")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if w.exists("stubborn") {
			t.Error("the pod outlived its grace period")
		}
		w.create(testPod("next", "pause", gpus(8)))
		if s := w.get("next").Status; s.Phase != corev1.PodRunning {
			t.Errorf("the devices were not given back: %s %s", s.Phase, s.Message)
		}
	})
}

func TestForcedDeletionStopsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.create(testPod("p", "example.com/train", annotate("sim.berth.dev/ignore-sigterm", "true"), gpus(8)))
		if err := w.client.CoreV1().Pods("default").Delete(t.Context(), "p", deleteNow()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		w.create(testPod("next", "pause", gpus(8)))
		if s := w.get("next").Status; s.Phase != corev1.PodRunning {
			t.Errorf("the devices were not given back: %s %s", s.Phase, s.Message)
		}
	})
}

func TestActiveDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.create(testPod("p", "pause", func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = new(int64(60)) }))
		time.Sleep(59 * time.Second)
		synctest.Wait()
		if phase := w.get("p").Status.Phase; phase != corev1.PodRunning {
			t.Errorf("before the deadline: %s", phase)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		s := w.get("p").Status
		want := []string{"Failed", "DeadlineExceeded", "Pod was active on the node longer than the specified deadline"}
		if diff := cmp.Diff(want, []string{string(s.Phase), s.Reason, s.Message}); diff != "" {
			t.Error(diff)
		}
	})
}

func TestSlowPullIsShownAndShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.create(testPod("a", "busybox", command("sleep", "1000"), annotate("sim.berth.dev/pull", "40s")))
		time.Sleep(20 * time.Second)
		w.create(testPod("b", "busybox", command("sleep", "1000")))
		time.Sleep(2 * time.Second)
		a, b := w.get("a").Status, w.get("b").Status
		if diff := cmp.Diff([]string{"Pending", "waiting ContainerCreating", "Pending"}, []string{string(a.Phase), state(&a.ContainerStatuses[0]), string(b.Phase)}); diff != "" {
			t.Error(diff)
		}
		time.Sleep(19 * time.Second)
		synctest.Wait()
		a, b = w.get("a").Status, w.get("b").Status
		if a.Phase != corev1.PodRunning || b.Phase != corev1.PodRunning {
			t.Errorf("after the pull: %s, %s", a.Phase, b.Phase)
		}
		if diff := cmp.Diff([]string{"Created", "Pulled", "Pulling", "Started"}, w.reasons("a")); diff != "" {
			t.Error(diff)
		}
	})
}

func TestInitContainersInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		always := corev1.ContainerRestartPolicyAlways
		w.create(testPod("p", "busybox", command("sleep", "30"), policy(corev1.RestartPolicyNever), func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{
				{Name: "first", Image: "busybox", Command: []string{"sleep", "10"}},
				{Name: "side", Image: "pause", RestartPolicy: &always},
				{Name: "second", Image: "busybox", Command: []string{"sleep", "10"}},
			}
		}))
		see := func() []string {
			s := w.get("p").Status
			return []string{string(s.Phase), state(&s.InitContainerStatuses[0]), state(&s.InitContainerStatuses[1]), state(&s.InitContainerStatuses[2]), state(&s.ContainerStatuses[0])}
		}
		var story [][]string
		for _, at := range []time.Duration{5, 10, 10, 30} {
			time.Sleep(at * time.Second)
			synctest.Wait()
			story = append(story, see())
		}
		want := [][]string{
			{"Pending", "running", "waiting PodInitializing", "waiting PodInitializing", "waiting PodInitializing"},
			{"Pending", "terminated Completed 0", "running", "running", "waiting PodInitializing"},
			{"Running", "terminated Completed 0", "running", "terminated Completed 0", "running"},
			{"Succeeded", "terminated Completed 0", "terminated Completed 0", "terminated Completed 0", "terminated Completed 0"},
		}
		if diff := cmp.Diff(want, story); diff != "" {
			t.Error(diff)
		}
	})
}

// Bare pods that only say WORLD_SIZE, RANK and MASTER_ADDR wait for each other as ranks do.
func TestWorldFromTheEnvironment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		rank := func(n string) *corev1.Pod {
			return testPod("rank-"+n, "example.com/train", command("sh", "-c", "exec python train.py"), policy(corev1.RestartPolicyNever),
				annotate("sim.berth.dev/run", "10s"), func(p *corev1.Pod) {
					p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "WORLD_SIZE", Value: "2"}, {Name: "RANK", Value: n}, {Name: "MASTER_ADDR", Value: "rank-0"}}
				})
		}
		w.create(rank("0"))
		time.Sleep(time.Minute)
		if got := w.get("rank-0").Status.Phase; got != corev1.PodRunning {
			t.Fatalf("alone, rank 0 is %s", got)
		}
		w.create(rank("1"))
		time.Sleep(time.Minute)
		for _, name := range []string{"rank-0", "rank-1"} {
			if got := w.get(name).Status.Phase; got != corev1.PodSucceeded {
				t.Errorf("%s is %s", name, got)
			}
		}
	})
}
