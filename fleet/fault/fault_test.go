package fault

import (
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/fleet/clock"
	"github.com/berth-dev/berth/fleet/gpu"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func nodes(n int) []Node {
	h100, _ := gpu.Lookup("h100")
	var out []Node
	for i := range n {
		name := "h100-" + strconv.Itoa(i)
		out = append(out, Node{
			Name: name, Pool: "h100", Labels: map[string]string{"rack": strconv.Itoa(i % 2)},
			GPUs: gpu.Devices(name, []gpu.Group{{Model: h100, Count: 8, MemoryMiB: h100.MemoryMiB, NVLink: true}}),
		})
	}
	return out
}

func newFault(name string, s v1alpha1.FaultSpec) *v1alpha1.Fault {
	f := &v1alpha1.Fault{Spec: s}
	f.Name, f.CreationTimestamp = name, metav1.NewTime(noon)
	return f
}

func seconds(n int) *metav1.Duration {
	return &metav1.Duration{Duration: time.Duration(n) * time.Second}
}

// TestTimes follows faults through their lives.
func TestTimes(t *testing.T) {
	all := v1alpha1.FaultSpec{Type: v1alpha1.FaultNodeDown, Node: "h100-0"}
	late, short, again := all, all, all
	late.After = seconds(10)
	short.For = seconds(5)
	again.After, again.For, again.Every = seconds(10), seconds(5), seconds(60)
	for _, c := range []struct {
		spec  v1alpha1.FaultSpec
		at    int
		phase v1alpha1.FaultPhase
		times int64
		since int // seconds after noon; -1: not active
		next  int // the same; -1: never
	}{
		{all, 0, v1alpha1.FaultActive, 1, 0, -1},
		{all, 3600, v1alpha1.FaultActive, 1, 0, -1},
		{late, 9, v1alpha1.FaultWaiting, 0, -1, 10},
		{late, 10, v1alpha1.FaultActive, 1, 10, -1},
		{short, 4, v1alpha1.FaultActive, 1, 0, 5},
		{short, 5, v1alpha1.FaultHealed, 1, -1, -1},
		{again, 9, v1alpha1.FaultWaiting, 0, -1, 10},
		{again, 12, v1alpha1.FaultActive, 1, 10, 15},
		{again, 15, v1alpha1.FaultWaiting, 1, -1, 70},
		{again, 70, v1alpha1.FaultActive, 2, 70, 75},
	} {
		p := New([]*v1alpha1.Fault{newFault("f", c.spec)}, nodes(1), clock.Clock{}, noon.Add(time.Duration(c.at)*time.Second))
		s := p.Status["f"]
		since, next := -1, -1
		if s.ActiveSince != nil {
			since = int(s.ActiveSince.Sub(noon).Seconds())
		}
		if !p.Next.IsZero() {
			next = int(p.Next.Sub(noon).Seconds())
		}
		want := []any{c.phase, c.times, c.since, c.next, c.since >= 0}
		got := []any{s.Phase, s.Times, since, next, p.Effects["h100-0"] != nil && p.Effects["h100-0"].Down}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("after=%v for=%v every=%v at %d s (-want +got):\n%s", c.spec.After, c.spec.For, c.spec.Every, c.at, diff)
		}
	}
}

