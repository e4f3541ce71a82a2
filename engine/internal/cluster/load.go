package cluster

import "github.com/berth-dev/berth/engine/internal/api"

// LoadAll applies the snapshot's objects, nodes first: then no pod has to wait for its node.
func (m *Model) LoadAll(snap *api.Snapshot) {
	for _, ref := range snap.Gone {
		m.gone[api.Ref{Kind: ref.Kind, Key: ref.Key}] = ref.Version
		m.Latest = max(m.Latest, ref.Version)
	}
	all(snap.Nodes, m.applyNode)
	all(snap.Queues, m.applyQueue)
	all(snap.Gangs, m.applyGang)
	all(snap.Pods, m.applyPod)
	all(snap.Assumptions, m.applyAssumption)
	all(snap.Refusals, m.applyRefusal)
	all(snap.Holds, m.applyHold)
	all(snap.Disruptions, func(o *api.Disruption) api.Rejected { return enterIn(m, m.Disruptions, o) })
	all(snap.Bookings, func(o *api.Booking) api.Rejected { return enterIn(m, m.Bookings, o) })
	all(snap.Evictions, m.applyEviction)
	all(snap.Promises, func(o *api.Promise) api.Rejected { return enterIn(m, m.Promises, o) })
	all(snap.Usages, func(o *api.QueueUsage) api.Rejected { return enterIn(m, m.Usages, o) })
	all(snap.RunTimeEstimates, func(o *api.RunTimeEstimate) api.Rejected { return enterIn(m, m.RunTimeEstimates, o) })
	all(snap.Degradations, func(o *api.Degradation) api.Rejected { return enterIn(m, m.Degradations, o) })
	if snap.RequestMix != nil {
		m.applyMix(snap.RequestMix)
	}
}

// all applies each of the list; what it rejects is in Model.Invalid.
func all[T any](list []T, apply func(*T) api.Rejected) {
	for i := range list {
		apply(&list[i])
	}
}
