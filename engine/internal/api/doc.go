// Package api is the vocabulary of the engine's contract: the objects that describe a cluster, the memory that plans
// edit, the changes that carry both, the plan, and the policy. Package engine gives every one of these values its public
// name; the packages below engine import them from here, because they cannot import engine.
//
// The package owns the JSON of each value and the rules that one value by itself must keep (Check). It derives nothing and
// keeps nothing: what follows from several values together is left to the packages above it.
package api
