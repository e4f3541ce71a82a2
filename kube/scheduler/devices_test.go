package scheduler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"

	"github.com/berth-dev/berth/kube/cluster"
	"github.com/berth-dev/berth/kube/report"
)

var resourceClaims = schema.GroupVersionResource{Group: "resource.k8s.io", Version: "v1", Resource: "resourceclaims"}

// deviceWorld is a world whose API server serves resource claims, and compares and swaps them.
func deviceWorld(t *testing.T, objects ...runtime.Object) *world {
	class := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}, Spec: resourcev1.DeviceClassSpec{
		Selectors: []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: `device.driver == "gpu.example.com"`}}},
	}}
	w := newWorld(t, append(objects, class)...)
	w.client.Resources = append(w.client.Resources, &metav1.APIResourceList{GroupVersion: "resource.k8s.io/v1", APIResources: []metav1.APIResource{{Kind: "DeviceClass"}, {Kind: "DeviceTaintRule"}}})
	w.client.PrependReactor("update", "resourceclaims", func(a clienttesting.Action) (bool, runtime.Object, error) {
		o, _ := meta.Accessor(a.(clienttesting.UpdateAction).GetObject())
		have, err := w.client.Tracker().Get(a.GetResource(), a.GetNamespace(), o.GetName())
		if err != nil {
			return true, nil, err
		}
		if h, _ := meta.Accessor(have); h.GetResourceVersion() != o.GetResourceVersion() {
			return true, nil, apierrors.NewConflict(resourceClaims.GroupResource(), o.GetName(), errors.New("it has changed"))
		}
		return false, nil, nil
	})
	return w
}

// gpuNode is a node and the slice with its GPUs.
func gpuNode(name string, gpus int) []runtime.Object {
	s := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name + "-gpus"}, Spec: resourcev1.ResourceSliceSpec{
		Driver: "gpu.example.com", NodeName: &name, Pool: resourcev1.ResourcePool{Name: name, Generation: 1, ResourceSliceCount: 1},
	}}
	for i := range gpus {
		s.Spec.Devices = append(s.Spec.Devices, resourcev1.Device{Name: fmt.Sprint("gpu-", i)})
	}
	return []runtime.Object{node(name, "r1", 0), s}
}

func resourceClaim(name string, count int64) *resourcev1.ResourceClaim {
	return &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: resourcev1.ResourceClaimSpec{
		Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{
			Name: "gpus", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: count},
		}}},
	}}
}

// withDevices is a pod with a resource claim.
func withDevices(name, claim string) *corev1.Pod {
	p := pod(name, 0)
	p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpus", ResourceClaimName: &claim}}
	return p
}

func (w *world) resourceClaim(name string) *resourcev1.ResourceClaim {
	w.t.Helper()
	c, err := w.client.Tracker().Get(resourceClaims, "default", name)
	if err != nil {
		w.t.Fatal(err)
	}
	return c.(*resourcev1.ResourceClaim)
}

// held is which devices the claim has, and for which pods.
func (w *world) held(name string) string {
	c := w.resourceClaim(name)
	out := "nothing"
	if a := c.Status.Allocation; a != nil {
		out = ""
		for _, r := range a.Devices.Results {
			out += r.Pool + "/" + r.Device + " "
		}
		if !slices.Contains(c.Finalizers, resourcev1.Finalizer) {
			out += "(unprotected) "
		}
		out += "for"
	}
	for _, r := range c.Status.ReservedFor {
		out += " " + r.Name
	}
	return out
}

func TestDevicesComeBeforeBindings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := deviceWorld(t, append(gpuNode("n1", 2), resourceClaim("two", 2), withDevices("a", "two"), resourceClaim("one", 1), withDevices("b", "one"))...)
		w.deny = func(b *corev1.Binding) error {
			if w.resourceClaim("two").Status.Allocation == nil {
				t.Error("bound without its devices")
			}
			return nil
		}
		w.start()
		wantAt(t, w, []string{"n1", ""}, "a", "b")
		if diff := cmp.Diff([]string{"n1/gpu-0 n1/gpu-1 for a", "nothing"}, []string{w.held("two"), w.held("one")}); diff != "" {
			t.Error(diff)
		}
		want := []string{"FailedScheduling: needs 1 pod of 1 nvidia.com/gpu; 0 fit; nvidia.com/gpu short by 1 on 1 node; cannot allocate all claims: devices for gpus/gpus held by others on 1 node; up to 2 would fit if all that may be evicted or is leaving were gone"}
		if diff := cmp.Diff(want, w.said("b")); diff != "" {
			t.Error(diff)
		}
	})
}

