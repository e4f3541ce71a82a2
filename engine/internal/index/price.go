package index

import (
	"slices"
	"strings"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/fragment"
	"github.com/berth-dev/berth/engine/internal/quantity"
)

// prices are those of a mix. They do not change.
type prices struct {
	mix   *api.RequestMix
	table *fragment.Table
	cpu   int // dimension
}

// Price lets placements cost what the mix says where Packing is priced; nil: it is as tight. Scores of classes hold at the
// prices that they were made at, so that all classes are dropped where the mix says something else. That is rare: a plan tells
// another mix when a part of the requests has become others.
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

func newPrices(mix *api.RequestMix, dims *quantity.Dims) *prices {
	supply := make([]int64, len(mix.Supply))
	for i, s := range mix.Supply {
		supply[i] = s.GPUs
	}
	kinds, counts := make([]fragment.Kind, len(mix.Requests)), make([]int64, len(mix.Requests))
	for i := range mix.Requests {
		r := &mix.Requests[i]
		k := fragment.Kind{CPU: r.CPU, Cards: int(r.GPUs), Milli: wholeCard, Models: anyModel}
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
	wholeCard   = 1000 // thousandths
	anyModel    = ^uint64(0)
	otherModels = api.MostMixedModels // the number of models that a mix does not know
)

// numberOf is the number of the model in the mix.
func numberOf(mix *api.RequestMix, model string) int {
	at, ok := slices.BinarySearchFunc(mix.Supply, model, func(s api.ModelSupply, model string) int { return strings.Compare(s.Model, model) })
	if !ok {
		return otherModels
	}
	return at
}

// kindOfRequest is what a class asks for, as far as prices go. Its models matter to others alone.
func kindOfRequest(sh *cluster.Shape) fragment.Kind {
	k := fragment.Kind{CPU: min(sh.Spec.Requests.Get(api.CPU), api.MostMixedCPU), Cards: int(min(sh.GPUs, api.MostMixedGPUs))}
	if k.Cards > 0 {
		k.Milli = wholeCard
	}
	return k
}

// cost is what a pod of the class costs later requests on the node, in coarse parts of a card; below 0 it is of use to them.
func (x *Index) cost(c *Class, n *cluster.Node) int64 {
	room := x.roomOf(n)
	cost, _ := x.prices.table.Cost(&room, &c.kind)
	return cost
}

// roomOf is what is free on the node, as far as prices go. A card is free or taken; one of which parts are given away is of no use to
// who asks for whole ones, and counts as taken. A node with GPUs of several models, which is rare, counts as one of the first by name.
func (x *Index) roomOf(n *cluster.Node) fragment.Room {
	k := x.Kind(n)
	cards := min(k.size.At(quantity.DimGPU), api.MostMixedGPUs)
	free := max(0, min(n.Free.At(quantity.DimGPU), cards))
	if len(n.Devices) > 0 {
		//mutate: score-priced-beside-parts
		free = min(free, max(0, n.FreeDevices-n.UnknownDevices))
	}
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

// mostCores bounds what counts of a node's cores, in thousandths.
const mostCores = 1 << 31
