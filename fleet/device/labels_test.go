package device

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/berth-dev/berth/fleet/gpu"
)

func TestLabels(t *testing.T) {
	cfg := h100(8)
	cfg.Clique = "5b1d1f3c-4d2e-4f3a-9a51-0c7a1f0e2b11.32766"
	m := serving(cfg)
	want := map[string]string{
		"nvidia.com/cuda.driver-version.full":     "580.95.05",
		"nvidia.com/cuda.driver-version.major":    "580",
		"nvidia.com/cuda.driver-version.minor":    "95",
		"nvidia.com/cuda.driver-version.revision": "05",
		"nvidia.com/cuda.driver.major":            "580",
		"nvidia.com/cuda.driver.minor":            "95",
		"nvidia.com/cuda.driver.rev":              "05",
		"nvidia.com/cuda.runtime-version.full":    "13.0",
		"nvidia.com/cuda.runtime-version.major":   "13",
		"nvidia.com/cuda.runtime-version.minor":   "0",
		"nvidia.com/cuda.runtime.major":           "13",
		"nvidia.com/cuda.runtime.minor":           "0",
		"nvidia.com/gfd.timestamp":                "1794744000",
		"nvidia.com/gpu.clique":                   "5b1d1f3c-4d2e-4f3a-9a51-0c7a1f0e2b11.32766",
		"nvidia.com/gpu.compute.major":            "9",
		"nvidia.com/gpu.compute.minor":            "0",
		"nvidia.com/gpu.count":                    "8",
		"nvidia.com/gpu.family":                   "hopper",
		"nvidia.com/gpu.machine":                  "DGX-H100",
		"nvidia.com/gpu.memory":                   "81559",
		"nvidia.com/gpu.mode":                     "compute",
		"nvidia.com/gpu.product":                  "NVIDIA-H100-80GB-HBM3",
		"nvidia.com/gpu.replicas":                 "1",
		"nvidia.com/gpu.sharing-strategy":         "none",
		"nvidia.com/mig.capable":                  "true",
		"nvidia.com/mig.strategy":                 "single",
		"nvidia.com/mps.capable":                  "false",
		"nvidia.com/vgpu.present":                 "false",
	}
	if diff := cmp.Diff(want, m.Advertise(start.Add(time.Hour)).Labels); diff != "" {
		t.Error(diff)
	}
	m.SetStack(fullStack(), start.Add(time.Hour))
	if diff := cmp.Diff(want, m.Advertise(start).Labels); diff != "" {
		t.Errorf("the same stack again: %s", diff)
	}
}

func TestNoLabels(t *testing.T) {
	for name, pods := range map[string][]StackPod{"no GFD": without(GFD), "no driver": without(Driver)} {
		m := New(h100(8))
		m.SetStack(pods, start)
		if got := m.Advertise(start).Labels; got != nil {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// Labels do not wait for the plugin: a node can be labelled and have no GPU to give.
func TestLabelsWithoutPlugin(t *testing.T) {
	m := New(h100(8))
	m.SetStack(without(Plugin), start)
	if got := m.Advertise(start).Labels["nvidia.com/gpu.count"]; got != "8" {
		t.Errorf("gpu.count is %q, want 8", got)
	}
}

func TestMixedModels(t *testing.T) {
	group := func(name string, n int) gpu.Group { return gpu.Group{Model: model(name), Count: n} }
	for _, tc := range []struct {
		groups         []gpu.Group
		product, count string
		mig            string
	}{
		{[]gpu.Group{group("t4", 1), group("a100", 2)}, "NVIDIA-A100-SXM4-80GB", "2", "true"},
		{[]gpu.Group{group("t4", 2), group("a100", 2)}, "Tesla-T4", "2", "true"},
		{[]gpu.Group{group("t4", 2), group("l4", 1)}, "Tesla-T4", "2", "false"},
	} {
		cfg := h100(0)
		cfg.Devices = gpu.Devices("node", tc.groups)
		l := serving(cfg).Advertise(start).Labels
		got := []string{l["nvidia.com/gpu.product"], l["nvidia.com/gpu.count"], l["nvidia.com/mig.capable"]}
		if diff := cmp.Diff([]string{tc.product, tc.count, tc.mig}, got); diff != "" {
			t.Error(diff)
		}
	}
}

// Whatever the model, the API server must accept the labels.
func TestLabelsAreValid(t *testing.T) {
	for _, m := range gpu.Models() {
		cfg := h100(0)
		cfg.Devices = gpu.Devices("node", []gpu.Group{{Model: m, Count: 1}})
		cfg.Machine, cfg.Driver.Version = "", "550.90"
		for k, v := range serving(cfg).Advertise(start).Labels {
			if errs := append(validation.IsQualifiedName(k), validation.IsValidLabelValue(v)...); len(errs) > 0 {
				t.Errorf("%s: %s=%q: %v", m.Name, k, v, errs)
			}
		}
	}
}