// Two pods have one claim: the second waits for the devices that the first gets, and runs beside it.
func TestClaimOfTwoPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := deviceWorld(t, append(append(gpuNode("n1", 1), gpuNode("n2", 1)...), resourceClaim("both", 1), withDevices("a", "both"), withDevices("b", "both"))...)
		w.start()
		w.rest()
		if a, b := w.pod("a").Spec.NodeName, w.pod("b").Spec.NodeName; a == "" || a != b {
			t.Errorf("on %q and %q", a, b)
		}
		if got := w.held("both"); got != "n1/gpu-0 for a b" && got != "n2/gpu-0 for a b" {
			t.Error(got)
		}
	})
}

// The claim was given other devices while ours were being written: nothing is bound on the wrong node, and the next plan keeps to
// what the claim has.
func TestClaimIsGivenOtherDevices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := deviceWorld(t, append(append(gpuNode("n1", 1), gpuNode("n2", 1)...), resourceClaim("one", 1), withDevices("a", "one"))...)
		once := false
		w.client.PrependReactor("update", "resourceclaims", func(a clienttesting.Action) (bool, runtime.Object, error) {
			if once || a.GetSubresource() != "status" {
				return false, nil, nil
			}
			once = true
			c := w.resourceClaim("one").DeepCopy()
			ours := a.(clienttesting.UpdateAction).GetObject().(*resourcev1.ResourceClaim).Status.Allocation.Devices.Results[0].Pool
			other := map[string]string{"n1": "n2", "n2": "n1"}[ours]
			c.Status.Allocation = &resourcev1.AllocationResult{
				Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{{Request: "gpus", Driver: "gpu.example.com", Pool: other, Device: "gpu-0"}}},
				NodeSelector: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{
					{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{other}},
				}}}},
			}
			w.mu.Lock()
			c.ResourceVersion = w.next()
			w.mu.Unlock()
			if err := w.client.Tracker().Update(resourceClaims, c, "default"); err != nil {
				t.Error(err)
			}
			return true, nil, apierrors.NewConflict(resourceClaims.GroupResource(), "one", errors.New("it has changed"))
		})
		w.start()
		w.after(2 * time.Minute)
		at := w.pod("a").Spec.NodeName
		if got := w.held("one"); at == "" || got != at+"/gpu-0 (unprotected) for a" && got != at+"/gpu-0 for a" {
			t.Errorf("on %q, the claim has %s", at, got)
		}
	})
}

// The API server refuses the binding after the devices were written: they are given back, and the pod starts elsewhere.
func TestDevicesOfARefusedBindingAreGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := deviceWorld(t, append(append(gpuNode("n1", 1), gpuNode("n2", 1)...), resourceClaim("one", 1), withDevices("a", "one"))...)
		first := ""
		w.deny = func(b *corev1.Binding) error {
			if first == "" {
				first = b.Target.Name
			}
			if b.Target.Name == first {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, b.Name, errors.New("not there"))
			}
			return nil
		}
		w.start()
		w.after(5 * time.Minute)
		at := w.pod("a").Spec.NodeName
		if at == "" || at == first {
			t.Fatalf("on %q after %q refused it; it was said: %q", at, first, w.said("a"))
		}
		if got := w.held("one"); got != at+"/gpu-0 for a" {
			t.Error(got)
		}
	})
}

// A scheduler dies after it wrote devices and before it bound the pod, and the node is gone: its successor frees the claim.
func TestDevicesOfAScheduler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := resourceClaim("one", 1)
		p := withDevices("a", "one")
		p.UID = "a"
		c.Finalizers = []string{resourcev1.Finalizer}
		c.Status = resourcev1.ResourceClaimStatus{
			ReservedFor: []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: "a", UID: "a"}},
			Allocation: &resourcev1.AllocationResult{
				Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{{Request: "gpus", Driver: "gpu.example.com", Pool: "gone", Device: "gpu-0"}}},
				NodeSelector: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{
					{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"gone"}},
				}}}},
			},
		}
		w := deviceWorld(t, append(gpuNode("n1", 1), c, p)...)
		w.start()
		w.after(3 * time.Minute)
		wantAt(t, w, []string{"n1"}, "a")
		if got := w.held("one"); got != "n1/gpu-0 for a" {
			t.Error(got)
		}
	})
}

