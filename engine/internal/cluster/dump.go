package cluster

import (
	"slices"

	"github.com/berth-dev/berth/engine/internal/api"
)

// Dump returns everything the state knows, in canonical order. Load makes the same state of it.
func (m *Model) Dump() api.Snapshot {
	snap := api.Snapshot{Version: api.SnapshotVersion, Settled: m.SettledAt, Latest: m.Latest}
	snap.Nodes = told(m.Nodes, func(n *Node) *api.Node { return n.Told })
	snap.Pods = told(m.Pods, func(p *Pod) *api.Pod { return p.Pod })
	snap.Gangs = told(m.Gangs, func(g *Gang) *api.Gang { return g.Spec })
	snap.Queues = told(m.Queues, func(q *Queue) *api.Queue { return q.Spec })
	m.dumpMemory(&snap)
	return snap
}

func (m *Model) dumpMemory(snap *api.Snapshot) {
	snap.Assumptions, snap.Refusals = values(m.Assumptions), values(m.Refusals)
	snap.Holds = told(m.Holds, func(h *Hold) *api.Hold { return h.Hold })
	snap.Disruptions, snap.Bookings = values(m.Disruptions), values(m.Bookings)
	snap.Evictions, snap.Promises = values(m.Evictions), values(m.Promises)
	snap.Usages, snap.RunTimeEstimates = values(m.Usages), values(m.RunTimeEstimates)
	snap.Degradations = values(m.Degradations)
	if m.RequestMix != nil {
		mix := *m.RequestMix
		snap.RequestMix = &mix
	}
	for ref, version := range m.gone {
		snap.Gone = append(snap.Gone, api.Ref{Kind: ref.Kind, Key: ref.Key, Version: version})
	}
	slices.SortFunc(snap.Gone, api.CompareRefs)
}

// values lists what a map holds, by key.
func values[T any](in map[string]*T) []T {
	return told(in, func(v *T) *T { return v })
}

// told lists what was told of the objects that a map holds, by key; those of which nothing was told are left out. Keys are
// sorted rather than the objects, which are large.
func told[V, T any](in map[string]V, of func(V) *T) []T {
	var out []T
	for _, key := range SortedKeys(in) {
		if t := of(in[key]); t != nil {
			if out == nil {
				out = make([]T, 0, len(in))
			}
			out = append(out, *t)
		}
	}
	return out
}
