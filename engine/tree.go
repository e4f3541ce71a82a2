package engine

import (
	"fmt"
	"slices"
	"strings"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/quantity"
)

// queue is a queue, where it is in the tree, and its account. Every seat of a pod is booked twice: on its node, and
// here; what a pod was booked with is kept with the pod, so that the same is taken back.
type queue struct {
	name string
	spec *api.Queue // nil: named by workloads, but not known

	parent   *queue          // nil: at the top
	depth    int             // how many are above it
	children []*queue        // by name
	quota    quantity.Vector // what it is promised
	easy     bool            // it and those above it ask nothing of work that may be evicted
	problem  string          // why it cannot be in the tree: an unknown parent, a circle

	// Of its workloads and those of the queues below it: what they hold, how much of it by pods on their way
	// out, and what is held for them on nodes.
	// firm is what of it cannot be asked back: by pods that may not be evicted.
	used, leaving, pledged, firm quantity.Vector

	pods   []*pod                     // its own seated pods, in no order
	ranks  map[int32]int              // by priority: its own seated pods that may be evicted
	owned  int                        // of those, how many somebody makes again
	going  int                        // its own seated pods that are on their way out
	fair   quantity.Vector            // its fair share, as of the cycle
	asked  quantity.Vector            // what its own workloads in line lack, as of the cycle
	wanted quantity.Vector            // the same, as of what was told
	users  map[string]quantity.Vector // what each user of its own workloads holds; nil: it does not matter
	epoch  uint64                     // goes up when pods change

	roster    roster
	counted   int // workloads of pods, when epoch was countedAt
	countedAt uint64
}

// forest is what follows from all queues together.
type forest struct {
	stale    bool            // queues changed: parents, accounts and the rest have to be worked out anew
	top      []*queue        // by name
	promised quantity.Vector // by dimension: not 0 where some queue has a quota above 0
	modelled bool            // amounts depend on GPU models
	idle     []*queue        // that give back GPUs which do nothing, by name
	lends    bool            // some queue keeps unused quota to itself
	shared   []int           // the dimensions that fair shares are of
	rated    int64           // GPUs of all nodes, at their models' rates; 0: to be worked out
	warnings []api.Rejected
}

func (s *State) queueNamed(name string) *queue {
	if name == "" {
		return nil
	}
	q := s.queues[name]
	if q == nil {
		q = &queue{name: name}
		s.queues[name] = q
	}
	return q
}

// queueOf returns the queue that the pod is charged to, nil for none.
func (s *State) queueOf(p *pod) *queue {
	if p.Foreign {
		return nil
	}
	if p.Gang == "" {
		return s.queueNamed(p.Queue)
	}
	if g := p.gang; g != nil && g.spec != nil {
		return s.queueNamed(g.spec.Queue)
	}
	return nil
}

// userOf returns whose workload the pod is of.
func (s *State) userOf(p *pod) string {
	if p.Gang == "" {
		return p.User
	}
	if g := p.gang; g != nil && g.spec != nil {
		return g.spec.User
	}
	return ""
}

// book enters a pod that has a seat in its queue's account, and in those above it. Workloads without a queue have an
// account too, of which only the pods count.
func (s *State) book(p *pod) {
	if p.Foreign {
		return
	}
	q := s.queueOf(p)
	if q == nil {
		q = &s.nobody
	}
	s.bound(p, true)
	p.payer, p.slot = q, len(q.pods)
	q.rank(p, 1)
	if p.going = p.leaving(); p.going {
		q.going++
	}
	if t := s.termsOf(p); p.leaving() || t.Expected > 0 || t.Max > 0 || t.Like != "" {
		p.ends = true
		s.ends++
	}
	q.pods = append(q.pods, p)
	q.epoch++
	s.noteTenant(q, p)
	if q == &s.nobody {
		return
	}
	p.bill = s.billOf(p)
	q.enter(p, 1)
	if q.users != nil {
		q.bookUser(s.userOf(p), p.bill, 1)
	}
}