// Instances of MIG that pods have through claims count in their queue as what they are of a GPU: two halves are all that the
// queue may have.
func TestInstancesOfClaimsCountInQueues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		objects := gpuNode("n1", 4)
		text := func(v string) resourcev1.DeviceAttribute { return resourcev1.DeviceAttribute{StringValue: &v} }
		for i := range objects[1].(*resourcev1.ResourceSlice).Spec.Devices {
			objects[1].(*resourcev1.ResourceSlice).Spec.Devices[i].Attributes = map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{
				"type": text("mig"), "profile": text("3g.40gb"), "productName": text("NVIDIA A100-SXM4-80GB"),
			}
		}
		small := promised("small", 1)
		small.Spec.Resources[0].Limit = small.Spec.Resources[0].Quota
		objects = append(objects, small)
		for _, name := range []string{"a", "b", "c"} {
			p := withDevices(name, "claim-"+name)
			p.Annotations = map[string]string{"berth.dev/queue": "small"}
			objects = append(objects, resourceClaim("claim-"+name, 1), p)
		}
		w := deviceWorld(t, objects...)
		w.start()
		wantAt(t, w, []string{"n1", "n1", ""}, "a", "b", "c")
		want := []string{"FailedScheduling: needs 0.5 nvidia.com/gpu of queue small, which uses 1 of 1"}
		if diff := cmp.Diff(want, w.said("c")); diff != "" {
			t.Error(diff)
		}
	})
}

// A scheduler that is killed while the victim ends has a successor that keeps the devices: half of the card is free from the start, and a pod
// with a claim for that waits, because the card is kept for one that needs all of it.
func TestASuccessorKeepsDevicesOfClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		objects := append(partitioned("n1"), partClaim("half-a", "half"), partClaim("half-b", "half"), partClaim("whole", "whole"))
		ranked := func(p *corev1.Pod, priority int32) *corev1.Pod {
			p.Spec.Priority = &priority
			return p
		}
		w := deviceWorld(t, append(objects, ranked(withDevices("old", "half-a"), 0))...)
		w.ends(10 * time.Minute)
		o := &orders{w: w}
		stop := w.start(o.options)
		w.after(2 * time.Second)
		w.add(ranked(withDevices("new", "whole"), 50))
		w.after(2 * time.Second)
		want := []string{"gpu.example.com/n1/whole"}
		if diff := cmp.Diff(want, o.devices()); diff != "" {
			t.Fatalf("held before the restart (-want +got):\n%s\n%q", diff, w.said("new"))
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		o = &orders{w: w}
		w.start(o.options)
		w.add(ranked(withDevices("small", "half-b"), 0))
		w.after(time.Minute)
		if diff := cmp.Diff(want, o.devices()); diff != "" {
			t.Errorf("held by the successor (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{""}, w.at("small")); diff != "" {
			t.Errorf("small has what is held: %s", diff)
		}
		w.after(9*time.Minute + 30*time.Second)
		free := w.resourceClaim("half-a").DeepCopy() // as the claim controller does when the pod is gone
		free.Status = resourcev1.ResourceClaimStatus{}
		locked(w, func() bool { free.ResourceVersion = w.next(); return true })
		if err := w.client.Tracker().Update(resourceClaims, free, "default"); err != nil {
			t.Fatal(err)
		}
		w.after(time.Minute)
		if diff := cmp.Diff([]string{"n1", ""}, w.at("new", "small")); diff != "" {
			t.Error(diff)
		}
	})
}

