package place

import (
	"testing"

	"github.com/berth-dev/berth/internal/spelling"
)

func TestMeansSame(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"NVIDIA-A100-80GB", "NVIDIA-A100-SXM4-80GB", true},
		{"A100-SXM4-40GB", "NVIDIA-A100-SXM4-40GB", true},
		{"NVIDIA-H100-80GB-HBM3", "NVIDIA-H100-80GB-HBM3-SHARED", true},
		{"nvidia-h100-80gb-hbm3", "NVIDIA-H100-80GB-HBM3", true},
		{"NVIDIA-A100-SXM4-40GB", "NVIDIA-A100-SXM4-80GB", false}, // half the memory
		{"NVIDIA-A100-80GB", "NVIDIA-H100-80GB-HBM3", false},
		{"b200", "h200", false},
		{"a10", "a100", false},
		{"H100", "NVIDIA-H100-80GB-HBM3", true},
		{"traning", "training", true},
		{"infernece", "inference", true},
		{"True", "true", true},
		{"us-east-1a", "us-east-1b", false},
		{"team-a", "team-b", false},
		{"pool-1", "pool-2", false},
		{"gpu_pool", "gpu-pool", true},
		{"nvidia.com/gpu-product", "nvidia.com/gpu.product", true},
		{"large", "small", false},
		{"", "x", false},
		{"same", "same", false},
	} {
		if got := MeansSame(c.a, c.b); got != c.want {
			t.Errorf("meansSame(%q, %q) = %v", c.a, c.b, got)
		}
		if got := MeansSame(c.b, c.a); got != c.want {
			t.Errorf("meansSame(%q, %q) = %v, and not the other way round", c.b, c.a, got)
		}
	}
}

func FuzzMeansSame(f *testing.F) {
	f.Add("NVIDIA-A100-80GB", "NVIDIA-A100-SXM4-80GB")
	f.Fuzz(func(t *testing.T, a, b string) {
		if len(a)+len(b) > 400 {
			return
		}
		if MeansSame(a, b) != MeansSame(b, a) {
			t.Errorf("meansSame(%q, %q) depends on the order", a, b)
		}
		if d := spelling.Distance(a, b); d != spelling.Distance(b, a) || (d == 0) != (string([]rune(a)) == string([]rune(b))) {
			t.Errorf("distance(%q, %q) = %d", a, b, d)
		}
	})
}
