package cluster

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// forOnePod says whether one pod at a time may use the claim.
func forOnePod(c *corev1.PersistentVolumeClaim) bool {
	return slices.Contains(c.Spec.AccessModes, corev1.ReadWriteOncePod)
}

// rival is the pod for which another must leave alone a claim that one pod at a time may use: one on a node, or
// the oldest of those that wait. Nil: there is none.
func (s *storage) rival(m *member, claim string) *member {
	if held := s.holders[claim]; len(held) > 0 {
		return held[slices.Min(slices.Collect(maps.Keys(held)))]
	}
	first := m
	//archtest:any-order the oldest wins, and of equals the one with the least key
	for _, o := range s.users[claim] {
		if cmp.Or(o.pod.CreationTimestamp.Compare(first.pod.CreationTimestamp.Time), cmp.Compare(o.key, first.key)) < 0 {
			first = o
		}
	}
	if first == m {
		return nil
	}
	return first
}

// inUse are sentences about claims that another pod must be done with first.
func (s *storage) inUse(m *member) (out []string) {
	for _, key := range claimsOf(m.pod) {
		if c := s.claims[key]; c != nil && forOnePod(c) {
			if rival := s.rival(m, key); rival != nil {
				out = append(out, fmt.Sprintf("claim %s is for one pod at a time, and pod %s has it", c.Name, rival.pod.Name))
			}
		}
	}
	return out
}
