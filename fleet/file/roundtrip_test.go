package file

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/api/v1alpha1"
)

func TestFormatParseRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SliceOfNDistinct(poolGen(), 1, 4, func(p v1alpha1.Pool) string { return p.Name }).Draw(t, "pools")
		text := Format(want)
		got, err := Parse("f.yaml", text)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if diff := cmp.Diff(want, got, sameQuantity); diff != "" {
			t.Fatalf("(-want +got):\n%s\n%s", diff, text)
		}
	})
}

// TestFormatIsForKubectl: kubectl reads YAML with another library, which takes more words for
// booleans, and must see the same pool.
func TestFormatIsForKubectl(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := poolGen().Draw(t, "pool")
		text := Format([]v1alpha1.Pool{want})
		var got v1alpha1.Pool
		if err := yaml.UnmarshalStrict(text, &got); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if diff := cmp.Diff(want, got, sameQuantity); diff != "" {
			t.Fatalf("(-want +got):\n%s\n%s", diff, text)
		}
	})
}

// poolGen draws pools that are valid and have their defaults. A pool's nodes are named after
// it, so that pools of different names share no node.
func poolGen() *rapid.Generator[v1alpha1.Pool] {
	return rapid.Custom(func(t *rapid.T) v1alpha1.Pool {
		p := v1alpha1.Pool{}
		p.Name = rapid.StringMatching(`[a-z]([a-z0-9]{0,20}[a-z0-9])?`).Draw(t, "name")
		p.Annotations = texts(t, "annotations", rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"<<", "~", "=", "on", "0x1F", "1e3", "2026-11-17", "!!str", "- a", "a: b", "{}"})))
		s := &p.Spec
		drawNodes(t, p.Name, s)
		drawGPUs(t, s)
		s.Role = rapid.SampledFrom([]v1alpha1.Role{"", "worker", "control-plane"}).Draw(t, "role")
		s.CPU = optional(t, "cpu", amountGen("1", "500m", "96", "10k", "1e3"))
		s.Memory = optional(t, "memory", amountGen("128Mi", "1536Gi", "64G", "1Ti", "1Ei"))
		s.EphemeralStorage = optional(t, "disk", amountGen("1Gi", "0.5Ti", "123456789012"))
		s.Pods = optional(t, "pods", rapid.Int32Range(1, 10_000))
		if rapid.Bool().Draw(t, "other devices") {
			s.ExtendedResources = map[string]int32{"google.com/tpu": rapid.Int32Range(0, 8).Draw(t, "tpus")}
		}
		s.Labels = texts(t, "labels", rapid.StringMatching(`([A-Za-z0-9][-A-Za-z0-9_.]{0,20})?[A-Za-z0-9]`))
		s.Topology = topologyGen().Draw(t, "topology")
		s.Placement = rapid.SampledFrom([]v1alpha1.Placement{"", "pack", "spread", "wholeNode"}).Draw(t, "placement")
		s.WorkloadClass = rapid.SampledFrom([]v1alpha1.WorkloadClass{"", "training", "system"}).Draw(t, "class")
		s.Boot.Driver = optional(t, "boot", rapid.Custom(func(t *rapid.T) metav1.Duration {
			return metav1.Duration{Duration: time.Duration(rapid.Int64Range(0, int64(24*time.Hour)).Draw(t, "d"))}
		}))
		if rapid.Bool().Draw(t, "tainted") {
			value := rapid.SampledFrom([]string{"", "true", "0x1F", "1e3", "null", "on", "y", "1_0", "12.10"}).Draw(t, "value")
			s.Taints = []v1alpha1.Taint{{Key: "nvidia.com/gpu", Value: value, Effect: corev1.TaintEffectNoExecute}}
		}
		v1alpha1.Default(&p)
		return p
	})
}

func drawNodes(t *rapid.T, pool string, s *v1alpha1.PoolSpec) {
	if rapid.Bool().Draw(t, "counted") {
		s.Nodes = new(rapid.Int32Range(0, 50).Draw(t, "nodes"))
		return
	}
	suffix := rapid.StringMatching(`[a-z0-9]{1,5}`)
	for _, x := range rapid.SliceOfNDistinct(suffix, 1, 4, rapid.ID[string]).Draw(t, "nodeNames") {
		s.NodeNames = append(s.NodeNames, pool+"."+x)
	}
}

