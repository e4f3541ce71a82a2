package kubelet

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/fleet/device"
	"github.com/berth-dev/berth/fleet/gpu"
	"github.com/berth-dev/berth/kube/dialect/hami"
)

// offering is a machine whose plugin is configured so, and that advertises what it offers.
func offering(w *world, gpus int, c device.PluginConfig, parts ...gpu.Partition) *Machine {
	m := w.addMachine("n0", gpus)
	if parts != nil {
		if err := m.Devices.Repartition(parts); err != nil {
			w.t.Fatal(err)
		}
	}
	m.Devices.SetPluginConfig(c)
	m.Devices.SetStack([]device.StackPod{{Name: "gpu-operator/plugin", Role: device.Plugin, Ready: true, HostPaths: []string{"/var/lib/kubelet/device-plugins"}}}, time.Now())
	list := allocatable(0)
	for _, o := range m.Devices.Advertise(time.Now()).Resources {
		list[corev1.ResourceName(o.Name)] = *resource.NewQuantity(o.Allocatable, resource.DecimalSI)
	}
	m.Allocatable = func() corev1.ResourceList { return list }
	return m
}

// lastWords makes the end of the log the termination message.
func lastWords(p *corev1.Pod) {
	p.Spec.Containers[0].TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
	p.Spec.RestartPolicy = corev1.RestartPolicyNever
}

func TestPodWithMIGDevices(t *testing.T) {
	h100, _ := gpu.Lookup("h100")
	list, err := h100.Layout(map[string]int{"1g.10gb": 2, "3g.40gb": 1})
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.shutdown()
		offering(w, 2, device.PluginConfig{MIGStrategy: "mixed"}, gpu.Partition{Enabled: true, Instances: list}, gpu.Partition{})
		one, three := corev1.ResourceName("nvidia.com/mig-1g.10gb"), corev1.ResourceName("nvidia.com/mig-3g.40gb")
		show := command("sh", "-c", "nvidia-smi -L; echo $NVIDIA_VISIBLE_DEVICES; exit 1")
		w.create(testPod("keeper", "ubuntu", request(one, "1"), command("sleep", "999")))
		w.create(testPod("slice", "ubuntu", request(one, "1"), request(three, "1"), show, lastWords))
		w.create(testPod("whole", "ubuntu", gpus(1), show, lastWords))
		w.create(testPod("both", "ubuntu", request(one, "2"), command("sleep", "9")))
		w.create(testPod("many", "ubuntu", request(one, "1"), command("sleep", "999")))
		words := func(name string) string { return w.get(name).Status.ContainerStatuses[0].State.Terminated.Message }
		got := words("slice")
		if !strings.Contains(got, "  MIG 3g.40gb     Device  0: (UUID: MIG-") || !strings.Contains(got, "  MIG 1g.10gb     Device  1: (UUID: MIG-") ||
			strings.Contains(got, "Device  2") || strings.Contains(got, "GPU 1:") || strings.Count(got, "MIG-") != 4 {
			t.Error(got)
		}
		if got := words("whole"); strings.Contains(got, "MIG") || strings.Count(got, "GPU-") != 2 {
			t.Error(got)
		}
		status := w.get("slice").Status.ContainerStatuses[0].AllocatedResourcesStatus
		var names []string
		for _, s := range status {
			names = append(names, fmt.Sprint(s.Name, " ", len(s.Resources)))
		}
		if diff := cmp.Diff([]string{"nvidia.com/mig-1g.10gb 1", "nvidia.com/mig-3g.40gb 1"}, names); diff != "" {
			t.Error(diff)
		}
		refused := w.get("both").Status
		if want := "Pod was rejected: Allocate failed due to requested number of devices unavailable for nvidia.com/mig-1g.10gb. Requested: 2, Available: 1, which is unexpected"; refused.Reason != "UnexpectedAdmissionError" || refused.Message != want {
			t.Error(refused.Reason, refused.Message)
		}
		if got := w.get("many").Status.Phase; got != corev1.PodRunning {
			t.Error("the last slice:", got)
		}

		before := w.get("many").Annotations[gpuAnnotation]
		w.shutdown()
		w.start()
		synctest.Wait()
		if got := w.get("many").Annotations[gpuAnnotation]; got != before || !strings.Contains(got, `["MIG-`) {
			t.Errorf("after a restart it has %s, and had %s", got, before)
		}
	})
}

