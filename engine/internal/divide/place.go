package divide

// Domain is a place for pods: a node, a rack, a block.
type Domain struct {
	// ID means nothing here. It comes back in the shares; callers use the domain's position in a
	// list of their own.
	ID int32
	// Cap is how many pods fit, each counted as if the domain were theirs alone.
	Cap int
}

// Share is the part of the pods that one domain gets. Pods is at least one, and at most the
// domain's Cap.
type Share struct {
	ID   int32
	Pods int
}

// Tightest finds the domain with the smallest Cap that holds all k pods. The larger domains stay
// whole for larger gangs. Of equal ones it is the first.
func Tightest(d []Domain, k int) (index int, ok bool) {
	index = tightest(d, k, none)
	return index, index != none
}

// none is an index that no domain has.
const none = -1

// tightest is the index of the smallest Cap of at least k among all domains but skip, or none.
func tightest(d []Domain, k, skip int) int {
	best := none
	for i := range d {
		if i == skip || d[i].Cap < k {
			continue
		}
		if best == none || d[i].Cap < d[best].Cap {
			best = i
		}
	}
	return best
}
