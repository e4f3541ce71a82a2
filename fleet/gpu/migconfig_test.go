package gpu

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What mig-parted's own configurations make of one GPU.
func TestNamedMIG(t *testing.T) {
	for _, c := range []struct{ model, name, want string }{
		{"h100", "all-disabled", "off"},
		{"t4", "all-disabled", "off"},
		{"h100", "all-enabled", "on"},
		{"h100", "all-1g.10gb", "on 1g.10gb:7"},
		{"h100", "all-1g.10gb.me", "on 1g.10gb+me:1"},
		{"a100-40gb", "all-1g.10gb", "on 1g.10gb:4"},
		{"h100", "all-balanced", "on 1g.10gb:2 2g.20gb:1 3g.40gb:1"},
		{"a100-40gb", "all-balanced", "on 1g.5gb:2 2g.10gb:1 3g.20gb:1"},
		{"a30", "all-balanced", "on 1g.6gb:2 2g.12gb:1"},
		{"gb200", "all-balanced", "on 1g.23gb:2 2g.47gb:1 3g.93gb:1"},
		{"h200", "all-7g.141gb", "on 7g.141gb:1"},
		{"h100", "all-1g.5gb", "unknown"},
		{"h100", "half", "unknown"},
		{"h100", "all-", "unknown"},
		{"t4", "all-enabled", "Invalid Argument"},
		{"t4", "all-balanced", "unknown"},
	} {
		m, _ := Lookup(c.model)
		if got := describeNamed(c.name, Devices("n", []Group{{Model: m, Count: 1}})); got != c.want {
			t.Errorf("%s %s: %s, want %s", c.model, c.name, got, c.want)
		}
	}
}

func describeNamed(name string, devices []Device) string {
	specs, known := NamedMIG(name, devices)
	if !known {
		return "unknown"
	}
	parts, err := ApplyMIG(specs, devices, make([]Partition, len(devices)))
	switch {
	case errors.Is(err, ErrInvalid):
		return ErrInvalid.Error()
	case err != nil:
		return err.Error()
	case !parts[0].Enabled:
		return "off"
	}
	counts := map[string]int{}
	for _, i := range parts[0].Instances {
		counts[i.Profile.Name]++
	}
	words := []string{"on"}
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		words = append(words, fmt.Sprintf("%s:%d", name, counts[name]))
	}
	return strings.Join(words, " ")
}

// Every profile of every model has a configuration, and it fits.
func TestNamedMIGOfEveryProfile(t *testing.T) {
	for _, m := range profiled(t) {
		for _, p := range m.Profiles() {
			want := fmt.Sprintf("on %s:%d", p.Name, p.Max)
			if got := describeNamed("all-"+p.ResourceName(), Devices("n", []Group{{Model: m, Count: 1}})); got != want {
				t.Errorf("%s: %s, want %s", m.Name, got, want)
			}
		}
	}
}

func TestApplyMIG(t *testing.T) {
	h100, _ := Lookup("h100")
	a100, _ := Lookup("a100")
	devices := Devices("n", []Group{{Model: h100, Count: 2}, {Model: a100, Count: 1}})
	one := map[string]int{"1g.10gb": 1}
	got, err := ApplyMIG([]MIGSpec{
		{Filter: []string{"0x233010de"}, All: true, Enabled: true, Counts: one},
		{Devices: []int{1}},
	}, devices, []Partition{{}, {}, {Enabled: true}})
	if err != nil {
		t.Fatal(err)
	}
	var on []string
	for _, p := range got {
		on = append(on, fmt.Sprint(p.Enabled, len(p.Instances)))
	}
	if diff := cmp.Diff([]string{"true 1", "false 0", "true 0"}, on); diff != "" {
		t.Error(diff)
	}
	_, err = ApplyMIG([]MIGSpec{{All: true, Enabled: true, Counts: map[string]int{"3g.40gb": 3}}}, devices, make([]Partition, 3))
	if !errors.Is(err, ErrInsufficient) || !strings.HasPrefix(err.Error(), "GPU 0 (NVIDIA H100 80GB HBM3): ") {
		t.Error(err)
	}
}
