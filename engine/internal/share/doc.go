// Package share works out fair shares: how much of what there is each node of a tree should have,
// given what it is promised, what it asks for and its weight. Whole numbers in, whole numbers out,
// and no floating point on the way. README.md has the rules, and an example to follow on paper.
//
// Package queue asks it for the shares of queues, and of the users of one queue; what is done about
// a queue above its share is decided elsewhere.
//
// The idea, from the top of the tree down: each parent divides what it has among its children.
// Quotas come first, as far as they are asked for (promised, cut). What is over goes to the highest
// priority, then to the next, and within a priority to all at once in the proportion of their
// weights (race.go), by dominant resource fairness.
//
//	8 GPUs, which a and b ask for all of          a  b
//	no quotas, equal weights                      4  4
//	weights 1 and 3                               2  6
//	a has a quota of 6, b a weight of 100         6  2
//	quotas of 10 and 5, which is more than 8      5  3   (5.33 and 2.67)
//
// Four things hold of every answer, and the tests look for them. Nobody has more than it asks for or
// than its limit. The children of a parent have together no more than the parent. A quota is kept
// where the parent has enough for those of all its children. Nothing is left over that a child still
// asks for, but for the few parts of very large totals that the fixed point loses.
//
// It keeps nothing: shares follow from the tree that it is given, at the cost of a few passes over it for each resource (README.md).
package share
