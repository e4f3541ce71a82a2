package divide

// Segments divides k pods into segments of size, the last one smaller where size does not divide k, so
// that each segment lies within one domain. It uses the fewest domains, and one that holds everything is
// the tightest. It reports false exactly when there is no such division, or when size is below one.
//
// Each share is a number of full segments, in pods. The smaller segment is a share of its own and comes
// last, after the shares in order; its domain may be one that has full segments too, and is then listed
// twice.
func Segments(d []Domain, k, size int) ([]Share, bool) {
	if size < 1 {
		return nil, false
	}
	if k <= 0 {
		return nil, true
	}
	full, rest := k/size, k%size
	l := layout{unit: size, own: none}
	if rest == 0 {
		if !l.pack(d, full) {
			return nil, false
		}
		return l.shares(d, 0), true
	}
	l.own = partial(d, k, size)
	if l.own == none {
		return nil, false
	}
	l.ownUnits = min(full, (d[l.own].Cap-rest)/size)
	l.last, l.whole = none, l.largest(d)
	if full > l.ownUnits {
		l.pack(d, full-l.ownUnits)
	}
	return append(l.shares(d, 1), Share{d[l.own].ID, rest}), true
}

// CountSegments counts the full segments of size that the domains hold.
func CountSegments(d []Domain, size int) int {
	if size < 1 {
		return 0
	}
	l := layout{unit: size, own: none}
	return l.sum(d, 1)
}

// partial finds the domain for the smaller segment of k pods with which all k take the fewest domains,
// or none.
func partial(d []Domain, k, size int) int {
	if i, ok := Tightest(d, k); ok {
		return i
	}
	l := layout{unit: size, own: none}
	m := l.fewest(d, k/size)
	if m == 0 {
		return none
	}
	if i := l.host(d, m, k); i != none {
		return i
	}
	// One domain more than the full segments need is enough, where anything is: it brings at least one
	// place for the smaller segment or for the full segment that had to make way for it.
	return l.host(d, m+1, k)
}

// fewest is the number of domains that k units need, or 0 where all together do not hold them.
func (l *layout) fewest(d []Domain, k int) int {
	size := l.level(d, k)
	if size == 0 {
		return 0
	}
	left := k - l.sum(d, size+1)
	return l.count(d, size+1) + (left+size-1)/size
}

// host finds the domain for the smaller segment when k pods go to m domains, or none: one that loses no
// place for a full segment where possible, and then the tightest.
//
// m domains that include domain i hold what the m largest do when i counts among these, and otherwise
// what the m-1 largest and i do; one full segment less when the smaller one takes its place.
func (l *layout) host(d []Domain, m, k int) int {
	full, rest := k/l.unit, k%l.unit
	before, mth := l.largestUpTo(d, m)
	best, bestLoss := none, 0
	for i := range d {
		loss := 0
		if max(0, d[i].Cap)%l.unit < rest {
			loss = 1
		}
		if d[i].Cap < rest || before+min(l.units(d, i), mth)-loss < full {
			continue
		}
		if best == none || loss < bestLoss || loss == bestLoss && d[i].Cap < d[best].Cap {
			best, bestLoss = i, loss
		}
	}
	return best
}

// largestUpTo sums the units of the m-1 largest domains, and gives those of the m-th largest.
func (l *layout) largestUpTo(d []Domain, m int) (before, mth int) {
	lo, hi := 0, l.largest(d)
	for lo < hi {
		mid := hi - (hi-lo)/2
		if l.count(d, mid) >= m {
			lo = mid
		} else {
			hi = mid - 1
		}
	}
	return l.sum(d, lo+1) + (m-1-l.count(d, lo+1))*lo, lo
}

// count counts the domains of at least the given size.
func (l *layout) count(d []Domain, size int) int {
	n := 0
	for i := range d {
		if l.units(d, i) >= size {
			n++
		}
	}
	return n
}
