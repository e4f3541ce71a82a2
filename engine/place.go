package engine

import (
	"slices"
	"strings"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/index"
	"github.com/berth-dev/berth/engine/internal/place"
	"github.com/berth-dev/berth/engine/why"
)

// found is the outcome of looking for places.
type found struct {
	ok    bool
	model string     // the GPU model chosen among alternatives
	gates []why.Gate // why not
}

// place places the gang's minimum, or says why it cannot. What memory of a card counts depends on the card, and what a slice
// of one does on its node: where that is more than the gang's queues have left, the gang waits.
func (y *cycle) place(g *cluster.Gang, t cluster.Turn) found {
	if !y.s.m.GangVaries(g) || g.Queue() == "" {
		return y.placeAny(g, t)
	}
	m := y.s.m.Mark()
	out := y.placeAny(g, t)
	if !out.ok {
		return out
	}
	//mutate: gate-parts-of-the-card
	if gates := y.limits.Overdrawn(g, y.s.m.AllocatedSince(m)); len(gates) > 0 {
		y.s.m.Rollback(m)
		return found{gates: gates}
	}
	return out
}

// placeAny places the gang's minimum, trying flavors of nodes and GPU models in order, or says why it cannot. Where queues count
// those apart, each is tried that the queue can afford.
func (y *cycle) placeAny(g *cluster.Gang, t cluster.Turn) found {
	apart, flavored := y.modelsApart(g), y.s.m.HasFlavors(g)
	if !apart && !flavored && !slices.ContainsFunc(g.All(), (*cluster.Pod).AsksModel) {
		return y.placeWith(g, t, way{}, nil)
	}
	var out found
	models, flavors := y.models(g), y.flavors(g)
	if len(models) == 0 {
		out.gates = append(out.gates, why.Gate{Cause: why.NoMatchingNode, Object: "a GPU model that all members name", Certificate: -1})
	}
	if len(flavors) == 0 {
		out.gates = append(out.gates, why.Gate{Cause: why.NoMatchingNode, Object: "a flavor of queue " + g.Queue() + " with the labels that its pods ask for", Certificate: -1})
	}
	for _, w := range ways(models, flavors) {
		if apart || flavored {
			//mutate: gate-quota-of-model
			if gates := y.limits.Gates(g, w.model, w.flavors); len(gates) > 0 {
				for _, gate := range gates {
					if !slices.Contains(out.gates, gate) { // what holds for all flavors is told once
						out.gates = append(out.gates, gate)
					}
				}
				continue
			}
		}
		if out = y.placeWith(g, t, w, out.gates); out.ok {
			return out
		}
	}
	return out
}

// way is with what a gang is tried.
type way struct {
	model   string          // of its GPUs; "": any
	flavors *cluster.Choice // nil: they do not matter
}

// ways lists each model with each choice of flavors, the first flavors with all models first.
func ways(models []string, flavors []*cluster.Choice) []way {
	out := make([]way, 0, len(models)*len(flavors))
	for _, f := range flavors {
		for _, m := range models {
			out = append(out, way{m, f})
		}
	}
	return out
}

// flavors lists the flavors to try, the best first: in the order of the queue or, where it says so, those first for which the queue
// need not borrow.
func (y *cycle) flavors(g *cluster.Gang) []*cluster.Choice {
	out := y.s.m.Choices(g)
	if len(out) < 2 || g.Payer == nil || g.Payer.Spec == nil || !g.Payer.Spec.QuotaFirst {
		return out
	}
	var within, borrow []*cluster.Choice
	for _, c := range out {
		//mutate: flavor-quota-first -> false
		if y.limits.Borrows(g, c) {
			borrow = append(borrow, c)
		} else {
			within = append(within, c)
		}
	}
	return append(within, borrow...)
}

// modelsApart says whether it matters to the gang's queue which GPU model its members get.
func (y *cycle) modelsApart(g *cluster.Gang) bool {
	return y.s.m.Tree.ByModel && g.Queue() != "" && slices.ContainsFunc(g.All(), (*cluster.Pod).HasGPU)
}

// allModels lists the GPU models that nodes have, by name; one "" where none is known. Kinds are kept when their last
// node is gone, so the nodes are asked, once in a cycle.
func (y *cycle) allModels() []string {
	if y.every != nil {
		return y.every
	}
	seen := make(map[*index.NodeKind]bool)
	for _, sh := range y.s.m.Topology.Buckets {
		for _, n := range sh.Nodes {
			if k := y.s.ix.Kind(n); !seen[k] {
				seen[k] = true
				y.every = append(y.every, k.Models...)
			}
		}
	}
	if len(y.every) == 0 {
		y.every = []string{""}
	}
	slices.Sort(y.every)
	y.every = slices.Compact(y.every)
	return y.every
}

