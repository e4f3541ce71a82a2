package engine_test

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/berth-dev/berth/engine"
)

// Pods of some worlds ask for more than amounts: for nodes with a label, of a list or of a name, for ports, for GPUs of one NUMA node and
// for devices of claims, of one node or of several, whole or in shares; they prefer nodes, have images, and do not end by
// themselves. Gangs are laid out in segments, evenly, or spread; nodes and queues have a packing of their own; classes of
// pods are forgotten soon, searches end early, and what is told is settled. All of it is drawn apart, so that the worlds of other seeds stay
// what they are.

// asking says whether the world is one of them.
func (w *soakWorld) asking() bool { return slices.Contains([]uint64{2, 3, 7, 11}, w.seed%13) }

// wants is drawn from for what only these worlds have.
func (w *soakWorld) wants() *rand.Rand {
	if w.wishes == nil {
		w.wishes = rand.New(rand.NewPCG(w.seed, 13))
	}
	return w.wishes
}

func soakWant[E any](w *soakWorld, of ...E) E { return of[w.wants().IntN(len(of))] }

// askConfig has few classes be kept, and searches end early.
func (w *soakWorld) askConfig() {
	if w.asking() {
		w.cfg.Classes, w.cfg.SearchBudget = soakWant(w, 0, 2, 5), soakWant(w, 0, 3, 40)
	}
}

// askNode gives the node a packing of its own, images, a label that pods ask for, and devices for claims.
func (w *soakWorld) askNode(n *engine.Node) {
	if !w.asking() {
		return
	}
	n.Packing = soakWant(w, "", "", "", engine.Loose, engine.Tight, engine.LeastF, engine.Priced)
	n.Labels["disk"] = soakWant(w, "0", "1")
	n.Images = soakWant(w, nil, []engine.Image{{Name: "train", Bytes: 1 << 30}}, []engine.Image{{Name: "serve", Bytes: 1 << 29}, {Name: "train", Bytes: 1 << 33}})
	n.Offers = nil
	for i := range w.wants().IntN(4) {
		n.Offers = append(n.Offers, engine.Offer{
			ID: fmt.Sprintf("nic/%s/%d", n.Name, i), Selections: soakWant(w, []string{"nic"}, []string{"fast", "nic"}),
			Attributes: map[string]string{"root": soakWant(w, "a", "b")},
		})
	}
	if w.wants().IntN(2) == 0 {
		n.Offers = append(n.Offers, engine.Offer{
			ID: "eth/" + n.Name, Selections: []string{"eth"}, Shared: true, Capacity: []engine.Counter{{Name: "rate", Amount: soakWant[int64](w, 2, 4, 10)}},
			Uses: []engine.Use{{Selection: "eth", Draws: []engine.Draw{{Counter: "rate", Amount: 2}}}},
		})
	}
	if n.Counters = nil; w.wants().IntN(3) == 0 { // partitions of a card
		n.Counters = []engine.Counter{{Name: "card", Amount: 4}}
		for i := range 3 {
			n.Offers = append(n.Offers, engine.Offer{ID: fmt.Sprintf("part/%s/%d", n.Name, i), Selections: []string{"part"}, Draws: []engine.Draw{{Counter: "card", Amount: int64(1 + i)}}})
		}
	}
	if w.wants().IntN(2) == 0 { // all nodes with it reach it
		n.Offers = append(n.Offers, engine.Offer{ID: "fabric/0", Selections: []string{"fabric"}, Reach: "fabric"}, engine.Offer{ID: "fabric/1", Selections: []string{"fabric"}, Reach: "fabric"})
	}
}