// partitioned is a node with one card, which is had whole or in two halves.
func partitioned(name string) []runtime.Object {
	objects := gpuNode(name, 3)
	s := objects[1].(*resourcev1.ResourceSlice)
	pool := resourcev1.ResourcePool{Name: name, Generation: 1, ResourceSliceCount: 2}
	s.Spec.Pool = pool
	amount := func(n int64) map[string]resourcev1.Counter {
		return map[string]resourcev1.Counter{"slots": {Value: *resource.NewQuantity(n, resource.DecimalSI)}}
	}
	for i, d := range []struct {
		name  string
		draws int64
	}{{"whole", 8}, {"half-0", 4}, {"half-1", 4}} {
		kind := strings.TrimRight(d.name, "-01")
		s.Spec.Devices[i] = resourcev1.Device{
			Name: d.name, Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"kind": {StringValue: &kind}},
			ConsumesCounters: []resourcev1.DeviceCounterConsumption{{CounterSet: "card", Counters: amount(d.draws)}},
		}
	}
	return append(objects, &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name + "-counters"}, Spec: resourcev1.ResourceSliceSpec{
		Driver: "gpu.example.com", NodeName: &name, Pool: pool, SharedCounters: []resourcev1.CounterSet{{Name: "card", Counters: amount(8)}},
	}})
}

// partClaim asks for one device of the kind.
func partClaim(name, kind string) *resourcev1.ResourceClaim {
	c := resourceClaim(name, 1)
	c.Spec.Devices.Requests[0].Exactly.Selectors = []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{
		Expression: fmt.Sprintf(`device.attributes["gpu.example.com"].kind == %q`, kind),
	}}}
	return c
}

// devices are those that are held for claims, as of the last plan.
func (o *orders) devices() (out []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, h := range o.last.Holds {
		out = append(out, h.Devices...)
	}
	return out
}

// What is not decided about devices is said by name, and only where no other devices would do.
func TestDevicesThatAreNotDecided(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*resourcev1.ResourceSlice, *resourcev1.ResourceClaim)
		said   string
	}{
		{"several nodes reach them, and there are many", func(s *resourcev1.ResourceSlice, _ *resourcev1.ResourceClaim) {
			s.Spec.NodeName, s.Spec.AllNodes = nil, new(true)
			for i := range 256 {
				s.Spec.Devices = append(s.Spec.Devices, resourcev1.Device{Name: fmt.Sprint("more-", i)})
			}
		}, "asks for devices-of-several-nodes, which is not supported yet"},
		{"they take memory of the node besides", func(s *resourcev1.ResourceSlice, _ *resourcev1.ResourceClaim) {
			much := resource.MustParse("4Gi")
			s.Spec.Devices[0].NodeAllocatableResources = map[corev1.ResourceName]resourcev1.NodeAllocatableResource{
				corev1.ResourceMemory: {Overhead: &resourcev1.NodeAllocatableOverhead{PerPod: &much}},
			}
		}, "asks for devices-with-node-resources, which is not supported yet"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				objects, claim := gpuNode("n1", 1), resourceClaim("one", 1)
				s := objects[1].(*resourcev1.ResourceSlice)
				tt.change(s, claim)
				w := deviceWorld(t, append(objects, claim, withDevices("a", "one"))...)
				w.start()
				w.after(2 * time.Second)
				if diff := cmp.Diff([]string{"FailedScheduling: " + tt.said}, w.said("a")); diff != "" {
					t.Error(diff)
				}
				for _, o := range gpuNode("n2", 1) { // with devices that are decided
					w.add(o)
				}
				w.after(time.Minute)
				if diff := cmp.Diff([]string{"n2"}, w.at("a")); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

// A claim that has a device which takes memory of its node besides, as the stock scheduler gave it to a first pod: a second pod that shares the
// claim would take as much again, which nobody counted, so it waits and is told. Once the device takes nothing more it starts.
func TestClaimThatTakesOfItsNodeIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		objects := gpuNode("n1", 1)
		s := objects[1].(*resourcev1.ResourceSlice)
		s.Spec.Devices[0].NodeAllocatableResources = map[corev1.ResourceName]resourcev1.NodeAllocatableResource{
			corev1.ResourceMemory: {Overhead: &resourcev1.NodeAllocatableOverhead{PerPod: new(resource.MustParse("4Gi"))}},
		}
		first := withDevices("b", "one")
		first.UID, first.Spec.NodeName, first.Spec.SchedulerName = "b", "n1", "default-scheduler"
		w := deviceWorld(t, append(objects, reserved(resourceClaim("one", 1), "n1", "gpu-0", first), first, withDevices("a", "one"))...)
		w.start()
		w.after(2 * time.Second)
		if diff := cmp.Diff([]string{"FailedScheduling: asks for devices-with-node-resources, which is not supported yet"}, w.said("a")); diff != "" {
			t.Error(diff)
		}
		wantAt(t, w, []string{""}, "a")
		s = s.DeepCopy()
		s.Spec.Devices[0].NodeAllocatableResources = nil
		w.mu.Lock()
		s.ResourceVersion = w.next()
		w.mu.Unlock()
		if err := w.client.Tracker().Update(resourcev1.SchemeGroupVersion.WithResource("resourceslices"), s, ""); err != nil {
			t.Fatal(err)
		}
		w.after(time.Minute)
		wantAt(t, w, []string{"n1"}, "a")
	})
}