// TestTargets looks at which nodes and GPUs are hit.
func TestTargets(t *testing.T) {
	two, one, rack := int32(2), int32(1), map[string]string{"rack": "1"}
	none := map[string]string{}
	for _, c := range []struct {
		spec v1alpha1.FaultSpec
		want []string
	}{
		{v1alpha1.FaultSpec{Type: v1alpha1.FaultNodeDown, Pool: "h100"}, []string{"h100-0", "h100-1", "h100-2", "h100-3"}},
		{v1alpha1.FaultSpec{Type: v1alpha1.FaultNodeDown, Selector: &none, Pool: "other"}, nil},
		{v1alpha1.FaultSpec{Type: v1alpha1.FaultNodeDown, Selector: &rack}, []string{"h100-1", "h100-3"}},
		{v1alpha1.FaultSpec{Type: v1alpha1.FaultNodeDown}, nil},
		{v1alpha1.FaultSpec{Type: v1alpha1.FaultECC, Node: "h100-1", GPUs: []int32{7, 0, 9}}, []string{"h100-1/0,7"}},
		{v1alpha1.FaultSpec{Type: v1alpha1.FaultECC, Node: "h100-1", GPUs: []int32{9}}, nil},
		{v1alpha1.FaultSpec{Type: v1alpha1.FaultECC, Selector: &none, UUIDs: []string{nodes(4)[2].GPUs[5].UUID}}, []string{"h100-2/5"}},
		{v1alpha1.FaultSpec{Type: v1alpha1.FaultPowerBrake, Node: "h100-1"}, []string{"h100-1/0,1,2,3,4,5,6,7"}},
		{v1alpha1.FaultSpec{Type: v1alpha1.FaultNodeDown, Pool: "h100", Count: &two}, nil},
		{v1alpha1.FaultSpec{Type: v1alpha1.FaultECC, Node: "h100-3", GPUCount: &one}, nil},
	} {
		s := New([]*v1alpha1.Fault{newFault("f", c.spec)}, nodes(4), clock.Clock{}, noon).Status["f"]
		if c.spec.Count != nil || c.spec.GPUCount != nil {
			if n := max(s.Hit, 0); c.spec.Count != nil && n != 2 || c.spec.GPUCount != nil && n != 1 {
				t.Errorf("%+v hits %v", c.spec, s.Targets)
			}
			continue
		}
		if diff := cmp.Diff(c.want, s.Targets); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", c.spec, diff)
		}
		if (c.want == nil) != (s.Phase == v1alpha1.FaultMissed && s.Message != "") {
			t.Errorf("%+v is %s: %s", c.spec, s.Phase, s.Message)
		}
	}
}

// TestSameSeed is that whatever was asked before or in which order changes nothing, and that names do not matter to a seed.
func TestSameSeed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var list []*v1alpha1.Fault
		for i := range rapid.IntRange(1, 6).Draw(t, "faults") {
			list = append(list, newFault("f"+strconv.Itoa(i), drawSpec(t)))
		}
		now := noon.Add(time.Duration(rapid.IntRange(0, 7200).Draw(t, "now")) * time.Second)
		all := nodes(rapid.IntRange(0, 6).Draw(t, "nodes"))
		first := New(list, all, clock.Clock{Speed: 10}, now)
		turned := append([]*v1alpha1.Fault(nil), list...)
		for i, j := 0, len(turned)-1; i < j; i, j = i+1, j-1 {
			turned[i], turned[j] = turned[j], turned[i]
		}
		back := append([]Node(nil), all...)
		for i, j := 0, len(back)-1; i < j; i, j = i+1, j-1 {
			back[i], back[j] = back[j], back[i]
		}
		if diff := cmp.Diff(first, New(turned, back, clock.Clock{Speed: 10}, now)); diff != "" {
			t.Fatalf("the order decides:\n%s", diff)
		}
		if !first.Next.IsZero() && !first.Next.After(now) {
			t.Fatalf("next is %v at %v", first.Next, now)
		}
		f := list[0]
		if f.Spec.Seed == nil {
			return
		}
		other := f.DeepCopy()
		other.Name = "another"
		a, b := New([]*v1alpha1.Fault{f}, all, clock.Clock{}, now), New([]*v1alpha1.Fault{other}, all, clock.Clock{}, now)
		if diff := cmp.Diff(a.Effects, b.Effects); diff != "" {
			t.Fatalf("the name decides:\n%s", diff)
		}
	})
}

