package engine

import (
	"hash/maphash"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/quantity"
	"github.com/berth-dev/berth/engine/why"
)

// shape is a Spec met before, so that equal ones are one pointer.
type shape struct {
	spec     *api.Spec
	demands  []quantity.Demand // the scarcest first: GPUs before the rest
	gpus     int64
	keys     []string // label keys that it asks about, sorted
	features []why.Feature

	// What follows from the labels that are asked about, as of State.kindsMade.
	matched uint64
	matcher *matcher
	masks   []mask    // by node kind
	own     []ownMask // by node.index, for kinds to which the node's name matters
}

// shapes finds the shape of a spec. It forgets all when it grows too large: pods keep those they have.
type shapes struct {
	seed   maphash.Seed
	byHash map[uint64][]*shape
	n      int
	last   *shape // that was asked for: members of a gang are mostly alike
}

const maxShapes = 1 << 14

func (s *State) shapeOf(p *pod) *shape {
	if p.shape == nil {
		p.shape = s.internShape(&p.Spec)
	}
	return p.shape
}

func (s *State) internShape(spec *api.Spec) *shape {
	t := &s.shapes
	if t.last != nil && spec.Equal(t.last.spec) {
		return t.last
	}
	if t.byHash == nil || t.n >= maxShapes {
		*t = shapes{seed: maphash.MakeSeed(), byHash: make(map[uint64][]*shape)}
	}
	h := t.hash(spec)
	for _, sh := range t.byHash[h] {
		if spec.Equal(sh.spec) {
			t.last = sh
			return sh
		}
	}
	sh := &shape{spec: spec, demands: s.dims.Demands(spec.Requests), keys: spec.Keys(), features: unsupported(spec)}
	for i, d := range sh.demands {
		if d.Dim == quantity.DimGPU {
			sh.gpus = d.Amount
			sh.demands[0], sh.demands[i] = sh.demands[i], sh.demands[0]
		}
	}
	t.byHash[h] = append(t.byHash[h], sh)
	t.n++
	t.last = sh
	return sh
}

// hash need not see everything; equal decides.
func (t *shapes) hash(spec *api.Spec) uint64 {
	var h maphash.Hash
	h.SetSeed(t.seed)
	var sum uint64
	for _, a := range spec.Requests {
		sum += maphash.String(t.seed, a.Resource) * uint64(2*a.Value+1)
	}
	for k, v := range spec.Selector {
		sum += maphash.String(t.seed, k) ^ 3*maphash.String(t.seed, v)
	}
	for i := range spec.Affinity {
		for _, r := range spec.Affinity[i].Labels {
			hashRequirement(&h, r)
		}
		for _, r := range spec.Affinity[i].Fields {
			hashRequirement(&h, r)
		}
	}
	for i := range spec.Tolerations {
		h.WriteString(spec.Tolerations[i].Key)
		h.WriteString(spec.Tolerations[i].Value)
	}
	for _, m := range spec.GPU.Models {
		h.WriteString(m)
	}
	for _, n := range spec.Nodes {
		h.WriteString(n)
	}
	h.WriteString(spec.NodeName)
	return sum ^ h.Sum64()
}

func hashRequirement(h *maphash.Hash, r api.Requirement) {
	h.WriteString(r.Key)
	h.WriteString(string(r.Op))
	for _, v := range r.Values {
		h.WriteString(v)
	}
}
