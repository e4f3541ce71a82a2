package kubelet

import (
	"bytes"
	"context"
	"regexp"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-dev/berth/fleet/stream"
)

func (w *world) exec(pod string, argv ...string) string {
	w.t.Helper()
	var out bytes.Buffer
	if _, err := w.k.Exec(context.Background(), ref(pod), argv, stream.Streams{Stdout: &out, Stderr: &out}); err != nil {
		w.t.Error(err)
	}
	return out.String()
}

// A hook starts together with the container's command and is never process 1.
func TestHookIsNotTheFirstProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for _, argv := range [][]string{{"sleep", "1000"}, {"python", "train.py"}} {
			name := "p-" + argv[0]
			w.create(testPod(name, "busybox", command(argv...), func(p *corev1.Pod) {
				hook := &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"sh", "-c", "echo $$ > /tmp/pid"}}}
				p.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PostStart: hook}
			}))
			if got := w.exec(name, "cat", "/tmp/pid"); got != "2\n" {
				t.Errorf("%s: the hook was process %q", argv[0], got)
			}
		}
	})
}

func TestLimitDefaultsToTheNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		cpus := corev1.EnvVar{Name: "CPUS", ValueFrom: &corev1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{Resource: "limits.cpu"}}}
		w.create(testPod("p", "busybox", command("sh", "-c", "echo $CPUS"), func(p *corev1.Pod) { p.Spec.Containers[0].Env = []corev1.EnvVar{cpus} }))
		if got, err := w.logs("p", corev1.PodLogOptions{}); got != "64\n" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
	})
}

// An idle GPU holds nothing, a working one at least a CUDA context; CPUs are the node's, half on each
// NUMA node.
func TestGPUReadings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.machines["n0"].Node().Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("64")}
		w.create(testPod("idle", "busybox", command("sleep", "1000"), gpus(1)))
		w.create(testPod("works", "busybox", command("python", "train.py"), gpus(1)))
		w.create(testPod("holds", "busybox", command("python", "train.py"), gpus(1), annotate("sim.berth.dev/gpu-memory", "60Gi")))
		query := []string{"nvidia-smi", "--query-gpu=memory.used,utilization.gpu", "--format=csv,noheader"}
		time.Sleep(10 * time.Second) // load builds up
		about := func(s string) string {
			return regexp.MustCompile(`\b(8[89]|9[0-2]) %`).ReplaceAllString(s, "about 90 %")
		}
		got := []string{w.exec("idle", query...), about(w.exec("works", query...)), about(w.exec("holds", query...)), w.exec("idle", "sh", "-c", "nvidia-smi topo -m | grep ^GPU0")}
		want := []string{"0 MiB, 0 %\n", "518 MiB, about 90 %\n", "61440 MiB, about 90 %\n", "GPU0\t X \t0-31\t0\t\tN/A\n"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

// A container sees the machine it is on, and the devices it was given under the machine's numbers.
func TestContainerSeesItsMachine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		status := &w.machines["n0"].Node().Status
		status.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("192"), corev1.ResourceMemory: resource.MustParse("2Ti")}
		status.NodeInfo.KernelVersion = "6.8.0"
		w.create(testPod("first", "pause", gpus(6)))
		w.create(testPod("p", "busybox", command("sleep", "1000"), gpus(2)))
		w.create(testPod("none", "busybox", command("sleep", "1000")))
		const look = "nproc; uname -r; grep -c processor /proc/cpuinfo; grep MemTotal /proc/meminfo; ls /dev | grep nvidia"
		got := []string{w.exec("p", "sh", "-c", look), w.exec("none", "sh", "-c", "ls /dev | grep -c nvidia")}
		want := []string{"192\n6.8.0\n192\nMemTotal:       2147483648 kB\nnvidia-uvm\nnvidia-uvm-tools\nnvidia6\nnvidia7\nnvidiactl\n", "0\n"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

func TestTerminalHasAName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.create(testPod("p", "busybox", command("sleep", "1000")))
		var out bytes.Buffer
		if _, err := w.k.Exec(t.Context(), ref("p"), []string{"printenv", "TERM"}, stream.Streams{Stdout: &out, TTY: true}); err != nil || out.String() != "xterm\r\n" {
			t.Errorf("%q, %v", out.String(), err)
		}
	})
}
