package device

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// node has one free device per word: a clique's letter, or '-' for none, and a NUMA node's digit, or '?'. An
// upper-case letter is a device that is not free, of the clique of the lower-case letter.
func node(words ...string) []Device {
	devs := make([]Device, len(words))
	for i, w := range words {
		d := Device{Model: "H100", Clique: w[:1], NUMA: int(w[1] - '0'), Free: true}
		switch {
		case w[0] == '-':
			d.Clique = ""
		case w[0] < 'a':
			d.Clique, d.Free = string(w[0]|0x20), false
		}
		if w[1] == '?' {
			d.NUMA = -1
		}
		devs[i] = d
	}
	return devs
}

var (
	whole  = node("a0", "a0", "a0", "a0", "a1", "a1", "a1", "a1")
	bridge = node("a0", "a0", "b0", "b0", "c1", "c1", "d1", "d1")
	loose  = node("-0", "-1", "-0", "-1")
)

func TestFits(t *testing.T) {
	for _, c := range []struct {
		name string
		devs []Device
		want Want
		pods int
	}{
		{"none asked", nil, Want{}, Unbounded},
		{"no device", nil, Want{Count: 1}, 0},
		{"any", whole, Want{Count: 3}, 2},
		{"one clique", whole, Want{Count: 3, Clique: Require}, 2},
		{"one NUMA node", whole, Want{Count: 3, NUMA: Require}, 2},
		{"too many for a NUMA node", whole, Want{Count: 5, NUMA: Require}, 0},
		{"preferred only", whole, Want{Count: 5, NUMA: Prefer}, 1},
		{"bridges", bridge, Want{Count: 2, Clique: Require}, 4},
		{"over bridges", bridge, Want{Count: 3, Clique: Require}, 0},
		{"one of any bridge", bridge, Want{Count: 1, Clique: Require}, 8},
		{"no cliques, one each", loose, Want{Count: 1, Clique: Require}, 4},
		{"no cliques, two each", loose, Want{Count: 2, Clique: Require}, 0},
		{"NUMA nodes not known", node("a?", "a?"), Want{Count: 2, NUMA: Require}, 0},
		{"NUMA nodes not known, one each", node("a?", "a?"), Want{Count: 1, NUMA: Require}, 2},
		{"not free", node("A0", "a0", "a0"), Want{Count: 2}, 1},
		{"other model", whole, Want{Count: 1, Model: "A100"}, 0},
		{"same model", whole, Want{Count: 4, Model: "H100", Clique: Require, NUMA: Require}, 2},
	} {
		if got := Fits(c.devs, c.want); got != c.pods {
			t.Errorf("%s: got %d, want %d", c.name, got, c.pods)
		}
	}
}

func TestChoose(t *testing.T) {
	for _, c := range []struct {
		name string
		devs []Device
		want Want
		at   []int
	}{
		{"none asked", whole, Want{}, []int{}},
		{"does not fit", whole, Want{Count: 9}, nil},
		{"one", whole, Want{Count: 1}, []int{0}},
		{"from the smaller clique", node("a0", "a0", "a0", "b0", "b0"), Want{Count: 1}, []int{3}},
		{"from the tighter NUMA node", node("a0", "a0", "a0", "a1", "A1", "A1"), Want{Count: 1}, []int{3}},
		{"a clique rather than parts", node("a0", "b0", "c1", "c1"), Want{Count: 2}, []int{2, 3}},
		{"required clique leaves the large one", node("a0", "a0", "a0", "b0", "b0"),
			Want{Count: 2, Clique: Require}, []int{3, 4}},
		{"wish before tightness", node("a0", "a1", "a1", "b0", "b0", "b1", "b1"),
			Want{Count: 2, Clique: Require, NUMA: Prefer}, []int{1, 2}},
		{"wish breaks a larger clique", node("a0", "a1", "b0", "b0", "b1", "b1"),
			Want{Count: 2, Clique: Require, NUMA: Prefer}, []int{2, 3}},
		{"no wish does not", node("a0", "a1", "b0", "b0", "b1", "b1"),
			Want{Count: 2, Clique: Require}, []int{0, 1}},
		{"fewest cliques", node("a0", "b0", "b0", "c1", "c1", "c1"), Want{Count: 5, Clique: Prefer},
			[]int{1, 2, 3, 4, 5}},
		{"no cliques: NUMA decides", loose, Want{Count: 2, Clique: Prefer, NUMA: Prefer}, []int{0, 2}},
		{"fewest NUMA nodes without cliques", node("-0", "-1", "-2", "-1", "-0", "-2"),
			Want{Count: 4, NUMA: Prefer}, []int{0, 1, 3, 4}},
		{"around what is taken", node("A0", "a0", "A0", "a0"), Want{Count: 2, Clique: Require}, []int{1, 3}},
	} {
		if diff := cmp.Diff(c.at, Choose(c.devs, c.want, nil)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

func TestChooseAppends(t *testing.T) {
	for _, c := range []struct {
		want Want
		at   []int
	}{
		{Want{Count: 2}, []int{7, 0, 1}},
		{Want{Count: 0}, []int{7}},
		{Want{Count: 9}, nil},
	} {
		if diff := cmp.Diff(c.at, Choose(whole, c.want, []int{7})); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", c.want, diff)
		}
	}
}

func TestNoAllocation(t *testing.T) {
	dst := make([]int, 0, 8)
	for _, w := range []Want{{Count: 2}, {Count: 2, Clique: Require, NUMA: Require}, {Count: 5, NUMA: Prefer}} {
		if n := testing.AllocsPerRun(100, func() { Fits(whole, w) }); n != 0 {
			t.Errorf("Fits(%+v) allocates %v times", w, n)
		}
		if n := testing.AllocsPerRun(100, func() { Choose(whole, w, dst) }); n != 0 {
			t.Errorf("Choose(%+v) allocates %v times", w, n)
		}
	}
}

func BenchmarkFits(b *testing.B) {
	for _, c := range []struct {
		name string
		want Want
	}{
		{"any", Want{Count: 2}},
		{"model", Want{Count: 2, Model: "H100"}},
		{"clique", Want{Count: 2, Clique: Require}},
		{"clique and NUMA", Want{Count: 2, Clique: Require, NUMA: Require}},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				Fits(whole, c.want)
			}
		})
	}
}

func BenchmarkChoose(b *testing.B) {
	dst := make([]int, 0, 8)
	for b.Loop() {
		Choose(bridge, Want{Count: 2, Clique: Require, NUMA: Prefer}, dst)
	}
}
