package divide

// Segments divides k pods into segments of size, the last one smaller where size does not divide k,
// so that each segment lies within one domain. It uses the fewest domains, and one that holds
// everything is the tightest. It reports false exactly when there is no such division, or when size
// is below one.
//
// Each share is a number of full segments, in pods. The smaller segment is a share of its own and
// comes last, after the shares in order; its domain may be one that has full segments too, and is
// then listed twice.
//
// Without a smaller segment this is Pack with segments for units. The smaller one is the
// difficulty: it uses up to one whole place for a segment, or none if it fits into what full
// segments leave over. For example, 33 pods in segments of 8, in domains for 16, 16, 9 and 5 pods:
// 4 full segments and 1 pod. The two domains for 16 hold the full segments and nothing else. The 1
// pod fits beside a segment in the domain for 9, or into the domain for 5, where no full segment
// could ever be. It goes to the latter: 16, 16, 0, 1.
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
	// The domain of the smaller segment is chosen first. All else is then a packing of full
	// segments over the other domains.
	l.own = partial(d, k, size)
	if l.own == none {
		return nil, false
	}
	// Full segments follow it into its domain as far as they fit, since the domain is in use
	// anyway. That is also what the count in host assumes.
	l.ownUnits = min(full, (d[l.own].Cap-rest)/size)
	// A layout in which nothing is filled, for where own holds everything.
	l.last, l.whole = none, l.largest(d)
	// pack cannot fail here: host has counted that the other domains hold the rest.
	if full > l.ownUnits {
		l.pack(d, full-l.ownUnits)
	}
	return append(l.shares(d, 1), Share{d[l.own].ID, rest}), true
}

// CountSegments counts the full segments of size that the domains hold; 0 for a size below one.
// Pods that are over in one domain do not add up to a segment with those of another: domains for 9,
// 7 and 16 hold 2 + 1 + 4 segments of 4.
func CountSegments(d []Domain, size int) int {
	if size < 1 {
		return 0
	}
	l := layout{unit: size, own: none}
	return l.sum(d, 1)
}

// partial finds the domain for the smaller segment of k pods with which all k take the fewest
// domains, or none if there is no division. It is called only where size does not divide k.
func partial(d []Domain, k, size int) int {
	if i, ok := Tightest(d, k); ok {
		return i
	}
	l := layout{unit: size, own: none}
	// No division has fewer domains than its full segments need alone.
	m := l.fewest(d, k/size)
	if m == 0 {
		return none
	}
	// The smaller segment fits in beside them, in one of as many domains.
	if i := l.host(d, m, k); i != none {
		return i
	}
	// One domain more than the full segments need is enough, where anything is: it brings at least
	// one place for the smaller segment or for the full segment that had to make way for it.
	return l.host(d, m+1, k)
}

// fewest is the number of domains that k units need, or 0 where all together do not hold them. It
// is the m of pack, without the layout: all domains above the level, and as many of those at it as
// what is left fills, rounded up.
func (l *layout) fewest(d []Domain, k int) int {
	size := l.level(d, k)
	if size == 0 {
		return 0
	}
	left := k - l.sum(d, size+1)
	return l.count(d, size+1) + (left+size-1)/size
}

// host finds the domain for the smaller segment when k pods go to m domains, or none: one that
// loses no place for a full segment where possible, and then the tightest, and of equals the first.
//
// m domains that include domain i hold what the m largest do when i counts among these, and
// otherwise what the m-1 largest and i do. Both are before + min(units of i, units of the m-th
// largest), because i can count among the m largest exactly if it holds as much as the m-th. It is
// one full segment less when the smaller one takes its place, which is when the pods that i has
// over beside full segments are fewer than rest.
//
// For example, m = 2, segments of 8, domains for 9, 8 and 8 pods, and k = 17: before is 1 and the
// second largest holds 1. With the domain for 9 nothing is lost, since 9 = 8 + 1 leaves the 1 pod
// room: 1 + 1 - 0 are the 2 full segments. With a domain for 8 one place is lost, and 1 full
// segment would have none.
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

// largestUpTo sums the units of the m-1 largest domains, and gives those of the m-th largest, 0
// where there are fewer than m that hold any. The search is for the largest size that m domains
// have or exceed. Domains above it are fewer than m and all among the m-1 largest; the others of
// these are of exactly that size.
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
