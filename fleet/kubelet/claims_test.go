package kubelet

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/fleet/device"
	"github.com/berth-dev/berth/fleet/dra"
	"github.com/berth-dev/berth/fleet/gpu"
)

// draPods is the GPU stack of a node that offers its GPUs through DRA.
func draPods() []device.StackPod {
	return []device.StackPod{{Name: "gpu-operator/dra", Role: device.DRA, Ready: true, HostPaths: []string{"/var/lib/kubelet"}}}
}

// newDRAWorld is a world whose machine "n0" offers four L40S through DRA.
func newDRAWorld(t *testing.T, objects ...runtime.Object) *world {
	w := newWorld(t, objects...)
	w.useDRA()
	return w
}

// useDRA gives "n0" another device manager, as a new process would.
func (w *world) useDRA() {
	l40s, _ := gpu.Lookup("l40s")
	m := w.addMachine("n0", 0)
	m.Allocatable = func() corev1.ResourceList {
		list := allocatable(0)
		delete(list, device.Resource)
		return list
	}
	m.Devices = device.New(device.Config{
		Devices: gpu.Devices("n0", []gpu.Group{{Model: l40s, Count: 4}}), HostDriver: true,
		Driver: gpu.Driver{Version: "580.95.05", CUDA: "13.0"}, Advertise: device.ByDRA,
	})
	m.Devices.SetStack(draPods(), time.Now())
}

// cutByClaims gives "n0" two H100 that claims cut by MIG.
func (w *world) cutByClaims() {
	w.useDRA()
	h100, _ := gpu.Lookup("h100")
	m := w.machines["n0"]
	m.Devices = device.New(device.Config{
		Devices: gpu.Devices("n0", []gpu.Group{{Model: h100, Count: 2}}), HostDriver: true, DynamicMIG: true,
		Driver: gpu.Driver{Version: "580.95.05", CUDA: "13.0"}, Advertise: device.ByDRA,
	})
	m.Devices.SetStack(draPods(), time.Now())
}

// uuid is that of a device of "n0".
func (w *world) uuid(i int) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.machines["n0"].Devices.Devices()[i].UUID
}

// allocated is a claim with devices of "n0", reserved for pods.
func allocated(name string, pods []string, devices ...string) *resourcev1.ResourceClaim {
	c := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID("claim-" + name)}}
	c.Status.Allocation = &resourcev1.AllocationResult{}
	for _, d := range devices {
		request, d, _ := strings.Cut(d, "=")
		r := resourcev1.DeviceRequestAllocationResult{Request: request, Driver: dra.Driver, Pool: "n0", Device: d}
		c.Status.Allocation.Devices.Results = append(c.Status.Allocation.Devices.Results, r)
	}
	for _, pod := range pods {
		c.Status.ReservedFor = append(c.Status.ReservedFor, resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: pod, UID: types.UID("uid-" + pod)})
	}
	return c
}

// claims makes the pod's first container use the named claims.
func claims(names ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		for _, name := range names {
			p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, corev1.PodResourceClaim{Name: name, ResourceClaimName: &name})
			p.Spec.Containers[0].Resources.Claims = append(p.Spec.Containers[0].Resources.Claims, corev1.ResourceClaim{Name: name})
		}
	}
}

// A pod whose claim cannot be prepared waits, and says why in the kubelet's words.
func TestClaimsThatCannotBePrepared(t *testing.T) {
	unallocated := allocated("unallocated", []string{"p"})
	unallocated.Status.Allocation = nil
	foreign := allocated("foreign", []string{"p"}, "r=gpu-0")
	foreign.Status.Allocation.Devices.Results[0].Driver = "nic.example.com"
	template := func(made ...string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: new("one")}}
			for _, name := range made {
				p.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "gpu", ResourceClaimName: &name}}
			}
		}
	}
	for want, use := range map[string]func(*corev1.Pod){
		`fetch ResourceClaim missing: resourceclaims.resource.k8s.io "missing" not found`:                  claims("missing"),
		`pod "default/p": ResourceClaim not created yet`:                                                   template(),
		`ResourceClaim default/mine was not created for Pod default/p (Pod is not owner)`:                  template("mine"),
		`pod p (uid-p) is not allowed to use ResourceClaim others (claim-others)`:                          claims("mine", "others"),
		`ResourceClaim unallocated: not allocated`:                                                         claims("unallocated"),
		`DRA driver nic.example.com is not registered`:                                                     claims("foreign"),
		`NodePrepareResources failed for ResourceClaim beyond: requested device is not allocatable: gpu-4`: claims("beyond"),
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newDRAWorld(t,
				allocated("mine", []string{"p"}, "r=gpu-0"), allocated("others", []string{"q"}, "r=gpu-1"),
				allocated("beyond", []string{"p"}, "r=gpu-4"), unallocated.DeepCopy(), foreign.DeepCopy())
			w.create(testPod("p", "pause", use))
			time.Sleep(2 * time.Second)
			synctest.Wait()
			p := w.get("p")
			if got := state(&p.Status.ContainerStatuses[0]); got != "waiting ContainerCreating" || p.Status.Phase != corev1.PodPending {
				t.Errorf("%s: %s, %s", want, p.Status.Phase, got)
			}
			want := "FailedPrepareDynamicResources Failed to prepare dynamic resources: prepare dynamic resources: " + want
			if got := w.said("p"); len(got) == 0 || got[0] != want {
				t.Errorf("events %q, want %q", got, want)
			}
		})
	}
}