// ask has a pod ask for more than amounts. The names of nodes in it need not be those of nodes that there are.
func (w *soakWorld) ask(s *engine.Spec) {
	if !w.asking() || w.born%11 == 8 { // what spreads counts the nodes that it may be on: see rule
		return
	}
	name := func() string { return fmt.Sprintf("n%02d", w.wants().IntN(len(w.nodes)+1)) }
	switch w.wants().IntN(14) {
	case 0:
		s.Selector = map[string]string{"disk": soakWant(w, "0", "1")}
	case 1:
		s.Affinity = []engine.Term{{Labels: []engine.Requirement{{Key: "disk", Op: soakWant(w, engine.In, engine.NotIn), Values: []string{"0"}}}}}
	case 2:
		s.Preferred = []engine.Preference{{Weight: 10, Term: engine.Term{Labels: []engine.Requirement{{Key: "disk", Op: engine.In, Values: []string{"1"}}}}}}
	case 3:
		s.Ports = []engine.Port{{Port: soakWant[int32](w, 80, 81)}}
	case 4:
		if s.NodeName = name(); w.wants().IntN(2) == 0 {
			s.NodeName, s.Nodes = "", []string{name(), name()}
			slices.Sort(s.Nodes)
			s.Nodes = slices.Compact(s.Nodes)
		}
	case 5:
		if s.Part == nil && s.Requests.Get(gpu) > 0 {
			s.GPU.NUMA = soakWant(w, engine.Prefer, engine.Require)
		}
	case 6:
		s.Tolerations = []engine.Toleration{{Key: "team", Op: "Exists"}}
	case 7, 8, 9, 10:
		w.claim(s)
	}
}

// claim has the pod claim devices beside what it requests.
func (w *soakWorld) claim(s *engine.Spec) {
	opt := engine.DeviceOption{Selection: soakWant(w, "nic", "nic", "fast", "eth", "part", "fabric"), Count: 1}
	s.Claims = &engine.Claims{GPUsByCount: true}
	if opt.Selection == "nic" {
		switch w.wants().IntN(4) {
		case 0:
			opt.Count, opt.Match = 2, []int{0}
			s.Claims.Match = []engine.DeviceAgreement{{Attribute: "root", Distinct: w.wants().IntN(2) == 0}}
		case 1:
			opt.Count, opt.All = 0, true
		}
	}
	options := []engine.DeviceOption{opt}
	if opt.Selection == "fast" && w.wants().IntN(2) == 0 {
		options = append(options, engine.DeviceOption{Selection: "nic", Count: 2})
	}
	s.Claims.Requests = []engine.DeviceRequest{{Name: "c/r", Options: options}}
}

// askPod gives the pod images, and has some not end by themselves.
func (w *soakWorld) askPod(p *engine.Pod) {
	if w.asking() {
		p.Images, p.Endless = soakWant(w, nil, nil, []string{"train"}, []string{"serve", "train"}), w.wants().IntN(4) == 0
	}
}

// askLayout lays the gang out, if it has no groups.
func (w *soakWorld) askLayout(g *engine.Gang) {
	if !w.asking() || len(g.Groups) > 0 {
		return
	}
	switch w.wants().IntN(8) {
	case 0:
		g.Layout.Spread = soakWant(w, "rack", engine.NodeLevel)
	case 1:
		g.Layout.Preferred = soakWant(w, "rack", "block")
		g.Layout.Balanced = w.wants().IntN(2) == 0
	case 2:
		g.Layout.Segment, g.Layout.SegmentLevel = soakWant(w, 1, 2, 3), soakWant(w, "rack", engine.NodeLevel)
	}
}

// askTrouble is what happens there now and then.
func (w *soakWorld) askTrouble() {
	if !w.asking() {
		return
	}
	switch w.wants().IntN(80) {
	case 0:
		w.diary("settled up to %d", w.version)
		w.tell(engine.Change{Settled: w.version})
	case 1, 2:
		w.changeOffers()
	case 3:
		key := soakWant(w, soakKeys(w.disruptions)...)
		w.disrupt(w.disruptions[key])
		w.diary("budget %s is told again", key)
	}
}

