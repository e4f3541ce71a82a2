package census

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/quantity"
)

// Tally is one workload in numbers, as of the last Apply.
type Tally struct {
	Key      string
	Queue    string
	User     string // whose it is; "": unknown
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
func Tallies(m *cluster.Model, namespace string) []Tally {
	out := tallies(m, namespace)
	slices.SortFunc(out, func(a, b Tally) int { return strings.Compare(a.Key, b.Key) })
	return out
}

// tallies are those of Tallies in no order.
func tallies(m *cluster.Model, namespace string) []Tally {
	out := make([]Tally, 0, len(m.Gangs))
	gangs := make(map[string]int, len(m.Gangs)) // index in out
	//archtest:any-order who asks sorts, or adds up
	for _, p := range m.Pods {
		if p.Foreign || p.Terminating || namespace != "" && !strings.HasPrefix(p.WorkloadKey(), namespace+"/") {
			continue
		}
		i, known := gangs[p.Gang]
		if p.Gang == "" || !known {
			i = len(out)
			out = append(out, newTally(m, p))
		}
		if p.Gang != "" {
			gangs[p.Gang] = i
		}
		out[i].count(p)
		if p.Evicting && p.Host != nil {
			out[i].end(m.Evictions[p.Key])
		}
	}
	return out
}

// newTally is of the pod's workload, with nothing counted.
func newTally(m *cluster.Model, p *cluster.Pod) Tally {
	if p.Gang == "" {
		return Tally{Key: p.Key, Queue: p.Queue, User: p.User, Priority: p.Priority, Created: p.Created, Min: 1}
	}
	t := Tally{Key: p.Gang}
	g := m.Gangs[p.Gang]
	if g == nil || g.Spec == nil {
		return t
	}
	t.Queue, t.User, t.Priority, t.Created = g.Spec.Queue, g.Spec.User, g.Spec.Priority, g.Spec.Created
	g.Tree.Each(func(b *cluster.Branch) {
		if len(b.Children) == 0 {
			t.Min += b.Keep()
			t.Size += max(b.Group.Size, b.Keep(), len(b.Pods))
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

// Holders lists the workloads that have the resource on the nodes, other than the given one: most first, then by key.
func Holders(m *cluster.Model, workload, resource string, on func(*cluster.Node) bool) []Held {
	sum, dim := make(map[string]int64), m.Dims.ID(resource)
	//archtest:any-order it only adds up
	for _, n := range m.Nodes {
		if !on(n) {
			continue
		}
		for _, p := range n.Pods {
			sum[p.WorkloadKey()] += p.Amount(dim)
		}
	}
	delete(sum, workload)
	return most(sum)
}

// Releasing adds up what terminating pods give back on the nodes, and says by when they will have, at the latest; zero: none of them
// says when it ends.
func Releasing(m *cluster.Model, on func(*cluster.Node) bool) (out api.Resources, by time.Time) {
	var sum quantity.Vector
	//archtest:any-order it only adds up
	for _, n := range m.Nodes {
		if !on(n) {
			continue
		}
		for _, p := range n.Pods {
			if !p.Terminating {
				continue
			}
			for _, d := range p.Demands {
				sum.Add(d.Dim, d.Amount)
			}
			if p.ReleaseAt.After(by) {
				by = p.ReleaseAt.UTC()
			}
		}
	}
	for dim, v := range sum {
		if v > 0 && dim != quantity.DimPods {
			out = append(out, api.Amount{Resource: m.Dims.Names[dim], Value: v})
		}
	}
	return out.Sorted(), by
}

// Charged lists the workloads that have the resource at the queue's expense: most first, then by key.
func Charged(m *cluster.Model, queue, resource string) []Held {
	sum, dim := make(map[string]int64), m.Dims.ID(resource)
	if q := m.Queues[queue]; q != nil {
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
