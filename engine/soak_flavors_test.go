package engine_test

import (
	"math/rand/v2"

	"github.com/berth-dev/berth/engine"
)

// flavored says whether queues of the world count flavors of nodes. What is drawn for that is drawn apart, so that the worlds of other
// seeds stay what they are.
func (w *soakWorld) flavored() bool { return w.seed%5 == 3 }

// chance is drawn from for flavors.
func (w *soakWorld) chance() *rand.Rand {
	if w.flavors == nil {
		w.flavors = rand.New(rand.NewPCG(w.seed, 7))
	}
	return w.flavors
}

// label gives the node what flavors tell nodes apart by.
func (w *soakWorld) label(n *engine.Node) {
	if !w.flavored() {
		return
	}
	r := w.chance()
	if kind := []string{"", "spot", "reserved"}[r.IntN(3)]; kind != "" {
		n.Labels["kind"] = kind
	} else {
		delete(n.Labels, "kind")
	}
	if r.IntN(2) == 0 {
		n.Labels["zone"] = "a"
	} else {
		delete(n.Labels, "zone")
	}
}

// flavor has the queue count GPUs, or CPU too, by flavor.
func (w *soakWorld) flavor(q *engine.Queue) {
	if !w.flavored() {
		return
	}
	r := w.chance()
	if r.IntN(3) == 0 {
		return
	}
	all := []engine.Flavor{
		{Name: "spot", Labels: map[string]string{"kind": "spot"}}, {Name: "reserved", Labels: map[string]string{"kind": "reserved"}},
		{Name: "any"}, {Name: "near", Labels: map[string]string{"kind": "spot", "zone": "a"}},
	}
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	g := engine.FlavorGroup{Resources: []string{gpu}, Flavors: all[:1+r.IntN(len(all))]}
	if r.IntN(3) == 0 {
		g.Resources = []string{engine.CPU, gpu}
	}
	for _, f := range g.Flavors {
		name := engine.OfFlavor(gpu, f.Name)
		quota := int64(r.IntN(6))
		if r.IntN(4) > 0 {
			q.Quota = append(q.Quota, engine.Amount{Resource: name, Value: quota})
		} else {
			quota = 0
		}
		if r.IntN(2) == 0 {
			q.Limits = append(q.Limits, engine.Amount{Resource: name, Value: quota + int64(r.IntN(5))})
		}
	}
	q.Flavors, q.QuotaFirst = []engine.FlavorGroup{g}, r.IntN(2) == 0
}

// inFlavor visits what so much of the resource on the node counts in the queue, by flavor.
func (w *soakWorld) inFlavor(queue, node, resource string, v int64, visit func(string, int64)) {
	n, known := w.nodes[node]
	if !known || w.chain(queue) == nil {
		return
	}
	for _, g := range w.queues[queue].Flavors {
		best := -1
		for i, f := range g.Flavors {
			has := true
			for key, value := range f.Labels {
				has = has && n.Labels[key] == value
			}
			if has && (best < 0 || len(f.Labels) > len(g.Flavors[best].Labels)) {
				best = i
			}
		}
		for _, r := range g.Resources {
			if r == resource && best >= 0 {
				visit(engine.OfFlavor(resource, g.Flavors[best].Name), v)
			}
		}
	}
}

// alikeFor says whether the other node is of the flavors that the pod has on this one: it may only be on those, and so spreads over no
// others. What counts by flavor is what it is billed here; another node may not even have what it asks for.
func (w *soakWorld) alikeFor(p *soakPod, here, other string) bool {
	queue, _ := p.queueOf()
	alike := true
	w.charges(p, here, func(name string, v int64) {
		resource, flavor, ok := engine.FlavorOf(name)
		if !ok || v == 0 {
			return
		}
		there := ""
		w.inFlavor(queue, other, resource, v, func(name string, _ int64) { _, there, _ = engine.FlavorOf(name) })
		alike = alike && there == flavor
	})
	return alike
}
