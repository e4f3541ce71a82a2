package convert

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/engine"
)

// list reads name, quantity, name, quantity...
func list(pairs ...string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		out[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return out
}

func TestNode(t *testing.T) {
	labels := map[string]string{
		"berth.dev/pool": "h100", "karpenter.sh/nodepool": "other",
		"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.count": "8", "nvidia.com/gpu.replicas": "1",
		"nvidia.com/gpu.clique": "c.0",
	}
	got := Node(&corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n1", ResourceVersion: "42", Labels: labels},
		Spec: corev1.NodeSpec{Unschedulable: true, Taints: []corev1.Taint{
			{Key: "nvidia.com/gpu", Value: "present", Effect: corev1.TaintEffectNoSchedule, TimeAdded: &metav1.Time{}},
		}},
		Status: corev1.NodeStatus{
			Capacity:    list("cpu", "99"),
			Allocatable: list("cpu", "1500m", "memory", "2Gi", "pods", "110", "nvidia.com/gpu", "2", "bad/one", "-1", "huge/one", "8Ei", "none/left", "0"),
		},
	}, Options{})
	want := engine.Node{
		Name: "n1", Version: 42, Pool: "h100", Labels: labels, Cordoned: true,
		Taints: []engine.Taint{{Key: "nvidia.com/gpu", Value: "present", Effect: engine.NoSchedule}},
		Allocatable: engine.Resources{
			{Resource: "cpu", Value: 1500}, {Resource: "huge/one", Value: most}, {Resource: "memory", Value: 2 << 30},
			{Resource: "none/left", Value: 0}, {Resource: "nvidia.com/gpu", Value: 2}, {Resource: "pods", Value: 110},
		},
		Devices: []engine.Device{{ID: "n1/gpu-0", Model: "H100", NUMA: -1}, {ID: "n1/gpu-1", Model: "H100", NUMA: -1}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestBareNode(t *testing.T) {
	got := Node(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", ResourceVersion: "x"}}, Options{})
	if diff := cmp.Diff(engine.Node{Name: "n1"}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestPool(t *testing.T) {
	labels := map[string]string{}
	for _, key := range []string{"gpu-pool", "cloud.google.com/gke-nodepool", "karpenter.sh/nodepool", "berth.dev/pool"} {
		labels[key] = "of " + key
		if got := pool(labels); got != labels[key] {
			t.Errorf("with %s too: got %q", key, got)
		}
	}
}

func TestDevices(t *testing.T) {
	for _, c := range []struct {
		name   string
		labels map[string]string
		gpus   string
		o      Options
		want   []engine.Device
	}{
		{"whole GPUs", map[string]string{labelProduct: "Tesla-T4", labelCount: "4"}, "1", Options{}, []engine.Device{{ID: "n/gpu-0", Model: "T4", NUMA: -1}}},
		{"no count to compare with", map[string]string{labelProduct: "Tesla-T4"}, "1", Options{}, []engine.Device{{ID: "n/gpu-0", Model: "T4", NUMA: -1}}},
		{"a product not known", map[string]string{labelProduct: "Rubin-CPX"}, "1", Options{}, []engine.Device{{ID: "n/gpu-0", Model: "Rubin-CPX", NUMA: -1}}},
		{"no label", nil, "1", Options{}, nil},
		{"none left", map[string]string{labelProduct: "Tesla-T4"}, "0", Options{}, nil},
		{"another resource", map[string]string{labelProduct: "Tesla-T4"}, "1", Options{GPU: "amd.com/gpu"}, nil},
		{"too many to be true", map[string]string{labelProduct: "Tesla-T4"}, "257", Options{}, nil},
		{"MIG", map[string]string{labelProduct: "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", "nvidia.com/mig.strategy": "single"}, "7", Options{}, nil},
		{"single strategy, no MIG", map[string]string{labelProduct: "NVIDIA-A30", "nvidia.com/mig.strategy": "single"}, "1", Options{}, []engine.Device{{ID: "n/gpu-0", Model: "A30", NUMA: -1}}},
		{"time slices", map[string]string{labelProduct: "Tesla-T4", labelReplicas: "4", labelCount: "1"}, "1", Options{}, nil},
		{"time slices by name", map[string]string{labelProduct: "Tesla-T4-SHARED"}, "4", Options{}, nil},
		{"two models", map[string]string{labelProduct: "Tesla-T4", labelCount: "2"}, "3", Options{}, nil},
	} {
		got := Node(&corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: c.labels},
			Status:     corev1.NodeStatus{Allocatable: list("nvidia.com/gpu", c.gpus)},
		}, c.o).Devices
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

func TestAmount(t *testing.T) {
	for _, c := range []struct {
		name, quantity string
		want           int64
	}{
		{"cpu", "1", 1000},
		{"cpu", "100u", 1},
		{"cpu", "1125899906842", 1125899906842000},
		{"cpu", "1125899906843", most + 1},
		{"cpu", "9223372036854775807", most + 1},
		{"cpu", "-1", -1},
		{"memory", "1.5", 2},
		{"memory", "1Pi", most},
		{"memory", "1125899906842625", most + 1},
		{"memory", "-9223372036854775808", -1},
		{"nvidia.com/gpu", "8", 8},
		{"nvidia.com/gpu", "0", 0},
	} {
		if got := amount(corev1.ResourceName(c.name), resource.MustParse(c.quantity)); got != c.want {
			t.Errorf("%s %s: got %d, want %d", c.name, c.quantity, got, c.want)
		}
	}
}

// TestMost holds most to the engine's own limit.
func TestMost(t *testing.T) {
	node := func(v int64) engine.Snapshot {
		return engine.Snapshot{Version: engine.SnapshotVersion, Nodes: []engine.Node{{Name: "n", Allocatable: engine.Resources{{Resource: "memory", Value: v}}}}}
	}
	if bad := engine.Load(node(most), engine.Config{}).Rejected(); len(bad) != 0 {
		t.Errorf("the most is rejected: %v", bad)
	}
	if bad := engine.Load(node(most+1), engine.Config{}).Rejected(); len(bad) != 1 {
		t.Errorf("more than the most is not rejected: %v", bad)
	}
}

// A pool says how its nodes are filled, and a queue how its work is laid on them; what is not known says nothing.
func TestPacking(t *testing.T) {
	for placement, want := range map[string]engine.Packing{"": "", "pack": engine.Tight, "spread": engine.Loose, "wholeNode": "", "Spread": "", "nonsense": ""} {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{v1alpha1.LabelPlacement: placement}}}
		if got := Node(n, Options{}).Packing; got != want {
			t.Errorf("a node of %q: got %q, want %q", placement, got, want)
		}
		q := &v1alpha1.BerthQueue{ObjectMeta: metav1.ObjectMeta{Name: "q"}, Spec: v1alpha1.QueueSpec{Placement: v1alpha1.QueuePlacement(placement)}}
		if got := Queue(q).Packing; got != want {
			t.Errorf("a queue of %q: got %q, want %q", placement, got, want)
		}
	}
}

// Health systems differ in which status is bad. Nodes that somebody opened by hand, and conditions that nobody knows, are left alone.
func TestQuarantine(t *testing.T) {
	for _, c := range []struct {
		condition, status, reason string
		by                        string // annotation
		want                      string
	}{
		{condition: "GpuXidErrorWatch", status: "True", reason: "GpuXidErrorWatchIsNotHealthy", want: "GpuXidErrorWatch"},
		{condition: "GpuXidErrorWatch", status: "False", reason: "GpuXidErrorWatchIsHealthy"},
		{condition: "GpuXidErrorWatch", status: "True", reason: "GpuXidErrorWatchIsNotHealthy", by: sentinelOverridden},
		{condition: "AcceleratedHardwareReady", status: "False", reason: "NvidiaXID79Error", want: "AcceleratedHardwareReady"},
		{condition: "AcceleratedHardwareReady", status: "True", reason: "NvidiaAcceleratedHardwareIsReady"},
		{condition: "AcceleratedHardwareReady", status: "Unknown"},
		{condition: "Ready", status: "False", reason: "KubeletNotReady"},
		{condition: "MemoryPressure", status: "True", reason: "KubeletHasInsufficientMemory"},
	} {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
		if c.by != "" {
			n.Annotations = map[string]string{c.by: "True"}
		}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeConditionType(c.condition), Status: corev1.ConditionStatus(c.status), Reason: c.reason}}
		if got := Node(n, Options{}).Quarantine; got != c.want {
			t.Errorf("%+v: got %q", c, got)
		}
	}
}
