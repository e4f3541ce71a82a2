package volumes

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	schedulinghelper "k8s.io/component-helpers/scheduling/corev1"

	"github.com/berth-dev/berth/engine"
)

// forOnePod says whether one pod at a time may use the claim.
func forOnePod(c *corev1.PersistentVolumeClaim) bool {
	return slices.Contains(c.Spec.AccessModes, corev1.ReadWriteOncePod)
}

// A claim that one pod at a time may use can be had from the pod that has it: upstream's VolumeRestrictions lets a pod of a
// higher priority preempt that one, and so on its node alone. To the engine the claim is like a host port there: the
// pod that has it takes the port, and so do those that want it.

// Held are what the pod, which has a node, keeps from others on it.
func (s *Volumes) Held(pod string, p *corev1.Pod) (out []engine.Port) {
	for _, key := range ClaimsOf(p) {
		if c := s.claims[key]; c != nil && forOnePod(c) {
			out = append(out, engine.Port{Protocol: engine.Exclusive, Port: 1, IP: inWords(c, pod)})
		}
	}
	return out
}

// inWords names the pod by its key to the engine, which sees all namespaces, and by its name to people.
func inWords(c *corev1.PersistentVolumeClaim, pod string) string {
	return fmt.Sprintf("claim %s is for one pod at a time, and pod %s has it", c.Name, pod)
}

// contest is what a pod would have to take from others to have its claims for itself.
type contest struct {
	node  string // where all of them are; "": there is nothing to take
	ports []engine.Port
}

// contested returns what the pod would have to take from pods that the engine may evict for it. ok is false where one of those
// that have its claims is not of a lower priority, or not on the same node as the others, or never evicted.
func (s *Volumes) contested(p *corev1.Pod) (out contest, ok bool) {
	if policy := p.Spec.PreemptionPolicy; policy != nil && *policy == corev1.PreemptNever {
		return contest{}, false
	}
	for _, key := range ClaimsOf(p) {
		c := s.claims[key]
		if c == nil || !forOnePod(c) {
			continue
		}
		for _, holder := range slices.Sorted(maps.Keys(s.holders[key])) {
			h := s.holders[key][holder]
			node := h.Spec.NodeName
			if !s.evictable(holder) || priorityOf(h) >= priorityOf(p) || out.node != "" && out.node != node {
				return contest{}, false
			}
			out.node = node
			out.ports = append(out.ports, engine.Port{Protocol: engine.Exclusive, Port: 1, IP: inWords(c, holder)})
		}
	}
	return out, out.node != ""
}

func priorityOf(p *corev1.Pod) int32 { return schedulinghelper.PodPriority(p) }

// rival is the pod for which another must leave alone a claim that one pod at a time may use: one on a node, or
// the first of those that wait, by priority and age. Nil: there is none.
func (s *Volumes) rival(pod string, p *corev1.Pod, claim string) *corev1.Pod {
	if held := s.holders[claim]; len(held) > 0 {
		return held[slices.Min(slices.Collect(maps.Keys(held)))]
	}
	first, at := p, pod
	//archtest:any-order the highest priority wins, then the oldest, and of equals the one with the least key
	for key, o := range s.users[claim] {
		if cmp.Or(cmp.Compare(priorityOf(first), priorityOf(o)), o.CreationTimestamp.Compare(first.CreationTimestamp.Time), cmp.Compare(key, at)) < 0 {
			first, at = o, key
		}
	}
	if at == pod {
		return nil
	}
	return first
}

// inUse are sentences about claims that another pod must be done with first.
func (s *Volumes) inUse(pod string, p *corev1.Pod) (out []string) {
	for _, key := range ClaimsOf(p) {
		if c := s.claims[key]; c != nil && forOnePod(c) {
			if rival := s.rival(pod, p, key); rival != nil {
				out = append(out, inWords(c, rival.Name))
			}
		}
	}
	return out
}
