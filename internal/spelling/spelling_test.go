package spelling

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"a100", "a100", 0}, {"", "gpu", 3}, {"gpu", "gpus", 1}, {"gpus", "gpu", 1}, {"gpu", "cpu", 1},
		{"pool", "polo", 1}, {"training", "trianing", 1}, {"h100", "a100", 1}, {"kitten", "sitting", 3}, {"é", "e", 1},
	} {
		if got := Distance(c.a, c.b); got != c.want {
			t.Errorf("Distance(%q, %q) = %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

func TestTypo(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"gpu-pool", "gpu-polo", true}, {"gpu-pool", "gpupool", true}, {"pool-1", "pool-2", false}, {"a100", "h100", false}, {"nvidia-a100", "nvdia-a100", true},
	} {
		if got := Typo(c.a, c.b); got != c.want {
			t.Errorf("Typo(%q, %q) = %t, want %t", c.a, c.b, got, c.want)
		}
	}
}

func TestClosest(t *testing.T) {
	if got, ok := Closest("defualt", []string{"other", "default"}); got != "default" || !ok {
		t.Errorf("Closest = %q, %t", got, ok)
	}
	if got, ok := Closest("batch", []string{"interactive"}); ok {
		t.Errorf("Closest = %q, which nobody means by batch", got)
	}
}

// TestOtherNames has pairs of names that differ little by the letter and name different things, and pairs of which one is a slip.
func TestOtherNames(t *testing.T) {
	for _, c := range []struct {
		a, b string
		slip bool
	}{
		{"gpu.amd.com", "gpu.arm.com", false}, {"gpu.amd.com", "gpu.nvidia.com", false}, {"NVIDIA-A100-PCIE-40GB", "NVIDIA-H100-PCIE-40GB", false},
		{"team-a", "team-b", false}, {"node-1", "node-2", false}, {"gpu.intel.com/i915", "gpu.intel.com/xe", false},
		{"gpu.nvidia.con", "gpu.nvidia.com", true}, {"gpu.nvdia.com", "gpu.nvidia.com", true}, {"interactiv", "interactive", true},
		{"kai-schduler", "kai-scheduler", true}, {"team-research", "team-reserach", true}, {"nvidia.com/gpus", "nvidia.com/gpu", true}, {"data-v1", "data-v2", true}, {"h10", "h100", true},
	} {
		got, ok := Closest(c.a, []string{"something-else-altogether-of-many-letters", c.b})
		if ok != c.slip || got != c.b {
			t.Errorf("Closest(%q) = %q, %t, want %t", c.a, got, ok, c.slip)
		}
		if got := Misspelt(c.a, c.b); got != c.slip {
			t.Errorf("Misspelt(%q, %q) = %t, want %t", c.a, c.b, got, c.slip)
		}
	}
}

// Names that people refer to by an annotation may be of any length, and there may be thousands of those that exist.
func TestLongWordsCostNoMore(t *testing.T) {
	var have []string
	for i := range 2000 {
		have = append(have, fmt.Sprintf("a-group-of-pods-that-somebody-made-%04d", i))
	}
	long := strings.Repeat("a-group-", 2500)
	start := time.Now()
	if got := ByLikeness(long, have); len(got) != len(have) || !slices.IsSorted(got) {
		t.Errorf("%d names, the first %s", len(got), got[0])
	}
	if got, ok := Closest(long, have); ok {
		t.Errorf("%s is like no name", got)
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("it took %s", took)
	}
}

// Where words are too long to be compared, it is still told that they differ, and by how much at least.
func TestDistanceOfLongWords(t *testing.T) {
	long := strings.Repeat("a", 1000)
	for _, c := range []struct {
		a, b string
		want int
	}{{long, long, 0}, {long, long + "b", 1}, {long, long[1:] + "b", 1}, {long, "a", 999}, {"b" + long, "c" + long, 1}} {
		if got := Distance(c.a, c.b); got != c.want {
			t.Errorf("Distance of %d and %d letters = %d, want %d", len(c.a), len(c.b), got, c.want)
		}
	}
}
