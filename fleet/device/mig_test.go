package device

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"

	"github.com/berth-dev/berth/fleet/gpu"
)

// layout is a GPU cut into so many of each profile.
func layout(t interface{ Fatal(...any) }, m gpu.Model, counts map[string]int) gpu.Partition {
	list, err := m.Layout(counts)
	if err != nil {
		t.Fatal(m.Name, counts, err)
	}
	return gpu.Partition{Enabled: true, Instances: list}
}

// cut is a serving manager of H100, each cut as counts say; nil: not in MIG mode.
func cut(t *testing.T, strategy string, counts ...map[string]int) *Manager {
	t.Helper()
	m := New(h100(len(counts)))
	var next []gpu.Partition
	for _, c := range counts {
		p := gpu.Partition{}
		if c != nil {
			p = layout(t, model("h100"), c)
		}
		next = append(next, p)
	}
	if err := m.Repartition(next); err != nil {
		t.Fatal(err)
	}
	m.SetPluginConfig(PluginConfig{MIGStrategy: strategy})
	m.SetStack(strategyless(), start)
	return m
}

// strategyless is the full stack whose pods leave the MIG strategy to their configuration.
func strategyless() []StackPod {
	pods := fullStack()
	for i := range pods {
		pods[i].Env = nil
	}
	return pods
}

func offers(m *Manager) []string {
	var out []string
	for _, o := range m.Advertise(start).Resources {
		out = append(out, fmt.Sprintf("%s %d/%d", strings.TrimPrefix(o.Name, "nvidia.com/"), o.Allocatable, o.Capacity))
	}
	return out
}

// What the device plugin offers, and what GFD says of it, by strategy.
func TestStrategies(t *testing.T) {
	ones, three := map[string]int{"1g.10gb": 7}, map[string]int{"3g.40gb": 2}
	balanced := map[string]int{"1g.10gb": 2, "2g.20gb": 1, "3g.40gb": 1}
	empty := map[string]int{}
	for _, tc := range []struct {
		strategy string
		gpus     []map[string]int
		offers   []string
		labels   string // product, count, replicas, memory
	}{
		{"none", []map[string]int{nil, nil}, []string{"gpu 2/2"}, "NVIDIA-H100-80GB-HBM3 2 1 81559"},
		{"none", []map[string]int{ones, nil}, []string{"gpu 2/2"}, "NVIDIA-H100-80GB-HBM3 2 1 81559"},
		{"none", []map[string]int{ones, ones}, []string{"gpu 2/2"}, "NVIDIA-H100-80GB-HBM3 2 0 81559"},
		{"single", []map[string]int{nil, nil}, []string{"gpu 2/2"}, "NVIDIA-H100-80GB-HBM3 2 1 81559"},
		{"single", []map[string]int{ones, ones}, []string{"gpu 14/14"}, "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb 14 1 9984"},
		{"single", []map[string]int{ones, three}, nil, "NVIDIA-H100-80GB-HBM3-MIG-INVALID 0 0 0"},
		{"single", []map[string]int{nil, three}, nil, "NVIDIA-H100-80GB-HBM3-MIG-INVALID 0 0 0"},
		{"single", []map[string]int{ones, empty}, nil, "NVIDIA-H100-80GB-HBM3-MIG-INVALID 0 0 0"},
		{"mixed", []map[string]int{balanced, balanced}, []string{"mig-1g.10gb 4/4", "mig-2g.20gb 2/2", "mig-3g.40gb 2/2"}, "NVIDIA-H100-80GB-HBM3 2 0 81559"},
		{"mixed", []map[string]int{nil, three}, []string{"gpu 1/1", "mig-3g.40gb 2/2"}, "NVIDIA-H100-80GB-HBM3 2 1 81559"},
		{"mixed", []map[string]int{empty, nil}, []string{"gpu 1/1"}, "NVIDIA-H100-80GB-HBM3 2 1 81559"},
		{"mixed", []map[string]int{{"1g.10gb+me": 1}}, []string{"mig-1g.10gb.me 1/1"}, "NVIDIA-H100-80GB-HBM3 1 0 81559"},
	} {
		m := cut(t, tc.strategy, tc.gpus...)
		if diff := cmp.Diff(tc.offers, offers(m)); diff != "" {
			t.Errorf("%s %v: %s", tc.strategy, tc.gpus, diff)
		}
		l := m.Advertise(start).Labels
		got := strings.Join([]string{l["nvidia.com/gpu.product"], l["nvidia.com/gpu.count"], l["nvidia.com/gpu.replicas"], l["nvidia.com/gpu.memory"]}, " ")
		if got != tc.labels {
			t.Errorf("%s %v: labels %s, want %s", tc.strategy, tc.gpus, got, tc.labels)
		}
		for k, v := range l {
			if errs := append(validation.IsQualifiedName(k), validation.IsValidLabelValue(v)...); len(errs) > 0 {
				t.Errorf("%s=%q: %v", k, v, errs)
			}
		}
	}
}

