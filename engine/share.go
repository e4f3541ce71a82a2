package engine

import (
	"slices"
	"time"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/quantity"
	shares "github.com/berth-dev/berth/engine/internal/share"
)

// fairShares works out the fair share of every queue: from what it is promised, from what its workloads hold and wait
// for, and from what it used in the past. Queues that cannot be in the tree have none. lifted are gangs whose members lost
// seats to time.
func (s *State) fairShares(now time.Time, lifted ...*gang) {
	s.forest.shared = s.sharedDims()
	for _, q := range s.queues {
		q.fair, q.asked = nil, append(q.asked[:0], q.wanted...)
	}
	for _, g := range lifted {
		s.askAgain(g)
	}
	n := len(s.queues)
	t := &sharing{
		s: s, past: s.pastAt(now), dims: s.forest.shared, amounts: make([]int64, 3*n*len(s.forest.shared)),
		nodes: make([]shares.Node, 0, n), queues: make([]*queue, 0, n),
	}
	t.enterAll(s.forest.top, -1)
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
		q.fair, room = room[:most:most], room[most:]
		for k, dim := range t.dims {
			q.fair[dim] = v[k]
		}
	}
}

// sharedDims lists what fair shares are of: GPUs, CPU, memory, and whatever a queue is promised.
func (s *State) sharedDims() []int {
	dims := []int{quantity.DimGPU, s.dims.ID(api.CPU), s.dims.ID(api.Memory)}
	for dim, promised := range s.forest.promised {
		if promised > 0 && dim != quantity.DimPods && !slices.Contains(dims, dim) {
			dims = append(dims, dim)
		}
	}
	slices.SortFunc(dims[3:], func(a, b int) int { return before(s.dims.Names[a] < s.dims.Names[b]) })
	return dims
}

// sharedTotal is what there is, as queues count it.
func (s *State) sharedTotal(dims []int) []int64 {
	capacity := s.capacity
	if s.forest.modelled {
		capacity = s.modelledCapacity()
	}
	out := make([]int64, len(dims))
	for k, dim := range dims {
		out[k] = capacity.At(dim)
	}
	return out
}

// modelledCapacity is what all nodes have, GPUs at the rate of their model and, apart, of their model.
func (s *State) modelledCapacity() quantity.Vector {
	out := slices.Clone(s.capacity)
	for _, n := range s.nodes {
		if n.spec == nil || n.kind == nil || len(n.kind.models) == 0 {
			continue
		}
		gpus, models := n.spec.Allocatable.Get(s.cfg.GPU), n.kind.models
		for i, model := range models {
			of := gpus // that are not of the models before
			if i < len(models)-1 {
				of = min(of, devicesOf(n.spec, model))
			}
			gpus -= of
			out.Add(quantity.DimGPU, of*(s.rate(model)-1))
			if model != "" {
				out.Add(s.dims.ID(api.OfModel(s.cfg.GPU, model)), of)
			}
		}
	}
	return out
}

func devicesOf(n *api.Node, model string) (count int64) {
	for i := range n.Devices {
		if n.Devices[i].Model == model {
			count++
		}
	}
	return count
}

// want enters in the account of its queue what the gang, which is in line, lacks by now.
func (s *State) want(g *gang) {
	s.unwant(g)
	if g.payer == nil {
		return
	}
	g.wanting, g.wantedOf = s.asks(g), g.payer
	for _, d := range g.wanting {
		//mutate: index-wanted
		g.wantedOf.wanted.Add(d.Dim, d.Amount)
	}
}

// unwant takes the same back.
func (s *State) unwant(g *gang) {
	if g.wantedOf == nil {
		return
	}
	for _, d := range g.wanting {
		g.wantedOf.wanted.Add(d.Dim, -d.Amount)
	}
	g.wantedOf = nil
}

