package device

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/berth-dev/berth/engine/internal/api"
)

func TestPartsOfCards(t *testing.T) {
	half := &api.Part{Cards: 1, Share: 500}
	cards := []Card{{Memory: 80, MaxSharers: 4}, {Memory: 80, MaxSharers: 4}, {Memory: 40, MaxSharers: 4}}
	if got := PartPods(cards, half, "", 100); got != 6 {
		t.Errorf("%d halves on three cards", got)
	}
	if at := ChooseParts(cards, &api.Part{Cards: 1, Memory: 30}, "", nil); !slices.Equal(at, []int{2}) {
		t.Errorf("30 MiB go to card %v, not to the smallest that has them", at)
	}
	cards[0].Give(half, 1)
	if at := ChooseParts(cards, &api.Part{Cards: 1, Memory: 30}, "", nil); !slices.Equal(at, []int{0}) {
		t.Errorf("30 MiB go to card %v, not to the one in use", at)
	}
	if at := ChooseParts(cards, &api.Part{Cards: 2, Memory: 60}, "", nil); at != nil {
		t.Errorf("twice 60 MiB on %v", at)
	}
	cards[0].Give(half, -1)
	if diff := cmp.Diff(Card{Memory: 80, MaxSharers: 4}, cards[0]); diff != "" {
		t.Errorf("what was given back (-want +got):\n%s", diff)
	}
}

func TestWhatACardLacks(t *testing.T) {
	card := Card{Model: "A", Memory: 80, MaxSharers: 2, UsedMemory: 20, UsedCompute: 600, Sharers: 1}
	for name, test := range map[string]struct {
		card  func(*Card)
		part  api.Part
		model string
		want  Short
	}{
		"fits":              {nil, api.Part{Memory: 60, Compute: 400}, "A", Enough},
		"memory":            {nil, api.Part{Memory: 61}, "", Memory},
		"share":             {nil, api.Part{Share: 800}, "", Memory},
		"compute":           {nil, api.Part{Memory: 1, Compute: 401}, "", Compute},
		"all compute":       {func(c *Card) { c.UsedCompute = 0 }, api.Part{Memory: 1, Compute: 1000}, "", Compute},
		"no compute left":   {func(c *Card) { c.UsedCompute = 1000 }, api.Part{Memory: 1}, "", Compute},
		"pods":              {func(c *Card) { c.Sharers = 2 }, api.Part{Memory: 1}, "", Sharers},
		"held whole":        {func(c *Card) { c.Closed = true }, api.Part{Memory: 1}, "", Closed},
		"given whole only":  {func(c *Card) { c.MaxSharers = 0 }, api.Part{Memory: 1}, "", Closed},
		"another model":     {nil, api.Part{Memory: 1}, "B", Closed},
		"given away twice":  {func(c *Card) { c.UsedMemory = 160 }, api.Part{Memory: 1}, "", Memory},
		"memory of nothing": {func(c *Card) { c.Memory = 1; c.UsedMemory = 0 }, api.Part{Share: 500}, "", Enough},
	} {
		t.Run(name, func(t *testing.T) {
			c := card
			if test.card != nil {
				test.card(&c)
			}
			test.part.Cards = 1
			if got := c.Lacks(&test.part, test.model); got != test.want {
				t.Errorf("lacks %q, want %q", got, test.want)
			}
		})
	}
}

func drawCards(t *rapid.T) ([]Card, *api.Part) {
	cards := make([]Card, rapid.IntRange(0, 4).Draw(t, "cards"))
	for i := range cards {
		cards[i] = Card{
			Model: rapid.SampledFrom([]string{"A", "A", "B"}).Draw(t, "model"), Memory: rapid.Int64Range(1, 6).Draw(t, "memory"),
			MaxSharers: rapid.Int32Range(0, 4).Draw(t, "sharers"), Closed: rapid.IntRange(0, 5).Draw(t, "closed") == 0,
		}
		for range rapid.IntRange(0, 2).Draw(t, "sharers") {
			cards[i].Give(drawPart(t), 1)
		}
	}
	return cards, drawPart(t)
}

func drawPart(t *rapid.T) *api.Part {
	p := &api.Part{Cards: rapid.IntRange(1, 3).Draw(t, "on cards"), Compute: rapid.SampledFrom([]int64{0, 0, 300, 500, 1000}).Draw(t, "compute")}
	if p.Memory = rapid.Int64Range(0, 4).Draw(t, "MiB"); p.Memory == 0 {
		p.Share = rapid.SampledFrom([]int64{333, 500, 1000}).Draw(t, "share")
	}
	p.Spread = rapid.Bool().Draw(t, "spread")
	return p
}

// mostParts tries every way for one pod, then for the next.
func mostParts(cards []Card, p *api.Part, model string) (best int64) {
	for set := range uint(1) << len(cards) {
		at := indices(set)
		if len(at) != p.Cards || slices.ContainsFunc(at, func(i int) bool { return cards[i].Lacks(p, model) != Enough }) {
			continue
		}
		next := slices.Clone(cards)
		for _, i := range at {
			next[i].Give(p, 1)
		}
		best = max(best, 1+mostParts(next, p, model))
	}
	return best
}

// TestPartsEqualBruteForce holds counts and choices against trying everything: as many pods fit as can, and choosing for pod after
// pod finds a place for each of them.
func TestPartsEqualBruteForce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cards, p := drawCards(t)
		model := rapid.SampledFrom([]string{"", "A"}).Draw(t, "want model")
		left := PartPods(cards, p, model, 100)
		if want := mostParts(cards, p, model); left != want {
			t.Fatalf("%d pods, want %d", left, want)
		}
		var ways [][]int
		EachParts(cards, p, model, func(at []int) bool {
			ways = append(ways, slices.Clone(at))
			return true
		})
		if len(ways) > 0 != (left > 0) {
			t.Fatalf("%d fit in %d ways", left, len(ways))
		}
		if snug := Snugness(cards, p, model); snug > 0 && left == 0 || snug < 0 || snug > 1<<11 {
			t.Fatalf("snugness %d where %d fit", snug, left)
		}
		for ; left > 0; left-- {
			at := ChooseParts(cards, p, model, nil)
			if len(at) != p.Cards || !slices.IsSorted(at) || len(slices.Compact(slices.Clone(at))) != p.Cards {
				t.Fatalf("%d left, and it gets %v", left, at)
			}
			for _, i := range at {
				if lacks := cards[i].Lacks(p, model); lacks != Enough {
					t.Fatalf("card %d lacks %s", i, lacks)
				}
				cards[i].Give(p, 1)
			}
			if got := PartPods(cards, p, model, 100); got != left-1 {
				t.Fatalf("%v leaves room for %d, not %d", at, got, left-1)
			}
		}
		if at := ChooseParts(cards, p, model, nil); at != nil {
			t.Fatalf("none is left, and it gets %v", at)
		}
	})
}
