package place

import (
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/index"
	"github.com/berth-dev/berth/engine/internal/quantity"
)

// Class returns the pod's class, up to date.
func (k Kin) Class(p *cluster.Pod) *index.Class {
	key := k.base
	key.Shape, key.Stance = k.s.m.Flavored(k.flavors, p), p.Stance()
	if p.AsksModel() || k.all && p.Amount(quantity.DimGPU) > 0 {
		key.Model = k.model
	}
	return k.s.ix.ClassOf(key, k.Refusals)
}
