package kubelet

import (
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/berth-dev/berth/fleet/device"
)

func TestRejectionsInKubeletsWords(t *testing.T) {
	tests := []struct {
		name    string
		first   *corev1.Pod // admitted before; nil: none
		pod     *corev1.Pod
		reason  string
		message string
	}{
		{
			name: "too much cpu", pod: testPod("p", "pause", request(corev1.ResourceCPU, "65")),
			reason: "OutOfcpu", message: "Node didn't have enough resource: cpu, requested: 65000, used: 0, capacity: 64000",
		},
		{
			name: "no memory left", first: testPod("a", "pause", request(corev1.ResourceMemory, "200Gi")),
			pod:    testPod("p", "pause", request(corev1.ResourceMemory, "100Gi")),
			reason: "OutOfmemory", message: "Node didn't have enough resource: memory, requested: 107374182400, used: 214748364800, capacity: 274877906944",
		},
		{
			name: "devices come before resources", first: testPod("a", "pause", gpus(8)),
			pod:    testPod("p", "pause", gpus(1)),
			reason: "UnexpectedAdmissionError", message: "Allocate failed due to requested number of devices unavailable for nvidia.com/gpu. Requested: 1, Available: 0, which is unexpected",
		},
		{
			name: "node selector", pod: testPod("p", "pause", func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"gpu-pool": "b200"} }),
			reason: "NodeAffinity", message: "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector",
		},
		{
			name: "another system", pod: testPod("p", "pause", func(p *corev1.Pod) { p.Spec.OS = &corev1.PodOS{Name: corev1.Windows} }),
			reason: "PodOSNotSupported", message: "Failed to admit pod as the OS field doesn't match node OS",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				if tt.first != nil {
					w.create(tt.first)
				}
				w.create(tt.pod)
				s := w.get("p").Status
				got := []string{string(s.Phase), s.Reason, s.Message}
				if diff := cmp.Diff([]string{"Failed", tt.reason, "Pod was rejected: " + tt.message}, got); diff != "" {
					t.Error(diff)
				}
				if diff := cmp.Diff([]string{tt.reason}, w.reasons("p")); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

// A resource that somebody wrote into the node's status without any device plugin is only counted.
func TestPatchedCapacityIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		m := w.addMachine("n1", 0)
		m.Allocatable = func() corev1.ResourceList { return allocatable(1) }
		onN1 := func(p *corev1.Pod) { p.Spec.NodeName = "n1" }
		w.create(testPod("a", "pause", gpus(1), onN1))
		w.create(testPod("b", "pause", gpus(1), onN1))
		a, b := w.get("a"), w.get("b")
		got := []string{string(a.Status.Phase), a.Annotations[gpuAnnotation], b.Status.Reason, b.Status.Message}
		want := []string{"Running", "", "OutOfnvidia.com/gpu", "Pod was rejected: Node didn't have enough resource: nvidia.com/gpu, requested: 1, used: 1, capacity: 1"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

func TestTaintsAndPorts(t *testing.T) {
	node := &corev1.Node{Spec: corev1.NodeSpec{Taints: []corev1.Taint{
		{Key: "x", Effect: corev1.TaintEffectNoSchedule}, {Key: "gone", Effect: corev1.TaintEffectNoExecute},
	}}}
	free := func(hostPort) bool { return false }
	got := welcomes(testPod("p", "pause"), node, free)
	want := predicate("TaintToleration", "node(s) had taints that the pod didn't tolerate")
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(rejection{})); diff != "" {
		t.Error(diff)
	}
	tolerant := testPod("p", "pause", func(p *corev1.Pod) {
		p.Spec.Tolerations = []corev1.Toleration{{Key: "gone", Operator: corev1.TolerationOpExists}}
		p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 80, ContainerPort: 80}}
	})
	if got := welcomes(tolerant, node, free); got != nil {
		t.Errorf("tolerant pod: %v", got)
	}
	taken := hostPort{ip: "10.0.0.1", protocol: corev1.ProtocolTCP, port: 80}
	got = welcomes(tolerant, node, taken.conflicts)
	if got == nil || got.reason != "NodePorts" {
		t.Errorf("taken port: %v", got)
	}
}

