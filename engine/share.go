package engine

import (
	"slices"
	"time"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/quantity"
	shares "github.com/berth-dev/berth/engine/internal/share"
)

// fairShares works out the fair share of every queue: from what it is promised, from what its workloads hold and wait
// for, and from what it used in the past. Queues that cannot be in the tree have none. lifted are gangs whose members lost
// seats to time.
func (s *State) fairShares(now time.Time, lifted ...*cluster.Gang) {
	s.m.Tree.Shared = s.sharedDims()
	for _, q := range s.m.Queues {
		q.Fair, q.Asked = nil, append(q.Asked[:0], q.Wanted...)
	}
	for _, g := range lifted {
		s.m.AskAgain(g)
	}
	n := len(s.m.Queues)
	t := &sharing{
		s: s, past: s.pastAt(now), dims: s.m.Tree.Shared, amounts: make([]int64, 3*n*len(s.m.Tree.Shared)),
		nodes: make([]shares.Node, 0, n), queues: make([]*cluster.Queue, 0, n),
	}
	t.enterAll(s.m.Tree.Top, -1)
	if len(t.nodes) == 0 {
		return
	}
	most := 0
	for _, dim := range t.dims {
		most = max(most, dim+1)
	}
	room := make(quantity.Vector, n*most)
	for i, v := range shares.Fair(t.nodes, s.sharedTotal(t.dims)) {
		q := t.queues[i]
		if q == nil {
			continue
		}
		q.Fair, room = room[:most:most], room[most:]
		for k, dim := range t.dims {
			q.Fair[dim] = v[k]
		}
	}
}

// sharedDims lists what fair shares are of: GPUs, CPU, memory, and whatever a queue is promised.
func (s *State) sharedDims() []int {
	dims := []int{quantity.DimGPU, s.m.Dims.ID(api.CPU), s.m.Dims.ID(api.Memory)}
	for dim, promised := range s.m.Tree.Promised {
		if promised > 0 && dim != quantity.DimPods && !slices.Contains(dims, dim) {
			dims = append(dims, dim)
		}
	}
	slices.SortFunc(dims[3:], func(a, b int) int { return cluster.Before(s.m.Dims.Names[a] < s.m.Dims.Names[b]) })
	return dims
}

// sharedTotal is what there is, as queues count it.
func (s *State) sharedTotal(dims []int) []int64 {
	capacity := s.m.Capacity
	if s.m.Tree.ByModel {
		capacity = s.m.ModelledCapacity()
	}
	out := make([]int64, len(dims))
	for k, dim := range dims {
		out[k] = capacity.At(dim)
	}
	return out
}

// sharing is the tree of queues as shares.Fair takes it.
type sharing struct {
	s       *State
	past    past
	dims    []int
	nodes   []shares.Node
	amounts []int64          // room for those of the nodes
	queues  []*cluster.Queue // of the nodes; nil: the own workloads of a queue with others below it
}

func (t *sharing) enterAll(queues []*cluster.Queue, parent int) {
	for _, q := range queues {
		if t.s.m.Valid(q) {
			t.enter(q, parent)
		}
	}
}

// enter makes nodes of the queue and of those below it. Workloads that are in a queue with others below it share with
// those like one more queue without a quota.
func (t *sharing) enter(q *cluster.Queue, parent int) {
	n, k := len(t.nodes), len(t.dims)
	quota, limit, own := t.amounts[:k:k], t.amounts[k:2*k:2*k], t.amounts[2*k:3*k:3*k]
	t.amounts = t.amounts[3*k:]
	asks := false
	for i, dim := range t.dims {
		limit[i] = -1
		own[i] = q.Used.At(dim) - q.Leaving.At(dim) + q.Asked.At(dim)
		for _, c := range q.Children {
			own[i] -= c.Used.At(dim) - c.Leaving.At(dim)
		}
		asks = asks || own[i] > 0
	}
	for _, a := range q.Spec.Quota {
		if i := slices.Index(t.dims, t.s.m.Dims.ID(a.Resource)); i >= 0 {
			quota[i] = a.Value
		}
	}
	for _, a := range q.Spec.Limits {
		if i := slices.Index(t.dims, t.s.m.Dims.ID(a.Resource)); i >= 0 {
			limit[i] = a.Value
		}
	}
	t.nodes = append(t.nodes, shares.Node{
		Name: q.Name, Parent: parent, Priority: q.Spec.Priority, Weight: q.Spec.Weight,
		Quota: quota, Limit: limit, Request: own, Used: t.past.use(q),
	})
	t.queues = append(t.queues, q)
	t.enterAll(q.Children, n)
	if asks && len(t.nodes) > n+1 {
		t.nodes = append(t.nodes, shares.Node{Parent: n, Request: own})
		t.queues = append(t.queues, nil)
	}
}
