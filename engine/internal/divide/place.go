// Package divide divides k alike pods over domains by counts alone: which domains, and how many
// pods in each. It is integer combinatorics and knows nothing of nodes, resources or gangs, nor
// which pod is which. Package index counts how many pods fit in each domain; package place turns
// shares into nodes.
//
// There is one division for each wish that a gang may have about its topology. Domains with room
// for 9, 4, 6 and 4 pods divide 11 pods like this:
//
//	Tightest   -           one domain, with the least to spare; none of these holds 11
//	Pack       9, 2, 0, 0  as few domains as possible
//	Balance    5, 0, 6, 0  equal shares, over as few domains as possible
//	Spread     3, 3, 3, 2  as even as the room allows
//	Segments   8, 3, 0, 0  segments of 4, none of which is cut: two, and the 3 that are over
//
// Each finds a division exactly if there is one, and the best one by its own measure. The tests
// compare it with every division of small cases.
//
// Domains come in name order, and that order breaks every tie, so that equal inputs give equal
// shares. Shares come back in the same order and sum to k; a domain without pods has no share. A
// Cap below zero is a Cap of zero, a k below one needs no share. Inputs are never modified, and
// nothing is allocated but the result: where a textbook sorts the domains and cuts the list, each
// division searches for the Cap at which the list would be cut, with one pass over the domains for
// each step of a binary search. With n domains and a largest Cap of c it costs in the order of
// n*log(c) comparisons; Balance says what it costs.
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
