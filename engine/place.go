package engine

import (
	"slices"
	"strings"

	"github.com/berth-dev/berth/engine/why"
)

// found is the outcome of looking for places.
type found struct {
	ok    bool
	model string     // the GPU model chosen among alternatives
	gates []why.Gate // why not
}

// place seats the gang's minimum, trying GPU models in order, or says why it cannot.
func (y *cycle) place(g *gang, t turn) found {
	var out found
	for _, alt := range y.alternatives(g) {
		if out = y.placeWith(g, t, alt, out.gates); out.ok {
			return out
		}
	}
	return out
}

// alternatives lists which of the members' GPU models to try: all in order, or, where members run on one
// of them, that one.
func (y *cycle) alternatives(g *gang) []int {
	n := 1
	for _, p := range g.all() {
		if p.waits() {
			n = max(n, len(p.GPU.Models))
		}
	}
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	if n == 1 {
		return out
	}
	for _, p := range g.all() {
		if p.seat == nil || p.Terminating || p.amount(dimGPU) == 0 {
			continue
		}
		if i := slices.Index(p.GPU.Models, p.model()); i >= 0 {
			return []int{i}
		}
	}
	return out
}

// model returns the GPU model that the pod runs on, "" where that is not known.
func (p *pod) model() string {
	for _, id := range p.seatDevices {
		if i := p.seat.deviceIndex(id); i >= 0 {
			return p.seat.devices[i].Model
		}
	}
	if k := p.seat.kind; k != nil && len(k.models) == 1 {
		return k.models[0]
	}
	return ""
}

// placeWith tries one alternative of the GPU models. gates are those of the alternatives before it.
func (y *cycle) placeWith(g *gang, t turn, alt int, gates []why.Gate) found {
	p, alike := g.alike()
	kin := y.kin(g, t, alt)
	if !alike {
		return y.search(g, kin, gates)
	}
	c := kin.class(p)
	o := y.order(g, c)
	if n := y.nominated(p); n != nil && y.s.fits(c, scope{node: n}) > 0 {
		y.s.put(p, n, c)
		return found{ok: true, model: c.model}
	}
	if y.s.placeUniform(o) {
		return found{ok: true, model: c.model}
	}
	return found{gates: append(gates, y.prove(o))}
}

// nominated returns the node that others nominated a pod by itself for.
func (y *cycle) nominated(p *pod) *node {
	if p.Gang != "" || p.Nominated == "" {
		return nil
	}
	if n := y.s.nodes[p.Nominated]; n != nil && n.shelf != nil {
		return n
	}
	return nil
}

// alike returns the gang's first waiting member, and whether counting decides the gang: no subgroups, all
// waiting members of one shape, and no segment begun already.
func (g *gang) alike() (*pod, bool) {
	var first *pod
	if g.lone != nil {
		return g.lone, true
	}
	for _, p := range g.tree.pods {
		if p.seat != nil {
			continue
		}
		if first == nil {
			first = p
		}
		if p.shape != first.shape {
			return first, false
		}
	}
	begun := g.layout().Segment > 0 && g.tree.seated > 0
	return first, len(g.tree.children) == 0 && !begun
}

// order makes the order of the gang's minimum.
func (y *cycle) order(g *gang, c *class) order {
	o := order{class: c, layout: g.layout(), kept: y.kept}
	for _, p := range g.tree.pods {
		if p.seat != nil {
			o.running = append(o.running, p)
			continue
		}
		o.want++
		if len(o.pods) < g.tree.min()-g.tree.seated {
			o.pods = append(o.pods, p)
		}
	}
	return o
}

// kin makes classes of a gang's members for one alternative of GPU models.
type kin struct {
	s        *State
	base     classKey
	alt      int
	refusals []*Refusal
}

func (y *cycle) kin(g *gang, t turn, alt int) kin {
	k := kin{s: y.s, alt: alt, refusals: y.refusals(g)}
	k.base.priority = t.priority
	if g.whole {
		k.base.whole = g.key
	}
	var names []string
	for _, r := range k.refusals {
		names = append(names, r.Node)
	}
	k.base.refused = strings.Join(names, "\x00")
	return k
}

// class returns the pod's class, up to date.
func (k kin) class(p *pod) *class {
	key := k.base
	key.shape = k.s.shapeOf(p)
	if models := p.GPU.Models; len(models) > 0 && key.shape.gpus > 0 {
		key.model = models[min(k.alt, len(models)-1)]
	}
	return k.s.classOf(key, k.refusals)
}

// refusals lists the refusals that still keep the gang from nodes, one a node, by node.
func (y *cycle) refusals(g *gang) []*Refusal {
	if len(y.s.refusals) == 0 {
		return nil
	}
	var out []*Refusal
	for _, p := range g.all() {
		for _, r := range y.s.refusedOf[p.Key] {
			if (r.UID == "" || r.UID == p.UID) && live(r.Until, y.now) && !y.s.isRejected(KindRefusal, r.Pod+"@"+r.Node) {
				out = append(out, r)
			}
		}
	}
	slices.SortFunc(out, func(a, b *Refusal) int {
		if c := strings.Compare(a.Node, b.Node); c != 0 {
			return c
		}
		return strings.Compare(a.Pod, b.Pod)
	})
	return slices.CompactFunc(out, func(a, b *Refusal) bool { return a.Node == b.Node })
}