// askAgain lets the gang ask for what it lacks in this cycle, where that is not what was told.
func (s *State) askAgain(g *gang) {
	if g.wantedOf == nil {
		return
	}
	for _, d := range g.wanting {
		g.wantedOf.asked.Add(d.Dim, -d.Amount)
	}
	for _, d := range s.asks(g) {
		g.wantedOf.asked.Add(d.Dim, d.Amount)
	}
}

// asks is what the gang lacks, as queues count it. What cannot start asks for nothing.
func (s *State) asks(g *gang) []quantity.Demand {
	if !g.tree.complete() || g.lone == nil && s.isRejected(api.KindGang, g.key) {
		return nil
	}
	out := g.lacking()
	for i := range out {
		if d := &out[i]; d.Dim == quantity.DimGPU && s.forest.modelled {
			if model := g.wish(); model != "" {
				out = append(out, quantity.Demand{Dim: s.dims.ID(api.OfModel(s.cfg.GPU, model)), Amount: d.Amount})
				out[i].Amount *= s.rate(model)
			}
		}
	}
	return out
}

// lacking is what the members without a seat ask for together.
func (g *gang) lacking() []quantity.Demand {
	var sum quantity.Vector
	for _, p := range g.all() {
		if p.waits() {
			for _, d := range p.demands {
				sum.Add(d.Dim, d.Amount)
			}
		}
	}
	out := make([]quantity.Demand, 0, 4)
	for dim, amount := range sum {
		if amount > 0 {
			out = append(out, quantity.Demand{Dim: dim, Amount: amount})
		}
	}
	return out
}

// wish is the GPU model that the gang would like best, "" for any.
func (g *gang) wish() string {
	for _, p := range g.all() {
		if p.waits() && len(p.GPU.Models) > 0 {
			return p.GPU.Models[0]
		}
	}
	return ""
}

// sharing is the tree of queues as shares.Fair takes it.
type sharing struct {
	s       *State
	past    past
	dims    []int
	nodes   []shares.Node
	amounts []int64  // room for those of the nodes
	queues  []*queue // of the nodes; nil: the own workloads of a queue with others below it
}

func (t *sharing) enterAll(queues []*queue, parent int) {
	for _, q := range queues {
		if t.s.valid(q) {
			t.enter(q, parent)
		}
	}
}

// enter makes nodes of the queue and of those below it. Workloads that are in a queue with others below it share with
// those like one more queue without a quota.
func (t *sharing) enter(q *queue, parent int) {
	n, k := len(t.nodes), len(t.dims)
	quota, limit, own := t.amounts[:k:k], t.amounts[k:2*k:2*k], t.amounts[2*k:3*k:3*k]
	t.amounts = t.amounts[3*k:]
	asks := false
	for i, dim := range t.dims {
		limit[i] = -1
		own[i] = q.used.At(dim) - q.leaving.At(dim) + q.asked.At(dim)
		for _, c := range q.children {
			own[i] -= c.used.At(dim) - c.leaving.At(dim)
		}
		asks = asks || own[i] > 0
	}
	for _, a := range q.spec.Quota {
		if i := slices.Index(t.dims, t.s.dims.ID(a.Resource)); i >= 0 {
			quota[i] = a.Value
		}
	}
	for _, a := range q.spec.Limits {
		if i := slices.Index(t.dims, t.s.dims.ID(a.Resource)); i >= 0 {
			limit[i] = a.Value
		}
	}
	t.nodes = append(t.nodes, shares.Node{
		Name: q.name, Parent: parent, Priority: q.spec.Priority, Weight: q.spec.Weight,
		Quota: quota, Limit: limit, Request: own, Used: t.past.use(q),
	})
	t.queues = append(t.queues, q)
	t.enterAll(q.children, n)
	if asks && len(t.nodes) > n+1 {
		t.nodes = append(t.nodes, shares.Node{Parent: n, Request: own})
		t.queues = append(t.queues, nil)
	}
}
