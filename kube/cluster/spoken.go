package cluster

import (
	"slices"

	"github.com/berth-dev/berth/kube/dialect"
)

// SpokenPod is a pod as a dialect reads it: one that exists, or that a suspended Job will have.
type SpokenPod struct {
	Pod
	Unread []string // its keys, and those of its controllers, that have no effect
	Awaits string   // what it cannot be scheduled without; "": nothing
	Says   string   // what of the controller that made it starts together; "": unknown
}

// Spoken are the pods that dialects read, by key.
func (m *Model) Spoken() []SpokenPod {
	m.settle()
	f := m.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []SpokenPod
	for _, key := range sortedNames(f.members.pods) {
		p := f.members.pods[key]
		if p.foreign == nil {
			continue
		}
		v := SpokenPod{Pod: f.view(p), Unread: p.foreign.Unread, Awaits: p.foreign.Awaits}
		if p.made != nil {
			v.Says = p.made.Says
			v.Unread = append(slices.Clone(v.Unread), p.made.Unread...)
		}
		out = append(out, v)
	}
	return out
}

// SpokenObjects are the objects of dialects that the model has, by kind, namespace and name, each with what of it has no effect.
func (m *Model) SpokenObjects() []*dialect.Object {
	m.settle()
	f := m.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []*dialect.Object
	for _, kind := range sortedNames(f.foreign.objects) {
		for _, key := range sortedNames(f.foreign.objects[kind]) {
			out = append(out, f.foreign.objects[kind][key].said)
		}
	}
	return out
}

// SpokenQueues are the queues of dialects, by kind and name.
func (m *Model) SpokenQueues() []ForeignQueue {
	m.settle()
	return m.feed.ForeignQueues()
}

// Unheeded is what the pod (namespace/name) asks for and does not get.
func (m *Model) Unheeded(pod string) []string {
	m.settle()
	f := m.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	if p := f.members.pods[pod]; p != nil {
		return f.unheeded(p)
	}
	return nil
}
