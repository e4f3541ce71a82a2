package doctor

import (
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
)

func TestIsGPUDevice(t *testing.T) {
	for _, c := range []struct {
		driver, kind string
		want         bool
	}{
		{"gpu.nvidia.com", "gpu", true}, {"gpu.nvidia.com", "mig", true}, {"hami-core-gpu.project-hami.io", "hami-gpu", true},
		{"gpu.example.com", "", true}, {"net.example.com", "", false}, {"gpu.nvidia.com", "imex-channel", false},
	} {
		d := &resourcev1.Device{}
		if c.kind != "" {
			d.Attributes = map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"type": {StringValue: &c.kind}}
		}
		if got := isGPUDevice(c.driver, d); got != c.want {
			t.Errorf("%s of type %q: %v", c.driver, c.kind, got)
		}
	}
}
