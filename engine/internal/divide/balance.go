package divide

// Balance divides k pods evenly, so that shares differ by at most one, over the smallest number of
// domains for which that is possible. Among the domains large enough it takes the tightest, and
// gives the larger shares to the tightest of those with room for them. It reports false when k
// divides evenly over no number of domains, even though the domains together may hold k.
//
// For example, domains for 5, 5, 4 and 9 pods divide 14 pods as 5, 5, 4, 0. No domain holds 14, and
// no two hold 7. Three get 5, 5 and 4: the domain for 4 can be the one with the smaller share, and
// the domain for 9 stays whole.
//
// The number of domains decides everything else. For m domains there is one division into even
// shares: k%m of them get k/m + 1 pods and the others k/m. So it is enough to find m, and then the
// m domains. evenly costs up to 4*sqrt(k) passes over the domains, the rest a few binary searches.
func Balance(d []Domain, k int) ([]Share, bool) {
	if k <= 0 {
		return nil, true
	}
	m := evenly(d, k)
	if m == 0 {
		return nil, false
	}
	// larger domains must hold base+1; the others, m-larger, must hold base. Of the m smallest
	// domains that hold base, too few may hold one more. Therefore the ones that hold exactly base
	// are taken first, but no more than there are smaller shares, and all others of the m come from
	// those that hold base+1. Sorted by Cap, no other set that will do has a smaller domain at any
	// place.
	base, larger := k/m, k%m
	exact := min(m-larger, atLeast(d, base)-atLeast(d, base+1))
	low := smallest(d, base, exact)
	high := smallest(d, base+1, m-exact)
	// The larger shares go to the smallest of the domains in high, which is a subset of it because
	// larger is at most m-exact.
	more := smallest(d, base+1, larger)
	out := make([]Share, 0, m)
	for _, dom := range d {
		switch {
		// Both sets count their ties as they are asked, so high must be asked about this domain
		// too.
		case more.takes(dom.Cap):
			high.takes(dom.Cap)
			out = append(out, Share{dom.ID, base + 1})
		case high.takes(dom.Cap), low.takes(dom.Cap):
			out = append(out, Share{dom.ID, base})
		}
	}
	return out, true
}

// evenly is the smallest number of domains over which k divides evenly, or 0. m domains get k/m
// pods each and k%m of them one more; the numbers that agree in k/m are tried together.
//
// With base = k/m fixed, m domains are possible exactly if at least m domains hold base, and at
// least k - m*base of them hold base+1. The first bounds m from above, and the second from below: m
// is at least (k - those that hold base+1) / base. The smallest m in that interval is the answer
// for this base; if the interval is empty no m with this base is possible. There are at most
// 2*sqrt(k) different values of k/m, with two passes over the domains for each.
//
// For example, k = 14 and domains for 5, 5, 4, 9: base 14 (m = 1) and base 7 (m = 2) fail, since 0
// and 1 domains hold that. With base 4 (m = 3) all 4 domains hold 4, and 3 of them 5: m is at least
// (14-3)/4, rounded up 3. The answer is 3.
func evenly(d []Domain, k int) int {
	// Invariant: no number of domains below m is possible. m is the first number with its base.
	for m := 1; m <= min(k, len(d)); {
		base := k / m
		last := k / base // the largest number with this base
		// k - m*base domains must hold base+1.
		first := max(m, ceil(k-atLeast(d, base+1), base))
		if first <= min(last, atLeast(d, base)) {
			return first
		}
		m = last + 1
	}
	return 0
}

// ceil is a/b rounded up, for b above zero. Of a negative a it is at most zero, which is all that
// evenly needs.
func ceil(a, b int) int { return (a + b - 1) / b }

// atLeast counts the domains that hold n pods.
func atLeast(d []Domain, n int) int {
	c := 0
	for i := range d {
		if d[i].Cap >= n {
			c++
		}
	}
	return c
}

// cut is a set of domains, described by Cap: those in [from, to), and the first ties of exactly to.
// It is what a sorted list cut after its n-th domain would be, without the list. It is used up as
// it is asked.
type cut struct {
	from, to int
	ties     int
}

// takes tells whether the set has the next domain, of which it is told the Cap. It must be asked
// once for each domain, in order, because it counts the ties down.
func (c *cut) takes(holds int) bool {
	if holds == c.to && c.ties > 0 {
		c.ties--
		return true
	}
	return holds >= c.from && holds < c.to
}

// smallest is the set of the n smallest domains that hold at least from pods; there are that many.
// Of equals the first by name are in the set.
func smallest(d []Domain, from, n int) cut {
	// The empty set: nothing is in [from, from), and there are no ties.
	if n == 0 {
		return cut{from: from, to: from}
	}
	above := atLeast(d, from)
	lo, hi := from, from
	for i := range d {
		hi = max(hi, d[i].Cap)
	}
	// The search is for the smallest lo such that n domains are in [from, lo]: invariant, there are
	// n of them in [from, hi] and fewer in [from, lo-1]. above - atLeast(mid+1) counts those in
	// [from, mid].
	for lo < hi {
		mid := lo + (hi-lo)/2
		if above-atLeast(d, mid+1) >= n {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return cut{from: from, to: lo, ties: n - (above - atLeast(d, lo))}
}
