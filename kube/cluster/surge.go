package cluster

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/convert"
)

// SurgeProgress is how far a surge is: a move in which the next pod is made before the old one is gone.
type SurgeProgress int

const (
	SurgeAwaited  SurgeProgress = iota // the next pod is not ready yet
	SurgeFollowed                      // it is
	SurgeUnwanted                      // the ReplicaSet is gone, or wants no pods any more
)

// surges says whether the next pod can be made before this one is gone.
func (o *owners) surges(p *corev1.Pod) bool {
	set := o.all[controllerOf(p)]
	return set != nil && convert.Surges(p, set, o.all[set.Controller])
}

// others are the ReplicaSet's pods that it still owns and that are not on their way out.
func (o *owners) others(set types.UID) []*member {
	var out []*member
	for _, key := range sortedNames(o.pods[set]) {
		m := o.pods[set][key]
		if _, released := convert.SurgeOf(m.pod); !released && m.pod.DeletionTimestamp == nil {
			out = append(out, m)
		}
	}
	return out
}

// Surge is what the pod of the eviction is to say; false where its ReplicaSet cannot be had to make the next one.
func (f *Feed) Surge(e *engine.Eviction) (s convert.Surge, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.members.pods[e.Pod]
	if m == nil || string(m.pod.UID) != e.UID || !f.owners.surges(m.pod) {
		return s, false
	}
	set := f.owners.all[controllerOf(m.pod)]
	s = convert.Surge{Set: set.Name, UID: set.UID, Hash: convert.HashOf(m.pod), For: e.For, To: e.To}
	for _, o := range f.owners.others(s.UID) {
		if o.pod.UID != m.pod.UID && o.pod.Spec.NodeName == s.To {
			s.There++
		}
	}
	return s, true
}

// SurgeProgress says how far the surge is: the next pod is there when one more than before is ready on the node, or all
// that the ReplicaSet wants are ready somewhere.
func (f *Feed) SurgeProgress(s *convert.Surge) SurgeProgress {
	f.mu.Lock()
	defer f.mu.Unlock()
	set := f.owners.all[s.UID]
	if set == nil || set.Pods == 0 {
		return SurgeUnwanted
	}
	ready, there := 0, 0
	for _, m := range f.owners.others(s.UID) {
		if !isReady(m.pod) {
			continue
		}
		ready++
		if m.pod.Spec.NodeName == s.To {
			there++
		}
	}
	if there > s.There || ready >= set.Pods {
		return SurgeFollowed
	}
	return SurgeAwaited
}

// SurgeArrived says whether the next pod is on its node already, ready or not.
func (f *Feed) SurgeArrived(s *convert.Surge) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	there := 0
	for _, m := range f.owners.others(s.UID) {
		if m.pod.Spec.NodeName == s.To {
			there++
		}
	}
	return there > s.There
}

func isReady(p *corev1.Pod) bool {
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
