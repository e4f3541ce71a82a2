package divide

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// every calls yield with every way to put k pods into the domains, in pods per domain.
func every(d []Domain, k int, yield func([]int)) {
	pods := make([]int, len(d))
	var rec func(i, left int)
	rec = func(i, left int) {
		if i == len(d) {
			if left == 0 {
				yield(pods)
			}
			return
		}
		for n := 0; n <= min(left, max(0, d[i].Cap)); n++ {
			pods[i] = n
			rec(i+1, left-n)
		}
		pods[i] = 0
	}
	rec(0, k)
}

func used(pods []int) int {
	n := 0
	for _, p := range pods {
		if p > 0 {
			n++
		}
	}
	return n
}

// best is the least of score over the ways that allow admits, and whether there is one.
func best(d []Domain, k int, allow func([]int) bool, score func([]int) []int) (least []int, ok bool) {
	every(d, k, func(pods []int) {
		if !allow(pods) {
			return
		}
		if s := score(pods); !ok || slices.Compare(s, least) < 0 {
			least, ok = s, true
		}
	})
	return least, ok
}

func anyway([]int) bool { return true }

func count(pods []int) []int { return []int{used(pods)} }

// fataler is a *testing.T or a *rapid.T.
type fataler interface {
	Fatal(...any)
	Fatalf(string, ...any)
}

// TestSmall tries every set of four domains of at most five pods.
func TestSmall(t *testing.T) {
	const top = 5
	for c := range (top + 1) * (top + 1) * (top + 1) * (top + 1) {
		d := domains(c%(top+1), c/(top+1)%(top+1), c/(top+1)/(top+1)%(top+1), c/(top+1)/(top+1)/(top+1))
		for k := range 13 {
			checkPack(t, d, k)
			checkBalance(t, d, k)
			checkSpread(t, d, nil, k)
			checkSegments(t, d, k, 2)
			checkSegments(t, d, k, 3)
			checkSegments(t, d, k, 4)
		}
	}
}

// TestDrawn tries larger sets, and sets with members already there.
func TestDrawn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 6).Draw(t, "domains")
		d := domains(rapid.SliceOfN(rapid.IntRange(-1, 8), n, n).Draw(t, "caps")...)
		held := rapid.SliceOfN(rapid.IntRange(0, 6), n, n).Draw(t, "held")
		k := rapid.IntRange(0, 20).Draw(t, "k")
		checkPack(t, d, k)
		checkBalance(t, d, k)
		checkSpread(t, d, held, k)
		checkSegments(t, d, k, rapid.IntRange(1, 6).Draw(t, "size"))
	})
}

// verify checks what holds of every result, and returns it in pods per domain. The last twice shares may
// repeat a domain and be out of order.
func verify(t fataler, d []Domain, k int, shares []Share, twice int) []int {
	pods := make([]int, len(d))
	sum := 0
	for i, s := range shares {
		at := int(s.ID) - 10
		if s.Pods < 1 {
			t.Fatalf("empty share in %v", shares)
		}
		if i > 0 && i < len(shares)-twice && s.ID <= shares[i-1].ID {
			t.Fatalf("out of order: %v", shares)
		}
		pods[at] += s.Pods
		sum += s.Pods
	}
	if sum != max(0, k) {
		t.Fatalf("%v sums to %d, not %d", shares, sum, k)
	}
	for i := range d {
		if pods[i] > max(0, d[i].Cap) {
			t.Fatalf("%v is over the cap of %v", shares, d[i])
		}
	}
	return pods
}

// compare checks the result's success and score against the oracle's.
func compare(t fataler, d []Domain, pods []int, ok bool, score func([]int) []int, least []int, possible bool) {
	if ok != possible {
		t.Fatalf("%v: ok %v, oracle says %v", d, ok, possible)
	}
	if ok && !slices.Equal(score(pods), least) {
		t.Fatalf("%v over %v scores %v, best is %v", pods, d, score(pods), least)
	}
}

