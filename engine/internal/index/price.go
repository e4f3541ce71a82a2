package index

import (
	"slices"
	"strings"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/fragment"
	"github.com/berth-dev/berth/engine/internal/quantity"
)

// Priced packing: of the nodes that hold a pod, which one should it take so that later requests still fit? Package fragment
// answers that with a cost, worked out from a mix: which requests are typical, and how many GPUs of each model there are.
// This file turns what the index knows, of classes and of nodes, into the terms of fragment, and has the score of a node
// (room.go) follow from the cost.
//
// For example, the mix has requests of 1 GPU and of 8 GPUs. A pod of 1 GPU fits on a node with 8 free GPUs and on one with
// 3. On the first it would leave 7, on which no request of 8 fits any more; on the second it costs later requests less.
//
// Inputs and invalidation: a cost follows from the class, from what is free on the node (which its number stands for,
// room.go), and from the mix. The mix changes seldom (package mix), and then all classes are dropped, with all their scores.
// A cost is one call of Table.Cost for each node that is measured.

// prices are the prices that follow from one mix. They do not change: another mix has prices of its own, so that a pointer
// tells them apart.
type prices struct {
	mix   *api.RequestMix
	table *fragment.Table
	cpu   int // the dimension of cores
}

// Price sets the mix by which placements are priced where Packing is priced; nil: there is none, and priced packing is as
// tight. The same or an equal mix changes nothing. Scores hold at the prices that they were made at, so that another mix
// drops all classes. That is rare: a plan tells another mix when a part of the requests has become others.
func (x *Index) Price(mix *api.RequestMix) {
	was := x.prices
	switch {
	case mix == nil && was == nil || mix != nil && was != nil && (mix == was.mix || mix.Alike(was.mix)):
		return
	case mix == nil:
		x.prices = nil
	default:
		x.prices = newPrices(mix, x.m.Dims)
	}
	//archtest:any-order each class is by itself
	for _, c := range x.classes.byKey {
		c.Dropped = true
	}
	clear(x.classes.byKey)
	x.dropLooks()
}

// newPrices works out the prices of the mix. It costs what fragment.Mix.Table costs, once for each mix.
func newPrices(mix *api.RequestMix, dims *quantity.Dims) *prices {
	// Models are numbered by their place in mix.Supply, which is sorted by name.
	supply := make([]int64, len(mix.Supply))
	for i, s := range mix.Supply {
		supply[i] = s.GPUs
	}
	kinds, counts := make([]fragment.Kind, len(mix.Requests)), make([]int64, len(mix.Requests))
	for i := range mix.Requests {
		r := &mix.Requests[i]
		k := fragment.Kind{CPU: r.CPU, Cards: int(r.GPUs), Milli: wholeCard, Models: anyModel}
		// A request that names models accepts those of them that the mix knows; one of unknown models alone accepts none.
		if r.Models != nil {
			k.Models = 0
			for _, model := range r.Models {
				if at := numberOf(mix, model); at < otherModels {
					k.Models |= 1 << at
				}
			}
		}
		kinds[i], counts[i] = k, r.Count
	}
	return &prices{mix: mix, table: fragment.MixOf(supply, kinds, counts).Table(fragment.Default), cpu: dims.ID(api.CPU)}
}

const (
	wholeCard   = 1000                // fragment.Kind.Milli: thousandths of each card
	anyModel    = ^uint64(0)          // fragment.Kind.Models: a bit for each model
	otherModels = api.MostMixedModels // the number of every model that a mix does not know
)

// numberOf is the number of the model in the mix, otherModels if the mix does not know it.
func numberOf(mix *api.RequestMix, model string) int {
	at, ok := slices.BinarySearchFunc(mix.Supply, model, func(s api.ModelSupply, model string) int { return strings.Compare(s.Model, model) })
	if !ok {
		return otherModels
	}
	return at
}

// kindOfRequest is what a pod of the shape asks for, as far as prices go, cut to what a mix counts. The models that it
// accepts are left out: the cost is what the pod does to later requests, and theirs are in the mix. Parts of GPUs have no
// cards here, and are not priced by them.
func kindOfRequest(sh *cluster.Shape) fragment.Kind {
	k := fragment.Kind{CPU: min(sh.Spec.Requests.Get(api.CPU), api.MostMixedCPU), Cards: int(min(sh.GPUs, api.MostMixedGPUs))}
	if k.Cards > 0 {
		k.Milli = wholeCard
	}
	return k
}

// cost is what a pod of the class on the node costs later requests, in coarse parts of a card (fragment.Weights.Coarse);
// below 0 they gain by it. There must be prices. The node has room for the pod.
func (x *Index) cost(c *Class, n *cluster.Node) int64 {
	room := x.roomOf(n)
	cost, _ := x.prices.table.Cost(&room, &c.kind)
	return cost
}

// roomOf is what is free on the node, as far as prices go. A card is free or taken: one of which parts are given away is of no
// use to a request for whole ones, and counts as taken. A node with GPUs of several models, which is rare, counts as one of
// the first by name.
func (x *Index) roomOf(n *cluster.Node) fragment.Room {
	k := x.Kind(n)
	// Others may have given away more than there is, and holds may keep more than is free: free is cut at 0.
	cards := min(k.size.At(quantity.DimGPU), api.MostMixedGPUs)
	free := max(0, min(n.Free.At(quantity.DimGPU), cards))
	// Where the devices are known, those count that are free one by one, less as many as pods have that did not say which.
	if len(n.Devices) > 0 {
		//mutate: score-priced-beside-parts
		free = min(free, max(0, n.FreeDevices-n.UnknownDevices))
	}
	// The number of the model is looked up once for each kind of nodes and mix.
	if k.pricedBy != x.prices {
		model := ""
		if len(k.Models) > 0 {
			model = k.Models[0]
		}
		k.pricedBy, k.model = x.prices, numberOf(x.prices.mix, model)
	}
	return fragment.Room{
		CPU:   max(-mostCores, min(n.Free.At(x.prices.cpu), mostCores)),
		Whole: int(free), Taken: int(cards - free), Model: k.model,
	}
}

// mostCores bounds what counts of a node's cores, in thousandths of a core, so that products of it do not overflow.
const mostCores = 1 << 31
