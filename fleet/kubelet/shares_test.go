package kubelet

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/fleet/device"
	"github.com/berth-dev/berth/fleet/dra"
	"github.com/berth-dev/berth/fleet/gpu"
)

// claimShare is a claim with a share of the first GPU of "n0", reserved for the pod of the same name.
func claimShare(name, memory, cores string) *resourcev1.ResourceClaim {
	c := allocated(name, []string{name}, "r=hami-gpu-0")
	r := &c.Status.Allocation.Devices.Results[0]
	r.Driver, r.ShareID = dra.HAMiDriver, new(types.UID("share-"+name))
	r.ConsumedCapacity = map[resourcev1.QualifiedName]resource.Quantity{"memory": resource.MustParse(memory), "cores": resource.MustParse(cores)}
	return c
}

// Claims have shares of one GPU side by side. A program that wants more memory than its share fails, and its neighbour goes on.
func TestClaimsShareAGPU(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, claimShare("shows", "6Gi", "30"), claimShare("greedy", "3Gi", "10"), claimShare("keeps", "5Gi", "10"))
		defer w.shutdown()
		w.useDRA()
		l4, _ := gpu.Lookup("l4")
		m := w.machines["n0"]
		m.Devices = device.New(device.Config{
			Devices: gpu.Devices("n0", []gpu.Group{{Model: l4, Count: 1}}), HostDriver: true, Shares: true,
			Driver: gpu.Driver{Version: "580.95.05", CUDA: "13.0"}, Advertise: device.ByDRA,
		})
		stack := draPods()
		for i := range stack {
			if stack[i].Role == device.DRA {
				stack[i].Role = device.HAMiDRA
			}
		}
		m.Devices.SetStack(stack, time.Now())
		train := []func(*corev1.Pod){command("python", "train.py"), annotate("sim.berth.dev/gpu-memory", "4Gi"), lastWords}
		w.create(testPod("keeps", "pytorch", append(train, claims("keeps"))...))
		w.create(testPod("greedy", "pytorch", append(train, claims("greedy"))...))
		w.create(testPod("shows", "ubuntu", command("sh", "-c", "nvidia-smi --query-gpu=uuid,memory.total --format=csv,noheader; echo $CUDA_DEVICE_MEMORY_LIMIT_0 $CUDA_DEVICE_SM_LIMIT; exit 1"), lastWords, claims("shows")))
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if got, want := w.get("shows").Status.ContainerStatuses[0].State.Terminated.Message, w.uuid(0)+", 6144 MiB\n6144m 30\n"; got != want {
			t.Errorf("%q, want %q", got, want)
		}
		if got := w.get("greedy").Status.ContainerStatuses[0].State.Terminated; got == nil || !strings.Contains(got.Message, "CUDA out of memory. Tried to allocate 4.00 GiB. GPU 0 has a total capacity of 3.00 GiB") {
			t.Errorf("greedy: %+v", got)
		}
		if got := w.get("keeps").Status.ContainerStatuses[0].State.Running; got == nil {
			t.Errorf("keeps: %+v", w.get("keeps").Status)
		}
	})
}