// Several claims have shares of one device, as much as its capacity holds. Each allocation says which share it is and what it consumes, rounded
// up as the device wants it, and whoever waits starts when enough is given back.
func TestSharesOfADevice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		objects := gpuNode("n1", 1)
		d := &objects[1].(*resourcev1.ResourceSlice).Spec.Devices[0]
		gigabit := resource.MustParse("1G")
		d.AllowMultipleAllocations = new(true)
		d.Capacity = map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{"bandwidth": {Value: resource.MustParse("10G"), RequestPolicy: &resourcev1.CapacityRequestPolicy{
			Default: &gigabit, ValidRange: &resourcev1.CapacityRequestPolicyRange{Min: &gigabit, Step: &gigabit},
		}}}
		for name, rate := range map[string]string{"a": "3500M", "b": "6G", "c": "2G"} {
			c := resourceClaim("of-"+name, 1)
			c.Spec.Devices.Requests[0].Exactly.Capacity = &resourcev1.CapacityRequirements{Requests: map[resourcev1.QualifiedName]resource.Quantity{"bandwidth": resource.MustParse(rate)}}
			objects = append(objects, c, withDevices(name, "of-"+name))
		}
		w := deviceWorld(t, objects...)
		w.start()
		w.after(2 * time.Second)
		if diff := cmp.Diff([]string{"n1", "n1", ""}, w.at("a", "b", "c")); diff != "" {
			t.Fatal(diff)
		}
		seen := map[types.UID]bool{}
		for claim, want := range map[string]string{"of-a": "4G", "of-b": "6G"} {
			r := w.resourceClaim(claim).Status.Allocation.Devices.Results[0]
			if got := r.ConsumedCapacity["bandwidth"]; got.Cmp(resource.MustParse(want)) != 0 || r.ShareID == nil || seen[*r.ShareID] {
				t.Errorf("%s has %+v, want %s", claim, r, want)
			} else {
				seen[*r.ShareID] = true
			}
		}
		w.remove("pods", "default", "a")
		if err := w.client.Tracker().Delete(resourceClaims, "default", "of-a"); err != nil {
			t.Fatal(err)
		}
		w.after(time.Minute)
		if diff := cmp.Diff([]string{"n1", "n1"}, w.at("b", "c")); diff != "" {
			t.Error(diff)
		}
	})
}

// The members of a gang share one claim: none of them may wait for another to run first, and all are on the node of its devices.
// Where the PodGroup has the claim it is reserved for the group, however many members there are.
func TestClaimOfAGang(t *testing.T) {
	for _, tt := range []struct {
		name   string
		groups bool
		want   string
	}{
		{"of its pods", false, "n2/gpu-0 n2/gpu-1 for g-0 g-1 g-2"},
		{"of the group", true, "n2/gpu-0 n2/gpu-1 for g"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := group("g", 3)
				g.UID = "g-uid"
				claim := "both"
				if tt.groups {
					g.Spec.ResourceClaims = []schedulingv1beta1.PodGroupResourceClaim{{Name: "gpus", ResourceClaimName: &claim}}
				}
				objects := append(append(gpuNode("n1", 1), gpuNode("n2", 2)...), resourceClaim(claim, 2), g)
				for i := range 3 {
					p := withDevices(fmt.Sprint("g-", i), claim)
					p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &g.Name}
					objects = append(objects, p)
				}
				w := deviceWorld(t, objects...)
				w.start()
				w.rest()
				wantAt(t, w, []string{"n2", "n2", "n2"}, "g-0", "g-1", "g-2")
				if got := w.held(claim); got != tt.want {
					t.Errorf("the claim has %s, want %s", got, tt.want)
				}
			})
		})
	}
}