// Whoever shares a GPU shares its memory: by time-slicing all of it, by MPS each its part.
func TestSharedMemory(t *testing.T) {
	train := func(name, memory string) *corev1.Pod {
		return testPod(name, "pytorch", gpus(1), command("python", "train.py"), annotate("sim.berth.dev/gpu-memory", memory), lastWords)
	}
	for _, tc := range []struct {
		strategy string
		ask      []string
		want     []string
	}{
		{device.TimeSlicing, []string{"40Gi", "30Gi", "20Gi", "9Gi"}, []string{"Running", "Running",
			"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 79.65 GiB of which 9.65 GiB is free.\n", "Running"}},
		{device.MPS, []string{"19Gi", "20Gi", "1Gi"}, []string{"Running",
			"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 19.91 GiB of which 19.91 GiB is free.\n", "Running"}},
		{"", []string{"100Gi"}, []string{"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 100.00 GiB. GPU 0 has a total capacity of 79.65 GiB of which 79.65 GiB is free.\n"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			defer w.shutdown()
			config := device.PluginConfig{Sharing: device.Sharing{Strategy: tc.strategy, Replicas: map[string]int{device.Resource: 4}}}
			if tc.strategy == "" {
				config = device.PluginConfig{}
			}
			offering(w, 1, config)
			var got []string
			for i, memory := range tc.ask {
				name := fmt.Sprint("p", i)
				w.create(train(name, memory))
				pod := w.get(name)
				if end := pod.Status.ContainerStatuses[0].State.Terminated; end != nil {
					got = append(got, end.Message)
				} else {
					got = append(got, string(pod.Status.Phase))
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: %s", tc.strategy, diff)
			}
			if tc.strategy != device.TimeSlicing {
				return
			}
			w.remove("p0", 0)
			time.Sleep(time.Minute)
			synctest.Wait()
			w.create(train("next", "38Gi"))
			if got := w.get("next").Status.Phase; got != corev1.PodRunning {
				t.Error("memory that a pod left is not free:", got)
			}
		})
	}
}

// hamiNode is a machine with HAMi's plugin, and byHAMi a pod that a scheduler prepared for it.
func hamiNode(w *world, gpus int) *Machine {
	m := w.addMachine("n0", gpus)
	m.Devices.SetStack([]device.StackPod{{Name: "kube-system/hami", Role: device.HAMi, Ready: true, HostPaths: []string{"/var/lib/kubelet/device-plugins"}}}, time.Now())
	list := allocatable(gpus * device.HAMiSplit)
	m.Allocatable = func() corev1.ResourceList { return list }
	return m
}

func byHAMi(w *world, grants ...hami.Grant) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Annotations = maps.Clone(p.Annotations)
		if p.Annotations == nil {
			p.Annotations = map[string]string{}
		}
		own := hami.Own()
		maps.Copy(p.Annotations, own.Allocation("n0", time.Now(), [][]hami.Grant{grants}))
		node := w.machines["n0"].Node().DeepCopy()
		node.Annotations = map[string]string{hami.KeyLock: hami.Lock(time.Now(), p.Namespace, p.Name)}
		_ = w.client.Tracker().Add(node)
	}
}

