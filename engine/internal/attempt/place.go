package attempt

import (
	"slices"
	"strings"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/index"
	"github.com/berth-dev/berth/engine/internal/place"
	"github.com/berth-dev/berth/engine/why"
)

// Found is the outcome of looking for places. If OK, the places are taken on the model, and the caller keeps them
// or rolls them back; if not, Gates has one entry at least, and the model is as before.
type Found struct {
	OK bool
	// Model is the GPU model chosen among alternatives; "": there was no choice.
	Model string
	// Gates is why not, over all ways that were tried.
	Gates []why.Gate
}

// Place places the gang's minimum, or says why it cannot. The memory of a card decides what a part of it counts, and
// the node decides what a slice counts: so where that varies, limits are asked again with the places, and the gang
// waits if they are more than its queues have left.
func (a *Attempts) Place(g *cluster.Gang, t cluster.Turn) Found {
	if !a.m.GangVaries(g) || g.Queue() == "" {
		return a.placeAny(g, t)
	}
	m := a.m.Mark()
	out := a.placeAny(g, t)
	if !out.OK {
		return out
	}
	//mutate: gate-parts-of-the-card
	if gates := a.limits.Overdrawn(g, a.m.AllocatedSince(m)); len(gates) > 0 {
		a.m.Rollback(m)
		return Found{Gates: gates}
	}
	return out
}

// placeAny places the gang's minimum, trying flavors of nodes and GPU models in order, or says why it cannot. Where
// queues count those apart, only those are tried that the queue can afford, and the gates of the others are told too.
//
// For example, a gang names the models H100 and A100, and its queue has a limit of 8 H100s, all in use. H100 is
// passed over for the limit, without a look at nodes; A100 is tried on the nodes. If none has room, the gang is told
// both: the limit, and that no A100s are free.
func (a *Attempts) placeAny(g *cluster.Gang, t cluster.Turn) Found {
	apart, flavored := a.modelsApart(g), a.m.HasFlavors(g)
	if !apart && !flavored && !slices.ContainsFunc(g.All(), (*cluster.Pod).AsksModel) {
		return a.placeWith(g, t, Way{}, nil)
	}
	var out Found
	models, flavors := a.Models(g), a.flavors(g)
	if len(models) == 0 {
		out.Gates = append(out.Gates, why.Gate{Cause: why.NoMatchingNode, Object: "a GPU model that all members name", Certificate: -1})
	}
	if len(flavors) == 0 {
		out.Gates = append(out.Gates, why.Gate{Cause: why.NoMatchingNode, Object: "a flavor of queue " + g.Queue() + " with the labels that its pods ask for", Certificate: -1})
	}
	for _, w := range ways(models, flavors) {
		if apart || flavored {
			//mutate: gate-quota-of-model
			if gates := a.limits.Gates(g, w.Model, w.Flavors); len(gates) > 0 {
				for _, gate := range gates {
					if !slices.Contains(out.Gates, gate) { // what holds for all flavors is told once
						out.Gates = append(out.Gates, gate)
					}
				}
				continue
			}
		}
		if out = a.placeWith(g, t, w, out.Gates); out.OK {
			return out
		}
	}
	return out
}

// placeWith tries one GPU model and one choice of flavors. gates are those of what was tried before it. Like members
// are placed by counting; everything else is a search (package place).
func (a *Attempts) placeWith(g *cluster.Gang, t cluster.Turn, w Way, gates []why.Gate) Found {
	p, alike := g.Alike()
	kin := a.Kin(g, t, w)
	if !alike {
		return a.search(g, kin, gates)
	}
	c := kin.Class(p)
	o := a.Order(g, c)
	if o.Searches() {
		return a.search(g, kin, gates)
	}
	// Another scheduler, or an earlier cycle, nominated the pod to a node that has room for it.
	if n := a.m.NominatedNode(p); n != nil && a.ix.Fits(c, index.Scope{Node: n}) > 0 {
		a.ix.Put(p, n, c)
		return Found{OK: true, Model: c.Model}
	}
	if a.placer.Uniform(o) {
		return Found{OK: true, Model: c.Model}
	}
	if proved(gates) >= mostProofs {
		return Found{Gates: gates}
	}
	return Found{Gates: append(gates, a.prove(o))}
}

// mostProofs is for how many GPU models, of those that a gang names, it is proved that it has no place: the ones that it
// wants most. A proof counts all nodes, and a reader has no use for a dozen of them.
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

