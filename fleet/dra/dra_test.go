package dra

import (
	"flag"
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
	text, err := yaml.Marshal(workstation(t).Slice(owner()))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", "slice.yaml")
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

func TestNext(t *testing.T) {
	have := workstation(t).Slice(owner())
	have.ResourceVersion, have.Spec.Pool.Generation = "7", 4
	if _, changed := Next(have, workstation(t).Slice(owner())); changed {
		t.Error("nothing to say, and said")
	}
	reborn := owner()
	reborn.UID = "other"
	next, changed := Next(have, workstation(t).Slice(reborn))
	if !changed || next.Spec.Pool.Generation != 4 || next.OwnerReferences[0].UID != "other" || next.ResourceVersion != "7" {
		t.Errorf("another owner: %t %+v", changed, next)
	}
	smaller := workstation(t)
	smaller.GPUs = smaller.GPUs[:1]
	next, changed = Next(have, smaller.Slice(owner()))
	if !changed || next.Spec.Pool.Generation != 5 || len(next.Spec.Devices) != 1 || len(have.Spec.Devices) != 3 {
		t.Errorf("fewer devices: %t %+v", changed, next)
	}
}

// Whatever the scheduler picks from a slice is what the machine hands out, and the slice is the same
// every time.
func TestSlicesAndDevicesAgree(t *testing.T) {
	models := gpu.Models()
	rapid.Check(t, func(t *rapid.T) {
		var groups []gpu.Group
		for range rapid.IntRange(1, 3).Draw(t, "groups") {
			groups = append(groups, gpu.Group{Model: rapid.SampledFrom(models).Draw(t, "model"), Count: rapid.IntRange(1, 21).Draw(t, "count")})
		}
		m := Machine{Node: "alice", GPUs: gpu.Devices("alice", groups), Driver: gpu.Driver{Version: "570.133.20", CUDA: "12.8"}}
		slice := m.Slice(owner())
		if diff := cmp.Diff(slice, m.Slice(owner())); diff != "" {
			t.Fatal(diff)
		}
		var results []resourcev1.DeviceRequestAllocationResult
		var want []string
		for i, d := range slice.Spec.Devices {
			if *d.Attributes["uuid"].StringValue != m.GPUs[i].UUID {
				t.Fatalf("%s is %s, device %d is %s", d.Name, *d.Attributes["uuid"].StringValue, i, m.GPUs[i].UUID)
			}
			if rapid.Bool().Draw(t, "picked") {
				results = append(results, result("r", d.Name))
				want = append(want, m.GPUs[i].UUID)
			}
		}
		slices.Reverse(results)
		got, err := m.Allocated(results)
		if err != nil {
			t.Fatal(err)
		}
		var uuids []string
		for _, d := range got {
			uuids = append(uuids, d.UUID)
		}
		if diff := cmp.Diff(want, uuids); diff != "" || len(slice.Spec.Devices) != len(m.GPUs) {
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