// The bindings of the gang are refused: the devices of its group's claim are given back, and it starts elsewhere.
func TestClaimOfAGangIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, claim := group("g", 2), "both"
		g.UID = "g-uid"
		g.Spec.ResourceClaims = []schedulingv1beta1.PodGroupResourceClaim{{Name: "gpus", ResourceClaimName: &claim}}
		objects := append(append(gpuNode("n1", 2), gpuNode("n2", 2)...), resourceClaim(claim, 2), g)
		for i := range 2 {
			p := withDevices(fmt.Sprint("g-", i), claim)
			p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &g.Name}
			objects = append(objects, p)
		}
		w := deviceWorld(t, objects...)
		var mu sync.Mutex
		first := ""
		w.deny = func(b *corev1.Binding) error {
			mu.Lock()
			defer mu.Unlock()
			if first == "" {
				first = b.Target.Name
			}
			if b.Target.Name == first {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, b.Name, errors.New("not there"))
			}
			return nil
		}
		w.start()
		w.after(10 * time.Minute)
		at := w.pod("g-0").Spec.NodeName
		if at == "" || at == first || at != w.pod("g-1").Spec.NodeName {
			t.Fatalf("on %q and %q after %q refused them", at, w.pod("g-1").Spec.NodeName, first)
		}
		if got, want := w.held(claim), fmt.Sprintf("%s/gpu-0 %s/gpu-1 for g", at, at); got != want {
			t.Errorf("the claim has %s, want %s", got, want)
		}
	})
}

// Somebody taints a device by a rule: no claim gets it that does not tolerate the taint, until the rule is gone.
func TestDevicesTaintedByARule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		device := "gpu-0"
		rule := &resourcev1.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: "broken"}, Spec: resourcev1.DeviceTaintRuleSpec{
			DeviceSelector: &resourcev1.DeviceTaintSelector{Device: &device}, Taint: resourcev1.DeviceTaint{Key: "broken", Effect: resourcev1.DeviceTaintEffectNoExecute},
		}}
		tolerant := resourceClaim("tolerant", 1)
		tolerant.Spec.Devices.Requests[0].Exactly.Tolerations = []resourcev1.DeviceToleration{{Key: "broken", Operator: resourcev1.DeviceTolerationOpExists}}
		w := deviceWorld(t, append(gpuNode("n1", 2), rule, resourceClaim("two", 2), withDevices("a", "two"), resourceClaim("one", 1), withDevices("b", "one"))...)
		w.start()
		wantAt(t, w, []string{"", "n1"}, "a", "b")
		w.add(tolerant)
		w.add(withDevices("c", "tolerant"))
		w.rest()
		wantAt(t, w, []string{"", "n1", "n1"}, "a", "b", "c")
		if diff := cmp.Diff([]string{"nothing", "n1/gpu-1 for b", "n1/gpu-0 for c"}, []string{w.held("two"), w.held("one"), w.held("tolerant")}); diff != "" {
			t.Error(diff)
		}
	})
}

// attachable is a node whose GPU is attached to it after it was allocated.
func attachable(name string) []runtime.Object {
	out := gpuNode(name, 1)
	d := &out[1].(*resourcev1.ResourceSlice).Spec.Devices[0]
	d.BindsToNode, d.BindingConditions, d.BindingFailureConditions = new(true), []string{"attached"}, []string{"failed"}
	return out
}

// drives sets a condition of the claim's device, as its driver does.
func (w *world) drives(claim, condition string) {
	w.t.Helper()
	c := w.resourceClaim(claim).DeepCopy()
	r := c.Status.Allocation.Devices.Results[0]
	c.Status.Devices = []resourcev1.AllocatedDeviceStatus{{Driver: r.Driver, Pool: r.Pool, Device: r.Device, Conditions: []metav1.Condition{{Type: condition, Status: "True", Reason: "Told"}}}}
	if _, err := w.client.ResourceV1().ResourceClaims("default").UpdateStatus(w.t.Context(), c, metav1.UpdateOptions{}); err != nil {
		w.t.Fatal(err)
	}
	w.rest()
}

// wantAttaching looks whether the pod says which device it waits for, since when and until when, in words and as data.
func wantAttaching(t *testing.T, w *world, name string, state report.DeviceState) report.Device {
	t.Helper()
	got, ok := report.PendingOf(w.pod(name))
	if !ok || got.Cause != report.DeviceNotAttached || got.Device == nil {
		t.Fatalf("pod %s says %s %q", name, w.condition(name), w.message(name))
	}
	d := *got.Device
	if d.State != state || !strings.HasSuffix(d.Device, "/gpu-0") || d.Until.Sub(d.Since) != cluster.AttachFor || w.message(name) != d.Sentence() {
		t.Errorf("pod %s says %+v", name, d)
	}
	return d
}

