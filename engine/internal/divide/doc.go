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
