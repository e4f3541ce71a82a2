package spelling

import "testing"

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