// rank counts a pod that may be evicted among those of its priority.
func (q *queue) rank(p *pod, by int) {
	if !p.Evictable {
		return
	}
	if p.Owner != "" {
		q.owned += by
	}
	if by > 0 {
		p.rankedAt = p.Priority
		if p.gang != nil && p.gang.spec != nil {
			p.rankedAt = p.gang.spec.Priority
		}
	}
	if q.ranks == nil {
		q.ranks = make(map[int32]int)
	}
	if q.ranks[p.rankedAt] += by; q.ranks[p.rankedAt] == 0 {
		delete(q.ranks, p.rankedAt)
	}
}

// outranks says whether the queue has work of its own that may be evicted, of a lower priority.
func (q *queue) outranks(priority int32) bool {
	for r := range q.ranks {
		if r < priority {
			return true
		}
	}
	return false
}

// unbook takes the same back.
func (s *State) unbook(p *pod) {
	q := p.payer
	if q == nil {
		return
	}
	s.bound(p, false)
	q.rank(p, -1)
	if p.going {
		p.going = false
		q.going--
	}
	if p.ends {
		p.ends = false
		s.ends--
	}
	last := len(q.pods) - 1
	q.pods[p.slot] = q.pods[last]
	q.pods[p.slot].slot = p.slot
	q.pods = q.pods[:last]
	q.epoch++
	s.noteTenant(q, p)
	p.payer = nil
	if q == &s.nobody {
		return
	}
	q.enter(p, -1)
	if q.users != nil {
		q.bookUser(s.userOf(p), p.bill, -1)
	}
	p.bill = nil
}

// rebook books the pods on the node again, whose GPUs may be of another model than before.
func (s *State) rebook(n *node) {
	if !s.forest.modelled {
		return
	}
	for _, p := range n.occ {
		if p.payer != nil {
			s.unbook(p)
			s.book(p)
		}
		now := s.surplusOf(p)
		s.surplus += now - p.surplus
		p.surplus = now
	}
	s.forest.rated = 0
}

// surplusOf is by how much the GPUs that the pod has on its seat count for more than their number.
func (s *State) surplusOf(p *pod) int64 {
	gpus := p.amount(quantity.DimGPU)
	if gpus == 0 {
		return 0
	}
	return gpus * (s.rate(p.model()) - 1)
}

// inAll is what there is in all, and what of it is taken, as queues count it.
func (s *State) inAll(dim int) (capacity, taken int64) {
	if dim != quantity.DimGPU || len(s.cfg.Rates) == 0 {
		return s.capacity.At(dim), s.taken.At(dim)
	}
	if s.forest.rated == 0 {
		all := s.modelledCapacity()
		s.forest.rated = all.At(quantity.DimGPU)
	}
	return s.forest.rated, s.taken.At(quantity.DimGPU) + s.surplus
}

// repledge pledges what is held for the workload again: another queue may pay for it now.
func (s *State) repledge(key string) {
	for _, h := range s.holdsOf[key] {
		if h.on != nil {
			s.pledge(h, -1)
			s.pledge(h, 1)
		}
	}
}

// enter moves the accounts of the queue and of those above it by the pod's bill.
func (q *queue) enter(p *pod, times int64) {
	for ; q != nil; q = q.parent {
		for _, d := range p.bill {
			//mutate: index-queue-usage
			q.used.Add(d.Dim, times*d.Amount)
			if p.leaving() {
				q.leaving.Add(d.Dim, times*d.Amount)
			}
			if p.firm() {
				q.firm.Add(d.Dim, times*d.Amount)
			}
		}
	}
}

// firm says whether the pod can never be asked back: it may not be evicted, or is of the part of its gang that may not.
func (p *pod) firm() bool {
	if !p.Evictable {
		return true
	}
	if p.gang == nil || p.gang.spec == nil || !p.gang.spec.Core {
		return false
	}
	least := p.gang.spec.Min
	return least == 0 || p.Rank < least
}

// committed is what the queue's workloads hold and will hold once those on their way out are gone and holds taken.
func (q *queue) committed(dim int) int64 {
	return q.used.At(dim) - q.leaving.At(dim) + q.pledged.At(dim)
}

// pledge enters what is held for a workload in its queue's account, or takes it back.
func (s *State) pledge(h *hold, times int64) {
	if times > 0 {
		h.payer = s.queueOfWorkload(h.Gang)
	}
	for q := h.payer; q != nil; q = q.parent {
		for _, a := range h.Requests {
			q.pledged.Add(s.dims.ID(a.Resource), times*a.Value)
		}
	}
}

