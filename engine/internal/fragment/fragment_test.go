package fragment

import (
	"math/rand"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// dearestByTrying is the most that sizes are worth together in a remainder: every multiset is tried.
func dearestByTrying(sizes []int, price *[levels]int64, left int) int64 {
	best := int64(0)
	for i, s := range sizes {
		if s <= left {
			best = max(best, price[s]+dearestByTrying(sizes[i:], price, left-s))
		}
	}
	return best
}

func TestDearestIsThatOfEveryCombination(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.SliceOfNDistinct(rapid.IntRange(15, 100), 1, 5, rapid.ID[int]).Draw(t, "sizes")
		slices.Sort(sizes)
		var price [levels]int64
		for _, s := range sizes {
			price[s] = rapid.Int64Range(1, unit).Draw(t, "price")
		}
		value, _ := dearest(sizes, &price)
		for r := range value {
			if want := dearestByTrying(sizes, &price, r); value[r] != want {
				t.Fatalf("sizes %v: %d hundredths are worth %d, want %d", sizes, r, value[r], want)
			}
		}
	})
}

// firstFit packs shares, largest first, and counts the cards.
func firstFit(count *[levels]int64) int64 {
	var cards []int
	for s := levels - 1; s > 0; s-- {
	share:
		for range count[s] {
			for i := range cards {
				if cards[i] >= s {
					cards[i] -= s
					continue share
				}
			}
			cards = append(cards, levels-1-s)
		}
	}
	return int64(len(cards))
}

// By duality, the prices of all shares add up to no more cards than any packing needs; and good prices to nearly as many.
func TestPricesAreADualOfPacking(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var count [levels]int64
		total := int64(0)
		for range rapid.IntRange(1, 8).Draw(t, "kinds") {
			s := rapid.IntRange(5, 100).Draw(t, "size")
			count[s] += rapid.Int64Range(1, 60).Draw(t, "count")
		}
		value := worth(&count)
		if value[0] != 0 || value[levels-1] != unit || !slices.IsSorted(value[:]) {
			t.Fatalf("worth of nothing, of all and between: %v", value)
		}
		sum, area := int64(0), int64(0)
		for s, n := range count {
			area += int64(s) * n
			total += n
			// A size that was asked for costs at least what its remainder gains by it, wherever it is put.
			for r := s; n > 0 && r < levels; r++ {
				if value[r] < value[r-s] {
					t.Fatalf("taking %d from %d gains worth", s, r)
				}
			}
		}
		// The price of a size is the least that a remainder loses by it.
		for s, n := range count {
			if n == 0 {
				continue
			}
			least := unit
			for r := s; r < levels; r++ {
				least = min(least, value[r]-value[r-s])
			}
			sum += n * least
		}
		packed := firstFit(&count)
		if sum > packed*unit+total*1000 {
			t.Fatalf("the shares cost %d millionths of a card, and fit on %d cards: %v", sum, packed, count)
		}
	})
}

func TestWhatNobodyAsksForIsWorthLittle(t *testing.T) {
	var count [levels]int64
	count[81], count[16], count[65], count[32] = 1000, 50, 300, 300
	value := worth(&count)
	if value[19] > unit/10 {
		t.Errorf("beside a share of 81, 19 hundredths are worth %d, though few fit", value[19])
	}
	if value[35] < unit/5 {
		t.Errorf("beside a share of 65, 35 hundredths are worth only %d", value[35])
	}
}

