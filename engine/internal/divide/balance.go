package divide

// Balance divides k pods evenly, so that shares differ by at most one, over the smallest number of
// domains for which that is possible. Among the domains large enough it takes the tightest, and gives
// the larger shares to the tightest of those with room for them. It reports false when k divides evenly
// over no number of domains.
func Balance(d []Domain, k int) ([]Share, bool) {
	if k <= 0 {
		return nil, true
	}
	m := evenly(d, k)
	if m == 0 {
		return nil, false
	}
	base, larger := k/m, k%m
	exact := min(m-larger, atLeast(d, base)-atLeast(d, base+1))
	low := smallest(d, base, exact)
	high := smallest(d, base+1, m-exact)
	more := smallest(d, base+1, larger)
	out := make([]Share, 0, m)
	for _, dom := range d {
		switch {
		case more.takes(dom.Cap):
			high.takes(dom.Cap)
			out = append(out, Share{dom.ID, base + 1})
		case high.takes(dom.Cap), low.takes(dom.Cap):
			out = append(out, Share{dom.ID, base})
		}
	}
	return out, true
}

// evenly is the smallest number of domains over which k divides evenly, or 0. m domains get k/m pods each
// and k%m of them one more; the numbers that agree in k/m are tried together.
func evenly(d []Domain, k int) int {
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
type cut struct {
	from, to int
	ties     int
}

// takes tells whether the set has the next domain; it is asked once for each in order.
func (c *cut) takes(holds int) bool {
	if holds == c.to && c.ties > 0 {
		c.ties--
		return true
	}
	return holds >= c.from && holds < c.to
}

// smallest is the set of the n smallest domains that hold at least from pods; there are that many.
func smallest(d []Domain, from, n int) cut {
	if n == 0 {
		return cut{from: from, to: from}
	}
	above := atLeast(d, from)
	lo, hi := from, from
	for i := range d {
		hi = max(hi, d[i].Cap)
	}
	for lo < hi { // the smallest lo such that n domains are in [from, lo]
		mid := lo + (hi-lo)/2
		if above-atLeast(d, mid+1) >= n {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return cut{from: from, to: lo, ties: n - (above - atLeast(d, lo))}
}
