package devices

import (
	"fmt"
	"strings"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestMatcher(t *testing.T) {
	text := func(s string) resourcev1.DeviceAttribute { return resourcev1.DeviceAttribute{StringValue: &s} }
	version := "9.0.0"
	d := &resourcev1.Device{Name: "gpu-0", Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{
		"type": text("gpu"), "productName": text("NVIDIA H100 80GB HBM3"), "cudaComputeCapability": {VersionValue: &version},
	}, Capacity: map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{"memory": {Value: resource.MustParse("80Gi")}}}
	m := NewMatcher()
	for _, c := range []struct {
		expression string
		want, err  bool
	}{
		{`device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'`, true, false},
		{`device.driver == 'other'`, false, false},
		{`device.attributes["gpu.nvidia.com"].productName == "NVIDIA H200"`, false, false},
		{`device.attributes["gpu.nvidia.com"].productName.lowerAscii().matches('^.*h100.*$')`, true, false},
		{`device.attributes["gpu.nvidia.com"].cudaComputeCapability.isGreaterThan(semver("8.0.0"))`, true, false},
		{`device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("40Gi")) >= 0`, true, false},
		{`device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("141Gi")) >= 0`, false, false},
		{`device.attributes["gpu.nvidia.com"].unheardOf == "x"`, false, true},
		{`device.attributes[`, false, true},
	} {
		for range 2 { // the second time from memory
			if got, err := m(c.expression, "gpu.nvidia.com", d); got != c.want || (err != nil) != c.err {
				t.Errorf("%s: %v %v", c.expression, got, err)
			}
		}
	}
}

// Whoever may write claims may write selectors, a new one every time, and drivers write their devices anew. What is
// remembered of them is bounded, and what is asked again and again stays in it.
func TestMatcherForgets(t *testing.T) {
	const mostPrograms, mostVerdicts = 50, 200
	m := newMatcher(mostPrograms, mostVerdicts)
	class, d := "device.driver == 'gpu.nvidia.com'", &resourcev1.Device{Name: "gpu-0"}
	ask := func(expression string, d *resourcev1.Device) {
		t.Helper()
		if got, err := m.matches(expression, "gpu.nvidia.com", d); !got || err != nil {
			t.Fatalf("%s: %v %v", expression, got, err)
		}
	}
	ask(class, d)
	compiled := m.young[class].CompilationResult.Environment
	for i := range 3 * mostPrograms {
		ask(fmt.Sprintf("device.driver == 'gpu.nvidia.com' || %d == 0", i), d)
		if i%10 == 0 {
			ask(class, d)
		}
		if n := len(m.young) + len(m.old); n > 2*mostPrograms {
			t.Fatalf("%d programs", n)
		}
	}
	ask(class, d)
	if m.young[class].CompilationResult.Environment != compiled {
		t.Error("what is asked again and again was compiled anew")
	}
	for range 3 {
		for range mostVerdicts / 2 {
			m.young[class].found[&resourcev1.Device{}] = verdict{}
		}
		m.verdicts = mostVerdicts - 1
		ask(class, &resourcev1.Device{})
		ask(class, d)
	}
	if n := len(m.young[class].found) + len(m.young[class].before); n > mostVerdicts {
		t.Errorf("%d verdicts", n)
	}
}

// A tenant's selector must not keep the scheduler busy: each evaluation of one that costs much takes as long as thousands of
// others, for each device of the cluster.
func TestMatcherStopsWhatCostsTooMuch(t *testing.T) {
	list := "[" + strings.Repeat("1,", 59) + "1]"
	dear := list + ".all(x, " + list + ".all(y, x < 2))" // 18,241 units
	m, failed := newMatcher(1000, 10_000), 0
	for range 100 {
		if _, err := m.matches(dear, "gpu.nvidia.com", &resourcev1.Device{}); err != nil {
			failed++
		}
		for range 50 {
			if _, err := m.matches("device.driver == 'gpu.nvidia.com'", "gpu.nvidia.com", &resourcev1.Device{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if failed < 90 || failed > 98 { // of few devices it may be asked
		t.Errorf("%d of 100 failed", failed)
	}
}
