// Package fragment says what a placement costs the cluster in GPUs that later work will not be able
// to use.
//
// It owns two things: the mix of requests that a cluster has seen (Mix), and the prices that follow
// from it (Table). It derives, from the mix alone, the worth of what is left of a card, the cores
// that idle GPUs will need, the GPUs of a node that a typical request could not use, and which
// models of GPU are wanted by those who accept no other. A placement costs what these lose by it.
// For MIG, where a card has few states, Slots holds what still fits in each.
//
// For example, half of the requests of the mix are for 8 whole cards and half for 1 card. A request
// for 1 card can go to an empty node with 8 cards, or to a node where 5 of 8 are free. On the first
// it makes 7 cards useless to half of the requests, which costs 7/2 cards; on the second the 5
// cards were useless to that half already, and 4 are afterwards, so that it gains 1/2. It goes to
// the second, by a difference of 4 cards. Cost weighs each such loss, and those of the other kinds,
// and adds them up.
//
// Everything is whole numbers and depends on nothing but the mix, so that two runs decide alike. It
// knows neither nodes by name nor pods, and keeps no account: callers say what is free. Cards are
// counted in thousandths (Room, Kind), worth and cost in millionths of a card, cores in
// thousandths.
//
// A Table costs about a million additions, and is meant to be made anew after many requests, not
// after each. A node then costs one pass over the kinds of requests and its cards, and each card
// that differs from the others one more pass over the kinds.
//
// Package mix keeps the mix of a cluster and package index asks for prices. The replay of
// engine/internal/packing/openb measures them; docs/packing.md has the results and the reasons.
package fragment
