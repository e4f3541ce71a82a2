package divide

// Pack uses the fewest domains: the tightest that holds all k, or else the largest ones whole and the
// rest in the tightest that holds it. It reports false when the domains together hold fewer than k.
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

// layout is a packing in units of unit pods: every domain of more than whole units is filled, so are the
// first ties domains of exactly whole units, and domain last gets the remainder. Domain own, where there
// is one, is set aside and gets ownUnits.
type layout struct {
	unit        int
	whole, ties int
	last        int
	lastUnits   int
	own         int
	ownUnits    int
}

// pack lays k units, at least one, out over the domains but own.
//
// The fewest domains are the largest: if any m domains hold k then so do the m largest. Of those, all but
// one must be filled, and what is left, at most the size of the smallest of them, may go to any other.
func (l *layout) pack(d []Domain, k int) bool {
	l.whole, l.ties, l.last, l.lastUnits = l.largest(d), 0, tightest(d, k*l.unit, l.own), k
	if l.last != none {
		return true
	}
	size := l.level(d, k)
	if size == 0 {
		return false
	}
	left := k - l.sum(d, size+1)
	l.whole, l.ties = size, (left-1)/size
	l.lastUnits = left - l.ties*size
	l.last = l.tightestUnfilled(d)
	return true
}

// level is the largest size such that the domains of at least that size hold k units together, or 0.
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

// units is what domain i holds for the packing.
func (l *layout) units(d []Domain, i int) int {
	if i == l.own {
		return 0
	}
	return max(0, d[i].Cap) / l.unit
}

func (l *layout) largest(d []Domain) int {
	most := 0
	for i := range d {
		most = max(most, l.units(d, i))
	}
	return most
}

// sum counts the units in domains of at least the given size.
func (l *layout) sum(d []Domain, size int) int {
	n := 0
	for i := range d {
		if u := l.units(d, i); u >= size {
			n += u
		}
	}
	return n
}

// tightestUnfilled finds the smallest Cap for lastUnits among the domains that are not filled.
func (l *layout) tightestUnfilled(d []Domain) int {
	best, ties := none, l.ties
	for i := range d {
		u := l.units(d, i)
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

// shares spells the layout out in pods, in the order of d, with room for spare more shares.
func (l *layout) shares(d []Domain, spare int) []Share {
	n := spare
	l.each(d, func(int, int) { n++ })
	out := make([]Share, 0, n)
	l.each(d, func(i, units int) { out = append(out, Share{d[i].ID, units * l.unit}) })
	return out
}

// each calls yield with every domain that gets units.
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
