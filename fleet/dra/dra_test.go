package dra

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/fleet/gpu"
)

var rewrite = flag.Bool("update", false, "rewrite the golden file")

func model(t interface{ Fatalf(string, ...any) }, name string) gpu.Model {
	m, ok := gpu.Lookup(name)
	if !ok {
		t.Fatalf("no model %s", name)
	}
	return m
}

// workstation has three GPUs, one of them of a model that nobody knows.
func workstation(t *testing.T) Machine {
	return Machine{
		Node: "alice",
		GPUs: gpu.Devices("alice", []gpu.Group{
			{Model: model(t, "h100"), Count: 1},
			{Model: model(t, "l4"), Count: 1},
			{Model: gpu.Model{Name: "Rubin", Product: "Rubin"}, Count: 1, MemoryMiB: 288 << 10},
		}),
		Driver: gpu.Driver{Version: "580.95.05", CUDA: "13.0"},
	}
}

func owner() metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: "alice", UID: "node-uid"}
}

func TestSlice(t *testing.T) {
	text, err := yaml.Marshal(workstation(t).Slices(owner())[0])
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "slice.yaml", text)
}

func golden(t *testing.T, name string, text []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *rewrite {
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(text)); diff != "" {
		t.Errorf("%s (go test ./fleet/dra -update rewrites it):\n%s", path, diff)
	}
}

// result is an allocation of one device of alice.
func result(request, device string) resourcev1.DeviceRequestAllocationResult {
	return resourcev1.DeviceRequestAllocationResult{Request: request, Driver: Driver, Pool: "alice", Device: device}
}

func TestAllocatedRefusesWhatIsNotThere(t *testing.T) {
	elsewhere := result("r", "gpu-0")
	elsewhere.Pool = "bob"
	for _, r := range []resourcev1.DeviceRequestAllocationResult{result("r", "gpu-3"), result("r", "gpu-00"), elsewhere} {
		got, err := workstation(t).Allocated([]resourcev1.DeviceRequestAllocationResult{result("r", "gpu-1"), r})
		if want := "requested device is not allocatable: " + r.Device; err == nil || err.Error() != want || got != nil {
			t.Errorf("%s of %s: %v, %v", r.Device, r.Pool, got, err)
		}
	}
}