// Order makes the order of the gang's minimum: the members that must start for it now, with those that run already
// and must be near them. Want is how many members would start if there were room for all.
func (a *Attempts) Order(g *cluster.Gang, c *index.Class) place.Order {
	o := place.Order{Class: c, Layout: g.Layout(), Kept: a.kept}
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

// refusals lists the refusals that still keep the gang from nodes, one a node, by node. A refusal of one member keeps
// all of them from the node: like members would be refused there in turn.
func (a *Attempts) refusals(g *cluster.Gang) []*api.Refusal {
	if len(a.m.Refusals) == 0 {
		return nil
	}
	var out []*api.Refusal
	for _, p := range g.All() {
		for _, r := range a.m.RefusedOf[p.Key] {
			//mutate: filter-refused
			if (r.UID == "" || r.UID == p.UID) && cluster.Live(r.Until, a.draft.Now) && !a.m.IsRejected(api.KindRefusal, r.Pod+"@"+r.Node) {
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

// search places the gang's minimum, or says why it cannot. A class of which too few fit, whatever the others do, is
// looked for first: that is a proof, and the search would only spend its budget.
func (a *Attempts) search(g *cluster.Gang, k place.Kin, gates []why.Gate) Found {
	if gate, short := a.proveShort(g, k); short {
		return Found{Gates: append(gates, gate)}
	}
	x := a.newSearch(g, k)
	ok := x.Minimum()
	a.Steps += x.Steps
	if ok {
		return Found{OK: true, Model: x.Model()}
	}
	return Found{Gates: append(gates, x.Failure())}
}

// newSearch makes a search for the gang, within the limits of its queues and the promises of this cycle.
func (a *Attempts) newSearch(g *cluster.Gang, k place.Kin) *place.Search {
	return a.placer.NewSearch(g, k, a.Budget, place.Limits{
		Afford:  func(pods []*cluster.Pod) []why.Gate { return a.limits.Overdrawn(g, pods) },
		Exceeds: func(pods []*cluster.Pod) bool { return a.limits.Exceeds(g, pods) },
		Delays:  func(pods []*cluster.Pod) []why.Gate { return a.times.Breaks(g, pods) },
		Decides: func(p *cluster.Pod) bool { return len(a.undecided(p)) == 0 },
	})
}

// Delays has the gang, which found its places since the mark, keep the promises given to others: where it does not,
// it looks again beside them. The gates are those of a promise that it cannot keep; without any the gang has places,
// and with some the model is as at the mark.
func (a *Attempts) Delays(g *cluster.Gang, t cluster.Turn, m cluster.Mark, found *Found) []why.Gate {
	gates := a.times.Breaks(g, a.m.AllocatedSince(m))
	if len(gates) == 0 {
		return nil
	}
	a.m.Rollback(m)
	if !a.placeBeside(g, t, found) {
		a.m.Rollback(m)
		return gates
	}
	// It can break one still: what is promised may be its queue's limit and not a node.
	if again := a.times.Breaks(g, a.m.AllocatedSince(m)); len(again) > 0 { // its queue's limit is promised, not a node
		a.m.Rollback(m)
		return again
	}
	return nil
}

// placeBeside places the gang with all that is promised to others, and that it may not use, taken.
func (a *Attempts) placeBeside(g *cluster.Gang, t cluster.Turn, found *Found) bool {
	var asks *index.Question
	// The memo must not be used by a gang that has others evicted, since it may use more room.
	if key, alike := a.question(g, t); alike && !a.Quiet {
		asks = &key
	}
	return a.times.Beside(g, asks, func() bool {
		a.quietly(func() { *found = a.Place(g, t) })
		return found.OK
	})
}

// PlaceFirst places the gang's minimum, on what is held for it or else on the first nodes where it can, and proves
// nothing.
func (a *Attempts) PlaceFirst(g *cluster.Gang, t cluster.Turn, first []*cluster.Node) (ok bool) {
	if len(a.kept) == 0 {
		a.kept = first
		defer func() { a.kept = nil }()
	}
	a.quietly(func() { ok = a.Place(g, t).OK })
	return ok
}

// question tells apart gangs that ask the same of the nodes, where members are alike and one GPU model is looked for.
// It is false where something is the gang's own: members that run, places that are held for it, a rule by which pods that
// start can open nodes to its own.
func (a *Attempts) question(g *cluster.Gang, t cluster.Turn) (index.Question, bool) {
	p, alike := g.Alike()
	models, flavors := a.Models(g), a.m.Choices(g)
	if !alike || len(models) != 1 || len(flavors) != 1 || g.Tree.Allocated > 0 || len(a.kept) > 0 {
		return index.Question{}, false
	}
	o := a.Order(g, a.Kin(g, t, Way{models[0], flavors[0]}).Class(p))
	if o.Class.Opens() {
		return index.Question{}, false
	}
	key := index.Question{Class: o.Class.ClassKey, Need: len(o.Pods), Level: a.m.Level(o.Layout.Required)}
	if o.Layout.Segment > 0 {
		key.Segment, key.SegmentLevel = o.Layout.Segment, a.m.Level(o.Layout.SegmentLevel)
	}
	return key, true
}

// quietly does something whose proofs are not told, with a budget of its own that does not count as the
// gang's.
func (a *Attempts) quietly(do func()) {
	quiet, steps, budget := a.Quiet, a.Steps, a.Budget
	a.Quiet, a.Budget = true, min(budget, trialBudget)
	do()
	a.Quiet, a.Steps, a.Budget = quiet, steps, budget
}

// trialBudget is how many search steps one look into the future may take.
const trialBudget = 2000

// WouldFit says whether all gates are open to the gang and there is a place for it. Counting answers for like
// members; a search is tried and undone.
func (a *Attempts) WouldFit(g *cluster.Gang, t cluster.Turn) bool {
	if gates, _ := a.Gates(g); len(gates) > 0 {
		return false
	}
	apart := a.modelsApart(g) || a.m.HasFlavors(g)
	for _, w := range ways(a.Models(g), a.flavors(g)) {
		if apart && len(a.limits.Gates(g, w.Model, w.Flavors)) > 0 {
			continue
		}
		k := a.Kin(g, t, w)
		p, alike := g.Alike()
		if alike {
			o := a.Order(g, k.Class(p))
			if _, ok := a.placer.ChooseScope(o); ok && !o.Searches() {
				return true
			} else if !ok {
				continue
			}
		}
		ok := false
		m := a.m.Mark()
		a.quietly(func() { ok = a.search(g, k, nil).OK })
		a.m.Rollback(m)
		if ok {
			return true
		}
	}
	return false
}

// Spend has the plan forget the holds that the gang has claimed, which has started in their place. Of members that did not start
// with it the nominations count again: others find their places as full as before.
func (a *Attempts) Spend() {
	for _, c := range a.nominated {
		//mutate: spend-nominations
		if c.pod.Host == nil {
			a.m.RestoreNomination(c.pod, c.node)
		}
	}
	for _, h := range a.claimed {
		a.draft.Forget(api.KindHold, h.Ref().Key, h.Version)
	}
	a.claimed, a.nominated = nil, nil
}

// Could says whether the gang may get a place once more is free on nodes, as freed lists it (index.CouldHold). False is a proof
// that it gets none, however much of that has come free; of a gang about which something is special it says nothing.
func (a *Attempts) Could(g *cluster.Gang, t cluster.Turn, freed func(add func(n *cluster.Node, dim int, amount int64))) bool {
	p := a.Plain(g, t)
	return !p.OK || a.ix.CouldHold(p.Class, p.Level, freed) >= int64(p.Need)
}

// CouldEver says whether the gang may get a place once nothing runs any more. False is a proof that it gets none; it is found where the
// gang was refused a place in this state of the model, with a certificate that says what empty nodes hold. Most such gangs ask for more
// in one domain than any domain has, and are refused in every cycle.
func (a *Attempts) CouldEver(g *cluster.Gang, t cluster.Turn) bool {
	p := a.Plain(g, t)
	if !p.OK {
		return true
	}
	gates := a.proofs[index.Question{Class: p.Class.ClassKey, Need: p.Need, Level: p.Level, At: a.m.Standing(), Unmet: a.m.Unmet(g.Layout().Required)}]
	if len(gates) == 0 || gates[0].Certificate < 0 {
		return true
	}
	cert := &a.draft.Plan.Certificates[gates[0].Certificate]
	return slices.ContainsFunc(cert.Domains, func(d why.Domain) bool {
		var most int64
		for _, r := range d.Rows {
			most += int64(r.Nodes) * cert.Classes[r.Class].PerEmpty
		}
		return most >= int64(cert.Need)
	})
}

// Claim lets the gang have what is kept for it alone, until rolled back: its holds, and its members' nominations.
// What is held under the key of its owner it has only if nothing is held under its own.
func (a *Attempts) Claim(g *cluster.Gang) {
	a.nominated = nil
	for _, p := range g.All() {
		if p.Nominee != nil {
			a.nominated = append(a.nominated, nomination{p, p.Nominee})
			a.m.IgnoreNomination(p)
		}
	}
	a.kept, a.claimed = nil, nil
	if len(a.m.Holds) == 0 {
		return
	}
	for _, h := range a.m.HeldFor(g) {
		if h.On == nil || h.Gang != g.Key && len(a.claimed) > 0 {
			continue
		}
		a.kept = append(a.kept, h.On)
		a.claimed = append(a.claimed, h)
		a.m.IgnoreHold(h)
	}
	slices.SortFunc(a.kept, cluster.ComparePlaces)
}
