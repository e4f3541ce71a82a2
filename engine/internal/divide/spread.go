package divide

// Spread adds k pods one by one, each to the domain with the fewest members that has room, so that
// members are as even as the caps allow: of all ways to add them it leaves the poorest domain
// richest, then the second poorest, and so on. held counts the members already in each domain,
// beside its Cap; nil is none anywhere. It reports false when the domains together hold fewer than
// k.
//
// For example, three domains with room for 4, 4 and 1 pods, of which the first has 3 members
// already, get 0, 3, 1 of 4 pods: there are then 3, 3 and 1 members, and the third has no room.
//
// To add one pod after the other is the definition and not the procedure: the domains fill like
// vessels that are connected. Water rises to a level, the same for all, except where a floor is
// above it or a vessel is full. The level is found by a binary search; the pods that do not raise
// it by a whole one are given to the first domains by name that have room at it.
func Spread(d []Domain, held []int, k int) ([]Share, bool) {
	if k <= 0 {
		return nil, true
	}
	w := water{d, held}
	level := w.rise(k)
	// Fewer pods are left than there are domains with room at the level, or the level would be
	// higher. So one more for each of the first is the end of it, and only where all are full is
	// anything left after the loop.
	left := k - w.volume(level)
	// n is how many shares there can be at most, so that the result is the one allocation.
	n := 0
	for i := range d {
		if w.below(i, level) > 0 || w.open(i, level) {
			n++
		}
	}
	out := make([]Share, 0, min(n, k))
	for i := range d {
		pods := w.below(i, level)
		if left > 0 && w.open(i, level) {
			pods++
			left--
		}
		if pods > 0 {
			out = append(out, Share{d[i].ID, pods})
		}
	}
	if left > 0 {
		return nil, false
	}
	return out, true
}

// water sees domains as vessels: held is the height of the floor, Cap the depth. Heights are in
// members, and are counted from no members at all.
type water struct {
	d    []Domain
	held []int
}

// floor is how many members domain i has before any are added.
func (w water) floor(i int) int {
	if w.held == nil {
		return 0
	}
	return w.held[i]
}

// below counts the pods that domain i takes until it has level members or is full. A domain whose
// floor is above the level takes none.
func (w water) below(i, level int) int {
	return min(max(0, level-w.floor(i)), max(0, w.d[i].Cap))
}

// open tells whether domain i has exactly level members at that level, and room for one more. A
// domain that is full, or whose floor is above the level, is not open.
func (w water) open(i, level int) bool {
	return w.below(i, level+1) > w.below(i, level)
}

// volume is how many pods all domains take together until the level is reached. It never falls as
// the level rises.
func (w water) volume(level int) int {
	n := 0
	for i := range w.d {
		n += w.below(i, level)
	}
	return n
}

// rise finds the highest level that k pods fill completely. Where all domains are full it is the
// level at which the last one is.
//
// The lowest floor takes no pods, and no vessel takes any above the highest rim: the level is
// between the two. Invariant: the pods suffice for lo, and not for hi+1, unless hi is the highest
// rim.
func (w water) rise(k int) int {
	if len(w.d) == 0 {
		return 0
	}
	lo, hi := w.floor(0), w.floor(0)
	for i := range w.d {
		lo = min(lo, w.floor(i))
		hi = max(hi, w.floor(i)+max(0, w.d[i].Cap))
	}
	for lo < hi {
		mid := hi - (hi-lo)/2
		if w.volume(mid) <= k {
			lo = mid
		} else {
			hi = mid - 1
		}
	}
	return lo
}
