// Package fragment says what a placement costs the cluster in GPUs that later work will not be able to use.
//
// It owns two things: the mix of requests that a cluster has seen (Mix), and the prices that follow from it (Table). It
// derives, from the mix alone, the worth of what is left of a card, the cores that idle GPUs will need, the GPUs of a node
// that a typical request could not use, and which models of GPU are wanted by those who accept no other. A placement costs
// what these lose by it. For MIG, where a card has few states, Slots holds what still fits in each.
//
// Everything is whole numbers and depends on nothing but the mix, so that two runs decide alike. It knows neither nodes by
// name nor pods, and keeps no account: callers say what is free. A Table costs about a million additions, and is meant to be
// made anew after many requests, not after each. A node then costs one pass over the kinds of requests and its cards, and
// each card that differs from the others one more pass over the kinds.
//
// The replay of engine/internal/packing/openb measures it; docs/packing.md has the results and the reasons.
package fragment