// models lists the GPU models to try: those that the first waiting member to name any names, and all others
// that do, in its order; where a member runs on one of those that it named, that one alone. Where no waiting member
// names a model it is one "", or all there are if its queue counts them apart.
func (y *cycle) models(g *cluster.Gang) []string {
	var out []string
	asked, pinned := false, ""
	left := make(map[string]bool)
	for _, p := range g.All() {
		if p.Terminating || !p.AsksModel() {
			continue
		}
		switch {
		case p.Host != nil:
			if m := p.GPUModel(); pinned == "" && slices.Contains(p.GPU.Models, m) {
				pinned = m
			}
		case !asked:
			out, asked = slices.Clone(p.GPU.Models), true
		default:
			clear(left)
			for _, m := range p.GPU.Models {
				left[m] = true
			}
			out = slices.DeleteFunc(out, func(m string) bool { return !left[m] })
		}
	}
	if !asked && y.modelsApart(g) {
		return y.allModels()
	}
	if !asked {
		return []string{""}
	}
	return y.offered(slices.DeleteFunc(out, func(m string) bool { return pinned != "" && m != pinned }))
}

// offered are those of the models that some node has; where none has any of them the first stands for all: what keeps
// the gang from one that does not exist keeps it from all.
func (y *cycle) offered(models []string) []string {
	var out []string
	for _, m := range models {
		//mutate: filter-model-exists
		if y.s.m.Presence.Models[m] > 0 {
			out = append(out, m)
		}
	}
	if len(out) == 0 && len(models) > 0 {
		return models[:1]
	}
	return out
}

// placeWith tries one GPU model and one choice of flavors. gates are those of what was tried before it.
func (y *cycle) placeWith(g *cluster.Gang, t cluster.Turn, w way, gates []why.Gate) found {
	p, alike := g.Alike()
	kin := y.kin(g, t, w)
	if !alike {
		return y.search(g, kin, gates)
	}
	c := kin.Class(p)
	o := y.order(g, c)
	if o.Searches() {
		return y.search(g, kin, gates)
	}
	if n := y.s.m.NominatedNode(p); n != nil && y.s.ix.Fits(c, index.Scope{Node: n}) > 0 {
		y.s.ix.Put(p, n, c)
		return found{ok: true, model: c.Model}
	}
	if y.s.placer.Uniform(o) {
		return found{ok: true, model: c.Model}
	}
	if proved(gates) >= mostProofs {
		return found{gates: gates}
	}
	return found{gates: append(gates, y.prove(o))}
}

// mostProofs is for how many GPU models, of those that a gang names, it is proved that it has no place: the ones that it
// wants most. A proof counts all nodes, and nobody reads a dozen of them.
const mostProofs = 2

// proved counts the gates with a certificate.
func proved(gates []why.Gate) (n int) {
	for i := range gates {
		if gates[i].Certificate >= 0 {
			n++
		}
	}
	return n
}

// order makes the order of the gang's minimum.
func (y *cycle) order(g *cluster.Gang, c *index.Class) place.Order {
	o := place.Order{Class: c, Layout: g.Layout(), Kept: y.kept}
	if g.Tree.Allocated == 0 {
		o.Pods, o.Want = g.Tree.Pods[:g.Tree.Min()], len(g.Tree.Pods)
		return o
	}
	for _, p := range g.Tree.Pods {
		if p.Host != nil {
			o.Running = append(o.Running, p)
			continue
		}
		o.Want++
		if len(o.Pods) < g.Tree.Min()-g.Tree.Allocated {
			o.Pods = append(o.Pods, p)
		}
	}
	return o
}

// kin makes the gang's members into classes for one way to serve it.
func (y *cycle) kin(g *cluster.Gang, t cluster.Turn, w way) place.Kin {
	return y.s.placer.NewKin(g, t, w.model, y.modelsApart(g), w.flavors, y.refusals(g))
}

// refusals lists the refusals that still keep the gang from nodes, one a node, by node.
func (y *cycle) refusals(g *cluster.Gang) []*api.Refusal {
	if len(y.s.m.Refusals) == 0 {
		return nil
	}
	var out []*api.Refusal
	for _, p := range g.All() {
		for _, r := range y.s.m.RefusedOf[p.Key] {
			//mutate: filter-refused
			if (r.UID == "" || r.UID == p.UID) && cluster.Live(r.Until, y.Now) && !y.s.m.IsRejected(api.KindRefusal, r.Pod+"@"+r.Node) {
				out = append(out, r)
			}
		}
	}
	slices.SortFunc(out, func(a, b *api.Refusal) int {
		if c := strings.Compare(a.Node, b.Node); c != 0 {
			return c
		}
		return strings.Compare(a.Pod, b.Pod)
	})
	return slices.CompactFunc(out, func(a, b *api.Refusal) bool { return a.Node == b.Node })
}

// search places the gang's minimum, or says why it cannot.
func (y *cycle) search(g *cluster.Gang, k place.Kin, gates []why.Gate) found {
	if gate, short := y.proveShort(g, k); short {
		return found{gates: append(gates, gate)}
	}
	x := y.newSearch(g, k)
	ok := x.Minimum()
	y.steps += x.Steps
	if ok {
		return found{ok: true, model: x.Model()}
	}
	return found{gates: append(gates, x.Failure())}
}