// unfilled counts the domains that have pods and room for more.
func unfilled(d []Domain, pods []int) int {
	n := 0
	for i, p := range pods {
		if p > 0 && p < d[i].Cap {
			n++
		}
	}
	return n
}

// packed scores a packing: the fewest domains, the largest filled, the rest in the tightest, which is the
// one with room left or else the smallest.
func packed(d []Domain, pods []int) []int {
	var filled []int
	rest := 0
	for i, p := range pods {
		switch {
		case p > 0 && p < d[i].Cap:
			rest = d[i].Cap
		case p > 0:
			filled = append(filled, -d[i].Cap)
		}
	}
	slices.Sort(filled)
	if n := len(filled); rest == 0 && n > 0 {
		filled, rest = filled[:n-1], -filled[n-1]
	}
	return append(append([]int{used(pods)}, filled...), rest)
}

func checkPack(t fataler, d []Domain, k int) {
	given := slices.Clone(d)
	shares, ok := Pack(d, k)
	if !slices.Equal(given, d) {
		t.Fatal("input modified")
	}
	score := func(pods []int) []int { return packed(d, pods) }
	least, possible := best(d, k, func(pods []int) bool { return unfilled(d, pods) <= 1 }, score)
	var pods []int
	if ok {
		pods = verify(t, d, k, shares, 0)
	}
	compare(t, d, pods, ok, score, least, possible)
}

func even(pods []int) bool {
	lo, hi := 1<<30, 0
	for _, p := range pods {
		if p > 0 {
			lo, hi = min(lo, p), max(hi, p)
		}
	}
	return hi-lo <= 1
}

func checkBalance(t fataler, d []Domain, k int) {
	shares, ok := Balance(d, k)
	score := func(pods []int) []int { // how many domains, then their caps from the smallest
		var caps []int
		for i, p := range pods {
			if p > 0 {
				caps = append(caps, d[i].Cap)
			}
		}
		slices.Sort(caps)
		return append([]int{used(pods)}, caps...)
	}
	least, possible := best(d, k, even, score)
	var pods []int
	if ok {
		pods = verify(t, d, k, shares, 0)
		if !even(pods) {
			t.Fatalf("uneven: %v", shares)
		}
	}
	compare(t, d, pods, ok, score, least, possible)
}

func checkSpread(t fataler, d []Domain, held []int, k int) {
	shares, ok := Spread(d, held, k)
	score := func(pods []int) []int { // negated, for the largest is wanted
		members := make([]int, len(d))
		for i := range d {
			members[i] = pods[i]
			if held != nil {
				members[i] += held[i]
			}
		}
		slices.Sort(members)
		for i := range members {
			members[i] = -members[i]
		}
		return members
	}
	least, possible := best(d, k, anyway, score)
	var pods []int
	if ok {
		pods = verify(t, d, k, shares, 0)
	}
	compare(t, d, pods, ok, score, least, possible)
}

func checkSegments(t fataler, d []Domain, k, size int) {
	shares, ok := Segments(d, k, size)
	if k%size == 0 && ok != (CountSegments(d, size) >= k/size) {
		t.Fatalf("CountSegments is %d", CountSegments(d, size))
	}
	partials := 0
	if k%size > 0 {
		partials = 1
	}
	allow := func(pods []int) bool { // at most one domain has pods beside whole segments
		n := 0
		for _, p := range pods {
			if p%size > 0 {
				n++
			}
		}
		return n == partials
	}
	least, possible := best(d, k, allow, count)
	var pods []int
	if ok {
		pods = verify(t, d, k, shares, partials)
		for i, s := range shares[:len(shares)-partials] {
			if s.Pods%size != 0 {
				t.Fatalf("share %d of %v is not of whole segments of %d", i, shares, size)
			}
		}
		if partials > 0 && shares[len(shares)-1].Pods != k%size {
			t.Fatalf("%v does not end in %d", shares, k%size)
		}
	}
	compare(t, d, pods, ok, count, least, possible)
}
