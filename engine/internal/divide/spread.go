package divide

// Spread adds k pods one by one, each to the domain with the fewest members that has room, so that
// members are as even as the caps allow: of all ways to add them it leaves the poorest domain richest,
// then the second poorest, and so on. held counts the members already in each domain, beside its Cap;
// nil is none anywhere. It reports false when the domains together hold fewer than k.
func Spread(d []Domain, held []int, k int) ([]Share, bool) {
	if k <= 0 {
		return nil, true
	}
	w := water{d, held}
	level := w.rise(k)
	left := k - w.volume(level)
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

// water sees domains as vessels: held is the height of the floor, Cap the depth.
type water struct {
	d    []Domain
	held []int
}

func (w water) floor(i int) int {
	if w.held == nil {
		return 0
	}
	return w.held[i]
}

// below counts the pods that domain i takes until it has level members or is full.
func (w water) below(i, level int) int {
	return min(max(0, level-w.floor(i)), max(0, w.d[i].Cap))
}

// open tells whether domain i has exactly level members at that level, and room for one more.
func (w water) open(i, level int) bool {
	return w.below(i, level+1) > w.below(i, level)
}

func (w water) volume(level int) int {
	n := 0
	for i := range w.d {
		n += w.below(i, level)
	}
	return n
}

// rise finds the highest level that k pods fill completely. Where all domains are full it is the level
// at which the last one is.
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