// pledgedBy is what the holds that stand keep at the cost of the queue.
func (s *State) pledgedBy(holds []*hold, payer *queue) (sum quantity.Vector) {
	for _, h := range holds {
		if h.on == nil || h.payer != payer {
			continue
		}
		for _, a := range h.Requests {
			sum.Add(s.dims.ID(a.Resource), a.Value)
		}
	}
	return sum
}

// awaiting returns the workload that a place held under the key is for, nil for none that is known.
func (s *State) awaiting(key string) *gang {
	if g := s.gangs[key]; g != nil {
		return g
	}
	if p := s.pods[key]; p != nil {
		return p.gang
	}
	return nil
}

// isBelow says whether the queue is z, or one below it.
func (q *queue) isBelow(z *queue) bool {
	for ; q != nil; q = q.parent {
		if q == z {
			return true
		}
	}
	return false
}

// queueOfWorkload returns the queue that pays for a gang, or a pod by itself, nil for none.
func (s *State) queueOfWorkload(key string) *queue {
	if g := s.gangs[key]; g != nil && g.spec != nil {
		return s.queueNamed(g.spec.Queue)
	}
	if p := s.pods[key]; p != nil && p.Gang == "" && !p.Foreign {
		return s.queueNamed(p.Queue)
	}
	return nil
}

func (q *queue) bookUser(user string, bill []quantity.Demand, times int64) {
	v := q.users[user]
	for _, d := range bill {
		v.Add(d.Dim, times*d.Amount)
	}
	q.users[user] = v
}

// billOf is what a pod on its seat counts in its queue: what it asks for, and where models matter, GPUs at the rate
// of their model and, apart, of their model.
func (s *State) billOf(p *pod) []quantity.Demand {
	gpus := p.amount(quantity.DimGPU)
	if !s.forest.modelled || gpus == 0 {
		return p.demands
	}
	model := p.model()
	out := make([]quantity.Demand, 0, len(p.demands)+1)
	for _, d := range p.demands {
		if d.Dim == quantity.DimGPU {
			d.Amount *= s.rate(model)
		}
		out = append(out, d)
	}
	if model != "" {
		out = append(out, quantity.Demand{Dim: s.dims.ID(api.OfModel(s.cfg.GPU, model)), Amount: gpus})
	}
	return out
}

// rate is how much one GPU of the model counts.
func (s *State) rate(model string) int64 {
	for _, r := range s.cfg.Rates {
		if r.Model == model {
			return r.Units
		}
	}
	return 1
}

// valid says whether the queue exists and makes sense.
func (s *State) valid(q *queue) bool {
	return q != nil && q.spec != nil && q.problem == "" && !s.isRejected(api.KindQueue, q.name)
}

// regrow works out what follows from all queues together, if one of them changed: the tree, and from scratch all
// accounts.
func (s *State) regrow() {
	f := &s.forest
	if !f.stale {
		return
	}
	*f = forest{modelled: len(s.cfg.Rates) > 0}
	for _, q := range s.queues {
		q.parent, q.children, q.problem, q.users, q.quota, q.roster = nil, nil, "", nil, nil, roster{}
		if q.spec != nil && (q.spec.FairUsers || len(q.spec.UserLimits) > 0) {
			q.users = make(map[string]quantity.Vector)
		}
	}
	for _, name := range sortedKeys(s.queues) {
		s.plant(s.queues[name])
	}
	for _, name := range sortedKeys(s.queues) {
		q := s.queues[name]
		if q.parent == nil {
			f.top = append(f.top, q)
		} else {
			q.parent.children = append(q.parent.children, q)
		}
		s.readAmounts(q)
	}
	for _, name := range sortedKeys(s.queues) {
		s.warnOfPromises(s.queues[name])
	}
	for _, q := range s.queues {
		q.easy, q.depth = true, 0
		for up := q.parent; up != nil; up = up.parent {
			q.depth++
		}
		for up := q; up != nil; up = up.parent {
			q.easy = q.easy && s.valid(up) && len(up.spec.Limits)+len(up.spec.UserLimits)+len(up.spec.Budgets)+up.spec.MaxRunning == 0
		}
		q.easy = q.easy && q.spec.Namespaces == nil
	}
	s.recount()
	s.lanes = lanes{}
	for _, q := range s.queues {
		q.wanted = nil
	}
	for _, g := range s.line {
		g.payer, g.wantedOf = s.queues[g.queue()], nil
		s.want(g)
	}
}

