// Package quantity holds amounts of resources as vectors, so that hot paths add and compare numbers instead of looking up
// names. A cluster has one Dims, which numbers resource names in the order in which they are first seen; a number is a
// position in every Vector of that cluster and decides nothing, so the order of arrival cannot change a plan.
//
// The package keeps nothing besides the numbering, which only grows. A question costs an index into a slice; numbering a
// name costs a look through the first eight and then a map lookup.
package quantity
