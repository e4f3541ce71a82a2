package place

import (
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/index"
	"github.com/berth-dev/berth/engine/internal/quantity"
)

// Class returns the pod's class, up to date. Pods of one class fit alike on every node, whatever
// else they are.
//
// The model is part of the class only of pods whose fit depends on it: those that name models, and
// with all every pod that asks for GPUs. Other members, such as a launcher without GPUs, so have
// one class for all models that the gang is tried with.
func (k Kin) Class(p *cluster.Pod) *index.Class {
	key := k.base
	key.Shape, key.Stance = k.s.m.Flavored(k.flavors, p), p.Stance()
	if p.AsksModel() || k.all && p.Amount(quantity.DimGPU) > 0 {
		key.Model = k.model
	}
	return k.s.ix.ClassOf(key, k.Refusals)
}
