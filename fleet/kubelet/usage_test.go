package kubelet

import (
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-dev/berth/fleet/usage"
)

func (w *world) use() map[string]usage.Use {
	n, ok := w.k.NodeUsage("n0")
	if !ok {
		w.t.Fatal("no usage")
	}
	out := map[string]usage.Use{"node": n.Use}
	for i := range n.Pods {
		out[n.Pods[i].Name] = n.Pods[i].Sum()
	}
	return out
}

// Programs that work use what their containers ask for, others next to nothing; processor time only rises, also when a program
// or a pod ends.
func TestUsage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.machines["n0"].Node().Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("64"), corev1.ResourceMemory: resource.MustParse("256Gi")}
		w.create(testPod("idle", "busybox", command("sleep", "10000")))
		w.create(testPod("feeds", "pytorch", command("python", "train.py"), gpus(2)))
		w.create(testPod("asks", "pytorch", command("python", "train.py"), request(corev1.ResourceCPU, "10"), request(corev1.ResourceMemory, "10Gi"), annotate("sim.berth.dev/memory", "5Gi")))
		w.create(testPod("twice", "busybox", command("sh", "-c", "python a.py; python b.py; sleep 10000"), annotate("sim.berth.dev/run", "1m")))
		w.create(testPod("ends", "pytorch", command("python", "train.py"), annotate("sim.berth.dev/run", "100s"), policy(corev1.RestartPolicyNever)))
		time.Sleep(90 * time.Second)
		shown := func(u usage.Use) string { return fmt.Sprintf("%.0f cores, %d MiB", math.Round(u.Cores), u.Memory>>20) }
		got := map[string]string{}
		before := w.use()
		for name, u := range before {
			got[name] = shown(u)
		}
		delete(got, "node")
		want := map[string]string{"idle": "0 cores, 24 MiB", "feeds": "8 cores, 12288 MiB", "asks": "8 cores, 5120 MiB", "twice": "0 cores, 512 MiB", "ends": "0 cores, 512 MiB"}
		got["twice"], got["ends"] = got["twice"][1:], got["ends"][1:] // half a core rounds either way
		want["twice"], want["ends"] = want["twice"][1:], want["ends"][1:]
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		time.Sleep(60 * time.Second)
		after := w.use()
		if _, there := after["ends"]; there {
			t.Error("a pod that is over uses something")
		}
		if c := after["twice"].CPUSeconds; math.Abs(c-60.3) > 0.5 {
			t.Errorf("two programs of a minute at half a core took %v s", c)
		}
		// 150 s of 64 cores' system, of 8 and 8.5 cores, two minutes and 100 s of half a core
		if c := after["node"].CPUSeconds; math.Abs(c-150*(systemCores*64+8+8.5)-60-50) > 3 {
			t.Errorf("the node took %v s", c)
		}
		for name, u := range after {
			if u.CPUSeconds < before[name].CPUSeconds {
				t.Errorf("%s: %v s after %v s", name, u.CPUSeconds, before[name].CPUSeconds)
			}
		}
		w.setDown("n0", true)
		if _, ok := w.k.NodeUsage("n0"); ok {
			t.Error("a node that is down answers")
		}
	})
}
