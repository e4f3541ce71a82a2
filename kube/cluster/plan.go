package cluster

import (
	"time"

	schedulinghelper "k8s.io/component-helpers/scheduling/corev1"

	"github.com/berth-dev/berth/engine"
)

// Plan is what the scheduler would do now with everything that waits in the model, by its policy. Nothing is carried out:
// the model is the same before and after.
func (m *Model) Plan(now time.Time) engine.Plan {
	m.settle()
	return m.state.Plan(now)
}

// Snapshot is what the engine knows.
func (m *Model) Snapshot() engine.Snapshot {
	m.settle()
	return m.state.Dump()
}

// Estimate is when the workload of the pod (namespace/name) will start, in its turn; false: it does not wait for its
// minimum, or it is not known. It costs a plan and three forecasts.
func (m *Model) Estimate(pod string, now time.Time) (engine.Estimate, bool) {
	m.settle()
	known := m.feed.members.pods[pod]
	if known == nil {
		return engine.Estimate{}, false
	}
	return m.state.Estimate(known.workload, now)
}

// WorkloadOf is the key of the workload that the pod (namespace/name) is in, as plans have it; "" where it is not known.
func (m *Model) WorkloadOf(pod string) string {
	m.settle()
	if known := m.feed.members.pods[pod]; known != nil {
		return known.workload
	}
	return ""
}

// Missing are sentences about claims that keep the pod (namespace/name) from the engine.
func (m *Model) Missing(pod string) []string {
	m.settle()
	if known := m.feed.members.pods[pod]; known != nil && !known.given {
		return m.hears.missing[pod]
	}
	return nil
}

// Queue is what the queue has and holds, as of the last plan; false: there is none of the name.
func (m *Model) Queue(name string) (engine.QueueUse, bool) {
	m.settle()
	for _, q := range m.state.QueueUses() {
		if q.Name == name && q.Known {
			return q, true
		}
	}
	return engine.QueueUse{}, false
}

// QueueOf is the queue that the pod (namespace/name) is charged to; "" for none.
func (m *Model) QueueOf(pod string) string {
	m.settle()
	return m.feed.Find(pod).Queue
}

// PriorityOf is the priority by which the pod (namespace/name) is scheduled: that of its spec, or what a dialect has in its place.
func (m *Model) PriorityOf(pod string) int32 {
	m.settle()
	known := m.feed.members.pods[pod]
	switch {
	case known == nil:
		return 0
	case known.foreign != nil && known.foreign.Priority != nil:
		return *known.foreign.Priority
	}
	return schedulinghelper.PodPriority(known.pod)
}

// Holders are the workloads that have the resource on nodes that match the pod (namespace/name), most first.
func (m *Model) Holders(pod, resource string, now time.Time) []engine.Held {
	m.settle()
	known := m.feed.members.pods[pod]
	if known == nil {
		return nil
	}
	return m.state.Holders(known.workload, resource, now)
}

// Forecast is when the first workloads in line will start; see engine.State.Forecast.
func (m *Model) Forecast(now time.Time, most int) []engine.Estimate {
	m.settle()
	return m.state.Forecast(now, most)
}
