package dcgm

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/fleet/gpu"
)

var update = flag.Bool("update", false, "rewrite the golden files in testdata")

func reading(t testing.TB, model string, count int) []gpu.Reading {
	m, ok := gpu.Lookup(model)
	if !ok {
		t.Fatal("no model", model)
	}
	var out []gpu.Reading
	for _, d := range gpu.Devices("node-1", []gpu.Group{{Model: m, Count: count, NVLink: true}}) {
		out = append(out, gpu.Reading{
			Device: d, UtilPercent: 91, MemUtilPercent: 45, MemUsedMiB: 61440, PowerWatts: 641, TempC: 64, Activity: 0.9123,
			EnergyMillijoules: 1234567890, NVLinkBytes: 987654321000,
		})
	}
	return out
}

func holder(device string) (Holder, bool) {
	return Holder{"team-a", "llama-0", "train"}, strings.HasPrefix(device, "GPU-") || strings.HasPrefix(device, "MIG-")
}

// A GPU that is held, one in MIG mode with an instance and one without, and boards that know less.
func TestGolden(t *testing.T) {
	h100 := reading(t, "h100", 2)
	mig := reading(t, "h100", 3)[2]
	list, err := mig.Model.Layout(map[string]int{"1g.10gb": 1})
	if err != nil {
		t.Fatal(err)
	}
	mig.MIGEnabled, mig.NVLink = true, -1
	empty := mig
	mig.Parts = []gpu.Part{{Instance: list[0], UsedMiB: 518, Activity: 0.5}}
	for name, n := range map[string]Node{
		"h100":    {Hostname: "node-1", Driver: "580.95.05", GPUs: h100[:1], Holder: holder},
		"free":    {Hostname: "node-1", Driver: "580.95.05", GPUs: h100[1:]},
		"mig":     {Hostname: "node-1", Driver: "580.95.05", GPUs: []gpu.Reading{mig}, Holder: holder},
		"empty":   {Hostname: "node-1", Driver: "580.95.05", GPUs: []gpu.Reading{empty}},
		"t4":      {Hostname: "node-1", Driver: "580.95.05", GPUs: reading(t, "t4", 1)},
		"geforce": {Driver: "580.95.05", GPUs: reading(t, "rtx4090", 1)},
	} {
		t.Run(name, func(t *testing.T) {
			file := "testdata/" + name + ".txt"
			got := string(Append(nil, n))
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A machine without GPUs has an empty page, and no name can break out of its label.
func TestHostileNames(t *testing.T) {
	if got := Append(nil, Node{Hostname: "n"}); len(got) > 0 {
		t.Errorf("no GPU, and %q", got)
	}
	evil := "a\"} 1\nevil{x=\"\\"
	page := string(Append(nil, Node{Hostname: evil, Driver: evil, GPUs: reading(t, "h100", 1), Holder: func(string) (Holder, bool) { return Holder{evil, evil, evil}, true }}))
	for line := range strings.Lines(page) {
		if !strings.HasPrefix(line, "DCGM_") && !strings.HasPrefix(line, "# ") {
			t.Fatalf("a line of its own: %q", line)
		}
	}
}

func BenchmarkPage(b *testing.B) {
	n := Node{Hostname: "node-1", Driver: "580.95.05", GPUs: reading(b, "h100", 8), Holder: holder}
	var page []byte
	b.ReportAllocs()
	for b.Loop() {
		page = Append(page[:0], n)
	}
	b.SetBytes(int64(len(page)))
}
