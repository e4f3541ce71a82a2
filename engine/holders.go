package engine

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/index"
	"github.com/berth-dev/berth/engine/internal/quantity"
)

// Tally is one workload in numbers, as of the last Apply.
type Tally struct {
	Key      string
	Queue    string
	Priority int32
	Created  time.Time
	Min      int   // members that start together; where groups may be left out, of all groups
	Size     int   // members that there are, or will be; those on their way out do not count
	Placed   int   // members with a place
	GPUs     int64 // that the members that exist ask for together
	Held     int64 // GPUs of those with a place
	Loose    int64 // of Held: GPUs of members that may be evicted
	// Evicting is how many members with a place are to end, and Eviction is that of the first of them by key.
	Evicting int
	Eviction api.Eviction
}

// Tallies counts the workloads of the namespace, or of all for "", by key. Other schedulers' pods are none. It
// looks at every pod.
func (s *State) Tallies(namespace string) []Tally {
	out := s.tallies(namespace)
	slices.SortFunc(out, func(a, b Tally) int { return strings.Compare(a.Key, b.Key) })
	return out
}

// tallies are those of Tallies in no order.
func (s *State) tallies(namespace string) []Tally {
	s.freshen()
	out := make([]Tally, 0, len(s.m.Gangs))
	gangs := make(map[string]int, len(s.m.Gangs)) // index in out
	//archtest:any-order counts; the caller sorts
	for _, p := range s.m.Pods {
		if p.Foreign || p.Terminating || namespace != "" && !strings.HasPrefix(p.WorkloadKey(), namespace+"/") {
			continue
		}
		i, known := gangs[p.Gang]
		if p.Gang == "" || !known {
			i = len(out)
			out = append(out, s.newTally(p))
		}
		if p.Gang != "" {
			gangs[p.Gang] = i
		}
		out[i].count(p)
		if p.Evicting && p.Host != nil {
			out[i].end(s.m.Evictions[p.Key])
		}
	}
	return out
}

// newTally is of the pod's workload, with nothing counted.
func (s *State) newTally(p *cluster.Pod) Tally {
	if p.Gang == "" {
		return Tally{Key: p.Key, Queue: p.Queue, Priority: p.Priority, Created: p.Created, Min: 1}
	}
	t := Tally{Key: p.Gang}
	g := s.m.Gangs[p.Gang]
	if g == nil || g.Spec == nil {
		return t
	}
	t.Queue, t.Priority, t.Created = g.Spec.Queue, g.Spec.Priority, g.Spec.Created
	g.Tree.Each(func(b *cluster.Branch) {
		if len(b.Children) == 0 {
			t.Min += b.Min()
			t.Size += max(b.Group.Size, b.Min(), len(b.Pods))
		}
	})
	return t
}

func (t *Tally) count(p *cluster.Pod) {
	gpus := p.Amount(quantity.DimGPU)
	t.GPUs += gpus
	if p.Gang == "" {
		t.Size++
	}
	if p.Host == nil {
		return
	}
	t.Placed++
	t.Held += gpus
	if p.Evictable {
		t.Loose += gpus
	}
}

func (t *Tally) end(e *api.Eviction) {
	if t.Evicting == 0 || e.Pod < t.Eviction.Pod {
		t.Eviction = *e
	}
	t.Evicting++
}

// Held is how much of a resource a workload has.
type Held struct {
	Workload string // key; a pod's where another scheduler placed it
	Amount   int64
}

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
	y := s.newCycle(now)
	c := y.kin(g, g.TurnNow(), "").Class(g.All()[i])
	sum, dim := make(map[string]int64), s.m.Dims.ID(resource)
	for _, n := range s.m.Nodes {
		if n.Bucket == nil || s.ix.MaskOf(c, n).State == index.Excluded || c.Local && c.Excludes(n) {
			continue
		}
		for _, p := range n.Pods {
			sum[p.WorkloadKey()] += p.Amount(dim)
		}
	}
	delete(sum, key)
	return most(sum)
}

// Charged lists who has the resource at the queue's expense: most first, then by key.
func (s *State) Charged(queue, resource string) []Held {
	sum, dim := make(map[string]int64), s.m.Dims.ID(resource)
	if q := s.m.Queues[queue]; q != nil {
		for _, p := range q.Pods {
			sum[p.WorkloadKey()] += p.Amount(dim)
		}
	}
	return most(sum)
}

// most lists what is not nothing.
func most(sum map[string]int64) []Held {
	var out []Held
	for key, amount := range sum {
		if amount > 0 {
			out = append(out, Held{key, amount})
		}
	}
	slices.SortFunc(out, func(a, b Held) int {
		return cmp.Or(cmp.Compare(b.Amount, a.Amount), strings.Compare(a.Workload, b.Workload))
	})
	return out
}