// plain is the cost of a placement from its definition: what the room is worth before and after.
func plain(t *Table, r *Room, k *Kind, card int) int64 {
	after := Room{CPU: r.CPU - k.CPU, Free: slices.Clone(r.Free), Model: r.Model}
	cost := int64(0)
	if k.Shares() {
		after.Free[card] -= k.Milli
		cost = (t.Value(r.Free[card]) - t.Value(after.Free[card])) * t.w.Card / 1000
	} else {
		for i, left := 0, k.Cards; left > 0; i++ {
			if after.Free[i] == whole {
				after.Free[i] = 0
				left--
			}
		}
	}
	worthless := func(r *Room) (unfit, idle int64) {
		for _, f := range r.Free {
			idle += int64(f)
		}
		for i := range t.kinds {
			o := &t.kinds[i]
			n, small := 0, int64(0)
			for _, f := range r.Free {
				if f >= o.Milli {
					n++
				} else {
					small += int64(f)
				}
			}
			if r.CPU < o.CPU || n < o.Cards || o.Models>>r.Model&1 == 0 {
				small = idle
			}
			unfit += o.weight * small
		}
		return t.weigh(unfit), idle
	}
	wasBad, was := worthless(r)
	isBad, is := worthless(&after)
	cost += isBad - wasBad + t.cores(is, after.CPU) - t.cores(was, r.CPU)
	if k.Cards > 0 {
		cost += t.pressure[r.Model] * k.milli() / whole
		if was == int64(len(r.Free))*whole {
			cost += t.w.Fresh * (unit / 1000)
		}
	}
	return t.coarse(cost)
}

func drawKind(t *rapid.T) Kind {
	k := Kind{CPU: rapid.Int64Range(0, 40).Draw(t, "cpu") * 1000, Models: rapid.Uint64Range(1, 7).Draw(t, "models")}
	switch rapid.IntRange(0, 3).Draw(t, "what") {
	case 0:
	case 1:
		k.Cards, k.Milli = rapid.SampledFrom([]int{1, 2, 4, 8}).Draw(t, "cards"), whole
	default:
		k.Cards, k.Milli = 1, rapid.IntRange(1, 99).Draw(t, "share")*10
	}
	return k
}

func TestCostIsWhatTheRoomLoses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := NewMix([]int64{100, 20, 5})
		for range rapid.IntRange(1, 40).Draw(t, "seen") {
			m.Add(drawKind(t))
		}
		table, k := m.Table(Default), drawKind(t)
		r := Room{CPU: k.CPU + rapid.Int64Range(0, 90).Draw(t, "room")*1000, Model: rapid.IntRange(0, 2).Draw(t, "model")}
		fits := 0
		for range rapid.IntRange(1, 8).Draw(t, "gpus") {
			f := rapid.SampledFrom([]int{0, 190, 350, 530, 680, whole, whole}).Draw(t, "free")
			r.Free = append(r.Free, f)
			if f >= k.Milli {
				fits++
			}
		}
		if fits < k.Cards {
			t.Skip()
		}
		cost, card := table.Cost(&r, &k)
		if !k.Shares() {
			if want := plain(table, &r, &k, -1); cost != want || card != -1 {
				t.Fatalf("%+v in %+v costs %d on card %d, want %d", k, r, cost, card, want)
			}
			return
		}
		best, at := int64(0), -1
		for i, f := range r.Free {
			if f < k.Milli {
				continue
			}
			if c := plain(table, &r, &k, i); at < 0 || c < best || c == best && f < r.Free[at] {
				best, at = c, i
			}
		}
		if cost != best || card != at {
			t.Fatalf("%+v in %+v costs %d on card %d, want %d on %d", k, r, cost, card, best, at)
		}
	})
}

// A room costs the same whether its cards are listed or counted, and a share goes to a card of which as much is free.
func TestCountedCardsCostAsListedOnes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := NewMix([]int64{100, 20, 5})
		for range rapid.IntRange(1, 40).Draw(t, "seen") {
			m.Add(drawKind(t))
		}
		table, k := m.Table(Default), drawKind(t)
		counted := Room{CPU: k.CPU + rapid.Int64Range(0, 90).Draw(t, "room")*1000, Model: rapid.IntRange(0, 2).Draw(t, "model")}
		listed, fits := counted, 0
		for range rapid.IntRange(1, 8).Draw(t, "gpus") {
			f := rapid.SampledFrom([]int{0, 190, 350, 530, 680, whole, whole}).Draw(t, "free")
			if f >= k.Milli {
				fits++
			}
			listed.Free = append(listed.Free, f)
			switch {
			case f == 0:
				counted.Taken++
			case f == whole:
				counted.Whole++
			default:
				counted.Free = append(counted.Free, f)
			}
		}
		if fits < k.Cards {
			t.Skip()
		}
		want, at := table.Cost(&listed, &k)
		got, card := table.Cost(&counted, &k)
		free := func(r *Room, card int) int {
			switch {
			case card < 0:
				return 0
			case card == len(r.Free):
				return whole
			}
			return r.Free[card]
		}
		if got != want || free(&counted, card) != free(&listed, at) {
			t.Fatalf("%+v in %+v costs %d on card %d, and %d on card %d of %+v", k, counted, got, card, want, at, listed)
		}
	})
}