func TestAllocated(t *testing.T) {
	network := resourcev1.DeviceRequestAllocationResult{Request: "net", Driver: "nic.example.com", Pool: "alice", Device: "eth1"}
	admin := result("look", "gpu-0")
	admin.AdminAccess = new(true)
	all := []resourcev1.DeviceRequestAllocationResult{result("big", "gpu-2"), network, result("any/l4", "gpu-1"), admin, result("again", "gpu-2")}
	names := func(results []resourcev1.DeviceRequestAllocationResult) []string {
		got, err := workstation(t).Allocated(results)
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, d := range got {
			out = append(out, Name(d))
		}
		return out
	}
	got := map[string][]string{
		"all": names(OfRequest(all, "")), "any": names(OfRequest(all, "any")), "net": names(OfRequest(all, "net")),
		"any/l4": names(OfRequest(all, "any/l4")), "exclusive": names(Exclusive(all)),
	}
	want := map[string][]string{
		"all": {"gpu-0", "gpu-1", "gpu-2"}, "any": {"gpu-1"}, "net": nil, "any/l4": nil, "exclusive": {"gpu-1", "gpu-2"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// next is which slices are to be written over those that are there, by name, with generation and how many devices they have.
func next(have, want []*resourcev1.ResourceSlice) []string {
	there := map[string]*resourcev1.ResourceSlice{}
	for _, s := range have {
		there[s.Name] = s
	}
	var out []string
	for _, s := range Next(there, want) {
		if s != nil {
			out = append(out, fmt.Sprintf("%s rv%s g%d of %d: %d", s.Name, s.ResourceVersion, s.Spec.Pool.Generation, s.Spec.Pool.ResourceSliceCount, len(s.Spec.Devices)))
		}
	}
	return out
}

func TestNext(t *testing.T) {
	have := workstation(t).Slices(owner())
	have[0].ResourceVersion, have[0].Spec.Pool.Generation = "7", 4
	reborn := owner()
	reborn.UID = "other"
	smaller := workstation(t)
	smaller.GPUs = smaller.GPUs[:1]
	parts := cutting(t).Slices(owner())
	for i, s := range parts {
		s.ResourceVersion, s.Spec.Pool.Generation = fmt.Sprint(i), 3
	}
	spoiled := slices.Clone(parts)
	spoiled[1] = parts[1].DeepCopy()
	spoiled[1].Spec.Devices = spoiled[1].Spec.Devices[:5]
	halfway := slices.Clone(parts)
	halfway[2] = parts[2].DeepCopy()
	halfway[2].Spec.Pool.Generation = 2
	got := map[string][]string{
		"as it is":      next(have, workstation(t).Slices(owner())),
		"another owner": next(have, workstation(t).Slices(reborn)),
		"fewer devices": next(have, smaller.Slices(owner())),
		"none yet":      next(nil, workstation(t).Slices(owner())),
		"parts":         next(parts, cutting(t).Slices(owner())),
		"one is gone":   next(slices.Delete(slices.Clone(parts), 1, 2), cutting(t).Slices(owner())),
		"one differs":   next(spoiled, cutting(t).Slices(owner())),
		"half written":  next(halfway, cutting(t).Slices(owner())),
	}
	want := map[string][]string{
		"as it is":      nil,
		"another owner": {"alice-gpu.nvidia.com rv7 g4 of 1: 3"},
		"fewer devices": {"alice-gpu.nvidia.com rv7 g5 of 1: 1"},
		"none yet":      {"alice-gpu.nvidia.com rv g1 of 1: 3"},
		"parts":         nil,
		"one is gone":   {"alice-gpu.nvidia.com-00 rv g3 of 4: 26"},
		"one differs": {
			"alice-gpu.nvidia.com-counters-0 rv0 g4 of 4: 0", "alice-gpu.nvidia.com-00 rv1 g4 of 4: 26",
			"alice-gpu.nvidia.com-01 rv2 g4 of 4: 13", "alice-gpu.nvidia.com-02 rv3 g4 of 4: 1",
		},
		"half written": {"alice-gpu.nvidia.com-01 rv2 g3 of 4: 13"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Whatever the scheduler picks from a slice is what the machine hands out, and the slice is the same
// every time.
func TestSlicesAndDevicesAgree(t *testing.T) {
	models := gpu.Models()
	rapid.Check(t, func(t *rapid.T) {
		dynamic, most := rapid.Bool().Draw(t, "dynamic"), 21
		if dynamic {
			most = 2 // each has 26 devices
		}
		var groups []gpu.Group
		for range rapid.IntRange(1, 3).Draw(t, "groups") {
			groups = append(groups, gpu.Group{Model: rapid.SampledFrom(models).Draw(t, "model"), Count: rapid.IntRange(1, most).Draw(t, "count")})
		}
		m := Machine{Node: "alice", GPUs: gpu.Devices("alice", groups), Driver: gpu.Driver{Version: "570.133.20", CUDA: "12.8"}, Dynamic: dynamic}
		all := m.Slices(owner())
		if diff := cmp.Diff(all, m.Slices(owner())); diff != "" {
			t.Fatal(diff)
		}
		offered := m.Devices()
		var results []resourcev1.DeviceRequestAllocationResult
		var want []string
		for _, s := range all {
			for _, d := range s.Spec.Devices {
				is := offered[0]
				offered = offered[1:]
				uuid, parent := d.Attributes["uuid"].StringValue, d.Attributes["parentUUID"].StringValue
				if uuid == nil {
					uuid = parent
				}
				if *uuid != is.UUID || (parent != nil) != (is.MIG != nil) {
					t.Fatalf("%s is of %s, the device %s", d.Name, *uuid, is.UUID)
				}
				if rapid.Bool().Draw(t, "picked") {
					results = append(results, result("r", d.Name))
					want = append(want, is.ID())
				}
			}
		}
		slices.Reverse(results)
		got, err := m.Allocated(results)
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, d := range got {
			ids = append(ids, d.ID())
		}
		if diff := cmp.Diff(want, ids); diff != "" || len(offered) > 0 {
			t.Fatal(diff)
		}
	})
}

func TestVersions(t *testing.T) {
	want := map[string]string{
		"580.95.05": "580.95.5", "13.0": "13.0.0", "9": "9.0.0", "": "", "580.95.05.1": "", "580.x": "", "-1.0": "", "550.00": "550.0.0",
	}
	got := map[string]string{}
	for version := range want {
		a := attributes{}
		addVersion(a, "v", version)
		got[version] = ""
		if v := a["v"].VersionValue; v != nil {
			got[version] = *v
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
