package queue

import (
	"slices"
	"time"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/quantity"
	shares "github.com/berth-dev/berth/engine/internal/share"
)

// FairShares works out the fair share of every queue: from what it is promised, from what its workloads hold and wait
// for, and from what it used in the past. Queues that cannot be in the tree have none. lifted are gangs whose members lost
// allocations to time.
func (l *Ledger) FairShares(now time.Time, lifted ...*cluster.Gang) {
	l.m.Tree.Shared = l.sharedDims()
	for _, q := range l.m.Queues {
		q.Fair, q.Asked = nil, append(q.Asked[:0], q.Wanted...)
	}
	for _, g := range lifted {
		l.m.AskAgain(g)
	}
	n := len(l.m.Queues)
	t := &l.sharing
	t.s, t.past, t.dims, t.nodes, t.queues = l, l.PastAt(now), l.m.Tree.Shared, t.nodes[:0], t.queues[:0]
	t.room = slices.Grow(t.room[:0], 3*n*len(t.dims))[:3*n*len(t.dims)]
	clear(t.room)
	t.amounts = t.room
	t.enterAll(l.m.Tree.Top, -1)
	if len(t.nodes) == 0 {
		return
	}
	most := 0
	for _, dim := range t.dims {
		most = max(most, dim+1)
	}
	room := make(quantity.Vector, n*most)
	total := l.sharedTotal(t.dims)
	units := t.wholes(total)
	for i, v := range shares.Fair(t.nodes, total) {
		q := t.queues[i]
		if q == nil {
			continue
		}
		q.Fair, room = room[:most:most], room[most:]
		for k, dim := range t.dims {
			q.Fair[dim] = v[k] * units[k]
		}
	}
}

// sharedDims lists what fair shares are of: GPUs, CPU, memory, and whatever a queue is promised.
func (l *Ledger) sharedDims() []int {
	dims := []int{quantity.DimGPU, l.m.Dims.ID(api.CPU), l.m.Dims.ID(api.Memory)}
	for _, dim := range l.m.Tree.PromisedDims {
		if dim != quantity.DimPods && !l.m.OfFlavor(dim) && !slices.Contains(dims, dim) {
			dims = append(dims, dim)
		}
	}
	return dims
}

// sharedTotal is what there is, as queues count it.
func (l *Ledger) sharedTotal(dims []int) []int64 {
	capacity := l.m.Capacity
	if l.m.Tree.ByModel {
		capacity = l.m.ModelledCapacity()
	}
	out := make([]int64, len(dims))
	for k, dim := range dims {
		out[k] = capacity.At(dim)
		if dim == quantity.DimGPU && !l.m.Tree.ByModel {
			out[k] = cluster.GPUs(out[k]) + l.m.Sliced
		}
	}
	return out
}

// sharing is the tree of queues as shares.Fair takes it.
type sharing struct {
	s       *Ledger
	past    Past
	dims    []int
	nodes   []shares.Node
	room    []int64          // for the amounts of all nodes
	amounts []int64          // what is left of it
	queues  []*cluster.Queue // of the nodes; nil: the own workloads of a queue with others below it
}

// wholes has shares be of whole GPUs where no queue has, wants or is promised a part of one, and returns what one of each dimension
// counts in accounts. A share of less than one GPU is of no use to queues that ask for whole ones.
func (t *sharing) wholes(total []int64) []int64 {
	units := make([]int64, len(t.dims))
	for k, dim := range t.dims {
		units[k] = t.s.m.Unit(dim)
		//mutate: share-of-whole-gpus
		if t.apart(k, units[k]) {
			units[k] = 1
		}
		if units[k] == 1 {
			continue
		}
		total[k] /= units[k]
		for i := range t.nodes {
			n := &t.nodes[i]
			if t.queues[i] == nil {
				continue // its request is that of its queue
			}
			for _, v := range [][]int64{n.Quota, n.Limit, n.Request} {
				if v != nil && v[k] > 0 {
					v[k] /= units[k]
				}
			}
		}
	}
	return units
}

// apart says whether some queue has, wants or is promised no whole number of the units.
func (t *sharing) apart(k int, unit int64) bool {
	for i := range t.nodes {
		for _, v := range [][]int64{t.nodes[i].Quota, t.nodes[i].Limit, t.nodes[i].Request} {
			if v != nil && v[k] > 0 && v[k]%unit != 0 {
				return true
			}
		}
	}
	return false
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
		dim, amount := t.s.m.Booked(a)
		if i := slices.Index(t.dims, dim); i >= 0 {
			quota[i] = amount
		}
	}
	for _, a := range q.Spec.Limits {
		dim, amount := t.s.m.Booked(a)
		if i := slices.Index(t.dims, dim); i >= 0 {
			limit[i] = amount
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

// Excess is how far the queue, or one of its users, is above its share, in the resource where it is furthest.
// Workloads without a queue have no share and are never above it.
func (l *Ledger) Excess(q *cluster.Queue, user string, ofUser bool) Fraction {
	if q == nil {
		return Fraction{0, 1}
	}
	if ofUser {
		v := q.Users[user]
		return Fraction{v.At(quantity.DimGPU), 1}
	}
	worst := Fraction{0, 1}
	if q.Fair == nil {
		return worst
	}
	for _, dim := range l.m.Tree.Shared {
		r := Fraction{max(0, q.Committed(dim)), q.Fair.At(dim)}
		if r.Num > 0 && worst.Less(r) {
			worst = r
		}
	}
	return worst
}