// A device that must be attached first is allocated and reserved, and its pod is bound when its driver says so, however many plans that takes.
func TestDevicesAreAttachedBeforeBindings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := deviceWorld(t, append(attachable("n1"), resourceClaim("one", 1), withDevices("a", "one"))...)
		w.start()
		for range 8 {
			wantAt(t, w, []string{""}, "a")
			if got := w.held("one"); got != "n1/gpu-0 for a" {
				t.Fatal(got)
			}
			wantAttaching(t, w, "a", report.DeviceAttaching)
			time.Sleep(time.Minute)
		}
		if events := w.said("a"); len(events) != 1 || !strings.HasPrefix(events[0], "DeviceNotAttached: has its place") {
			t.Errorf("it is said once, and not as a failure: %q", events)
		}
		w.drives("one", "attached")
		wantAt(t, w, []string{"n1"}, "a")
	})
}

// Where the driver says that it failed, the devices are given back and others are tried.
func TestDevicesThatCannotBeAttached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := deviceWorld(t, append(append(attachable("n1"), attachable("n2")...), resourceClaim("one", 1), withDevices("a", "one"))...)
		w.start()
		w.rest()
		first := w.held("one")
		w.drives("one", "failed")
		if d := wantAttaching(t, w, "a", report.DeviceAttaching); strings.HasPrefix(first, d.Node) {
			t.Errorf("it waits for %+v, after %s failed", d, first)
		}
		if events := w.said("a"); len(events) < 2 || !strings.HasPrefix(events[1], "FailedScheduling: ") || !strings.Contains(events[1], "its driver set condition failed (Told)") {
			t.Errorf("what failed is said: %q", events)
		}
		time.Sleep(time.Second)
		w.rest()
		if second := w.held("one"); second == first || second == "nothing" {
			t.Errorf("first %s, then %s", first, second)
		}
		w.drives("one", "attached")
		if got := w.pod("a").Spec.NodeName; got == "" || strings.HasPrefix(first, got) {
			t.Errorf("on %q after %s failed", got, first)
		}
	})
}

// A pod whose place is taken while its device is attached says again that there is no room, though that is what it said before.
func TestDevicesAreAttachedAndThePlaceIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		large := func(p *corev1.Pod, priority int32) *corev1.Pod {
			p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("60")}
			p.Spec.Priority = &priority
			return p
		}
		w := deviceWorld(t, append(attachable("n1"), large(pod("first", 0), 10))...)
		w.start()
		wantAt(t, w, []string{"n1"}, "first")
		w.add(resourceClaim("one", 1))
		w.add(large(withDevices("a", "one"), 0))
		w.rest()
		if got := w.message("a"); !strings.Contains(got, "cpu short by 56 on 1 node") {
			t.Fatal(got)
		}
		w.remove("pods", "default", "first")
		w.rest()
		wantAttaching(t, w, "a", report.DeviceAttaching)
		w.add(large(pod("second", 0), 10))
		time.Sleep(2 * time.Minute)
		w.rest()
		wantAt(t, w, []string{"", "n1"}, "a", "second")
		if got := w.message("a"); !strings.Contains(got, "cpu short by 56 on 1 node") {
			t.Errorf("pod a says %q", got)
		}
	})
}

// An allocation says when it was made, also where nothing is to be attached, as upstream's does.
func TestDevicesSayWhenTheyWereAllocated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := deviceWorld(t, append(gpuNode("n1", 1), resourceClaim("one", 1), withDevices("a", "one"))...)
		w.start()
		wantAt(t, w, []string{"n1"}, "a")
		if at := w.resourceClaim("one").Status.Allocation.AllocationTimestamp; at == nil || at.IsZero() {
			t.Errorf("allocated at %v", at)
		}
	})
}

