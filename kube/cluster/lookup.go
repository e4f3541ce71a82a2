package cluster

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"

	"github.com/berth-dev/berth/engine"
)

// Questions about the cluster as the watches last told it. Each takes the feed's lock; objects that are returned are
// shared with the feed, and must not be written to.

// Pod is a pod as last seen, with its workload.
type Pod struct {
	Object   *corev1.Pod // with what its controllers say, or as was decided about it; nil: it is over, gated or gone
	Key      string
	Workload string
	Queue    string // that pays; "": none
	// Successor is what a place is held for when the pod is to run elsewhere: its gang, or the owner that makes it again.
	Successor string
	Requests  engine.Resources
	// Started is since when it has its node, zero where that is not known, and Checkpoint how often it saves its work; 0: never.
	Started    time.Time
	Checkpoint time.Duration
}

// Waiting says whether the pod has no node and is not on its way out.
func (p *Pod) Waiting() bool {
	return p.Object.Spec.NodeName == "" && p.Object.DeletionTimestamp == nil
}

func (f *Feed) view(m *member) Pod {
	p := Pod{Object: m.pod, Key: m.key, Workload: m.workload, Successor: m.workload, Requests: m.takes}
	if m.value != nil {
		p.Started, p.Checkpoint = m.value.Started, m.value.Terms.Checkpoint
	}
	switch {
	case m.inGang():
		g := f.gangs.described[m.workload]
		p.Queue, p.Checkpoint = g.Queue, g.Terms.Checkpoint
	case m.value != nil:
		p.Queue, p.Successor = m.value.Queue, cmp.Or(m.value.Owner, m.key)
	}
	return p
}

// Find returns the pod with its workload. Its Object is nil where the pod is over, gated or gone.
func (f *Feed) Find(key string) Pod {
	f.mu.Lock()
	defer f.mu.Unlock()
	if m := f.members.pods[key]; m != nil {
		return f.view(m)
	}
	return Pod{}
}

// Pod returns the pod as last seen, nil if it is over, gated or gone.
func (f *Feed) Pod(key string) *corev1.Pod {
	f.mu.Lock()
	defer f.mu.Unlock()
	if m := f.members.pods[key]; m != nil {
		return m.pod
	}
	return nil
}

// Node returns the node as last seen, nil if there is none.
func (f *Feed) Node(name string) *corev1.Node {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.nodes.objects[name]
}

// NodesWhere returns the nodes of which that is so, by name.
func (f *Feed) NodesWhere(is func(*corev1.Node) bool) []*corev1.Node {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := slices.DeleteFunc(f.nodes.All(), func(n *corev1.Node) bool { return !is(n) })
	slices.SortFunc(out, func(a, b *corev1.Node) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// Pods returns the pods that this scheduler places, by key.
func (f *Feed) Pods() []Pod {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []Pod
	for _, key := range sortedNames(f.members.pods) {
		if m := f.members.pods[key]; m.pays() {
			out = append(out, f.view(m))
		}
	}
	return out
}

// PodsIn returns the pods of the namespaces that have a node, whoever schedules them, by key.
func (f *Feed) PodsIn(namespaces []string) []*corev1.Pod {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []*corev1.Pod
	for _, key := range sortedNames(f.members.pods) {
		if m := f.members.pods[key]; m.bound() && slices.Contains(namespaces, m.pod.Namespace) {
			out = append(out, m.pod)
		}
	}
	return out
}

// PodsOf returns the workload's pods that are not on their way out, by name.
func (f *Feed) PodsOf(workload string) []*corev1.Pod {
	return f.podsOf(workload, func(m *member) bool { return m.pod.DeletionTimestamp == nil })
}

// Waiting returns the workload's pods that the engine knows and that are on no node, by name.
func (f *Feed) Waiting(workload string) []*corev1.Pod {
	return f.podsOf(workload, func(m *member) bool { return m.given && m.waiting() })
}

// Waits says whether the workload has pods that wait for a place.
func (f *Feed) Waits(workload string) bool { return len(f.Waiting(workload)) > 0 }

// Running returns the gang's pods that are on a node and not on their way out, by name.
func (f *Feed) Running(gang string) []*corev1.Pod {
	f.mu.Lock()
	defer f.mu.Unlock()
	return podsOf(slices.DeleteFunc(f.members.sorted(gang), func(m *member) bool { return !m.bound() || m.pod.DeletionTimestamp != nil }))
}

func (f *Feed) podsOf(workload string, which func(*member) bool) []*corev1.Pod {
	f.mu.Lock()
	defer f.mu.Unlock()
	return podsOf(slices.DeleteFunc(f.members.of(workload), func(m *member) bool { return !which(m) }))
}

// WaitingByRank returns the workload's pods that wait for a place, in order of rank.
func (f *Feed) WaitingByRank(workload string) []Pod {
	f.mu.Lock()
	defer f.mu.Unlock()
	members := slices.DeleteFunc(f.members.of(workload), func(m *member) bool { return !m.given || !m.waiting() })
	slices.SortStableFunc(members, func(a, b *member) int { return cmp.Compare(a.value.Rank, b.value.Rank) })
	out := make([]Pod, len(members))
	for i, m := range members {
		out[i] = f.view(m)
	}
	return out
}

// KeptBack returns our pods by themselves, of the namespace or of all for "", that the engine does not know, by key.
func (f *Feed) KeptBack(namespace string) []*corev1.Pod {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []*corev1.Pod
	for _, key := range sortedNames(f.members.pods) {
		m := f.members.pods[key]
		if m.ours && !m.inGang() && !m.given && m.waiting() && (namespace == "" || m.pod.Namespace == namespace) {
			out = append(out, m.pod)
		}
	}
	return out
}

// FindWaiting returns the workload that waits and matches, "" for none. It looks at pods in any order until it has found
// it: at most one may match.
func (f *Feed) FindWaiting(matches func(workload string) bool) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	//archtest:any-order at most one workload matches
	for _, m := range f.members.pods {
		if m.waiting() && matches(m.workload) {
			return m.workload
		}
	}
	return ""
}

// QueueOf is the queue that pays for a workload, "" for none.
func (f *Feed) QueueOf(workload string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if g, ok := f.gangs.described[workload]; ok {
		return g.Queue
	}
	if m := f.members.pods[workload]; m != nil && m.value != nil {
		return m.value.Queue
	}
	return ""
}

// Group returns the PodGroup behind a workload's key, nil if there is none.
func (f *Feed) Group(key string) *schedulingv1beta1.PodGroup {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.gangs.groups[key]
}

// Stands says whether the placement can still be carried out, as far as the watches tell.
func (f *Feed) Stands(p engine.Placement) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stands(p)
}

// Runs says whether a member of the gang has a node and is to stay there, as far as the watches tell.
func (f *Feed) Runs(gang string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range f.members.gangs[gang] { //archtest:any-order it asks whether there is one
		if m.bound() && m.pod.DeletionTimestamp == nil {
			return true
		}
	}
	return false
}

func (f *Feed) stands(p engine.Placement) bool {
	m := f.members.pods[p.Pod]
	return m != nil && m.given && string(m.pod.UID) == p.UID && m.waiting() && f.nodes.objects[p.Node] != nil
}