var types = []v1alpha1.FaultType{
	v1alpha1.FaultXid, v1alpha1.FaultGPULost, v1alpha1.FaultECC, v1alpha1.FaultRowRemap, v1alpha1.FaultThermalThrottle, v1alpha1.FaultPowerBrake,
	v1alpha1.FaultNVLinkDown, v1alpha1.FaultFabricManagerDown, v1alpha1.FaultDriverCrash, v1alpha1.FaultDriverUpgrade, v1alpha1.FaultPluginCrash,
	v1alpha1.FaultGFDFailure, v1alpha1.FaultToolkitFailure, v1alpha1.FaultKubeletRestart, v1alpha1.FaultNodeDown, v1alpha1.FaultNodePartitioned,
	v1alpha1.FaultDiskPressure, v1alpha1.FaultCNINotReady, v1alpha1.FaultStartupTaintStays, v1alpha1.FaultNodeReadinessTaint, v1alpha1.FaultBootSlow,
	v1alpha1.FaultBootFails, v1alpha1.FaultBootNeverRegisters, v1alpha1.FaultQuarantine, v1alpha1.FaultRegistryDown, v1alpha1.FaultRegistrySlow,
	v1alpha1.FaultNUMARefusal, v1alpha1.FaultClockSkew, v1alpha1.FaultClaimPrepareFails,
	v1alpha1.FaultRuntimeHandlerGone,
}

func drawSpec(t *rapid.T) v1alpha1.FaultSpec {
	s := v1alpha1.FaultSpec{Type: rapid.SampledFrom(types).Draw(t, "type"), Pool: "h100"}
	if s.Type == v1alpha1.FaultXid {
		xid := int32(rapid.IntRange(1, 120).Draw(t, "xid"))
		s.Xid = &xid
	}
	if rapid.Bool().Draw(t, "some") {
		n := int32(rapid.IntRange(1, 3).Draw(t, "count"))
		s.Count = &n
	}
	if rapid.Bool().Draw(t, "repeated") {
		s.For, s.Every = seconds(rapid.IntRange(1, 30).Draw(t, "for")), seconds(rapid.IntRange(31, 90).Draw(t, "every"))
		p := int32(rapid.IntRange(1, 100).Draw(t, "probability"))
		s.Probability = &p
	}
	if rapid.Bool().Draw(t, "seeded") {
		seed := rapid.Int64().Draw(t, "seed")
		s.Seed = &seed
	}
	return s
}

// TestEveryTypeDoesSomething is that no type was forgotten.
func TestEveryTypeDoesSomething(t *testing.T) {
	xid := int32(79)
	for _, kind := range types {
		s := v1alpha1.FaultSpec{Type: kind, Node: "h100-0"}
		if kind == v1alpha1.FaultXid {
			s.Xid = &xid
		}
		p := New([]*v1alpha1.Fault{newFault("f", s)}, nodes(2), clock.Clock{}, noon)
		if e := p.Effects["h100-0"]; e == nil || cmp.Equal(*e, Effects{}) || p.Effects["h100-1"] != nil {
			t.Errorf("%s does %+v", kind, p.Effects)
		}
	}
}

// FuzzPlan is that no object panics, whatever the API server let through.
func FuzzPlan(f *testing.F) {
	f.Add("xid", "h100-0", "", int32(79), int64(5), int64(10), int64(20), int32(1), int32(3), int64(7), int64(100))
	f.Add("driver-upgrade", "", "h100", int32(-1), int64(-5), int64(0), int64(1), int32(-1), int32(-3), int64(-7), int64(1<<40))
	f.Fuzz(func(t *testing.T, kind, node, pool string, n int32, after, lasts, every int64, count, gpu int32, seed, at int64) {
		s := v1alpha1.FaultSpec{
			Type: v1alpha1.FaultType(kind), Node: node, Pool: pool, Xid: &n, Count: &count, GPUCount: &n, Probability: &gpu, Seed: &seed,
			After: &metav1.Duration{Duration: time.Duration(after)}, For: &metav1.Duration{Duration: time.Duration(lasts)},
			Every: &metav1.Duration{Duration: time.Duration(every)}, By: &metav1.Duration{Duration: time.Duration(seed)},
		}
		if gpu%2 == 0 {
			s.GPUs = []int32{gpu}
		}
		New([]*v1alpha1.Fault{newFault("f", s)}, nodes(2), clock.Clock{Speed: 7}, noon.Add(time.Duration(at)))
	})
}
