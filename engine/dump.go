package engine

import (
	"slices"
	"strings"

	"github.com/berth-dev/berth/engine/internal/api"
)

// Dump returns everything the state knows, in canonical order. Load makes the same state of it.
func (s *State) Dump() api.Snapshot {
	snap := api.Snapshot{Version: api.SnapshotVersion, Settled: s.settled, Latest: s.latest}
	for _, n := range s.nodes {
		if n.told != nil {
			snap.Nodes = append(snap.Nodes, *n.told)
		}
	}
	for _, p := range s.pods {
		snap.Pods = append(snap.Pods, *p.Pod)
	}
	for _, g := range s.gangs {
		if g.spec != nil {
			snap.Gangs = append(snap.Gangs, *g.spec)
		}
	}
	for _, q := range s.queues {
		if q.spec != nil {
			snap.Queues = append(snap.Queues, *q.spec)
		}
	}
	s.dumpMemory(&snap)
	sortBy(snap.Nodes, func(n *api.Node) string { return n.Name })
	sortBy(snap.Pods, func(p *api.Pod) string { return p.Key })
	sortBy(snap.Gangs, func(g *api.Gang) string { return g.Key })
	sortBy(snap.Queues, func(q *api.Queue) string { return q.Name })
	return snap
}

func (s *State) dumpMemory(snap *api.Snapshot) {
	for _, a := range s.assumptions {
		snap.Assumptions = append(snap.Assumptions, *a)
	}
	for _, r := range s.refusals {
		snap.Refusals = append(snap.Refusals, *r)
	}
	for _, h := range s.holds {
		snap.Holds = append(snap.Holds, *h.Hold)
	}
	snap.Disruptions, snap.Bookings = values(s.disruptions), values(s.bookings)
	snap.Evictions, snap.Promises = values(s.evictions), values(s.promises)
	snap.Spendings, snap.Lessons = values(s.spendings), values(s.lessons)
	snap.Lapses = values(s.lapses)
	for ref, version := range s.gone {
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
	for _, key := range sortedKeys(in) {
		out = append(out, *in[key])
	}
	return out
}

func sortBy[T any](list []T, key func(*T) string) {
	slices.SortFunc(list, func(a, b T) int { return strings.Compare(key(&a), key(&b)) })
}