// said lists the reasons and messages of the pod's warnings.
func (w *world) said(pod string) []string {
	w.t.Helper()
	list, err := w.client.CoreV1().Events("default").List(context.Background(), metav1.ListOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	var out []string
	for _, e := range list.Items {
		if e.InvolvedObject.Name == pod && e.Type == corev1.EventTypeWarning {
			out = append(out, e.Reason+" "+e.Message)
		}
	}
	return out
}

// Containers get the devices of the claims, or of the requests, that they name.
func TestContainersShareTheirPodsClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newDRAWorld(t, allocated("pair", []string{"p"}, "left=gpu-2", "right/small=gpu-0"), allocated("solo", []string{"p"}, "r=gpu-3"))
		print := []string{"sh", "-c", "echo $NVIDIA_VISIBLE_DEVICES; nvidia-smi -L | wc -l; sleep 1000"}
		w.create(testPod("p", "busybox", command(print...), claims("pair", "solo"), func(p *corev1.Pod) {
			right, none := *p.Spec.Containers[0].DeepCopy(), *p.Spec.Containers[0].DeepCopy()
			right.Name, right.Resources.Claims = "right", []corev1.ResourceClaim{{Name: "pair", Request: "right"}}
			none.Name, none.Resources.Claims = "none", nil
			p.Spec.Containers = append(p.Spec.Containers, right, none)
		}))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		p := w.get("p")
		want := `{"c":["` + w.uuid(0) + `","` + w.uuid(2) + `","` + w.uuid(3) + `"],"right":["` + w.uuid(0) + `"]}`
		if diff := cmp.Diff(want, p.Annotations[gpuAnnotation]); diff != "" || p.Status.Phase != corev1.PodRunning {
			t.Errorf("%s %s", p.Status.Phase, diff)
		}
		logs := map[string]string{
			"c":     w.uuid(0) + "," + w.uuid(2) + "," + w.uuid(3) + "\n3\n",
			"right": w.uuid(0) + "\n1\n",
		}
		for container, want := range logs {
			if got := w.log("p", container); got != want {
				t.Errorf("log of %s: %q, want %q", container, got, want)
			}
		}
		if s := p.Status.ContainerStatuses[0].AllocatedResourcesStatus; s != nil {
			t.Errorf("the device plugin's resource has status %v", s)
		}
	})
}

// log is what a container has printed so far.
func (w *world) log(pod, container string) string {
	w.t.Helper()
	var out strings.Builder
	lines, _, _ := w.k.pods[types.UID("uid-"+pod)].find(container).log.since(0)
	for _, l := range lines {
		out.Write(l.text)
	}
	return out.String()
}

// The fleet is the referee: whatever the API says, a device is under two pods only if they share the
// claim, and free again when the last of them has stopped.
func TestADeviceIsNotPreparedTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newDRAWorld(t, allocated("shared", []string{"a", "b"}, "r=gpu-1"), allocated("wrong", []string{"c"}, "r=gpu-1"))
		for _, name := range []string{"a", "b"} {
			w.create(testPod(name, "pause", claims("shared")))
		}
		w.create(testPod("c", "pause", claims("wrong")))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		phases := func() []corev1.PodPhase {
			var out []corev1.PodPhase
			for _, name := range []string{"a", "b", "c"} {
				if w.exists(name) {
					out = append(out, w.get(name).Status.Phase)
				}
			}
			return out
		}
		if diff := cmp.Diff([]corev1.PodPhase{"Running", "Running", "Pending"}, phases()); diff != "" {
			t.Error(diff)
		}
		w.remove("a", time.Second)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if diff := cmp.Diff([]corev1.PodPhase{"Running", "Pending"}, phases()); diff != "" {
			t.Error(diff)
		}
		w.remove("b", time.Second)
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if diff := cmp.Diff([]corev1.PodPhase{"Running"}, phases()); diff != "" {
			t.Error(diff)
		}
	})
}