// The labels of one profile as GFD wrote them on a node with H100.
func TestMixedLabels(t *testing.T) {
	m := cut(t, "mixed", map[string]int{"1g.10gb": 2, "2g.20gb": 1, "3g.40gb": 1})
	want := map[string]string{
		"nvidia.com/mig-1g.10gb.count": "2", "nvidia.com/mig-1g.10gb.engines.copy": "1", "nvidia.com/mig-1g.10gb.engines.decoder": "1",
		"nvidia.com/mig-1g.10gb.engines.encoder": "0", "nvidia.com/mig-1g.10gb.engines.jpeg": "1", "nvidia.com/mig-1g.10gb.engines.ofa": "0",
		"nvidia.com/mig-1g.10gb.memory": "9984", "nvidia.com/mig-1g.10gb.multiprocessors": "16",
		"nvidia.com/mig-1g.10gb.product":  "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb",
		"nvidia.com/mig-1g.10gb.replicas": "1", "nvidia.com/mig-1g.10gb.sharing-strategy": "none",
		"nvidia.com/mig-1g.10gb.slices.ci": "1", "nvidia.com/mig-1g.10gb.slices.gi": "1",
	}
	got := m.Advertise(start).Labels
	maps.DeleteFunc(got, func(k, _ string) bool { return !strings.HasPrefix(k, "nvidia.com/mig-1g") })
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got := m.Advertise(start).Labels["nvidia.com/mig.strategy"]; got != "mixed" {
		t.Errorf("mig.strategy=%s", got)
	}
}

func ids(devices []gpu.Device) []string {
	var out []string
	for _, d := range devices {
		out = append(out, d.ID())
	}
	return out
}

func TestAllocateInstances(t *testing.T) {
	m := cut(t, "mixed", map[string]int{"1g.10gb": 2, "2g.20gb": 1}, nil)
	const one = "nvidia.com/mig-1g.10gb"
	got, err := m.Allocate("pod", "main", one, 2)
	if err != nil || len(got) != 2 || got[0].ID() == got[1].ID() || !strings.HasPrefix(got[0].Visible(), "MIG-") {
		t.Fatal(ids(got), err)
	}
	if _, err := m.Allocate("next", "main", one, 1); err == nil || err.Error() != "requested number of devices unavailable for nvidia.com/mig-1g.10gb. Requested: 1, Available: 0" {
		t.Error(err)
	}
	if got, err := m.Allocate("pod", "main", Resource, 1); err != nil || got[0].Index != 1 {
		t.Error("the GPU that is not cut:", ids(got), err)
	}
	want := []string{"nvidia.com/gpu 1", "nvidia.com/mig-1g.10gb 2"}
	var held []string
	for _, a := range m.Allocations("pod", "main") {
		held = append(held, fmt.Sprint(a.Resource, " ", len(a.Devices)))
	}
	if diff := cmp.Diff(want, held); diff != "" {
		t.Error(diff)
	}
	if got, err := m.Allocate("odd", "main", "nvidia.com/mig-7g.80gb", 1); got != nil || err != nil {
		t.Error("a resource that nobody registered:", got, err)
	}
}

// A GPU that is in use is not cut another way; the others are free to be, but only all together.
func TestRepartitionInUse(t *testing.T) {
	m := cut(t, "mixed", map[string]int{"1g.10gb": 7}, nil)
	before := m.Partitions()
	if _, err := m.Allocate("pod", "main", "nvidia.com/mig-1g.10gb", 1); err != nil {
		t.Fatal(err)
	}
	both := []gpu.Partition{{}, layout(t, model("h100"), map[string]int{"7g.80gb": 1})}
	if err := m.Repartition(both); !errors.Is(err, gpu.ErrInUse) {
		t.Error("in use:", err)
	}
	if diff := cmp.Diff(before, m.Partitions()); diff != "" {
		t.Error("a refusal changed the GPUs:", diff)
	}
	if err := m.Repartition([]gpu.Partition{before[0], both[1]}); err != nil {
		t.Error("the other GPU:", err)
	}
	m.Release("pod")
	if err := m.Repartition(both); err != nil {
		t.Error("after release:", err)
	}
	m.SetStack(strategyless(), start)
	if diff := cmp.Diff([]string{"gpu 1/1", "mig-1g.10gb 0/7", "mig-7g.80gb 1/1"}, offers(m)); diff != "" {
		t.Error("a resource that the plugin no longer has stays for the grace period:", diff)
	}
	t4 := New(Config{Devices: gpu.Devices("n", []gpu.Group{{Model: model("t4"), Count: 1}})})
	if err := t4.Repartition([]gpu.Partition{{Enabled: true}}); !errors.Is(err, gpu.ErrInvalid) {
		t.Error("a GPU without MIG:", err)
	}
}

