// Package mix finds the mix of requests that placements are priced by: which kinds of requests there are and how many of each, and which
// GPUs.
//
// It owns the mix that holds. That one is derived from the pods and nodes that are known and from the mix that was told before, alone,
// and holds until what is known is much unlike it: a Settled looks again once more pods came or went than can change that, or when the
// GPUs changed. A look costs the kinds of requests and the models.
package mix