// Volcano's plugin for vGPUs does the same under other names: what a pod gets is in Volcano's annotations, init containers are not in them, and
// the node offers the memory and the compute of its GPUs besides.
func TestVolcanosVGPUs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.shutdown()
		m := w.addMachine("n0", 2)
		m.Devices.SetStack([]device.StackPod{{Name: "kube-system/vgpu", Role: device.VGPU, Ready: true, HostPaths: []string{"/var/lib/kubelet/device-plugins"}}}, time.Now())
		list := allocatable(0)
		for _, o := range m.Devices.Advertise(time.Now()).Resources {
			list[corev1.ResourceName(o.Name)] = *resource.NewQuantity(o.Allocatable, resource.DecimalSI)
		}
		memory := int64(2 * m.Devices.Devices()[0].MemoryMiB)
		for name, want := range map[corev1.ResourceName]int64{device.VGPUNumber: 20, "volcano.sh/vgpu-memory": memory, "volcano.sh/vgpu-cores": 200, device.Resource: 0} {
			if q := list[name]; q.Value() != want {
				t.Errorf("the node offers %s of %s, want %d", q.String(), name, want)
			}
		}
		m.Allocatable = func() corev1.ResourceList { return list }

		e := hami.Volcano()
		second := m.Devices.Devices()[1].UUID
		prepared := func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{Name: "first", Image: "ubuntu", Command: []string{"true"}}}
			p.Annotations = e.Allocation("n0", time.Now(), [][]hami.Grant{{{UUID: second, Memory: 3000, Cores: 30}}})
			node := w.machines["n0"].Node().DeepCopy()
			node.Annotations = map[string]string{e.LockKey: hami.Lock(time.Now(), p.Namespace, p.Name)}
			_ = w.client.Tracker().Add(node)
		}
		show := command("sh", "-c", "nvidia-smi --query-gpu=uuid,memory.total --format=csv,noheader; echo $CUDA_DEVICE_MEMORY_LIMIT_0 $CUDA_DEVICE_SM_LIMIT; exit 1")
		w.create(testPod("past", "ubuntu", request(device.VGPUNumber, "1")))
		if got := w.get("past").Status; !strings.Contains(got.Message, "no binding pod found on node n0") {
			t.Errorf("a pod that nobody prepared: %s %s", got.Reason, got.Message)
		}
		w.create(testPod("fits", "ubuntu", request(device.VGPUNumber, "1"), request("volcano.sh/vgpu-memory", "3000"), show, lastWords, prepared))
		pod := w.get("fits")
		if got, want := pod.Status.ContainerStatuses[0].State.Terminated.Message, second+", 3000 MiB\n3000m 30\n"; got != want {
			t.Errorf("%q, want %q", got, want)
		}
		if pod.Annotations[e.BindPhase] != "success" || pod.Annotations[e.ToAllocate] != "" {
			t.Error("annotations:", pod.Annotations)
		}
		node, err := w.client.CoreV1().Nodes().Get(t.Context(), "n0", metav1.GetOptions{})
		if err != nil || node.Annotations[e.LockKey] != "" {
			t.Error("lock:", err, node.Annotations)
		}
	})
}

// TestStacksOwnProgramsRunThroughShells has DaemonSets as projects publish them, that start a program of their image through a shell. Volcano's is
// volcano-vgpu-device-plugin.yml of Project-HAMi/volcano-vgpu-device-plugin.
func TestStacksOwnProgramsRunThroughShells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.shutdown()
		w.addMachine("n0", 2)
		for _, c := range []struct {
			name, image string
			command     []string
			runs        bool
		}{
			{"vgpu", "projecthami/volcano-vgpu-device-plugin:v1.12.0", []string{"/bin/bash", "-c", "volcano-vgpu-monitor"}, true},
			{"hami", "projecthami/hami:v2.10.0", []string{"sh", "-c", "exec vgpu-monitor --v=4"}, true},
			{"nvidia", "nvcr.io/nvidia/k8s-device-plugin:v0.17.0", []string{"bash", "-c", "[[ -f /x ]]; nvidia-device-plugin"}, true},
			{"amiss", "projecthami/volcano-vgpu-device-plugin:v1.12.0", []string{"/bin/bash", "-c", "volcano-vgpu-monitr"}, false},
		} {
			first := corev1.Container{Name: "device-plugin", Image: c.image}
			w.create(testPod(c.name, c.image, func(p *corev1.Pod) {
				second := corev1.Container{Name: "monitor", Image: c.image, Command: c.command}
				p.Spec.Containers = []corev1.Container{first, second}
				p.Spec.RestartPolicy = corev1.RestartPolicyNever
			}))
			time.Sleep(time.Minute)
			for _, s := range w.get(c.name).Status.ContainerStatuses {
				if runs := s.State.Running != nil; runs != (c.runs || s.Name != "monitor") {
					t.Errorf("%s, container %s: %+v", c.name, s.Name, s.State)
				}
			}
		}
	})
}