// A mix is its counts, however they came about.
func TestMixOfCounts(t *testing.T) {
	kinds, counts := []Kind{{CPU: 4000, Cards: 1, Milli: 320, Models: 3}, {CPU: 9000, Cards: 8, Milli: whole, Models: 1}}, []int64{5, 2}
	seen := NewMix([]int64{100, 20})
	for i, k := range kinds {
		for range counts[i] {
			seen.Add(k)
		}
	}
	a, b := seen.Table(Default), MixOf([]int64{100, 20}, kinds, counts).Table(Default)
	if a.value != b.value || a.need != b.need || a.total != b.total || !slices.Equal(a.kinds, b.kinds) || !slices.Equal(a.pressure, b.pressure) {
		t.Fatalf("counts give another table than requests one by one:\n%+v\n%+v", a, b)
	}
}

// The order in which requests were seen is no part of the mix.
func TestTableDependsOnCountsAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var seen []Kind
		for range rapid.IntRange(1, 40).Draw(t, "seen") {
			seen = append(seen, drawKind(t))
		}
		tables := func() (out [2]*Table) {
			for i := range out {
				m := NewMix([]int64{100, 20, 5})
				for _, k := range seen {
					m.Add(k)
				}
				out[i] = m.Table(Default)
				rand.New(rand.NewSource(rapid.Int64().Draw(t, "order"))).Shuffle(len(seen), func(i, j int) { seen[i], seen[j] = seen[j], seen[i] })
			}
			return out
		}()
		a, b := tables[0], tables[1]
		if a.value != b.value || a.need != b.need || a.total != b.total || !slices.Equal(a.kinds, b.kinds) || !slices.Equal(a.pressure, b.pressure) {
			t.Fatalf("two orders of one history give two tables:\n%+v\n%+v", a, b)
		}
	})
}

func TestOldRequestsCountLess(t *testing.T) {
	m := NewMix([]int64{1})
	old, now := Kind{Cards: 1, Milli: 500, Models: 1}, Kind{Cards: 1, Milli: 300, Models: 1}
	for range 2*window - 1 {
		m.Add(old)
	}
	for range 3 * window {
		m.Add(now)
	}
	if m.total > 2*window || m.counts[m.at[old]] > m.counts[m.at[now]]/3 {
		t.Errorf("after three windows of another kind, %d of %d remembered requests are of the old one", m.counts[m.at[old]], m.total)
	}
}

func BenchmarkTable(b *testing.B) {
	m := benchMix()
	for b.Loop() {
		m.Table(Default)
	}
}

func BenchmarkCost(b *testing.B) {
	t := benchMix().Table(Default)
	r, k := Room{CPU: 50_000, Free: []int{0, 190, 530, 350, 1000, 1000, 1000, 1000}}, Kind{CPU: 4000, Cards: 1, Milli: 320, Models: 1}
	for b.Loop() {
		t.Cost(&r, &k)
	}
}

func BenchmarkCostOfWhole(b *testing.B) {
	t := benchMix().Table(Default)
	r, k := Room{CPU: 50_000, Whole: 5, Taken: 3}, Kind{CPU: 4000, Cards: 2, Milli: whole, Models: 1}
	for b.Loop() {
		t.Cost(&r, &k)
	}
}

func benchMix() *Mix {
	m, r := NewMix([]int64{1000}), rand.New(rand.NewSource(1))
	for range 5000 {
		k := Kind{CPU: int64(1+r.Intn(4)) * 4000, Cards: 1, Milli: []int{1000, 1000, 810, 470, 320, 650, 230, 160}[r.Intn(8)], Models: 1}
		m.Add(k)
	}
	return m
}
