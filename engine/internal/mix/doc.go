// Package mix finds the mix of requests that placements are priced by: which kinds of requests there are, how many of each,
// and the GPUs of each model.
//
// It owns the mix in force. That mix is derived from the known pods and nodes and from the mix before it, and from nothing
// else. It stays in force until the known requests differ much from it: a Settled compares them again once enough pods came
// or went to make a difference, or when the GPUs changed. A comparison costs the kinds of requests and the models.
package mix