// A pod that no scheduler prepared is refused by HAMi's plugin, and one whose annotations do not fit too; others get what they say,
// and the node is unlocked.
func TestHAMi(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.shutdown()
		m := hamiNode(w, 2)
		ids := m.Devices.Devices()
		first, second := ids[0].UUID, ids[1].UUID
		mem := corev1.ResourceName(hami.ResMemory)
		show := command("sh", "-c", "nvidia-smi --query-gpu=uuid,memory.total --format=csv,noheader; echo $CUDA_DEVICE_MEMORY_LIMIT_0 $CUDA_DEVICE_SM_LIMIT; exit 1")

		w.create(testPod("past", "ubuntu", gpus(1)))
		w.create(testPod("wrong", "ubuntu", gpus(2), byHAMi(w, hami.Grant{UUID: first, Memory: 10})))
		w.create(testPod("strange", "ubuntu", gpus(1), byHAMi(w, hami.Grant{UUID: "GPU-x", Memory: 10})))
		for name, want := range map[string]string{
			"past": "no binding pod found on node n0", "wrong": "device number not matched", "strange": `no device "GPU-x" in this machine`,
		} {
			if got := w.get(name).Status; got.Reason != "UnexpectedAdmissionError" || !strings.Contains(got.Message, want) {
				t.Errorf("%s: %s %s", name, got.Reason, got.Message)
			}
		}
		if got := w.get("wrong").Annotations[hami.KeyBindPhase]; got != "failed" {
			t.Error("phase of a refused pod:", got)
		}

		w.create(testPod("fits", "ubuntu", request(mem, "3000"), show, lastWords, byHAMi(w, hami.Grant{UUID: second, Memory: 3000, Cores: 30})))
		if got, want := w.get("fits").Status.ContainerStatuses[0].State.Terminated.Message, second+", 3000 MiB\n3000m 30\n"; got != want {
			t.Errorf("%q, want %q", got, want)
		}
		pod := w.get("fits")
		if got := pod.Annotations[hami.KeyBindPhase] + pod.Annotations[hami.KeyToAllocate]; got != "success;" {
			t.Error("phase:", got)
		}
		node, err := w.client.CoreV1().Nodes().Get(t.Context(), "n0", metav1.GetOptions{})
		if err != nil || node.Annotations[hami.KeyLock] != "" {
			t.Error("lock:", err, node.Annotations)
		}

		train := []func(*corev1.Pod){gpus(1), command("python", "train.py"), annotate("sim.berth.dev/gpu-memory", "4Gi"), lastWords}
		w.create(testPod("greedy", "pytorch", append(train, byHAMi(w, hami.Grant{UUID: first, Memory: 3072}))...))
		if got, want := w.get("greedy").Status.ContainerStatuses[0].State.Terminated.Message, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 4.00 GiB. GPU 0 has a total capacity of 3.00 GiB of which 3.00 GiB is free.\n"; got != want {
			t.Errorf("%q, want %q", got, want)
		}
		w.create(testPod("keeper", "pytorch", append(train, policy(corev1.RestartPolicyAlways), byHAMi(w, hami.Grant{UUID: first, Memory: 5000}))...))
		before := w.get("keeper").Annotations[gpuAnnotation]
		w.shutdown()
		w.start()
		synctest.Wait()
		if got := w.get("keeper"); got.Status.Phase != corev1.PodRunning || got.Annotations[gpuAnnotation] != before || !strings.Contains(before, first+"::") {
			t.Errorf("after a restart %s has %s, before %s", got.Status.Phase, got.Annotations[gpuAnnotation], before)
		}
	})
}

// Parts that Berth's agent gives are where the binding says; a GPU with parts is not given whole.
func TestPartsOfTheAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.shutdown()
		h100, _ := gpu.Lookup("h100")
		m := w.addMachine("n0", 2)
		m.Devices = device.New(device.Config{Devices: gpu.Devices("n0", []gpu.Group{{Model: h100, Count: 2}}), Driver: gpu.Driver{Version: "580.95.05"}, HostDriver: true, Parts: 10})
		m.Devices.SetStack([]device.StackPod{{Name: "gpu-operator/plugin", Role: device.Plugin, Ready: true, HostPaths: []string{"/var/lib/kubelet/device-plugins"}}}, time.Now())
		ids := m.Devices.Devices()
		part := func(fraction, uuid string) func(*corev1.Pod) {
			return func(p *corev1.Pod) {
				annotate(v1alpha1.KeyGPUFraction, fraction)(p)
				annotate(v1alpha1.KeyWantedGPUs, fmt.Sprintf("[%q]", uuid))(p)
			}
		}
		show := command("sh", "-c", "nvidia-smi --query-gpu=uuid,memory.total --format=csv,noheader; exit 1")
		w.create(testPod("half", "ubuntu", part("0.5", ids[1].UUID), show, lastWords))
		if got, want := w.get("half").Status.ContainerStatuses[0].State.Terminated.Message, ids[1].UUID+", 40779 MiB\n"; got != want {
			t.Errorf("%q, want %q", got, want)
		}
		w.create(testPod("part", "ubuntu", part("0.25", ids[1].UUID), command("sleep", "999")))
		w.create(testPod("whole", "ubuntu", gpus(1), annotate(v1alpha1.KeyWantedGPUs, fmt.Sprintf("[%q]", ids[0].UUID)), command("sleep", "999")))
		w.create(testPod("more", "ubuntu", gpus(1), command("sleep", "999")))
		w.create(testPod("late", "ubuntu", part("0.25", ids[0].UUID), command("sleep", "999")))
		for name, want := range map[string]string{
			"part": fmt.Sprintf(`{"c":["%s::0"]}`, ids[1].UUID), "whole": fmt.Sprintf(`{"c":["%s"]}`, ids[0].UUID), "more": "", "late": "",
		} {
			pod := w.get(name)
			if got := pod.Annotations[gpuAnnotation]; got != want || (want == "") != (pod.Status.Phase == corev1.PodFailed) {
				t.Errorf("%s: %s has %s, want %s", name, pod.Status.Phase, got, want)
			}
			checkResourceStatuses(t, pod)
		}
	})
}

