package convert

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestShortModel(t *testing.T) {
	type result struct {
		Short   string
		Variant bool
	}
	for name, want := range map[string]result{
		"H100": {"H100", false}, "h100": {"H100", false}, "NVIDIA-H200": {"H200", false}, "nvidia h200": {"H200", false},
		"NVIDIA-H100-80GB-HBM3": {"H100", true}, "NVIDIA-H100-PCIe": {"H100", true}, "NVIDIA-H100-NVL": {"H100", true},
		"H100-SXM5-80GB": {"H100", true}, "NVIDIA-A100-SXM4-40GB": {"A100", true}, "NVIDIA-A100-80GB-PCIe": {"A100", true},
		"NVIDIA-GH200-144G-HBM3e": {"GH200", true}, "NVIDIA-GB200": {"GB200", false}, "NVIDIA-B200": {"B200", false},
		"NVIDIA-L40S": {"L40S", false}, "NVIDIA-L40": {"L40", false}, "NVIDIA-L4": {"L4", false}, "Tesla-T4": {"T4", false},
		"Tesla-V100-SXM2-16GB": {"V100", true}, "Tesla-V100S-PCIE-32GB": {"V100S", true},
		"NVIDIA-A10": {"A10", false}, "NVIDIA-A10G": {"A10G", false}, "NVIDIA-A30": {"A30", false},
		"NVIDIA-GeForce-RTX-4090": {"RTX4090", false}, "rtx4090": {"RTX4090", false}, "RTX_4090": {"RTX4090", false},
		"NVIDIA-RTX-A6000": {"RTXA6000", false}, "NVIDIA-RTX-6000-Ada-Generation": {"RTX6000ADA", false},
		"Quadro-RTX-6000": {"Quadro-RTX-6000", false}, "NVIDIA-A40-48Q": {"NVIDIA-A40-48Q", false},
		"NVIDIA-A100-SXM4-40GB-MIG-1g.5gb": {"A100-MIG-1g.5gb", true}, "A30-MIG-1g.6gb.me": {"A30-MIG-1g.6gb.me", false},
		"NVIDIA-A100-SXM4-40GB-MIG-INVALID": {"NVIDIA-A100-SXM4-40GB-MIG-INVALID", false},
		"Rubin":                             {"Rubin", false}, "NVIDIA": {"NVIDIA", false}, "80GB": {"80GB", false}, "": {"", false},
	} {
		short, variant := shortModel(name)
		if diff := cmp.Diff(want, result{short, variant}); diff != "" {
			t.Errorf("%q (-want +got):\n%s", name, diff)
		}
	}
}

func TestModels(t *testing.T) {
	for in, want := range map[string][]string{
		"": nil, " , ": nil, "H100": {"H100"}, "h200, NVIDIA-H100-PCIe ,H100,Rubin,": {"H200", "H100", "Rubin"},
	} {
		if diff := cmp.Diff(want, models(in)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", in, diff)
		}
	}
}

func FuzzShortModel(f *testing.F) {
	for _, name := range []string{"NVIDIA-H100-80GB-HBM3", "NVIDIA-RTX-6000-Ada-Generation", "RTX", "a", "8g-é"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		short, _ := shortModel(name)
		if again, variant := shortModel(short); again != short || variant {
			t.Errorf("%q is %q, which is %q", name, short, again)
		}
	})
}
