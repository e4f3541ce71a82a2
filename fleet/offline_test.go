package fleet

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/fleet/device"
)

// A fleet that is not running offers what it offers once its MIG manager and its device plugin have followed their labels: instances
// by profile, GPUs that several pods share, and whole ones where a configuration does not exist.
func TestBootCutsAndShares(t *testing.T) {
	one := int32(1)
	pool := func(name, model string, count int32, labels map[string]string, mig v1alpha1.MIG) v1alpha1.Pool {
		return v1alpha1.Pool{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.PoolSpec{Nodes: &one, GPUs: []v1alpha1.GPU{{Model: model, Count: count}}, Labels: labels, MIG: mig}}
	}
	config := func(name string) map[string]string { return map[string]string{pluginConfigLabel: name} }
	cut := func(strategy v1alpha1.MIGStrategy, config string) v1alpha1.MIG {
		return v1alpha1.MIG{Strategy: strategy, Config: config}
	}
	b, err := Boot([]v1alpha1.Pool{
		pool("mixed", "H100-SXM5-80GB", 4, nil, cut(v1alpha1.MIGStrategyMixed, "all-1g.10gb")),
		pool("balanced", "A100-SXM4-80GB", 2, nil, cut(v1alpha1.MIGStrategyMixed, "all-balanced")),
		pool("single", "A100-SXM4-40GB", 2, nil, cut(v1alpha1.MIGStrategySingle, "all-1g.5gb")),
		pool("unknown", "A100-SXM4-40GB", 2, nil, cut(v1alpha1.MIGStrategyMixed, "ours")),
		pool("sliced", "T4", 2, config("time-slicing-4"), v1alpha1.MIG{}),
		pool("renamed", "L4", 1, config("shared-4"), v1alpha1.MIG{}),
		pool("plain", "L4", 1, config("ours"), v1alpha1.MIG{}),
	}, time.Unix(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	got, states := map[string]map[corev1.ResourceName]int64{}, map[string]string{}
	for _, n := range b.Nodes {
		got[n.Name] = map[corev1.ResourceName]int64{}
		for name, q := range n.Status.Allocatable {
			if IsGPU(name) && !q.IsZero() {
				got[n.Name][name] = q.Value()
			}
		}
		if s := n.Labels[migStateLabel]; s != "" {
			states[n.Name] = s
		}
	}
	want := map[string]map[corev1.ResourceName]int64{
		"mixed-0":    {"nvidia.com/mig-1g.10gb": 28},
		"balanced-0": {"nvidia.com/mig-1g.10gb": 4, "nvidia.com/mig-2g.20gb": 2, "nvidia.com/mig-3g.40gb": 2},
		"single-0":   {"nvidia.com/gpu": 14},
		"unknown-0":  {"nvidia.com/gpu": 2},
		"sliced-0":   {"nvidia.com/gpu": 8},
		"renamed-0":  {"nvidia.com/gpu.shared": 4},
		"plain-0":    {"nvidia.com/gpu": 1},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]string{"mixed-0": migSuccess, "balanced-0": migSuccess, "single-0": migSuccess, "unknown-0": migFailed}, states); diff != "" {
		t.Error(diff)
	}
}

// A fleet without a cluster has the same slices: of GPUs where claims give them, and of channels in every NVLink domain.
func TestSlicesWithoutACluster(t *testing.T) {
	counted := rackPool("counted", 1)
	counted.Spec.Advertise = v1alpha1.AdvertiseDevicePlugin
	bare := rackPool("bare", 1)
	bare.Spec.Advertise, bare.Spec.GPUStack = v1alpha1.AdvertiseDevicePlugin, v1alpha1.GPUStackNone
	b, err := Boot([]v1alpha1.Pool{*rackPool("claimed", 1), *counted, *bare, *gpuPool("alone", 1)}, noon)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range b.ResourceSlices {
		got = append(got, s.Name)
	}
	want := []string{"claimed-0-gpu.nvidia.com", "claimed-0-compute-domain.nvidia.com", "counted-0-compute-domain.nvidia.com"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, n := range b.Nodes {
		if gpus := n.Status.Allocatable[device.Resource]; n.Name == "counted-0" && gpus.Value() != 8 {
			t.Errorf("counted-0 has %v GPUs", gpus.Value())
		}
	}
}