func drawGPUs(t *rapid.T, s *v1alpha1.PoolSpec) {
	for range rapid.IntRange(0, 2).Draw(t, "models") {
		s.GPUs = append(s.GPUs, v1alpha1.GPU{
			Model:  rapid.SampledFrom([]string{"h100", "NVIDIA-A100-SXM4-80GB", "A100-SXM4-40GB"}).Draw(t, "model"),
			Count:  rapid.Int32Range(1, 32).Draw(t, "count"),
			Memory: optional(t, "gpuMemory", amountGen("80Gi", "40G")),
		})
	}
	if s.GPUs == nil {
		return
	}
	s.NVLink = rapid.SampledFrom([]v1alpha1.NVLink{"", "none", "pairs", "full"}).Draw(t, "nvlink")
	s.Advertise = rapid.SampledFrom([]v1alpha1.Advertise{"", "device-plugin", "dra"}).Draw(t, "advertise")
	s.GPUStack = rapid.SampledFrom([]v1alpha1.GPUStack{"", "operator", "none"}).Draw(t, "gpuStack")
	s.Driver.CUDA = rapid.SampledFrom([]string{"", "12.4", "13.0"}).Draw(t, "cuda")
	if s.Advertise != v1alpha1.AdvertiseDRA && s.GPUStack != v1alpha1.GPUStackNone {
		s.MIG.Strategy = rapid.SampledFrom([]v1alpha1.MIGStrategy{"", "none", "single", "mixed"}).Draw(t, "mig")
		s.MIG.Config = rapid.SampledFrom([]string{"", "all-balanced", "1e3", "0"}).Draw(t, "migConfig")
	}
	s.Driver.Preinstalled = rapid.Bool().Draw(t, "preinstalled")
}

func topologyGen() *rapid.Generator[v1alpha1.Topology] {
	name := rapid.StringMatching(`([a-zA-Z0-9][a-z0-9-]{0,10}[a-z0-9])?`)
	return rapid.Custom(func(t *rapid.T) v1alpha1.Topology {
		topology := v1alpha1.Topology{
			Region: name.Draw(t, "region"), Zone: name.Draw(t, "zone"), Block: name.Draw(t, "block"),
			Rack: name.Draw(t, "rack"), Clique: name.Draw(t, "clique"),
			NodesPerRack:   optional(t, "perRack", rapid.Int32Range(1, 20)),
			NodesPerClique: optional(t, "perClique", rapid.Int32Range(1, 20)),
		}
		if topology.NodesPerRack != nil {
			topology.NodesPerBlock = new(*topology.NodesPerRack * rapid.Int32Range(1, 9).Draw(t, "racks"))
		}
		return topology
	})
}

func optional[T any](t *rapid.T, label string, g *rapid.Generator[T]) *T {
	if !rapid.Bool().Draw(t, label+"?") {
		return nil
	}
	return new(g.Draw(t, label))
}

func amountGen(amounts ...string) *rapid.Generator[resource.Quantity] {
	return rapid.Map(rapid.SampledFrom(amounts), resource.MustParse)
}

// texts draws a map with names for keys; nil where it would be empty.
func texts(t *rapid.T, label string, values *rapid.Generator[string]) map[string]string {
	m := rapid.MapOfN(rapid.StringMatching(`[a-z]{1,8}(\.example/[a-z]{1,3})?`), values, 0, 3).Draw(t, label)
	if len(m) == 0 {
		return nil
	}
	return m
}

// FuzzParse never panics, and what parses survives a round trip. Run it for longer with
// -fuzz=FuzzParse -fuzzminimizetime=20x: shrinking every new input takes all the time there is.
func FuzzParse(f *testing.F) {
	for _, info := range Presets() {
		text, err := PresetText(info.Name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte("apiVersion: v1\nkind: List\nitems: [{kind: Pool}]\n"))
	f.Add([]byte("apiVersion: berth.dev/v1alpha1\nkind: Pool\nmetadata: {name: a, annotations: {x: \"\\t\\n\"}}\nspec: {nodes: 1, pods: !!int 7}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		pools, err := Parse("f.yaml", data)
		if err != nil {
			checkLines(t, err)
			return
		}
		text := Format(pools)
		again, err := Parse("f.yaml", text)
		if err != nil {
			t.Fatalf("formatted pools do not parse: %v\n%s", err, text)
		}
		if diff := cmp.Diff(pools, again, sameQuantity); diff != "" {
			t.Fatalf("not the same after Format (-first +second):\n%s", diff)
		}
	})
}

// checkLines wants errors to be typed, and one line each.
func checkLines(t *testing.T, err error) {
	var errs Errors
	if !errors.As(err, &errs) || len(errs) == 0 {
		t.Fatalf("not Errors: %v", err)
	}
	if lines := strings.Count(err.Error(), "\n") + 1; lines != len(errs) {
		t.Fatalf("%d errors on %d lines:\n%s", len(errs), lines, err)
	}
}