// plant finds the queue's parent, or why it has none.
func (s *State) plant(q *queue) {
	if q.spec == nil || q.spec.Parent == "" || s.isRejected(api.KindQueue, q.name) {
		return
	}
	up := s.queues[q.spec.Parent]
	if up == nil || up.spec == nil || s.isRejected(api.KindQueue, up.name) {
		q.problem = fmt.Sprintf("parent: there is no queue %s", q.spec.Parent)
		return
	}
	for at, steps := up, 0; at != nil && at.spec != nil && at.spec.Parent != ""; steps++ {
		if at == q || steps > len(s.queues) {
			q.problem = fmt.Sprintf("parent: %s is below it, or in a circle itself", q.spec.Parent)
			return
		}
		at = s.queues[at.spec.Parent]
	}
	q.parent = up
}

// readAmounts notes which resources are promised, and whether models matter.
func (s *State) readAmounts(q *queue) {
	if !s.valid(q) {
		return
	}
	f := &s.forest
	for _, a := range q.spec.Quota {
		//mutate: promised-above-zero -> true
		if a.Value > 0 {
			f.promised.Add(s.dims.ID(a.Resource), 1)
		}
		q.quota.Add(s.dims.ID(a.Resource), a.Value)
	}
	f.lends = f.lends || len(q.spec.Lend) > 0
	if q.spec.ReclaimIdle > 0 {
		f.idle = append(f.idle, q)
	}
	for _, list := range []api.Resources{q.spec.Quota, q.spec.Limits, q.spec.Lend, q.spec.UserLimits} {
		for _, a := range list {
			f.modelled = f.modelled || strings.HasPrefix(a.Resource, s.cfg.GPU+"@")
		}
	}
}

// warnOfPromises notes where the queues below promise more than this one has to give.
func (s *State) warnOfPromises(q *queue) {
	if !s.valid(q) || len(q.children) == 0 {
		return
	}
	for _, a := range q.spec.Quota.Sorted() {
		var sum int64
		for _, c := range q.children {
			if s.valid(c) {
				sum += c.spec.Quota.Get(a.Resource)
			}
		}
		if sum > a.Value {
			s.forest.warnings = append(s.forest.warnings, api.Rejected{
				Ref:    api.Ref{Kind: api.KindQueue, Key: q.name, Version: q.spec.Version},
				Reason: fmt.Sprintf("the queues below it are promised %d of %s, and it has %d", sum, a.Resource, a.Value),
			})
		}
	}
}

// Warnings lists queues that work and yet promise what they may not be able to keep, by name.
func (s *State) Warnings() []api.Rejected {
	s.regrow()
	return slices.Clone(s.forest.warnings)
}

// recount makes all accounts anew from the pods that have seats.
func (s *State) recount() {
	for _, q := range s.queues {
		q.used, q.leaving, q.pledged, q.firm, q.pods, q.ranks = nil, nil, nil, nil, nil, nil
		q.owned, q.going = 0, 0
		q.roster = roster{}
		q.epoch++
	}
	s.nobody.pods, s.nobody.ranks, s.nobody.owned, s.nobody.going, s.nobody.roster = nil, nil, 0, 0, roster{}
	for _, h := range s.holds {
		if h.on != nil {
			s.pledge(h, 1)
		}
	}
	s.ends = 0
	for _, p := range s.pods {
		p.ends = false
		if p.seat != nil {
			s.book(p)
		}
	}
}

// quota is what the queue is promised of the dimension.
func (s *State) quota(q *queue, dim int) int64 { return q.quota.At(dim) }

// covers says whether the queue's quota is about the dimension at all: else what its workloads hold of it is neither
// promised nor borrowed.
func (s *State) covers(q *queue, dim int) bool {
	name := s.dims.Names[dim]
	if q.spec == nil || !q.spec.DevicesOnly || dim == quantity.DimGPU || strings.Contains(name, "/") {
		return true
	}
	return slices.ContainsFunc(q.spec.Quota, func(a api.Amount) bool { return a.Resource == name })
}
