package engine_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/berth-dev/berth/engine"
)

// name has some pods of some worlds want some GPUs only. It is drawn apart, so that the worlds of other seeds stay what they are.
func (w *soakWorld) name(s *engine.Spec) {
	if w.seed%6 != 4 || s.Part == nil && s.Requests.Get(gpu) == 0 {
		return
	}
	if w.names == nil {
		w.names = rand.New(rand.NewPCG(w.seed, 11))
	}
	r := w.names
	some := func() (out []string) {
		for range 1 + r.IntN(3) {
			node := fmt.Sprintf("n%02d", r.IntN(len(w.nodes)+1))
			for i := range 1 + r.IntN(8) {
				out = append(out, fmt.Sprintf("%s-%d", node, i))
			}
		}
		return out
	}
	switch r.IntN(6) {
	case 0:
		s.GPU.Only = some()
	case 1:
		s.GPU.Except = some()
	case 2:
		s.GPU.Only, s.GPU.Except = some(), some()
	case 3:
		s.GPU.NotModels = []string{[]string{"A", "B", "C"}[r.IntN(3)]}
	}
}

// spread has some parts of GPUs, of every other world, take the cards of which the most is left. It is drawn apart, for the same reason.
func (w *soakWorld) spread(s *engine.Spec) {
	if w.seed%2 != 1 || s.Part == nil {
		return
	}
	if w.spreads == nil {
		w.spreads = rand.New(rand.NewPCG(w.seed, 12))
	}
	s.Part.Spread = w.spreads.IntN(2) == 1
}

// checkNames checks that the pod, which starts on the devices, may have each of them.
func (w *soakWorld) checkNames(p *soakPod, at engine.Placement) {
	g := &p.GPU
	if len(g.Only)+len(g.Except)+len(g.NotModels) == 0 {
		return
	}
	n := w.nodes[at.Node]
	gpus := slices.ContainsFunc(at.Devices, func(id string) bool { return !strings.Contains(id, "/") })
	if !gpus && (len(g.Only)+len(g.Except) > 0 || slices.Contains(g.NotModels, n.Model)) {
		w.fail("named", "%s starts on %s without devices, and may have %s", p.Key, at.Node, g.Which())
	}
	for _, id := range at.Devices {
		if strings.Contains(id, "/") {
			continue // for claims: see checkAsks
		}
		i := slices.IndexFunc(n.Devices, func(d engine.Device) bool { return d.ID == id })
		if i < 0 || g.Only != nil && !slices.Contains(g.Only, id) || slices.Contains(g.Except, id) || slices.Contains(g.NotModels, n.Devices[i].Model) {
			w.fail("named", "%s starts with %s of %s, and may have %s", p.Key, id, at.Node, g.Which())
		}
	}
}