// checkResourceStatuses fails on a status that the API server refuses, as its validation of pods does: of a resource that the
// container does not request.
func checkResourceStatuses(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	for i, s := range pod.Status.ContainerStatuses {
		for _, r := range s.AllocatedResourcesStatus {
			if _, ok := pod.Spec.Containers[i].Resources.Requests[r.Name]; !ok {
				t.Errorf("%s: the status of container %s names %q, which it does not request", pod.Name, s.Name, r.Name)
			}
		}
	}
}

// The plugin's refusal comes through as the kubelet words it.
func TestPluginRefusesTwoShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.shutdown()
		offering(w, 1, device.PluginConfig{Sharing: device.Sharing{Strategy: device.TimeSlicing, FailMany: true, Replicas: map[string]int{device.Resource: 4}}})
		w.create(testPod("two", "ubuntu", gpus(2), command("sleep", "9")))
		got := w.get("two").Status
		const want = `Pod was rejected: Allocate failed due to rpc error: code = Unknown desc = invalid allocation request for "nvidia.com/gpu": ` +
			`invalid request: maximum request size for shared resources is 1; found 2, which is unexpected`
		if got.Reason != "UnexpectedAdmissionError" || got.Message != want {
			t.Error(got.Reason, got.Message)
		}
	})
}

// A program whose memory grows ends at its limit: of its part of a GPU with CUDA's words, of its container by the kernel.
func TestLeakingPrograms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.shutdown()
		m := hamiNode(w, 1)
		first := m.Devices.Devices()[0].UUID
		w.create(testPod("gpu", "pytorch", gpus(1), command("python", "train.py"), annotate("sim.berth.dev/gpu-leak", "1Gi"), lastWords, byHAMi(w, hami.Grant{UUID: first, Memory: 4096})))
		w.create(testPod("host", "pytorch", request(corev1.ResourceMemory, "2Gi"), command("python", "train.py"), annotate("sim.berth.dev/memory-leak", "1Gi"), lastWords))
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		gpu, host := w.get("gpu").Status.ContainerStatuses[0].State.Terminated, w.get("host").Status.ContainerStatuses[0].State.Terminated
		if gpu == nil || gpu.ExitCode != 1 || !strings.Contains(gpu.Message, "CUDA out of memory") || !strings.Contains(gpu.Message, "total capacity of 4.00 GiB") {
			t.Errorf("%+v", gpu)
		}
		if host == nil || host.ExitCode != 137 || host.Reason != "OOMKilled" {
			t.Errorf("%+v", host)
		}
	})
}

// The container that KAI's key names gets the pod's part, an init container too; without the key it is the first.
func TestPartHolder(t *testing.T) {
	for name, want := range map[string]string{"": "main", "side": "side", "before": "before"} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"gpu-fraction": "0.5"}}}
		pod.Spec.InitContainers = []corev1.Container{{Name: "before"}}
		pod.Spec.Containers = []corev1.Container{{Name: "main"}, {Name: "side"}}
		if name != "" {
			pod.Annotations["gpu-fraction-container-name"] = name
		}
		if got := partHolder(pod); got != want {
			t.Errorf("%q: %s, want %s", name, got, want)
		}
	}
}