// A claim of a PodGroup is for all its pods, and for no others.
func TestClaimsOfAPodGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		controller := true
		made := allocated("made", nil, "r=gpu-1")
		made.OwnerReferences = []metav1.OwnerReference{{APIVersion: "scheduling.k8s.io/v1beta1", Kind: "PodGroup", Name: "ring", Controller: &controller}}
		named := allocated("named", nil, "r=gpu-0")
		for _, c := range []*resourcev1.ResourceClaim{made, named} {
			c.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{APIGroup: "scheduling.k8s.io", Resource: "podgroups", Name: "ring", UID: "uid-ring"}}
		}
		w := newDRAWorld(t, made, named)
		for name, group := range map[string]string{"a": "ring", "b": "ring", "stranger": "other"} {
			w.create(testPod(name, "pause", claims("named"), func(p *corev1.Pod) {
				p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &group}
				p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, corev1.PodResourceClaim{Name: "own", ResourceClaimTemplateName: new("one")})
				p.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "own", ResourceClaimName: new("made")}}
			}))
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		got := map[string]corev1.PodPhase{}
		for _, name := range []string{"a", "b", "stranger"} {
			got[name] = w.get(name).Status.Phase
		}
		if diff := cmp.Diff(map[string]corev1.PodPhase{"a": "Running", "b": "Running", "stranger": "Pending"}, got); diff != "" {
			t.Error(diff, w.said("a"), w.said("b"))
		}
		if got := w.said("stranger"); len(got) == 0 || !strings.HasSuffix(got[0], "pod stranger (uid-stranger) is not allowed to use ResourceClaim named (claim-named)") {
			t.Errorf("events %q", got)
		}
	})
}

// A driver that is away keeps new pods waiting and does not hurt those that run.
func TestDriverGoesAndComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newDRAWorld(t, allocated("one", []string{"a"}, "r=gpu-0"), allocated("two", []string{"b"}, "r=gpu-1"))
		w.create(testPod("a", "pause", claims("one")))
		w.machines["n0"].Devices.SetStack(nil, time.Now())
		w.create(testPod("b", "pause", claims("two")))
		time.Sleep(time.Minute)
		synctest.Wait()
		got := []corev1.PodPhase{w.get("a").Status.Phase, w.get("b").Status.Phase}
		w.machines["n0"].Devices.SetStack(draPods(), time.Now())
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		got = append(got, w.get("b").Status.Phase)
		if diff := cmp.Diff([]corev1.PodPhase{"Running", "Pending", "Running"}, got); diff != "" {
			t.Error(diff)
		}
	})
}

// After a restart of this process a pod has the devices of its claim again, also where it shares them.
func TestClaimsSurviveARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newDRAWorld(t, allocated("shared", []string{"a", "b"}, "r=gpu-1"))
		for _, name := range []string{"a", "b"} {
			w.create(testPod(name, "busybox", command("sleep", "1000"), claims("shared")))
		}
		w.shutdown()
		w.useDRA()
		w.start()
		synctest.Wait()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		want := []any{corev1.PodRunning, "running", int32(1), "terminated Unknown 255", `{"c":["` + w.uuid(1) + `"]}`}
		for _, name := range []string{"a", "b"} {
			if diff := cmp.Diff(want, summary(w.get(name))); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
		}
	})
}

// A pod that asks for an extended resource gets it from the claim that the scheduler made, and after a
// restart again.
func TestExtendedResourceThroughAClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newDRAWorld(t, allocated("made", []string{"p"}, "container-0-request-0=gpu-1", "container-1-request-0=gpu-3"))
		w.create(testPod("p", "busybox", command("sleep", "1000"), gpus(1), func(p *corev1.Pod) {
			other := *p.Spec.Containers[0].DeepCopy()
			other.Name = "d"
			p.Spec.Containers = append(p.Spec.Containers, other)
			p.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{
				ResourceClaimName: "made",
				RequestMappings: []corev1.ContainerExtendedResourceRequest{
					{ContainerName: "c", ResourceName: device.Resource, RequestName: "container-0-request-0"},
					{ContainerName: "d", ResourceName: device.Resource, RequestName: "container-1-request-0"},
				},
			}
		}))
		w.shutdown()
		w.useDRA()
		w.start()
		synctest.Wait()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		want := []any{corev1.PodRunning, "running", int32(1), "terminated Unknown 255", `{"c":["` + w.uuid(1) + `"],"d":["` + w.uuid(3) + `"]}`}
		if diff := cmp.Diff(want, summary(w.get("p"))); diff != "" {
			t.Error(diff)
		}
	})
}