// Whatever comes and goes in whatever order, no device is given twice, nothing is over-allocated, and
// the books equal those computed from the pods that are in.
func TestAdmissionProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{machines: map[string]*Machine{}, down: map[string]bool{}}
		m := w.addMachine("n0", rapid.IntRange(0, 8).Draw(t, "gpus"))
		h := newHost("n0", func(string) *Machine { return m })
		if h.powered() == nil {
			t.Fatal("machine is down")
		}
		k := &Kubelet{log: slog.New(slog.DiscardHandler)}
		in := map[types.UID]*corev1.Pod{}
		var names []types.UID
		for i := range rapid.IntRange(1, 40).Draw(t, "steps") {
			if len(names) > 0 && rapid.IntRange(0, 2).Draw(t, "op") == 0 {
				at := rapid.IntRange(0, len(names)-1).Draw(t, "leaver")
				h.release(names[at])
				delete(in, names[at])
				names = append(names[:at:at], names[at+1:]...)
			} else {
				pod := drawPod(t, i)
				if h.admit(m, newWorker(k, h, pod, false)) == nil {
					in[pod.UID] = pod
					names = append(names, pod.UID)
				}
			}
			checkBooks(t, h, m, in)
		}
	})
}

func drawPod(t *rapid.T, i int) *corev1.Pod {
	pod := testPod(fmt.Sprint("p", i), "pause",
		request(corev1.ResourceCPU, fmt.Sprint(rapid.IntRange(0, 30).Draw(t, "cpu"))),
		request(corev1.ResourceMemory, fmt.Sprint(rapid.IntRange(0, 100).Draw(t, "memory"), "Gi")),
		gpus(rapid.IntRange(0, 5).Draw(t, "gpus")))
	if rapid.Bool().Draw(t, "init") {
		c := pod.Spec.Containers[0]
		c.Name = "i"
		c.Resources = *c.Resources.DeepCopy()
		gpus := rapid.IntRange(0, 5).Draw(t, "init gpus")
		pod.Spec.InitContainers = []corev1.Container{c}
		q := c.Resources.Limits[device.Resource]
		q.Set(int64(gpus))
		pod.Spec.InitContainers[0].Resources.Limits[device.Resource] = q
		pod.Spec.InitContainers[0].Resources.Requests[device.Resource] = q
	}
	return pod
}

func checkBooks(t *rapid.T, h *host, m *Machine, in map[types.UID]*corev1.Pod) {
	var want tally
	owner := map[string]types.UID{}
	for uid, pod := range in {
		d := demandOf(pod)
		want.add(&d, 1)
		for _, c := range append(pod.Spec.InitContainers, pod.Spec.Containers...) {
			held := m.Devices.Held(uid, c.Name)
			if len(m.Devices.Devices()) > 0 && len(held) != gpusWanted(&c) {
				t.Fatalf("%s/%s holds %d of %d devices", uid, c.Name, len(held), gpusWanted(&c))
			}
			for _, dev := range held {
				if o, taken := owner[dev.UUID]; taken && o != uid {
					t.Fatalf("device %s under %s and %s", dev.UUID, o, uid)
				}
				owner[dev.UUID] = uid
			}
		}
	}
	if h.total.milliCPU != want.milliCPU || h.total.memory != want.memory || h.total.pods != want.pods || h.total.extended[device.Resource] != want.extended[device.Resource] {
		t.Fatalf("books %+v, pods sum up to %+v", h.total, want)
	}
	if want.milliCPU > 64000 || want.memory > 256<<30 || want.extended[device.Resource] > int64(len(m.Devices.Devices())) {
		t.Fatalf("over-allocated: %+v", want)
	}
}
