package fleet

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/fleet/device"
)

// slice is the node's ResourceSlice in the API server; nil: there is none.
func (b *bed) slice(node string) *resourcev1.ResourceSlice {
	b.t.Helper()
	s, err := b.client.ResourceV1().ResourceSlices().Get(b.t.Context(), node+"-gpu.nvidia.com", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		b.t.Fatal(err)
	}
	return s
}

// wantSlice compares how many devices the slice has; -1: there should be none.
func (b *bed) wantSlice(when, node string, devices int) {
	b.t.Helper()
	got := -1
	if s := b.slice(node); s != nil {
		got = len(s.Spec.Devices)
	}
	if got != devices {
		b.t.Errorf("%s: the slice of %s has %d devices, want %d", when, node, got, devices)
	}
}

func TestSliceFollowsTheDriversPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, false, []*v1alpha1.Pool{draPool("p", 1)})
		b.wantSlice("no stack yet", "p-0", -1)
		unmounted := draPods()
		unmounted[0].HostPaths = []string{"/var/lib/kubelet/plugins"}
		b.setStack("p-0", unmounted)
		b.wantSlice("the kubelet cannot find the driver", "p-0", -1)
		b.setStack("p-0", draPods()[:1])
		b.wantSlice("no GPU driver", "p-0", -1)
		b.setStack("p-0", append(draPods(), stackPods()...))
		b.wantSlice("whole stack", "p-0", 8)
		b.wantOffer("never both", "p-0", device.Resource, "-/-")
		b.setStack("p-0", nil)
		time.Sleep(device.WipingDelay - 3*time.Second)
		b.settle()
		b.wantSlice("gone for a moment", "p-0", 8)
		time.Sleep(3 * time.Second)
		b.settle()
		b.wantSlice("gone for long", "p-0", -1)
		b.setStack("p-0", draPods())
		b.wantSlice("back", "p-0", 8)
		want := v1alpha1.PoolStatus{Nodes: 1, Ready: 1, GPUs: 8}
		got := b.statuses["p"]
		got.Conditions = nil
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

// What somebody does to the slice is put right, in a new generation of the pool.
func TestSliceIsRepaired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, false, []*v1alpha1.Pool{draPool("p", 1)})
		b.setStack("p-0", draPods())
		spoiled := b.slice("p-0").DeepCopy()
		spoiled.Spec.Devices = spoiled.Spec.Devices[:3]
		if _, err := b.client.ResourceV1().ResourceSlices().Update(t.Context(), spoiled, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		b.settle()
		b.wantSlice("spoiled", "p-0", 8)
		if got := b.slice("p-0").Spec.Pool.Generation; got != 2 {
			t.Errorf("generation %d, want 2", got)
		}
		if err := b.client.ResourceV1().ResourceSlices().Delete(t.Context(), spoiled.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		b.settle()
		b.wantSlice("deleted", "p-0", 8)
	})
}

// A pool whose claims cut GPUs has several slices, which are one generation of one pool however they were spoiled.
func TestSlicesOfAPoolThatClaimsCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := draPool("p", 1)
		pool.Spec.MIG.Strategy = v1alpha1.MIGStrategyDynamic
		b := newBed(t, false, []*v1alpha1.Pool{pool})
		client := b.client.ResourceV1().ResourceSlices()
		step := func(what string, slices int, generation int64, devices int) {
			t.Helper()
			b.settle()
			list, err := client.List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			got := 0
			for _, s := range list.Items {
				got += len(s.Spec.Devices)
				if s.Spec.Pool.Generation != generation || s.Spec.Pool.ResourceSliceCount != int64(slices) {
					t.Errorf("%s: %s is of generation %d, one of %d", what, s.Name, s.Spec.Pool.Generation, s.Spec.Pool.ResourceSliceCount)
				}
			}
			if len(list.Items) != slices || got != devices {
				t.Errorf("%s: %d slices with %d devices, want %d with %d", what, len(list.Items), got, slices, devices)
			}
		}
		b.setStack("p-0", draPods())
		step("published", 9, 1, 8*26)
		if node := b.get("p-0"); node.Labels[migConfigLabel] != "" || node.Labels[migDeployLabel] != "" {
			t.Errorf("labels %v", node.Labels)
		}
		if got := b.statuses["p"].GPUs; got != 8 {
			t.Errorf("%d GPUs in the pool's status", got)
		}
		spoiled, err := client.Get(t.Context(), "p-0-gpu.nvidia.com-03", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		spoiled.Spec.Devices = spoiled.Spec.Devices[:3]
		if _, err := client.Update(t.Context(), spoiled, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		step("spoiled", 9, 2, 8*26)
		for _, name := range []string{"p-0-gpu.nvidia.com-counters-0", "p-0-gpu.nvidia.com-07"} {
			if err := client.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		step("deleted", 9, 2, 8*26)
		b.setStack("p-0", nil)
		time.Sleep(device.WipingDelay)
		step("the driver is gone", 0, 0, 0)
	})
}

// A slice of an earlier run stays while the driver's pod comes back, and goes if it does not.
func TestSliceOfAnEarlierRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(machineOptions{Want: want{pool: draPool("p", 1), index: 0}})
		node := newNode(m.wants(), 0, facts{want: m.wants(), ready: true}, time.Now())
		left := gpuSlices("p-0", m.devices, node)
		b := newBed(t, false, []*v1alpha1.Pool{draPool("p", 1)}, node, left[0])
		b.wantSlice("just started", "p-0", 8)
		if got := b.tally.Pool("p").gpus; got != 0 {
			t.Errorf("%d GPUs counted that nobody vouches for", got)
		}
		time.Sleep(device.WipingDelay)
		b.settle()
		b.wantSlice("nobody came", "p-0", -1)
	})
}

func TestProgressCountsSlices(t *testing.T) {
	var got Progress
	ta := newTally(func(p Progress) { got = p }, 40001)
	ta.SetWanted(wants(draPool("p", 2)))
	if pools := ta.SetSlice("p-0", 8); pools != nil {
		t.Errorf("a slice without a node changed %v", pools)
	}
	ta.SetNode(counted("p-0", "p", true, false, "0"))
	ta.SetNode(counted("p-1", "p", true, false, "0"))
	ta.SetSlice("p-0", 8)
	ta.SetNode(counted("p-0", "p", true, false, "0"))
	if diff := cmp.Diff(Progress{WantNodes: 2, WantGPUs: 16, Nodes: 2, Ready: 2, GPUs: 8}, got); diff != "" {
		t.Error(diff)
	}
	ta.SetSlice("p-1", 8)
	if !got.Done() {
		t.Errorf("not done with %+v", got)
	}
	ta.SetSlice("p-1", 0)
	ta.DropNode("p-0")
	if diff := cmp.Diff(Progress{WantNodes: 2, WantGPUs: 16, Nodes: 1, Ready: 1}, got); diff != "" {
		t.Error(diff)
	}
	if got := ta.Pool("p"); got.gpus != 0 {
		t.Errorf("pool has %d GPUs", got.gpus)
	}
}
