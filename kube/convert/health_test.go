package convert

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// broken is a node of 4 GPUs of which GPU-1 is listed as broken, and so many are advertised.
func broken(advertised int64, annotations map[string]string) *corev1.Node {
	n := &corev1.Node{}
	n.Name = "n"
	n.Labels = map[string]string{labelProduct: "NVIDIA-H100-80GB-HBM3", labelCount: "4"}
	n.Annotations = map[string]string{v1alpha1.KeyUnhealthyGPUs: `[{"uuid":"GPU-1","gpu":"1","why":"Xid 79"}]`}
	for k, v := range annotations {
		n.Annotations[k] = v
	}
	n.Status.Capacity = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("4"), "cpu": resource.MustParse("8")}
	n.Status.Allocatable = corev1.ResourceList{"nvidia.com/gpu": *resource.NewQuantity(advertised, resource.DecimalSI), "cpu": resource.MustParse("8")}
	return n
}

// The kubelet chooses among the GPUs that a device plugin advertises: as long as a broken one is among them, new work gets none. Whoever
// holds one is still known by its model.
func TestBrokenGPUClosesTheNode(t *testing.T) {
	for _, c := range []struct {
		name        string
		advertised  int64
		annotations map[string]string
		want        int64
	}{
		{"still advertised", 4, nil, 0},
		{"withdrawn", 3, nil, 3},
		{"trusted", 4, map[string]string{v1alpha1.KeyTrustedGPUs: "GPU-1"}, 4},
	} {
		got := Node(broken(c.advertised, c.annotations), Options{})
		free := 0
		for _, d := range got.Devices {
			if d.Model != "H100" {
				t.Errorf("%s: a device of model %q", c.name, d.Model)
			}
			if !d.Unhealthy {
				free++
			}
		}
		if have := got.Allocatable.Get("nvidia.com/gpu"); have != c.want || int64(free) != c.want || got.Allocatable.Get("cpu") != 8000 {
			t.Errorf("%s: %d GPUs, %d devices that are well, %v", c.name, have, free, got.Allocatable)
		}
	}
}

// Where the scheduler chooses the device only the broken one is left out: of a driver for resource claims, its parts too.
func TestBrokenDeviceOfClaims(t *testing.T) {
	text := func(s string) resourcev1.DeviceAttribute { return resourcev1.DeviceAttribute{StringValue: &s} }
	s := &resourcev1.ResourceSlice{Spec: resourcev1.ResourceSliceSpec{Devices: []resourcev1.Device{
		{Name: "gpu-0", Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"uuid": text("GPU-0")}},
		{Name: "gpu-1", Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"uuid": text("GPU-1")}},
		{Name: "gpu-1-mig-1", Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"uuid": text("MIG-x"), "parentUUID": text("GPU-1")}},
	}}}
	got := WithoutBroken(s, broken(4, nil))
	for i, want := range []int{0, 1, 1} {
		if d := got.Spec.Devices[i]; len(d.Taints) != want || len(s.Spec.Devices[i].Taints) != 0 {
			t.Errorf("%s has taints %v", d.Name, d.Taints)
		}
	}
	if n := broken(4, map[string]string{v1alpha1.KeyTrustedGPUs: "all"}); WithoutBroken(s, n) != s || WithoutBroken(s, nil) != s {
		t.Error("a slice without broken devices is copied")
	}
}
