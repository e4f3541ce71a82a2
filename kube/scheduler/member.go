package scheduler

import (
	"maps"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/engine"
)

// member is a pod as last seen.
type member struct {
	key      string
	workload string
	raw      *corev1.Pod // as it is in the API
	pod      *corev1.Pod // with what its controllers say; once decided about, as was decided
	terms    *terms      // nil: it has not been decided about
	lapsed   string      // the terms, as text, that it had and does not have any more
	ours     bool
	adopted  bool // where it is ours: another scheduler's, taken for ours in a Model
	takes    engine.Resources
	given    bool        // to the engine
	value    *engine.Pod // as last given
}

// same says whether two versions of a pod are the same to the engine.
func same(a, b *engine.Pod) bool {
	c := *a
	c.Version = b.Version
	return reflect.DeepEqual(&c, b)
}

func (m *member) pays() bool    { return m.ours && !m.adopted }
func (m *member) inGang() bool  { return m.ours && m.workload != m.key }
func (m *member) waiting() bool { return m.pod.Spec.NodeName == "" && m.pod.DeletionTimestamp == nil }

// join enters the pod among its workload's members.
func (f *feed) join(m *member) {
	f.pods[m.key] = m
	f.storage.note(m)
	f.owners.join(m)
	f.tenancy.spent()
	if !m.inGang() {
		return
	}
	insert(f.gangs, m.workload, m.key, m)
	f.describeAgain(m.workload)
}

// leave undoes join.
func (f *feed) leave(m *member) {
	delete(f.pods, m.key)
	f.storage.drop(m)
	f.owners.leave(m)
	f.tenancy.spent()
	f.says.forget(m.pod.UID)
	if !m.inGang() {
		return
	}
	cut(f.gangs, m.workload, m.key)
	f.describeAgain(m.workload)
	f.bequeath(m)
}

// sorted returns the gang's members by key.
func (f *feed) sorted(gang string) []*member {
	members := f.gangs[gang]
	out := make([]*member, 0, len(members))
	for _, key := range slices.Sorted(maps.Keys(members)) {
		out = append(out, members[key])
	}
	return out
}

// waiting returns the workload's pods that the engine knows and that are on no node, by name.
func (f *feed) waiting(workload string) []*corev1.Pod {
	f.mu.Lock()
	defer f.mu.Unlock()
	members := f.sorted(workload)
	if m := f.pods[workload]; m != nil && !m.inGang() {
		members = []*member{m}
	}
	var out []*corev1.Pod
	for _, m := range members {
		if m.given && m.waiting() {
			out = append(out, m.pod)
		}
	}
	return out
}

// running returns the gang's pods that are on a node and not on their way out, by name.
func (f *feed) running(gang string) []*corev1.Pod {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []*corev1.Pod
	for _, m := range f.sorted(gang) {
		if m.pod.Spec.NodeName != "" && m.pod.DeletionTimestamp == nil {
			out = append(out, m.pod)
		}
	}
	return out
}

// pod returns the pod as last seen, nil if it is over, gated or gone.
func (f *feed) pod(key string) *corev1.Pod {
	f.mu.Lock()
	defer f.mu.Unlock()
	if m := f.pods[key]; m != nil {
		return m.pod
	}
	return nil
}

// holds says whether the placement can still be carried out, as far as the watches tell.
func (f *feed) holds(p engine.Placement) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stands(p)
}

func (f *feed) stands(p engine.Placement) bool {
	m := f.pods[p.Pod]
	return m != nil && m.given && string(m.pod.UID) == p.UID && m.waiting() && f.nodes[p.Node] != nil
}