// nvidia-smi changes what nobody holds, on a GPU that is in use too.
func TestCut(t *testing.T) {
	m := cut(t, "mixed", map[string]int{"1g.10gb": 2}, nil)
	h := model("h100")
	got, err := m.Allocate("pod", "main", "nvidia.com/mig-1g.10gb", 1)
	if err != nil {
		t.Fatal(err)
	}
	held, uuid := *got[0].MIG, got[0].UUID
	if _, err := m.Allocate("pod", "main", Resource, 1); err != nil {
		t.Fatal(err)
	}
	three, _ := h.Profile("3g.40gb")
	more, _, err := h.Create([]gpu.Instance{held}, three, 0, true)
	if err != nil {
		t.Fatal(err)
	}
	stopped := slices.Clone(more)
	for i := range stopped {
		stopped[i].Compute = false
	}
	for _, tc := range []struct {
		what, uuid string
		next       gpu.Partition
		want       error
	}{
		{"the free one goes, another comes", uuid, gpu.Partition{Enabled: true, Instances: more}, nil},
		{"the held one would go", uuid, gpu.Partition{Enabled: true, Instances: []gpu.Instance{more[0]}}, gpu.ErrInUse},
		{"its compute instance would go", uuid, gpu.Partition{Enabled: true, Instances: stopped}, gpu.ErrInUse},
		{"MIG would be off", uuid, gpu.Partition{}, gpu.ErrInUse},
		{"two in one place", uuid, gpu.Partition{Enabled: true, Instances: append(slices.Clone(more), more[0])}, gpu.ErrInvalid},
		{"a whole GPU is held", m.Devices()[1].UUID, gpu.Partition{Enabled: true}, gpu.ErrInUse},
		{"no such GPU", "GPU-x", gpu.Partition{}, gpu.ErrNotFound},
	} {
		if err := m.Cut(tc.uuid, tc.next); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", tc.what, err, tc.want)
		}
	}
	if diff := cmp.Diff(more, m.Partitions()[0].Instances); diff != "" {
		t.Error("a refusal changed the GPU:", diff)
	}
}

// A restart brings the instances back before the pods that hold them.
func TestRecall(t *testing.T) {
	old := cut(t, "mixed", map[string]int{"1g.10gb": 2, "3g.40gb": 1}, map[string]int{}, nil)
	got, err := old.Allocate("pod", "main", "nvidia.com/mig-1g.10gb", 2)
	if err != nil {
		t.Fatal(err)
	}
	text := old.Advertise(start).Partitions
	m := New(h100(3))
	m.Recall(text)
	m.Recall("")
	if diff := cmp.Diff(old.Partitions(), m.Partitions()); diff != "" {
		t.Fatal(text, diff)
	}
	if err := m.Restore("pod", "main", "nvidia.com/mig-1g.10gb", ids(got)); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(got, m.Held("pod", "main")); diff != "" {
		t.Error(diff)
	}
}

// Whatever text stands there, the GPUs are cut in a way that is possible, or not at all.
func FuzzRecall(f *testing.F) {
	for _, text := range []string{
		"", "{}", `{"0":{"instances":["1g.10gb@6","3g.40gb@0"]}}`, `{"0":{"instances":["3g.40gb@0","1g.10gb@1"]}}`,
		`{"1":{"instances":[],"noCompute":["7g.80gb@0"]},"9":{"instances":[]},"-1":{}}`, `{"0":{"instances":["@","1g.10gb@-1"]}}`, `[1]`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		m := New(h100(2))
		m.Recall(text)
		for _, p := range m.Partitions() {
			if !possible(model("h100"), p) {
				t.Errorf("%q makes %v", text, p)
			}
		}
		again := New(h100(2))
		again.Recall(m.Advertise(start).Partitions)
		if diff := cmp.Diff(m.Partitions(), again.Partitions()); diff != "" {
			t.Error(diff)
		}
	})
}

