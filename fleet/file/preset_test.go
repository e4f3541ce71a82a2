package file

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// TestPresetNodes states who is in each preset: node, role, GPUs. Labs and docs name them.
func TestPresetNodes(t *testing.T) {
	want := map[string][]string{
		"lab": {
			"lab-control-plane control-plane 0",
			"lab-cpu-0 worker 0",
			"kwok-gpu-a100-0 worker 8",
			"kwok-gpu-a100-1 worker 8",
			"kwok-gpu-h100-0 worker 8",
			"kwok-gpu-l40s-0 worker 4",
			"kwok-gpu-l40s-1 worker 4",
		},
		"layers": {
			"layers-control-plane control-plane 0",
			"layers-worker worker 0",
			"layers-worker2 worker 0",
		},
	}
	for name, nodes := range want {
		if diff := cmp.Diff(nodes, describeNodes(preset(t, name))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestPresetGPUs(t *testing.T) {
	want := map[string]int{"lab": 32, "layers": 0, "research-128": 128, "inference": 28, "mig": 8, "sharing": 6, "dra": 24, "parts": 9, "scale-1k": 8000, "scale-5k": 40000, "superpod": 576}
	got := map[string]int{}
	for _, info := range Presets() {
		for _, p := range preset(t, info.Name) {
			got[info.Name] += int(*p.Spec.Nodes) * p.GPUsPerNode()
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("GPUs by preset (-want +got):\n%s", diff)
	}
}

// TestPresetTaints: GPU pods of lab need no toleration of their own, those of inference do,
// and the workers of layers take everything.
func TestPresetTaints(t *testing.T) {
	want := map[string]string{
		"lab": "nvidia.com/gpu=present:NoSchedule", "research-128": "nvidia.com/gpu=present:NoSchedule",
		"inference": "dedicated=gpu:NoSchedule",
	}
	for _, info := range Presets() {
		for _, p := range preset(t, info.Name) {
			if p.Spec.Role == v1alpha1.RoleControlPlane {
				continue
			}
			expect := ""
			if len(p.Spec.GPUs) > 0 {
				expect = want[info.Name]
			}
			var got []string
			for _, taint := range p.NodeTaints() {
				got = append(got, taint.ToString())
			}
			if strings.Join(got, ",") != expect {
				t.Errorf("%s/%s: taints %q, want %q", info.Name, p.Name, got, expect)
			}
		}
	}
}

func TestPresetSummaries(t *testing.T) {
	for _, info := range Presets() {
		if len(info.Summary) < 20 || len(info.Summary) > 100 || strings.HasPrefix(info.Summary, "#") {
			t.Errorf("%s: the first line is no summary: %q", info.Name, info.Summary)
		}
	}
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	if err := os.WriteFile("lab", Format(preset(t, "layers")), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("huge", make([]byte, mostBytes+1), 0o600); err != nil {
		t.Fatal(err)
	}
	for arg, want := range map[string]string{
		"huge":                    "read fleet file: huge is larger than 4 MiB",
		"/dev/zero":               "read fleet file: /dev/zero is larger than 4 MiB", // it has no end
		"lab":                     "lab-control-plane",                               // the preset, though a file is called so
		"./lab":                   "layers-control-plane",
		filepath.Join(dir, "lab"): "layers-control-plane",
		"labb":                    `fleet "labb" is neither a preset nor a file; did you mean lab?; presets: dra, inference, lab, layers, mig, parts, research-128, scale-1k, scale-5k, sharing, superpod`,
		"no/such/file.yaml":       `fleet "no/such/file.yaml" is neither a preset nor a file; presets: dra, inference, lab, layers, mig, parts, research-128, scale-1k, scale-5k, sharing, superpod`,
		dir:                       "read fleet file: read " + dir + ": is a directory",
	} {
		pools, err := Load(arg)
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			got = pools[0].Name
		}
		if got != want {
			t.Errorf("Load(%q) = %q, want %q", arg, got, want)
		}
	}
}

func TestPresetUnknown(t *testing.T) {
	for _, name := range []string{"", "nope", "../preset", "lab.yaml"} {
		if _, err := Preset(name); err == nil {
			t.Errorf("Preset(%q) gave no error", name)
		}
	}
}

// TestExamples reads every fleet file in the repository's examples.
func TestExamples(t *testing.T) {
	paths, err := filepath.Glob("../../examples/fleet-*.yaml")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	for _, path := range paths {
		if _, err := Load(path); err != nil {
			t.Error(err)
		}
	}
}

func preset(t *testing.T, name string) []v1alpha1.Pool {
	t.Helper()
	pools, err := Preset(name)
	if err != nil {
		t.Fatal(err)
	}
	return pools
}
