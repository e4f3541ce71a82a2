package cluster

import (
	"slices"
	"strings"

	"github.com/berth-dev/berth/engine/internal/api"
)

// Dump returns everything the state knows, in canonical order. Load makes the same state of it.
func (m *Model) Dump() api.Snapshot {
	snap := api.Snapshot{Version: api.SnapshotVersion, Settled: m.SettledAt, Latest: m.Latest}
	for _, n := range m.Nodes {
		if n.Told != nil {
			snap.Nodes = append(snap.Nodes, *n.Told)
		}
	}
	for _, p := range m.Pods {
		snap.Pods = append(snap.Pods, *p.Pod)
	}
	for _, g := range m.Gangs {
		if g.Spec != nil {
			snap.Gangs = append(snap.Gangs, *g.Spec)
		}
	}
	for _, q := range m.Queues {
		if q.Spec != nil {
			snap.Queues = append(snap.Queues, *q.Spec)
		}
	}
	m.dumpMemory(&snap)
	sortBy(snap.Nodes, func(n *api.Node) string { return n.Name })
	sortBy(snap.Pods, func(p *api.Pod) string { return p.Key })
	sortBy(snap.Gangs, func(g *api.Gang) string { return g.Key })
	sortBy(snap.Queues, func(q *api.Queue) string { return q.Name })
	return snap
}

func (m *Model) dumpMemory(snap *api.Snapshot) {
	for _, a := range m.Assumptions {
		snap.Assumptions = append(snap.Assumptions, *a)
	}
	for _, r := range m.Refusals {
		snap.Refusals = append(snap.Refusals, *r)
	}
	for _, h := range m.Holds {
		snap.Holds = append(snap.Holds, *h.Hold)
	}
	snap.Disruptions, snap.Bookings = values(m.Disruptions), values(m.Bookings)
	snap.Evictions, snap.Promises = values(m.Evictions), values(m.Promises)
	snap.Usages, snap.RunTimeEstimates = values(m.Usages), values(m.RunTimeEstimates)
	snap.Degradations = values(m.Degradations)
	for ref, version := range m.gone {
		snap.Gone = append(snap.Gone, api.Ref{Kind: ref.Kind, Key: ref.Key, Version: version})
	}
	sortBy(snap.Assumptions, func(a *api.Assumption) string { return a.Pod })
	sortBy(snap.Refusals, func(r *api.Refusal) string { return r.Pod + "@" + r.Node })
	sortBy(snap.Holds, func(h *api.Hold) string { return h.Gang + "@" + h.Node })
	slices.SortFunc(snap.Gone, api.CompareRefs)
}

// values lists what a map holds, by key.
func values[T any](in map[string]*T) []T {
	var out []T
	for _, key := range SortedKeys(in) {
		out = append(out, *in[key])
	}
	return out
}

func sortBy[T any](list []T, key func(*T) string) {
	slices.SortFunc(list, func(a, b T) int { return strings.Compare(key(&a), key(&b)) })
}