// Claims cut GPUs: each container sees its own part, a part that would overlap another is refused in the driver's words, and the
// GPU is whole again when the last pod is gone.
func TestClaimsForPartsOfGPUs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newDRAWorld(t,
			allocated("parts", []string{"p"}, "small=gpu-1-mig-1g10gb-19-2", "large=gpu-1-mig-3g40gb-9-4"),
			allocated("wrong", []string{"q"}, "r=gpu-1-mig-2g20gb-14-2"), allocated("odd", []string{"r"}, "r=gpu-1-mig-2g20gb-14-1"),
			allocated("whole", []string{"s"}, "r=gpu-1"))
		w.cutByClaims()
		list := []string{"sh", "-c", "nvidia-smi -L; sleep 1000"}
		w.create(testPod("p", "busybox", command(list...), claims("parts"), func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "parts", Request: "small"}}
			both := *p.Spec.Containers[0].DeepCopy()
			both.Name, both.Resources.Claims = "both", []corev1.ResourceClaim{{Name: "parts"}}
			p.Spec.Containers = append(p.Spec.Containers, both)
		}))
		for name, claim := range map[string]string{"q": "wrong", "r": "odd", "s": "whole"} {
			w.create(testPod(name, "pause", claims(claim)))
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		seen := func(container string) []string {
			var out []string
			for line := range strings.Lines(w.log("p", container)) {
				text, _, _ := strings.Cut(line, " (UUID")
				out = append(out, strings.Join(strings.Fields(text), " "))
			}
			return out
		}
		got := map[string][]string{
			"c": seen("c"), "both": seen("both"), "q": w.said("q")[:1], "r": w.said("r")[:1], "s": w.said("s")[:1],
		}
		failed := "FailedPrepareDynamicResources Failed to prepare dynamic resources: prepare dynamic resources: NodePrepareResources failed for ResourceClaim "
		want := map[string][]string{
			"c":    {"GPU 0: NVIDIA H100 80GB HBM3", "MIG 1g.10gb Device 0:"},
			"both": {"GPU 0: NVIDIA H100 80GB HBM3", "MIG 3g.40gb Device 0:", "MIG 1g.10gb Device 1:"},
			"q":    {failed + "wrong: prepare devices failed: error creating MIG device: error creating GPU instance for 2g.20gb on " + w.uuid(1) + ": Insufficient Resources"},
			"r":    {failed + "odd: requested device is not allocatable: gpu-1-mig-2g20gb-14-1"},
			"s":    {failed + "whole: device " + w.uuid(1) + " is already in use by claim claim-parts"},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		w.remove("p", time.Second)
		w.remove("q", time.Second)
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if p := w.get("s"); p.Status.Phase != corev1.PodRunning {
			t.Errorf("the whole GPU is not to be had after its parts: %s, %q", p.Status.Phase, w.said("s"))
		}
	})
}

// After a restart of this process a claim has the same part again, under the same UUID.
func TestPartsOfClaimsSurviveARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newDRAWorld(t, allocated("part", []string{"a"}, "r=gpu-0-mig-2g20gb-14-4"))
		w.cutByClaims()
		w.create(testPod("a", "busybox", command("sleep", "1000"), claims("part")))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		before := w.get("a").Annotations[gpuAnnotation]
		w.shutdown()
		w.cutByClaims()
		w.start()
		synctest.Wait()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		want := []any{corev1.PodRunning, "running", int32(1), "terminated Unknown 255", before}
		if diff := cmp.Diff(want, summary(w.get("a"))); diff != "" || !strings.Contains(before, "MIG-") {
			t.Error(before, diff)
		}
		if p := w.machines["n0"].Devices.Partitions(); len(p[0].Instances) != 1 || len(p[1].Instances) != 0 {
			t.Errorf("%+v", p)
		}
	})
}

// A pod without claims asks the API server for none.
func TestNoClaimsNoCost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newDRAWorld(t)
		w.create(testPod("p", "pause"))
		for _, a := range w.client.Actions() {
			if a.GetResource().Resource == "resourceclaims" {
				t.Errorf("%s %s", a.GetVerb(), a.GetResource().Resource)
			}
		}
	})
}
