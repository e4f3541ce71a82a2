package device

import (
	"math/bits"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func draw(t *rapid.T, most int) ([]Device, Want) {
	n := rapid.IntRange(0, most).Draw(t, "devices")
	devs := make([]Device, n)
	for i := range devs {
		devs[i] = Device{
			Model:  rapid.SampledFrom([]string{"H100", "H100", "A100"}).Draw(t, "model"),
			Clique: rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(t, "clique"),
			NUMA:   rapid.IntRange(0, 2).Draw(t, "numa"),
			Free:   rapid.IntRange(0, 4).Draw(t, "free") > 0,
		}
	}
	return devs, Want{
		Count:  rapid.IntRange(1, 5).Draw(t, "count"),
		Model:  rapid.SampledFrom([]string{"", "H100"}).Draw(t, "want model"),
		Clique: Wish(rapid.IntRange(0, 2).Draw(t, "want clique")),
		NUMA:   Wish(rapid.IntRange(0, 2).Draw(t, "want numa")),
	}
}

// allowed tells whether one pod may have exactly these devices.
func allowed(devs []Device, w Want, at []int) bool {
	if len(at) != w.Count {
		return false
	}
	first := devs[at[0]]
	for _, i := range at {
		d := devs[i]
		if !d.Free || w.Model != "" && d.Model != w.Model {
			return false
		}
		if w.NUMA == Require && d.NUMA != first.NUMA {
			return false
		}
		if w.Clique == Require && len(at) > 1 && (d.Clique == "" || d.Clique != first.Clique) {
			return false
		}
	}
	return true
}

// sets is every set of devices that one pod may have, as bits.
func sets(devs []Device, w Want) []uint {
	var out []uint
	for set := range uint(1) << len(devs) {
		if bits.OnesCount(set) == w.Count && allowed(devs, w, indices(set)) {
			out = append(out, set)
		}
	}
	return out
}

func indices(set uint) []int {
	var at []int
	for i := range bits.Len(set) {
		if set>>i&1 != 0 {
			at = append(at, i)
		}
	}
	return at
}

// most is how many of the sets can be had at once, leaving out those that touch taken.
func most(sets []uint, taken uint) int {
	best := 0
	for k, set := range sets {
		if set&taken == 0 {
			best = max(best, 1+most(sets[k+1:], taken|set))
		}
	}
	return best
}

func TestFitsIsTheMost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		devs, w := draw(t, 6)
		if got, want := Fits(devs, w), most(sets(devs, w), 0); got != want {
			t.Fatalf("got %d, want %d", got, want)
		}
	})
}

// Choosing pod after pod must succeed as often as Fits said before the first, and no more.
func TestChooseKeepsThePromise(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		devs, w := draw(t, 80)
		for left := Fits(devs, w); left > 0; left-- {
			at := Choose(devs, w, nil)
			if !slices.IsSorted(at) || len(slices.Compact(slices.Clone(at))) != w.Count || !allowed(devs, w, at) {
				t.Fatalf("%d promised, got %v", left, at)
			}
			for _, i := range at {
				devs[i].Free = false
			}
			if Fits(devs, w) != left-1 {
				t.Fatalf("%v leaves room for %d, not %d", at, Fits(devs, w), left-1)
			}
		}
		if at := Choose(devs, w, nil); at != nil {
			t.Fatalf("none promised, got %v", at)
		}
	})
}

// count counts what the devices differ in, and the free devices that are alike in it with one of them.
func count[K comparable](devs []Device, w Want, at []int, key func(i int) K) (kinds, free int) {
	seen := map[K]bool{}
	for _, i := range at {
		seen[key(i)] = true
	}
	for i, d := range devs {
		if d.Free && (w.Model == "" || w.Model == d.Model) && seen[key(i)] {
			free++
		}
	}
	return len(seen), free
}

// costOf is the cost of a set by the words of Choose's comment.
func costOf(devs []Device, w Want, at []int) cost {
	type alone struct {
		clique string
		device int
	}
	cliques, inCliques := count(devs, w, at, func(i int) alone {
		if devs[i].Clique == "" {
			return alone{device: i}
		}
		return alone{clique: devs[i].Clique, device: -1}
	})
	numas, inNUMAs := count(devs, w, at, func(i int) int { return devs[i].NUMA })
	c := cost{0, 0, cliques, inCliques, numas, inNUMAs}
	if w.Clique == Prefer {
		c[0] = cliques
	}
	if w.NUMA == Prefer {
		c[1] = numas
	}
	return c
}

// exact is how many of a cost's numbers are promised to be the least, given the best there is.
func exact(w Want, best cost) int {
	switch {
	case best[2] == 1 && best[4] == 1:
		return len(best)
	case best[2] == 1:
		return 5
	case w.Clique == Any && w.NUMA == Prefer:
		return 2
	case w.Clique == Any:
		return 3
	}
	return 1
}

func TestChooseIsTheBest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		devs, w := draw(t, 8)
		var best *cost
		for _, set := range sets(devs, w) {
			c := costOf(devs, w, indices(set))
			if best == nil || slices.Compare(c[:], best[:]) < 0 {
				best = &c
			}
		}
		at := Choose(devs, w, nil)
		if (at == nil) != (best == nil) {
			t.Fatalf("got %v, best costs %v", at, best)
		}
		if at == nil {
			return
		}
		got, n := costOf(devs, w, at), exact(w, *best)
		if !slices.Equal(got[:n], best[:n]) {
			t.Fatalf("%v costs %v, best is %v in the first %d", at, got, *best, n)
		}
	})
}

func TestChooseIsDeterministicAndReadsOnly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		devs, w := draw(t, 16)
		given := slices.Clone(devs)
		if a, b := Choose(devs, w, nil), Choose(devs, w, nil); !slices.Equal(a, b) {
			t.Fatalf("%v, then %v", a, b)
		}
		if !slices.Equal(given, devs) {
			t.Fatal("input modified")
		}
	})
}
