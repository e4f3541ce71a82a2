package gpu

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// People and charts select on these exact values.
func TestLabels(t *testing.T) {
	want := map[string]string{
		"a100": "NVIDIA-A100-SXM4-80GB", "h100": "NVIDIA-H100-80GB-HBM3", "l40s": "NVIDIA-L40S", "t4": "Tesla-T4", "l4": "NVIDIA-L4",
		"a100-40gb": "NVIDIA-A100-SXM4-40GB", "a100-pcie": "NVIDIA-A100-80GB-PCIe", "A100-PCIE-40GB": "NVIDIA-A100-PCIE-40GB",
		"h100-pcie": "NVIDIA-H100-PCIe", "h100-nvl": "NVIDIA-H100-NVL", "h200": "NVIDIA-H200", "b200": "NVIDIA-B200", "gb200": "NVIDIA-GB200",
		"a10": "NVIDIA-A10", "a10g": "NVIDIA-A10G", "a30": "NVIDIA-A30", "v100": "Tesla-V100-SXM2-16GB", "4090": "NVIDIA-GeForce-RTX-4090",
	}
	got := map[string]string{}
	for name := range want {
		if m, ok := Lookup(name); ok {
			got[name] = m.Label()
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestLookupKnowsEverySpelling(t *testing.T) {
	for _, m := range Models() {
		for _, name := range []string{m.Name, strings.ToLower(m.Name), m.Product, m.Label(), strings.ToUpper(m.Label()), " " + m.Name + " "} {
			if got, ok := Lookup(name); !ok || got != m {
				t.Errorf("Lookup(%q) = %q, %v; want %q", name, got.Name, ok, m.Name)
			}
		}
	}
	for _, name := range []string{"", " ", "h1000", "nvidia", "NVIDIA-A100-80GB"} {
		if m, ok := Lookup(name); ok {
			t.Errorf("Lookup(%q) = %q, want nothing", name, m.Name)
		}
	}
}

// A name that two entries answer to would make Lookup depend on the order of the catalog.
func TestCatalogNamesAreUnique(t *testing.T) {
	owner := map[string]string{}
	for _, e := range catalog {
		names := append([]string{fold(e.Name), fold(e.Product)}, e.aliases...)
		slices.Sort(names)
		for _, n := range slices.Compact(names) {
			if o, taken := owner[n]; taken {
				t.Errorf("%q means both %s and %s", n, o, e.Name)
			}
			owner[n] = e.Name
			if n != fold(n) {
				t.Errorf("alias %q of %s is not folded", n, e.Name)
			}
		}
	}
}

func TestCatalogIsComplete(t *testing.T) {
	families := map[string]string{"7.0": "volta", "7.5": "turing", "8.0": "ampere", "8.6": "ampere", "8.9": "ada-lovelace", "9.0": "hopper", "10.0": "blackwell"}
	for _, m := range Models() {
		if m.Family != families[m.Compute] {
			t.Errorf("%s: compute %s is family %q, not %q", m.Name, m.Compute, families[m.Compute], m.Family)
		}
		if m.MemoryMiB <= 0 || m.SMClockMHz <= 0 || m.MemClockMHz <= 0 || m.IdleWatts <= 0 || m.IdleWatts >= m.PowerWatts {
			t.Errorf("%s: a figure is missing: %+v", m.Name, m)
		}
		if (m.NVLinks > 0) != (m.LinkMBps > 0) || (m.IdleState != "P0" && m.IdleState != "P8") {
			t.Errorf("%s: links or idle state: %+v", m.Name, m)
		}
	}
	if !slices.IsSortedFunc(Models(), func(a, b Model) int { return strings.Compare(a.Name, b.Name) }) {
		t.Error("Models is not sorted")
	}
}

func TestDevices(t *testing.T) {
	h100, _ := Lookup("h100")
	l4, _ := Lookup("l4")
	got := Devices("node-0", []Group{{Model: h100, Count: 2, NVLink: true}, {Model: l4, Count: 1, MemoryMiB: 12000, NVLink: true}})
	want := []Device{
		{Index: 0, UUID: "GPU-68fc9e39-5c3c-a6be-e04c-42cc89d5a80e", BusID: "00000000:0A:00.0", Serial: "1655106724950", Model: h100, MemoryMiB: 81559, NUMA: 0, NVLink: 0},
		{Index: 1, UUID: "GPU-095a7f0a-eb92-1cde-b866-c3d35796631c", BusID: "00000000:12:00.0", Serial: "1654163123892", Model: h100, MemoryMiB: 81559, NUMA: 0, NVLink: 0},
		{Index: 2, UUID: "GPU-e947e7d6-c17a-aa19-08e5-016561267c9e", BusID: "00000000:8A:00.0", Serial: "1653400468901", Model: l4, MemoryMiB: 12000, NUMA: 1, NVLink: -1},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestDevicesProperties(t *testing.T) {
	uuid := regexp.MustCompile(`^GPU(-[0-9a-f]+){5}$`)
	bus := regexp.MustCompile(`^[0-9A-F]{8}:[0-9A-F]{2}:00\.0$`)
	rapid.Check(t, func(t *rapid.T) {
		var groups []Group
		total := 0
		for range rapid.IntRange(0, 3).Draw(t, "groups") {
			g := Group{Model: rapid.SampledFrom(Models()).Draw(t, "model"), Count: rapid.IntRange(-1, 20).Draw(t, "count"), NVLink: rapid.Bool().Draw(t, "nvlink")}
			groups = append(groups, g)
			total += max(g.Count, 0)
		}
		node := rapid.StringN(1, 10, -1).Draw(t, "node")
		devices := Devices(node, groups)
		if len(devices) != total {
			t.Fatalf("%d devices, want %d", len(devices), total)
		}
		if diff := cmp.Diff(devices, Devices(node, groups)); diff != "" {
			t.Fatalf("not the same twice:\n%s", diff)
		}
		seen := map[string]bool{}
		perNUMA := map[int]int{}
		for i, d := range devices {
			if d.Index != i || !uuid.MatchString(d.UUID) || !bus.MatchString(d.BusID) || len(d.Serial) != 13 || seen[d.UUID] || seen[d.BusID] {
				t.Fatalf("device %d: %+v", i, d)
			}
			seen[d.UUID], seen[d.BusID] = true, true
			perNUMA[d.NUMA]++
		}
		if diff := perNUMA[0] - perNUMA[1]; diff < 0 || diff > 1 {
			t.Fatalf("NUMA halves: %v", perNUMA)
		}
		for _, other := range Devices(node+"x", groups) {
			if seen[other.UUID] {
				t.Fatalf("%s is on two nodes", other.UUID)
			}
		}
	})
}

func ExampleLookup() {
	m, _ := Lookup("h100")
	fmt.Println(m.Product, m.MemoryMiB, "MiB", m.Label())
	// Output: NVIDIA H100 80GB HBM3 81559 MiB NVIDIA-H100-80GB-HBM3
}