// changeOffers has a node lose a device for claims, or has another hold it, or takes that back; and images come or go.
func (w *soakWorld) changeOffers() {
	names := soakKeys(w.nodes)
	if len(names) == 0 {
		return
	}
	n := w.nodes[soakWant(w, names...)]
	n.Images = soakWant(w, nil, []engine.Image{{Name: "serve", Bytes: 1 << 31}})
	if n.Offers = slices.Clone(n.Offers); len(n.Offers) > 0 {
		i := w.wants().IntN(len(n.Offers))
		switch o := &n.Offers[i]; {
		case o.Reach != "" || o.Shared: // what it is, is for several nodes or pods to say
		case w.wants().IntN(3) == 0:
			n.Offers = slices.Delete(n.Offers, i, i+1)
		default:
			o.Taken = !o.Taken
		}
	}
	w.diary("node %s offers %+v", n.Name, n.Offers)
	w.tellNode(n)
}

// checkAsks checks that what starts may be on its node, and has devices there that no other has.
func (w *soakWorld) checkAsks(plan engine.Plan) {
	if !w.asking() {
		return
	}
	for _, s := range plan.Starts {
		for _, x := range s.Placements {
			w.checkAsksOf(w.pods[x.Pod], w.nodes[x.Node], x.Devices)
		}
	}
}

func (w *soakWorld) checkAsksOf(p *soakPod, n engine.Node, devices []string) {
	for key, v := range p.Selector {
		if n.Labels[key] != v {
			w.fail("asks", "%s starts on %s, which has not %s=%s", p.Key, n.Name, key, v)
		}
	}
	for _, t := range p.Affinity {
		if r := t.Labels[0]; (n.Labels[r.Key] == r.Values[0]) != (r.Op == engine.In) {
			w.fail("asks", "%s starts on %s, and asks for %+v", p.Key, n.Name, r)
		}
	}
	if p.NodeName != "" && p.NodeName != n.Name || p.Nodes != nil && !slices.Contains(p.Nodes, n.Name) {
		w.fail("asks", "%s starts on %s, and may be on %s %v", p.Key, n.Name, p.NodeName, p.Nodes)
	}
	numa := map[int]bool{}
	for _, d := range n.Devices {
		if slices.Contains(devices, d.ID) {
			numa[d.NUMA] = true
		}
	}
	if p.GPU.NUMA == engine.Require && len(numa) > 1 {
		w.fail("asks", "%s starts with %v of %s, of several NUMA nodes", p.Key, devices, n.Name)
	}
	had, drawn := 0, map[string]int64{}
	for _, key := range soakKeys(w.pods) {
		o := w.pods[key]
		node, held := w.seatOf(o)
		if o != p && node == n.Name && len(p.Ports) > 0 && slices.Equal(o.Ports, p.Ports) {
			w.fail("asks", "%s starts on %s, and %s has port %d there", p.Key, n.Name, key, p.Ports[0].Port)
		}
		for _, id := range held {
			i := slices.IndexFunc(n.Offers, func(f engine.Offer) bool { return f.ID == engine.DeviceOf(id) })
			if i < 0 {
				continue
			}
			if f := &n.Offers[i]; node == n.Name {
				for _, d := range f.Draws {
					drawn[d.Counter] += d.Amount
				}
				if f.Shared {
					drawn[f.ID] += f.Uses[0].Draws[0].Amount
				}
			}
			if o != p && !n.Offers[i].Shared && slices.Contains(devices, id) {
				w.fail("asks", "%s starts with %s, which %s has on %s", p.Key, id, key, node)
			}
			if o == p {
				had++
			}
		}
	}
	for _, c := range n.Counters {
		if p.Claims != nil && drawn[c.Name] > c.Amount && p.Claims.Requests[0].Options[0].Selection == "part" {
			w.fail("asks", "with %s %d of %d of %s are drawn on %s", p.Key, drawn[c.Name], c.Amount, c.Name, n.Name)
		}
	}
	for _, f := range n.Offers {
		if f.Shared && drawn[f.ID] > f.Capacity[0].Amount && p.Claims != nil && p.Claims.Requests[0].Options[0].Selection == "eth" {
			w.fail("asks", "with %s %d of %d are drawn on %s", p.Key, drawn[f.ID], f.Capacity[0].Amount, f.ID)
		}
	}
	if p.Claims != nil && had < max(1, p.Claims.Requests[0].Options[0].Count) {
		w.fail("asks", "%s starts on %s with %v, and claims %+v", p.Key, n.Name, devices, p.Claims.Requests)
	}
}
