package cluster

import (
	"slices"
	"strings"

	"github.com/berth-dev/berth/engine/internal/quantity"
)

// HeldFor lists the places that are held for the gang, by key of the hold. A lone pod may also have what is held for
// whatever its owner makes again.
func (m *Model) HeldFor(g *Gang) []*Hold {
	out := m.HoldsOf[g.Key]
	if g.Lone != nil && g.Lone.Owner != "" && g.Lone.Owner != g.Key {
		out = slices.Concat(out, m.HoldsOf[g.Lone.Owner])
	}
	if len(out) > 1 {
		out = slices.SortedStableFunc(slices.Values(out), func(a, b *Hold) int { return strings.Compare(a.Ref().Key, b.Ref().Key) })
	}
	return out
}

// HasHeld says whether a place is held for the gang now. It costs two lookups.
func (m *Model) HasHeld(g *Gang) bool {
	if len(m.Holds) == 0 {
		return false
	}
	if slices.ContainsFunc(m.HoldsOf[g.Key], (*Hold).Stands) {
		return true
	}
	return g.Lone != nil && g.Lone.Owner != "" && g.Lone.Owner != g.Key && slices.ContainsFunc(m.HoldsOf[g.Lone.Owner], (*Hold).Stands)
}

// Stands says whether the hold takes room of its node now.
func (h *Hold) Stands() bool { return h.On != nil }

// OwnHeld is what is held for the gang, and counts in the account of its queue already. It costs nothing where nothing is
// held at the cost of that queue.
func (m *Model) OwnHeld(g *Gang) quantity.Vector {
	q := g.Payer
	if q == nil {
		q = &m.Unqueued
	}
	if !slices.ContainsFunc(q.Pledged, func(amount int64) bool { return amount != 0 }) || !m.HasHeld(g) {
		return nil
	}
	return m.PledgedBy(m.HeldFor(g), g.Payer)
}

// HoldsForOwners says whether something is held under a key that no workload has: for what an owner makes again, so that
// any lone pod may be meant. It costs a lookup for each workload that something is held for.
func (m *Model) HoldsForOwners() bool {
	for key := range m.HoldsOf {
		if m.Gangs[key] == nil && m.Pods[key] == nil {
			return true
		}
	}
	return false
}

// NominatedNode returns the node that others nominated the lone pod for, nil for none that can be used.
func (m *Model) NominatedNode(p *Pod) *Node {
	if p.Gang != "" || p.Nominated == "" {
		return nil
	}
	if n := m.Nodes[p.Nominated]; n != nil && n.Bucket != nil {
		return n
	}
	return nil
}
