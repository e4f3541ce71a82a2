package kubelet

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-dev/berth/fleet/device"
	"github.com/berth-dev/berth/fleet/gpu"
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
