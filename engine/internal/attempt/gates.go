package attempt

import (
	"slices"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/why"
)

// Gates lists what is shut before any node is looked at. decided says that placement would make no sense: the gang is
// not whole, not understood, or held. A shut limit alone does not decide, since evicting others of the queue may open
// it. All gates are told and not only the first, but for a gang that cannot be read or is not known: then the rest
// would be guesses.
func (a *Attempts) Gates(g *cluster.Gang) (gates []why.Gate, decided bool) {
	shut := func(cause why.Cause, object string, need, have int64) {
		gates = append(gates, why.Gate{Cause: cause, Object: object, Need: need, Have: have, Certificate: -1})
	}
	//mutate: gate-invalid-gang
	if reason := a.Unreadable(g); reason != "" {
		shut(why.InvalidObject, reason, 0, 0)
		return gates, true
	}
	//mutate: gate-gang-missing
	if !g.Known() {
		shut(why.GangMissing, g.Key, 0, 0)
		return gates, true
	}
	//mutate: gate-held
	if g.Terms().Held && !g.Runs {
		shut(why.WorkloadHeld, "", 0, 0)
		decided = true
	}
	//mutate: gate-group-missing
	if names := a.Orphans(g); len(names) > 0 {
		shut(why.GroupMissing, names[0], 0, 0)
		decided = true
	}
	//mutate: gate-unsupported
	for _, f := range a.features(g) {
		shut(why.UnsupportedFeature, string(f), 0, 0)
		decided = true
	}
	//mutate: gate-incomplete
	if !g.Tree.Complete() {
		gates = append(gates, incomplete(g.Tree.Lacking()))
		decided = true
	}
	//mutate: gate-queue-limit
	gates = append(gates, a.limits.Gates(g, "", nil)...)
	return gates, decided
}

// Unreadable says what keeps the gang, or the pod that is one, from being understood; "": nothing.
func (a *Attempts) Unreadable(g *cluster.Gang) string {
	if g.Lone != nil {
		return g.Lone.Invalid
	}
	return a.m.Invalid[api.Ref{Kind: api.KindGang, Key: g.Key}]
}

// Orphans lists the subgroups that members name and the gang does not have, or that have groups below them, sorted
// and each once. Such members have no leaf, and nobody could say what the gang's minimum is.
func (a *Attempts) Orphans(g *cluster.Gang) []string {
	if g.Lone != nil || g.Spec == nil {
		return nil
	}
	var out []string
	for _, p := range g.Members {
		if p.Terminating || g.HasLeaf(p.Subgroup) {
			continue
		}
		out = append(out, p.Subgroup)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// features lists what waiting members ask for that the engine does not decide yet, sorted.
func (a *Attempts) features(g *cluster.Gang) []why.Feature {
	var out []why.Feature
	for _, p := range g.All() {
		if p.Waits() {
			out = append(out, a.undecided(p)...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// undecided lists what the pod asks for that the engine does not decide yet.
func (a *Attempts) undecided(p *cluster.Pod) []why.Feature {
	shape := a.m.ShapeOf(p)
	if a.Trial {
		return nil
	}
	return shape.Features
}

// Unplaced returns why the gang found no place: the levels that do not exist, with the proof, or what was found.
func (a *Attempts) Unplaced(g *cluster.Gang, found []why.Gate) []why.Gate {
	unknown := a.unknownLevels(g)
	//mutate: gate-unknown-level
	if len(unknown) == 0 || found[0].Certificate < 0 { // which proves nothing
		return append(unknown, found...)
	}
	unknown[0].Certificate = found[0].Certificate
	return unknown
}

// unknownLevels lists, as gates, the levels that the gang asks for and that no node is in a domain of.
func (a *Attempts) unknownLevels(g *cluster.Gang) []why.Gate {
	var names []string
	g.Tree.Each(func(b *cluster.Branch) {
		for _, name := range []string{b.Group.Layout.Required, b.Group.Layout.SegmentLevel} {
			if level := a.m.Level(name); level >= 0 && !a.m.Topology.Populated(level) {
				names = append(names, name)
			}
		}
	})
	slices.Sort(names)
	var out []why.Gate
	for _, name := range slices.Compact(names) {
		out = append(out, why.Gate{Cause: why.UnknownTopologyLevel, Object: name, Certificate: -1})
	}
	return out
}