// Devices that nobody attaches in ten minutes are given back.
func TestDevicesThatAreNeverAttached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := deviceWorld(t, append(attachable("n1"), resourceClaim("one", 1), withDevices("a", "one"))...)
		w.start()
		w.rest()
		began := w.resourceClaim("one").Status.Allocation.AllocationTimestamp
		for range 15 {
			time.Sleep(time.Minute)
			if a := w.resourceClaim("one").Status.Allocation; a == nil || !a.AllocationTimestamp.Equal(began) {
				if events := w.said("a"); len(events) < 2 || !strings.HasPrefix(events[1], "FailedScheduling: device binding timeout: ") {
					t.Errorf("that it took too long is said: %q", events)
				}
				return
			}
		}
		t.Errorf("still %s", w.held("one"))
	})
}

// reserved gives the claim the device, for the pods.
func reserved(c *resourcev1.ResourceClaim, node, device string, pods ...*corev1.Pod) *resourcev1.ResourceClaim {
	c.Finalizers = []string{resourcev1.Finalizer}
	c.Status.Allocation = &resourcev1.AllocationResult{
		Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{{Request: "gpus", Driver: "gpu.example.com", Pool: node, Device: device}}},
		NodeSelector: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{
			{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node}},
		}}}},
	}
	for _, p := range pods {
		c.Status.ReservedFor = append(c.Status.ReservedFor, resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: p.Name, UID: p.UID})
	}
	return c
}

// What a scheduler left half done is given back, also where the server did not take that the first time.
func TestStrandedDevicesAreGivenBackInTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, full := withDevices("a", "one"), pod("full", 0)
		a.UID = "a"
		full.Spec.NodeName = "n1"
		full.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: *node("n", "r", 0).Status.Allocatable.Cpu()}
		a.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: *node("n", "r", 0).Status.Allocatable.Cpu()}
		w := deviceWorld(t, append(append(gpuNode("n1", 1), gpuNode("n2", 1)...), full, a, reserved(resourceClaim("one", 1), "n1", "gpu-0", a))...)
		refuses := true
		w.client.PrependReactor("update", "resourceclaims", func(clienttesting.Action) (bool, runtime.Object, error) {
			if locked(w, func() bool { return refuses }) {
				return true, nil, apierrors.NewForbidden(resourceClaims.GroupResource(), "one", errors.New("not now"))
			}
			return false, nil, nil
		})
		w.start()
		w.after(assumeFor + time.Minute)
		wantAt(t, w, []string{""}, "a")
		locked(w, func() bool { refuses = false; return true })
		w.after(2 * assumeFor)
		wantAt(t, w, []string{"n2"}, "a")
	})
}

// Devices that are reserved for several pods that wait are given back like those of one.
func TestStrandedDevicesOfSeveralPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := pod("full", 0)
		full.Spec.NodeName = "n1"
		full.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: *node("n", "r", 0).Status.Allocatable.Cpu()}
		var pods []*corev1.Pod
		objects := append(append(gpuNode("n1", 1), gpuNode("n2", 1)...), full)
		for _, name := range []string{"g-0", "g-1"} {
			p := withDevices(name, "one")
			p.UID = types.UID(name)
			p.Annotations["berth.dev/gang"], p.Annotations["berth.dev/min"] = "g", "2"
			p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
			pods = append(pods, p)
			objects = append(objects, p)
		}
		w := deviceWorld(t, append(objects, reserved(resourceClaim("one", 1), "n1", "gpu-0", pods...))...)
		w.start()
		w.after(2 * assumeFor)
		wantAt(t, w, []string{"n2", "n2"}, "g-0", "g-1")
	})
}

// An allocation whose answer was lost is there: the pod starts with it.
func TestTheAnswerToAnAllocationIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := deviceWorld(t, append(gpuNode("n1", 1), resourceClaim("one", 1), withDevices("a", "one"))...)
		lost := false
		w.client.PrependReactor("update", "resourceclaims", func(a clienttesting.Action) (bool, runtime.Object, error) {
			c := a.(clienttesting.UpdateAction).GetObject().(*resourcev1.ResourceClaim)
			if a.GetSubresource() != "status" || lost {
				return false, nil, nil
			}
			lost = true
			c = c.DeepCopy()
			locked(w, func() bool { c.ResourceVersion = w.next(); return true })
			if err := w.client.Tracker().Update(resourceClaims, c, "default"); err != nil {
				return true, nil, err
			}
			return true, nil, context.DeadlineExceeded
		})
		w.start()
		w.after(2 * time.Second)
		wantAt(t, w, []string{"n1"}, "a")
		if !lost {
			t.Error("nothing was lost")
		}
	})
}
