package engine

import (
	"slices"
	"time"

	"github.com/berth-dev/berth/engine/internal/attempt"
	"github.com/berth-dev/berth/engine/internal/census"
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/index"
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

// Holders lists who has the resource on nodes that the workload's first waiting member matches, whatever is free
// there: most first, then by key. It is empty for a workload that has nothing to place.
func (s *State) Holders(key, resource string, now time.Time) []Held {
	s.freshen()
	g := s.m.WorkloadNamed(key)
	if g == nil {
		return nil
	}
	i := slices.IndexFunc(g.All(), (*cluster.Pod).Waits)
	if i < 0 {
		return nil
	}
	c := s.newCycle(now).attempts.Kin(g, g.TurnNow(), attempt.Way{}).Class(g.All()[i])
	all := census.Holders(s.m, resource, func(n *cluster.Node) bool {
		return n.Bucket != nil && s.ix.MaskOf(c, n).State != index.Excluded && !(c.Local && c.Excludes(n))
	})
	return slices.DeleteFunc(all, func(h Held) bool { return h.Workload == key })
}
