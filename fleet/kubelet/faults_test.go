package kubelet

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-dev/berth/fleet/device"
	"github.com/berth-dev/berth/fleet/fault"
	"github.com/berth-dev/berth/fleet/gpu"
	"github.com/berth-dev/berth/fleet/stream"
)

// afflict has faults do this to the machine from now on.
func (w *world) afflict(node string, e fault.Effects) {
	w.mu.Lock()
	m := w.machines[node]
	w.mu.Unlock()
	before := m.faults()
	m.Faults = func() *fault.Effects { return &e }
	m.Devices.SetTrouble(e.GPUs, e.KubeletRestarting)
	w.k.Faulted(node, before, &e)
	w.k.NodeChanged(node)
	time.Sleep(time.Second)
	synctest.Wait()
}

func (w *world) lines(pod string, previous bool) string {
	var out bytes.Buffer
	_ = w.k.Logs(context.Background(), stream.Ref{Namespace: "default", Pod: pod, UID: "", Container: "c"}, &corev1.PodLogOptions{Previous: previous}, &out)
	return out.String()
}

// TestFaultsOfGPUsEndPrograms is that a program on a GPU that fails ends, that it cannot start there again, and that one on
// other GPUs does not notice.
func TestFaultsOfGPUsEndPrograms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.create(testPod("hit", "registry.example/train:1", command("python", "train.py"), gpus(2)))
		w.create(testPod("well", "registry.example/train:1", command("python", "train.py"), gpus(2)))
		w.afflict("n0", fault.Effects{GPUs: map[int]gpu.Trouble{w.held("hit"): {Xid: 48, Dead: true}}})
		if s := state(&w.get("hit").Status.ContainerStatuses[0]); s == "running" || !strings.Contains(w.lines("hit", false)+w.lines("hit", true), "uncorrectable ECC error") {
			t.Errorf("on the bad GPU: %s\n%s", s, w.lines("hit", false))
		}
		if s := &w.get("well").Status.ContainerStatuses[0]; state(s) != "running" || s.RestartCount > 0 {
			t.Errorf("on good GPUs: %s", state(s))
		}
		w.create(testPod("all", "registry.example/train:1", command("python", "train.py"), gpus(4)))
		if p := w.get("all"); p.Status.Reason != "UnexpectedAdmissionError" && p.Status.Phase != corev1.PodRunning {
			t.Errorf("a pod that comes later: %s %s", p.Status.Phase, p.Status.Message)
		}
		w.afflict("n0", fault.Effects{})
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if s := state(&w.get("hit").Status.ContainerStatuses[0]); s != "running" {
			t.Errorf("healed: %s", s)
		}
	})
}

// held is the position of the first GPU that the pod has.
func (w *world) held(pod string) int {
	m := w.machines["n0"]
	for i, d := range m.Devices.Devices() {
		for _, h := range m.Devices.Held(w.get(pod).UID, "c") {
			if h.UUID == d.UUID {
				return i
			}
		}
	}
	w.t.Fatal(pod + " has no GPU")
	return -1
}

// TestFaultsRefusePods is what a kubelet says of pods that come while something is wrong.
func TestFaultsRefusePods(t *testing.T) {
	for _, c := range []struct {
		name    string
		effects fault.Effects
		want    string
	}{
		{"numa", fault.Effects{NUMARefusal: true}, "Failed TopologyAffinityError"},
		{"disk", fault.Effects{DiskPressure: true}, "Failed Evicted"},
		{"kubelet", fault.Effects{KubeletRestarting: true}, "Failed UnexpectedAdmissionError"},
		{"registry", fault.Effects{RegistryDown: true}, "Pending "},
		{"slow", fault.Effects{PullSlower: time.Hour}, "Pending "},
		{"cut off", fault.Effects{Partitioned: true}, "Pending "},
		{"hot", fault.Effects{GPUs: map[int]gpu.Trouble{0: {Thermal: true}}}, "Running "},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.afflict("n0", c.effects)
			w.create(testPod("p", "registry.example/train:1", command("python", "train.py"), gpus(1)))
			time.Sleep(5 * time.Second)
			synctest.Wait()
			p := w.get("p")
			if got := string(p.Status.Phase) + " " + p.Status.Reason; got != c.want {
				t.Errorf("%s: %s, want %s", c.name, got, c.want)
			}
			if p.Status.Phase == corev1.PodFailed {
				return
			}
			w.afflict("n0", fault.Effects{})
			time.Sleep(2 * time.Hour)
			synctest.Wait()
			if p := w.get("p"); p.Status.Phase != corev1.PodRunning {
				t.Errorf("%s, healed: %s %v", c.name, p.Status.Phase, p.Status.ContainerStatuses)
			}
		})
	}
}