// Time-slicing and MPS offer a device several times.
func TestReplicas(t *testing.T) {
	shared := func(s Sharing) *Manager {
		m := New(h100(2))
		m.SetPluginConfig(PluginConfig{Sharing: s})
		m.SetStack(strategyless(), start)
		return m
	}
	four := map[string]int{Resource: 4}
	m := shared(Sharing{Strategy: TimeSlicing, Replicas: four})
	if diff := cmp.Diff([]string{"gpu 8/8"}, offers(m)); diff != "" {
		t.Error(diff)
	}
	l := m.Advertise(start).Labels
	got := []string{l["nvidia.com/gpu.product"], l["nvidia.com/gpu.count"], l["nvidia.com/gpu.replicas"], l["nvidia.com/gpu.sharing-strategy"], l["nvidia.com/mps.capable"]}
	if diff := cmp.Diff([]string{"NVIDIA-H100-80GB-HBM3-SHARED", "2", "4", "time-slicing", "false"}, got); diff != "" {
		t.Error(diff)
	}
	a, _ := m.Allocate("a", "main", Resource, 1)
	b, _ := m.Allocate("b", "main", Resource, 1)
	c, _ := m.Allocate("c", "main", Resource, 2)
	gpus := []int{a[0].Index, b[0].Index, c[0].Index, c[1].Index}
	if diff := cmp.Diff([]int{0, 1, 0, 1}, gpus); diff != "" {
		t.Error("the least shared GPU comes first:", diff)
	}
	if a[0].ID() != a[0].UUID+"::0" || a[0].Visible() != a[0].UUID {
		t.Error(a[0].ID(), a[0].Visible())
	}

	m = shared(Sharing{Strategy: MPS, Replicas: four, Rename: true, FailMany: true})
	if diff := cmp.Diff([]string{"gpu.shared 8/8"}, offers(m)); diff != "" {
		t.Error(diff)
	}
	if p := m.Advertise(start).Labels["nvidia.com/gpu.product"]; p != "NVIDIA-H100-80GB-HBM3" {
		t.Error(p)
	}
	_, err := m.Allocate("p", "main", "nvidia.com/gpu.shared", 2)
	const want = `rpc error: code = Unknown desc = invalid allocation request for "nvidia.com/gpu.shared": invalid request: maximum request size for shared resources is 1; found 2`
	if err == nil || err.Error() != want {
		t.Error(err)
	}
	if got, err := m.Allocate("p", "main", "nvidia.com/gpu.shared", 1); err != nil || len(got) != 1 {
		t.Error("a refusal left something behind:", got, err)
	}

	later := New(h100(2)) // after a restart, before the plugin is there
	if err := later.Restore("a", "main", Resource, ids(a)); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{a[0].UUID + "::x", a[0].UUID + "::-1", a[0].UUID + "::01", "GPU-x::0", a[0].UUID + "::999999999"} {
		if err := later.Restore("z", "main", Resource, []string{bad}); err == nil {
			t.Errorf("restored %s", bad)
		}
	}
}

// However GPUs are cut and shared while pods come and go, no device has two holders, and no GPU is cut under one.
func TestPartsHaveOneHolder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := New(h100(2))
		m.SetStack(strategyless(), start)
		h := model("h100")
		holder := map[string]types.UID{}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			uid := types.UID(rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "pod"))
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0:
				next := m.Partitions()
				i := rapid.IntRange(0, 1).Draw(t, "gpu")
				next[i] = gpu.Partition{}
				if rapid.Bool().Draw(t, "mig") {
					next[i] = layout(t, h, rapid.SampledFrom([]map[string]int{{}, {"1g.10gb": 7}, {"3g.40gb": 2}, {"2g.20gb": 1}}).Draw(t, "counts"))
				}
				was := m.Partitions()
				err := m.Repartition(next)
				for id := range holder {
					if err == nil && m.units[m.byID[id]].gpu == i && !samePartition(was[i], next[i]) {
						t.Fatalf("GPU %d was cut while %s of it is held", i, id)
					}
				}
			case 1:
				m.SetPluginConfig(PluginConfig{MIGStrategy: rapid.SampledFrom([]string{"none", "single", "mixed"}).Draw(t, "strategy")})
			case 2:
				m.Release(uid)
				maps.DeleteFunc(holder, func(_ string, who types.UID) bool { return who == uid })
			case 3:
				name := rapid.SampledFrom([]string{Resource, "nvidia.com/mig-1g.10gb", "nvidia.com/mig-3g.40gb"}).Draw(t, "resource")
				m.Release(uid)
				maps.DeleteFunc(holder, func(_ string, who types.UID) bool { return who == uid })
				got, err := m.Allocate(uid, "c", name, rapid.IntRange(1, 3).Draw(t, "n"))
				for _, d := range got {
					if o, taken := holder[d.ID()]; taken || err != nil {
						t.Fatalf("%s is held by %s and %s", d.ID(), o, uid)
					}
					holder[d.ID()] = uid
				}
			}
			m.SetStack(strategyless(), start)
			listed := map[string]string{}
			for name, r := range m.register {
				for _, i := range r.units {
					if other, twice := listed[m.units[i].device.ID()]; r.connected && twice {
						t.Fatalf("%s is listed as %s and %s", m.units[i].device.ID(), other, name)
					}
					if r.connected {
						listed[m.units[i].device.ID()] = name
					}
				}
			}
		}
	})
}