// newSearch makes a search for the gang that asks this cycle what its queues afford and who was promised a start.
func (y *cycle) newSearch(g *cluster.Gang, k place.Kin) *place.Search {
	return y.s.placer.NewSearch(g, k, y.budget, place.Limits{
		Afford:  func(pods []*cluster.Pod) []why.Gate { return y.limits.Overdrawn(g, pods) },
		Delays:  func(pods []*cluster.Pod) []why.Gate { return y.times.Breaks(g, pods) },
		Decides: func(p *cluster.Pod) bool { return len(y.undecided(p)) == 0 },
	})
}

// delays has the gang, which found its places since the mark, keep the promises given to others: where it does not, it
// looks again beside them. The gates are those of a promise that it cannot keep.
func (y *cycle) delays(g *cluster.Gang, t cluster.Turn, m cluster.Mark, found *found) []why.Gate {
	gates := y.times.Breaks(g, y.s.m.AllocatedSince(m))
	if len(gates) == 0 {
		return nil
	}
	y.s.m.Rollback(m)
	if !y.placeBeside(g, t, found) {
		y.s.m.Rollback(m)
		return gates
	}
	if again := y.times.Breaks(g, y.s.m.AllocatedSince(m)); len(again) > 0 { // its queue's limit is promised, not a node
		y.s.m.Rollback(m)
		return again
	}
	return nil
}

// placeBeside places the gang with all that is promised to others, and that it may not use, taken.
func (y *cycle) placeBeside(g *cluster.Gang, t cluster.Turn, found *found) bool {
	var asks *index.Question
	// Who has others evicted may use more, and what starts may open nodes by a rule between pods.
	if key, alike := y.question(g, t); alike && !y.quiet && !key.Class.Opens() {
		asks = &key
	}
	return y.times.Beside(g, asks, func() bool {
		y.quietly(func() { *found = y.place(g, t) })
		return found.ok
	})
}

// placeFirst places the gang's minimum, on what is held for it or else on the first nodes where it can, and proves nothing.
func (y *cycle) placeFirst(g *cluster.Gang, t cluster.Turn, first []*cluster.Node) (ok bool) {
	if len(y.kept) == 0 {
		y.kept = first
		defer func() { y.kept = nil }()
	}
	y.quietly(func() { ok = y.place(g, t).ok })
	return ok
}

// question tells apart gangs that ask the same of the nodes, where members are alike and one GPU model is looked for.
func (y *cycle) question(g *cluster.Gang, t cluster.Turn) (index.Question, bool) {
	p, alike := g.Alike()
	models, flavors := y.models(g), y.s.m.Choices(g)
	if !alike || len(models) != 1 || len(flavors) != 1 || g.Tree.Allocated > 0 || len(y.kept) > 0 {
		return index.Question{}, false
	}
	o := y.order(g, y.kin(g, t, way{models[0], flavors[0]}).Class(p))
	key := index.Question{Class: o.Class, Need: len(o.Pods), Level: y.s.m.Level(o.Layout.Required)}
	if o.Layout.Segment > 0 {
		key.Segment, key.SegmentLevel = o.Layout.Segment, y.s.m.Level(o.Layout.SegmentLevel)
	}
	return key, true
}

// quietly does something whose proofs are nobody's business.
func (y *cycle) quietly(do func()) {
	quiet, steps, budget := y.quiet, y.steps, y.budget
	y.quiet, y.budget = true, min(budget, trialBudget)
	do()
	y.quiet, y.steps, y.budget = quiet, steps, budget
}

// trialBudget bounds the search steps of one look into the future.
const trialBudget = 2000

// wouldFit says whether all gates are open to the gang and there is a place for it.
func (y *cycle) wouldFit(g *cluster.Gang, t cluster.Turn) bool {
	if gates, _ := y.gates(g); len(gates) > 0 {
		return false
	}
	apart := y.modelsApart(g) || y.s.m.HasFlavors(g)
	for _, w := range ways(y.models(g), y.flavors(g)) {
		if apart && len(y.limits.Gates(g, w.model, w.flavors)) > 0 {
			continue
		}
		k := y.kin(g, t, w)
		p, alike := g.Alike()
		if alike {
			o := y.order(g, k.Class(p))
			if _, ok := y.s.placer.ChooseScope(o); ok && !o.Searches() {
				return true
			} else if !ok {
				continue
			}
		}
		ok := false
		m := y.s.m.Mark()
		y.quietly(func() { ok = y.search(g, k, nil).ok })
		y.s.m.Rollback(m)
		if ok {
			return true
		}
	}
	return false
}

// claim lets the gang have what is kept for it alone: its holds, and its members' nominations.
func (y *cycle) claim(g *cluster.Gang) {
	for _, p := range g.All() {
		if p.Nominee != nil {
			y.s.m.IgnoreNomination(p)
		}
	}
	y.kept, y.claimed = nil, nil
	if len(y.s.m.Holds) == 0 {
		return
	}
	for _, h := range y.s.m.HeldFor(g) {
		if h.On == nil || h.Gang != g.Key && len(y.claimed) > 0 {
			continue
		}
		y.kept = append(y.kept, h.On)
		y.claimed = append(y.claimed, h)
		y.s.m.IgnoreHold(h)
	}
	slices.SortFunc(y.kept, cluster.ComparePlaces)
}
