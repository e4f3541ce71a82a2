package engine

import (
	"time"

	"github.com/berth-dev/berth/engine/internal/census"
)

// Report counts GPUs and finds the largest jobs that could start, over nodes that are not cordoned.
func (s *State) Report() Report { return census.Count(s.m) }

// QueueUses lists the queues that exist: each, then those below it, siblings by name. Then, by name, those that do not
// exist and yet are charged or named.
func (s *State) QueueUses() []QueueUse {
	s.freshen()
	return census.QueueUses(s.m)
}

// Tallies counts the workloads of the namespace, or of all for "", by key. Other schedulers' pods are none. It
// looks at every pod.
func (s *State) Tallies(namespace string) []Tally {
	s.freshen()
	return census.Tallies(s.m, namespace)
}

// Charged lists who has the resource at the queue's expense: most first, then by key.
func (s *State) Charged(queue, resource string) []Held { return census.Charged(s.m, queue, resource) }

// Holders lists who else has the resource on nodes that the workload's first waiting member matches, whatever is free
// there: most first, then by key. It is empty for a workload that has nothing to place.
func (s *State) Holders(key, resource string, now time.Time) []Held {
	s.freshen()
	if g := s.m.WorkloadNamed(key); g != nil {
		if matches := s.newCycle(now).attempts.Matches(g); matches != nil {
			return census.Holders(s.m, key, resource, matches)
		}
	}
	return nil
}
