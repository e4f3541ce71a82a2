package divide

// Pack uses the fewest domains: the tightest that holds all k, or else the largest ones whole and
// the rest in the tightest that holds it. It reports false when the domains together hold fewer
// than k.
//
// For example, domains for 2, 8, 4, 8 and 3 pods divide 11 pods as 0, 8, 0, 0, 3. Two domains are
// needed. One of those for 8 is filled, and the 3 pods that are over go where they leave nothing
// over: the other domain for 8 stays whole.
func Pack(d []Domain, k int) ([]Share, bool) {
	if k <= 0 {
		return nil, true
	}
	l := layout{unit: 1, own: none}
	if !l.pack(d, k) {
		return nil, false
	}
	return l.shares(d, 0), true
}

// layout is a packing, described by sizes instead of by a list: which domains are filled follows
// from how large they are. A size is what a domain holds, in units; a unit is a pod for Pack, and a
// segment for Segments.
//
// A domain of more than whole units is filled. Of the domains of exactly whole units the first ties
// are filled. Domain last gets lastUnits, which is at least one and may be less than it holds.
// Domain own, where there is one, is set aside from all this and gets ownUnits. All others get
// nothing.
type layout struct {
	// unit is pods per unit, at least one.
	unit int
	// whole is a size and ties counts domains.
	whole, ties int
	// last and own are indexes of domains, or none.
	last      int
	lastUnits int
	own       int
	ownUnits  int
}

// pack lays k units, at least one, out over the domains but own. It reports false, and leaves a
// layout that means nothing, if these hold fewer than k.
//
// The fewest domains are the largest: if any m domains hold k then so do the m largest. All but one
// of those are filled, and what is left, at most the size of the smallest of them, may go to any
// other domain that holds it. A division that fills fewer would leave two domains with a hole each,
// where this one leaves one.
//
// For example, sizes 8, 8, 4, 3, 2 and k = 11: the domains of at least 8 hold 16 together and those
// of at least 9 nothing, so whole is 8. 11 units are left for the domains of size 8; they fill
// (11-1)/8 = 1 of them, which is ties, and 3 units are lastUnits.
func (l *layout) pack(d []Domain, k int) bool {
	// With whole at the largest size and no ties nothing is filled: this is the layout of a single
	// domain, if one holds all k.
	l.whole, l.ties, l.last, l.lastUnits = l.largest(d), 0, tightest(d, k*l.unit, l.own), k
	if l.last != none {
		return true
	}
	size := l.level(d, k)
	if size == 0 {
		return false
	}
	// From here on domains of more than size units are filled. They hold fewer than k, or size
	// would be larger, so that left is at least one; and the domains of exactly size units hold at
	// least left.
	left := k - l.sum(d, size+1)
	// The last unit always goes to domain last, never to ties: (left-1)/size leaves between 1 and
	// size units over.
	l.whole, l.ties = size, (left-1)/size
	l.lastUnits = left - l.ties*size
	l.last = l.tightestUnfilled(d)
	return true
}

// level is the largest size such that the domains of at least that size hold k units together, or 0
// where all together do not hold them. It is where the list of the domains, sorted from the
// largest, is cut.
//
// It is a binary search, since sum only grows as the size falls. Invariant: the domains of at least
// lo units hold k, or lo is 0; those of at least hi+1 do not.
func (l *layout) level(d []Domain, k int) int {
	lo, hi := 0, l.largest(d)
	for lo < hi {
		mid := hi - (hi-lo)/2
		if l.sum(d, mid) >= k {
			lo = mid
		} else {
			hi = mid - 1
		}
	}
	return lo
}

// units is the size of domain i. Rounding down leaves pods over that no unit can use; domain own
// has its own account.
func (l *layout) units(d []Domain, i int) int {
	if i == l.own {
		return 0
	}
	return max(0, d[i].Cap) / l.unit
}

// largest is the size of the largest domain, 0 where none holds a unit.
func (l *layout) largest(d []Domain) int {
	most := 0
	for i := range d {
		most = max(most, l.units(d, i))
	}
	return most
}

// sum counts the units in domains of at least the given size. One pass; k*unit and the sums are far
// below the range of int, because they count pods.
func (l *layout) sum(d []Domain, size int) int {
	n := 0
	for i := range d {
		if u := l.units(d, i); u >= size {
			n += u
		}
	}
	return n
}

// tightestUnfilled finds the domain with the smallest Cap for lastUnits among those that are not
// filled, the first of equals. There is one: of the domains of size whole at least one more than
// ties is there. It compares Cap and not size, so that of two domains with equally many segments
// the one with the fewest pods to spare gets them.
func (l *layout) tightestUnfilled(d []Domain) int {
	best, ties := none, l.ties
	for i := range d {
		u := l.units(d, i)
		// The filled ones of this size are the first by name, as each takes them.
		if u == l.whole && ties > 0 {
			ties--
			continue
		}
		if u > l.whole || u < l.lastUnits {
			continue
		}
		if best == none || d[i].Cap < d[best].Cap {
			best = i
		}
	}
	return best
}

// shares spells the layout out in pods, in the order of d, with room for spare more shares. It
// walks over the domains twice, first to count, so that the result is the one allocation.
func (l *layout) shares(d []Domain, spare int) []Share {
	n := spare
	l.each(d, func(int, int) { n++ })
	out := make([]Share, 0, n)
	l.each(d, func(i, units int) { out = append(out, Share{d[i].ID, units * l.unit}) })
	return out
}

// each calls yield with every domain that gets units, in the order of d. The order of the cases
// matters: own is no part of the packing whatever its size, and last is not filled again even if it
// is as large as those that are.
func (l *layout) each(d []Domain, yield func(i, units int)) {
	ties := l.ties
	for i := range d {
		u := l.units(d, i)
		switch {
		case i == l.own:
			u = l.ownUnits
		case u == l.whole && ties > 0:
			ties--
		case i == l.last:
			u = l.lastUnits
		case u <= l.whole:
			u = 0
		}
		if u > 0 {
			yield(i, u)
		}
	}
}
