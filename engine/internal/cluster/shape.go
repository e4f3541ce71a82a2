package cluster

import (
	"hash/maphash"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/quantity"
	"github.com/berth-dev/berth/engine/why"
)

// Shape is a Spec met before, so that equal ones are one pointer.
type Shape struct {
	Spec     *api.Spec
	Demands  []quantity.Demand // the scarcest first: GPUs before the rest
	GPUs     int64
	HasGPU   bool     // it asks for GPUs or for parts of some
	Keys     []string // label keys that it asks about, sorted
	Flavors  []string // that it is narrowed to, sorted
	Features []why.Feature
	Own      *OwnRules // between pods; nil while no known pod has them
}

// shapes finds the shape of a spec. It forgets all when it grows too large: pods keep those they have.
type shapes struct {
	seed   maphash.Seed
	byHash map[uint64][]*Shape
	n      int
	last   *Shape // that was asked for: members of a gang are mostly alike
}

const maxShapes = 1 << 14

func (m *Model) ShapeOf(p *Pod) *Shape {
	if p.Shape == nil {
		p.Shape = m.internShape(&p.Spec)
	}
	return p.Shape
}

func (m *Model) internShape(spec *api.Spec) *Shape {
	t := &m.shapes
	if t.last != nil && spec.Equal(t.last.Spec) {
		return t.last
	}
	if t.byHash == nil || t.n >= maxShapes {
		*t = shapes{seed: maphash.MakeSeed(), byHash: make(map[uint64][]*Shape)}
	}
	h := t.hash(spec)
	for _, sh := range t.byHash[h] {
		if spec.Equal(sh.Spec) {
			t.last = sh
			return sh
		}
	}
	sh := &Shape{Spec: spec, Demands: m.Dims.Demands(spec.Requests), Keys: spec.Keys(), Features: spec.Features}
	for i, d := range sh.Demands {
		if d.Dim == quantity.DimGPU {
			sh.GPUs = d.Amount
			sh.Demands[0], sh.Demands[i] = sh.Demands[i], sh.Demands[0]
		}
	}
	sh.HasGPU = sh.GPUs > 0 || spec.Part != nil
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
	for _, names := range [][]string{spec.GPU.Models, spec.GPU.Only, spec.GPU.Except, spec.GPU.NotModels} {
		for _, m := range names {
			h.WriteString(m)
		}
	}
	for _, n := range spec.Nodes {
		h.WriteString(n)
	}
	h.WriteString(spec.NodeName)
	for _, terms := range [][]api.PodTerm{spec.Rules().PodAffinity, spec.Rules().PodAntiAffinity} {
		for i := range terms {
			hashSelector(&h, terms[i].Topology, terms[i].Namespaces, terms[i].Labels)
		}
	}
	for i := range spec.Rules().Spread {
		hashSelector(&h, spec.Rules().Spread[i].Topology, nil, spec.Rules().Spread[i].Labels)
		h.WriteString(spec.Rules().Spread[i].Namespace)
	}
	if p := spec.Part; p != nil {
		sum += uint64(p.Memory)*31 + uint64(p.Share)*37 + uint64(p.Compute)*41 + uint64(p.Cards)
	}
	if spec.Claims != nil {
		for i := range spec.Claims.Requests {
			h.WriteString(spec.Claims.Requests[i].Options[0].Selection)
		}
	}
	return sum ^ h.Sum64()
}

func hashSelector(h *maphash.Hash, topology string, namespaces []string, labels []api.Requirement) {
	h.WriteString(topology)
	for _, n := range namespaces {
		h.WriteString(n)
	}
	for _, r := range labels {
		hashRequirement(h, r)
	}
}

func hashRequirement(h *maphash.Hash, r api.Requirement) {
	h.WriteString(r.Key)
	h.WriteString(string(r.Op))
	for _, v := range r.Values {
		h.WriteString(v)
	}
}
