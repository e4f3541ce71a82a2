// Package divide divides k alike pods over domains by counts alone: which domains, and how many pods in
// each. It is integer combinatorics and knows nothing of nodes, resources or gangs, nor which pod is
// which; package engine computes the counts and turns shares into nodes.
//
// Domains come in name order, and that order breaks every tie. Shares come back in the same order and
// sum to k; a domain without pods has no share. A Cap below zero is a Cap of zero, a k below one needs
// no share. Inputs are never modified, and nothing is allocated but the result.
package divide

// Domain is a place for pods: a node, a rack, a block.
type Domain struct {
	ID  int32
	Cap int // pods that fit
}

// Share is the part of the pods that one domain gets; Pods is at least one.
type Share struct {
	ID   int32
	Pods int
}

// Tightest finds the domain with the smallest Cap that holds all k pods.
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
