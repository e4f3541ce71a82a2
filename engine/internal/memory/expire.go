package memory

import (
	"slices"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/draft"
)

// expiry ends memory in one cycle.
type expiry struct {
	*draft.Draft
	m *cluster.Model
	// pending is the gangs with members to place of which a member counts otherwise since, each once; settled those with none.
	pending, settled []*cluster.Gang
}

// Expire ends what is over at the time of the plan. It returns the gangs whose members count otherwise from now on, which have to
// be counted again: pending are those that have members to place, each once, whose place in the order may be another with that;
// settled are the others, each once.
func Expire(d *draft.Draft, m *cluster.Model) (pending, settled []*cluster.Gang) {
	x := &expiry{Draft: d, m: m}
	x.assumptions()
	x.refusals()
	x.holds()
	x.evictions()
	return x.pending, x.settled
}

// assumptions ends those that no pod needs any more, because it was seen on its node or is gone, and those whose pod was not seen
// there in time: the pod waits again.
func (x *expiry) assumptions() {
	over, next := x.m.Over(x.Now)
	if !next.IsZero() {
		x.Wake(next)
	}
	for _, key := range over {
		a, p := x.m.Assumptions[key], x.m.Pods[key]
		if p != nil && x.m.Assumed(p) == a {
			//mutate: memory-expired-assumption
			x.m.Lift(p)
			if !slices.Contains(x.pending, p.In) {
				x.pending = append(x.pending, p.In)
			}
		}
		x.Forget(api.KindAssumption, key, a.Version)
	}
}

// refusals ends those of pods that are gone or were made anew, and those whose time is over.
func (x *expiry) refusals() {
	for _, key := range cluster.SortedKeys(x.m.Refusals) {
		r := x.m.Refusals[key]
		if p := x.m.Pods[r.Pod]; p == nil || r.UID != "" && p.UID != r.UID || !cluster.Live(r.Until, x.Now) {
			x.Forget(api.KindRefusal, key, r.Version)
			continue
		}
		x.Wake(r.Until)
	}
}

// holds ends those whose time is over, that have no node, or that nobody waits for: neither a workload with members to place nor a
// pod that its owner is still to create.
func (x *expiry) holds() {
	for _, key := range cluster.SortedKeys(x.m.Holds) {
		h := x.m.Holds[key]
		if cluster.Live(h.Until, x.Now) && h.On != nil && (h.Coming || x.awaits(h.Gang)) {
			x.Wake(h.Until)
			continue
		}
		if h.On != nil {
			//mutate: memory-expired-hold
			x.m.IgnoreHold(h)
		}
		x.Forget(api.KindHold, key, h.Version)
	}
}

// awaits says whether a workload of the key has members to place.
func (x *expiry) awaits(key string) bool {
	if g := x.m.Gangs[key]; g != nil && g.Wants() {
		return true
	}
	p := x.m.Pods[key]
	return p != nil && p.In != nil && p.In.Lone == p && p.Waits()
}

// evictions ends those of pods that are gone or were made anew, and those whose time is over: such a pod was not evicted, for
// whatever reason, and counts as any other again.
func (x *expiry) evictions() {
	for _, key := range cluster.SortedKeys(x.m.Evictions) {
		e, p := x.m.Evictions[key], x.m.Pods[key]
		if p != nil && x.m.EvictionOf(p) == e && cluster.Live(e.Until, x.Now) {
			x.Wake(e.Until)
			continue
		}
		x.Forget(api.KindEviction, key, e.Version)
		if p == nil || !p.Evicting || p.Host == nil {
			continue
		}
		//mutate: memory-expired-eviction
		x.m.UnmarkEvicting(p)
		switch g := p.In; {
		case g == nil || slices.Contains(x.pending, g) || slices.Contains(x.settled, g):
		case g.Wants():
			x.pending = append(x.pending, g)
		default:
			x.settled = append(x.settled, g)
		}
	}
}