// TestDiskPressureEvicts is that pods go one by one under disk pressure, with what the kubelet writes of it: first those that use more
// than they asked for, of these the least important. Critical pods stay.
func TestDiskPressureEvicts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		with := func(name string, priority int32, request string) {
			p := testPod(name, "busybox", command("sleep", "infinity"))
			p.Spec.Priority = &priority
			p.Spec.TerminationGracePeriodSeconds = new(int64)
			if request != "" {
				p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceEphemeralStorage: resource.MustParse(request)}
			}
			w.create(p)
		}
		with("modest", 0, "1Gi")
		with("greedy", 5, "")
		with("dear", 10, "")
		with("critical", systemCritical, "")
		time.Sleep(time.Minute)
		w.afflict("n0", fault.Effects{DiskPressure: true})
		time.Sleep(time.Minute)
		synctest.Wait()
		if p := w.get("critical"); p.Status.Phase != corev1.PodRunning {
			t.Errorf("the critical pod is %s", p.Status.Phase)
		}
		var ends []string
		for _, name := range []string{"greedy", "dear", "modest"} {
			p := w.get(name)
			c := findCondition(p.Status.Conditions, corev1.DisruptionTarget)
			if p.Status.Phase != corev1.PodFailed || p.Status.Reason != "Evicted" || c == nil || c.Reason != "TerminationByKubelet" || c.Message != p.Status.Message {
				t.Fatalf("%s: %s %s %+v", name, p.Status.Phase, p.Status.Reason, c)
			}
			ends = append(ends, c.LastTransitionTime.UTC().Format(time.RFC3339)+" "+name)
		}
		if !slices.IsSorted(ends) || ends[0][:20] == ends[1][:20] {
			t.Errorf("they ended %q", ends)
		}
		low := "The node was low on resource: ephemeral-storage. "
		if m := w.get("greedy").Status.Message; !strings.HasPrefix(m, low) || !strings.HasSuffix(m, "Container c was using 24Ki, request is 0, has larger consumption of ephemeral-storage. ") {
			t.Errorf("message %q", m)
		}
		if m := w.get("modest").Status.Message; strings.Contains(m, "larger consumption") {
			t.Errorf("message %q", m)
		}
	})
}

// TestFaultsCrashTheStack is that a pod of the GPU stack crashes, says why, and is well again.
func TestFaultsCrashTheStack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.create(testPod("plugin", "nvcr.example/nvidia/k8s-device-plugin:v0.17.4"))
		time.Sleep(time.Minute)
		w.afflict("n0", fault.Effects{Crashes: map[device.Role]fault.Crash{device.Plugin: {Log: "it broke"}}})
		if s := state(&w.get("plugin").Status.ContainerStatuses[0]); s == "running" || !strings.Contains(w.lines("plugin", false)+w.lines("plugin", true), "it broke") {
			t.Errorf("it is %s\n%s", s, w.lines("plugin", false))
		}
		w.afflict("n0", fault.Effects{})
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if s := state(&w.get("plugin").Status.ContainerStatuses[0]); s != "running" {
			t.Errorf("healed: %s", s)
		}
		w.afflict("n0", fault.Effects{GPUs: map[int]gpu.Trouble{3: {Xid: 79, Lost: true, Dead: true}, 4: {Xid: 31}}})
		log := w.lines("plugin", false)
		if !strings.Contains(log, "XidCriticalError: Xid=79 on Device=GPU-") || !strings.Contains(log, "Skipping event") || strings.Contains(log, "Xid=31") {
			t.Errorf("the plugin logs\n%s", log)
		}
	})
}

// A container runtime that knows no RuntimeClass keeps pods with one waiting, and others not; it heals.
func TestRuntimeHandlerIsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.afflict("n0", fault.Effects{NoHandlers: true, PrepareFails: true})
		class := "nvidia"
		w.create(testPod("hit", "ubuntu", command("sleep", "999999"), func(p *corev1.Pod) { p.Spec.RuntimeClassName = &class }))
		w.create(testPod("well", "ubuntu", command("sleep", "999999")))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if s := state(&w.get("hit").Status.ContainerStatuses[0]); s != "waiting ContainerCreating" || !slices.Contains(w.reasons("hit"), "FailedCreatePodSandBox") {
			t.Errorf("with a RuntimeClass: %s, %v", s, w.reasons("hit"))
		}
		if s := state(&w.get("well").Status.ContainerStatuses[0]); s != "running" {
			t.Errorf("without one: %s", s)
		}
		w.afflict("n0", fault.Effects{})
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if s := state(&w.get("hit").Status.ContainerStatuses[0]); s != "running" {
			t.Errorf("healed: %s, %v", s, w.reasons("hit"))
		}
	})
}
