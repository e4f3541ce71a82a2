package engine

import (
	"slices"
	"strings"
	"time"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/quantity"
	"github.com/berth-dev/berth/engine/why"
)

// quota lists what of the gang's queue, and of those above it, the least that its minimum can ask for would break,
// if its GPUs were of the model; "": of any, so that only what holds for all of them counts.
func (y *cycle) quota(g *cluster.Gang, model string) []why.Gate {
	q := g.Payer
	claims := model != "" && y.preempt.Settles(g)
	if q != nil && q.Unrestricted && g.Evictable && !y.s.m.Tree.Lends && !claims {
		return nil
	}
	name := g.Queue()
	if name == "" {
		return nil
	}
	//mutate: gate-queue-missing
	if q == nil || q.Spec == nil || y.s.m.IsRejected(api.KindQueue, name) {
		return []why.Gate{{Cause: why.QueueMissing, Object: name, Certificate: -1}}
	}
	//mutate: gate-queue-problem
	if problem := q.Trouble(); problem != "" {
		return []why.Gate{{Cause: why.InvalidObject, Object: problem, Certificate: -1}}
	}
	//mutate: gate-queue-forbidden
	if !q.Spec.Open(g.Key) {
		return []why.Gate{{Cause: why.QueueForbidden, Object: name, Certificate: -1}}
	}
	if model == "" && y.s.m.Tree.ByModel {
		if only := y.models(g); len(only) == 1 {
			model = only[0]
		}
	}
	a := &asking{y: y, g: g, q: q, model: model}
	a.limits()
	a.userLimits()
	a.running()
	a.budgets()
	a.firm()
	a.lent()
	if claims {
		a.rights()
	}
	return a.gates
}

// rights keeps a claimant, with GPUs of the model, within what the claim rests on.
func (a *asking) rights() {
	for _, r := range a.y.preempt.Rights() {
		reach := r.Reach
		for up := a.q; up != nil && reach >= 0; up, reach = up.Parent, reach-1 {
			for _, dim := range r.Dims {
				resource := a.y.s.m.Dims.Names[dim]
				if need, has := a.need(resource), up.Committed(dim); need > 0 && has+need > r.Part(up, dim) {
					a.shut(why.Gate{Cause: why.OverQuota, Object: up.Name, Resource: resource, Need: need, Have: has, Limit: r.Part(up, dim)})
				}
			}
		}
	}
}

// asking is a gang that asks its queue for its minimum.
type asking struct {
	y     *cycle
	g     *cluster.Gang
	q     *cluster.Queue
	model string
	own   quantity.Vector // what is held for it, and counts in its queues already
	gates []why.Gate
}

func (a *asking) shut(g why.Gate) {
	g.Certificate = -1
	a.gates = append(a.gates, g)
}

// need is the least that the gang can ask for of a resource, as queues count it.
func (a *asking) need(resource string) int64 {
	s := a.y.s
	base, model, apart := strings.Cut(resource, "@")
	if apart && base == s.m.Config.GPU {
		if model != a.model {
			return 0
		}
		return a.g.Tree.Least(quantity.DimGPU)
	}
	n := a.g.Tree.Least(s.m.Dims.ID(resource))
	if resource == s.m.Config.GPU && len(s.m.Config.Rates) > 0 {
		n *= a.y.leastRate(a.model)
	}
	return n
}

// leastRate is what one GPU of the model counts; of any, the least of those that there are.
func (y *cycle) leastRate(model string) int64 {
	if model != "" {
		return y.s.m.Rate(model)
	}
	least := int64(api.MaxRate)
	for _, m := range y.allModels() {
		least = min(least, y.s.m.Rate(m))
	}
	return least
}

// limits are those of the queue and of all above it. What is held for others of the queue counts as used.
func (a *asking) limits() {
	for up := a.q; up != nil; up = up.Parent {
		for _, limit := range up.Spec.Limits.Sorted() {
			dim := a.y.s.m.Dims.ID(limit.Resource)
			need, used := a.need(limit.Resource), up.Used.At(dim)+up.Pledged.At(dim)
			if need == 0 || used+need <= limit.Value {
				continue
			}
			gate := why.Gate{Cause: why.OverQueueLimit, Object: up.Name, Resource: limit.Resource, Need: need, Have: used, Limit: limit.Value}
			if need+a.g.Tree.Held(dim) > limit.Value {
				gate.Cause = why.ExceedsQueueMaximum
			}
			a.shut(gate)
		}
	}
}

// userLimits are what one user's workloads may hold in the queue.
func (a *asking) userLimits() {
	user := a.g.User()
	for _, limit := range a.q.Spec.UserLimits.Sorted() {
		v := a.q.Users[user]
		need, used := a.need(limit.Resource), v.At(a.y.s.m.Dims.ID(limit.Resource))
		//mutate: gate-user-limit
		if need > 0 && used+need > limit.Value {
			a.shut(why.Gate{Cause: why.OverUserLimit, Object: user, Resource: limit.Resource, Need: need, Have: used, Limit: limit.Value})
		}
	}
}

// running is how many workloads of the queue, and of those above it, may run at a time.
func (a *asking) running() {
	if slices.ContainsFunc(a.g.All(), func(p *cluster.Pod) bool { return p.Host != nil }) {
		return // it is one of them
	}
	for up := a.q; up != nil; up = up.Parent {
		if most := up.Spec.MaxRunning; most > 0 {
			//mutate: gate-max-running
			if n := up.Workloads() + a.awaited(up); n >= most {
				a.shut(why.Gate{Cause: why.QueueBusy, Object: up.Name, Have: int64(n), Limit: int64(most)})
			}
		}
	}
}

// awaited counts the other workloads of the queue, and of those below it, that a place is held for and that hold nothing
// yet: others ended for them.
func (a *asking) awaited(q *cluster.Queue) (n int) {
	seen := make(map[*cluster.Gang]bool)
	a.y.preempt.EachAwaited(func(_ string, g *cluster.Gang, holds []*cluster.Hold) {
		if g == a.g || g.Runs || seen[g] || !slices.ContainsFunc(holds, func(h *cluster.Hold) bool { return h.On != nil }) {
			return
		}
		//mutate: gate-max-running-held
		if g.Payer.IsBelow(q) {
			seen[g] = true
			n++
		}
	})
	return n
}

// budgets are what the queue and those above it may use in a period.
func (a *asking) budgets() {
	for up := a.q; up != nil; up = up.Parent {
		for i, b := range up.Spec.Budgets {
			if a.need(b.Resource) == 0 {
				continue
			}
			_, end := b.Span(a.y.Now)
			spent := a.y.s.spent(up, i, a.y.Now)
			//mutate: gate-budget
			if spent >= b.Seconds {
				a.shut(why.Gate{Cause: why.OverBudget, Object: up.Name, Resource: b.Resource, Have: spent, Limit: b.Seconds})
				a.y.Wake(end)
			}
		}
	}
}

// spent is what the queue has used of its i-th budget in the period of now.
func (s *State) spent(q *cluster.Queue, i int, now time.Time) int64 {
	sp := s.m.Spendings[q.Name]
	if sp == nil || i >= len(sp.Spent) {
		return 0
	}
	was, _ := q.Spec.Budgets[i].Span(sp.At)
	is, _ := q.Spec.Budgets[i].Span(now)
	if was.Before(is) { // what is dated ahead, of before the clock went back, counts
		return 0
	}
	return sp.Spent[i]
}

// firm keeps work that may not be evicted within quota, at all levels: what it holds cannot be asked back.
func (a *asking) firm() {
	if a.g.Evictable {
		return
	}
	s := a.y.s
	for dim, promised := range s.m.Tree.Promised {
		if promised == 0 {
			continue
		}
		resource := s.m.Dims.Names[dim]
		need := a.need(resource)
		//mutate: gate-firm-devices-only -> need == 0
		if need == 0 || !s.m.Covers(a.q, dim) {
			continue
		}
		for up := a.q; up != nil; up = up.Parent {
			quota, has := s.m.Quota(up, dim), up.Firm.At(dim)
			//mutate: gate-firm-within-quota
			if has+need > quota {
				a.shut(why.Gate{Cause: why.OverQuota, Object: up.Name, Resource: resource, Need: need, Have: has, Limit: quota})
				return
			}
		}
	}
}

// lent keeps a gang that borrows from what others' queues keep for themselves.
func (a *asking) lent() {
	s := a.y.s
	if !s.m.Tree.Lends {
		return
	}
	for dim, promised := range s.m.Tree.Promised {
		if promised == 0 || s.m.OfModel(dim) {
			continue
		}
		resource := s.m.Dims.Names[dim]
		need := a.need(resource)
		if need == 0 || a.hasQuota(dim, need) {
			continue
		}
		kept := s.keptFrom(a.q, dim)
		capacity, taken := a.y.inUse(dim)
		free := capacity - taken - kept
		//mutate: gate-lent
		if kept > 0 && need > free {
			a.shut(why.Gate{Cause: why.NotLent, Object: a.q.Name, Resource: resource, Need: need, Have: max(0, free)})
		} else if a.y.crowdsOut(a.g, a.q, dim, need) {
			a.shut(why.Gate{Cause: why.NotLent, Object: a.q.Name, Resource: resource, Need: need})
		}
	}
}

// inUse is what there is in all, as queues count it, and what of it is taken now or, where that is more, will be once those
// on their way out are gone and all that is held is taken. In a trial those that were taken off their node, and will be made again, count as there.
func (y *cycle) inUse(dim int) (capacity, taken int64) {
	more := y.s.m.Unqueued.Pledged.At(dim) - y.s.m.Unqueued.Leaving.At(dim)
	for _, q := range y.s.m.Tree.Top {
		if q.Spec != nil { // one that is only named may not be in the forest yet
			more += q.Pledged.At(dim) - q.Leaving.At(dim)
		}
	}
	//mutate: gate-lent-pledged
	more = max(0, more)
	capacity, taken = y.s.m.InAll(dim)
	//mutate: gate-lent-returning
	more += y.preempt.Returning(dim)
	return capacity, taken + more
}

// crowdsOut says whether so much more for the queue keeps somebody, for whom a place is held, from borrowing what it needs:
// others ended for it, who would be back before it starts.
func (y *cycle) crowdsOut(g *cluster.Gang, q *cluster.Queue, dim int, need int64) (crowds bool) {
	s := y.s
	count := func(n int64) {
		for up := q; up != nil; up = up.Parent {
			up.Used.Add(dim, n)
		}
		s.m.Taken.Add(dim, n)
	}
	y.preempt.EachAwaited(func(_ string, w *cluster.Gang, holds []*cluster.Hold) {
		if crowds || w == g || w.Payer == nil || s.m.PledgedBy(holds, w.Payer).At(dim) == 0 || !y.mayBorrow(w.Payer, dim) {
			return
		}
		count(need)
		//mutate: gate-lent-crowds-out
		crowds = !y.mayBorrow(w.Payer, dim)
		count(-need)
	})
	return crowds
}

// mayBorrow says whether the queue, with all that is held for it, has quota for what it holds or takes nothing of what
// others do not lend.
func (y *cycle) mayBorrow(q *cluster.Queue, dim int) bool {
	within := true
	for up := q; up != nil; up = up.Parent {
		within = within && up.Committed(dim) <= y.s.m.Quota(up, dim)
	}
	if within {
		return true
	}
	kept := y.s.keptFrom(q, dim)
	capacity, taken := y.inUse(dim)
	return kept == 0 || capacity-taken >= kept
}

// hasQuota says whether the queue and all above it have quota for so much more.
func (a *asking) hasQuota(dim int, need int64) bool {
	for up := a.q; up != nil; up = up.Parent {
		if up.Committed(dim)+need > a.y.s.m.Quota(up, dim) {
			return false
		}
	}
	return true
}

// keptFrom is the unused quota that queues do not lend to this one: of the siblings of it and of those above it.
func (s *State) keptFrom(q *cluster.Queue, dim int) int64 {
	var sum int64
	for ; q != nil; q = q.Parent {
		siblings := s.m.Tree.Top
		if q.Parent != nil {
			siblings = q.Parent.Children
		}
		for _, o := range siblings {
			if o != q {
				sum += s.kept(o, dim)
			}
		}
	}
	return sum
}

// kept is the unused quota of the queue, or of those below it, that nobody else may have.
func (s *State) kept(q *cluster.Queue, dim int) int64 {
	var below int64
	for _, c := range q.Children {
		below += s.kept(c, dim)
	}
	if !s.m.Valid(q) {
		return below
	}
	name := s.m.Dims.Names[dim]
	if !slices.ContainsFunc(q.Spec.Lend, func(a api.Amount) bool { return a.Resource == name }) {
		return below
	}
	return max(below, s.m.Quota(q, dim)-q.Committed(dim)-q.Spec.Lend.Get(name))
}

// borrows is what the pods, which have been placed, take beyond the quota of their queue, or of one above it.
func (y *cycle) borrows(q *cluster.Queue, pods []*cluster.Pod) api.Resources {
	s := y.s
	var out api.Resources
	for dim, promised := range s.m.Tree.Promised {
		//mutate: borrows-devices-only -> promised == 0
		if promised == 0 || q != nil && !s.m.Covers(q, dim) {
			continue
		}
		var takes, over int64
		for _, p := range pods {
			for _, d := range p.Charge {
				if d.Dim == dim {
					takes += d.Amount
				}
			}
		}
		for up := q; up != nil && takes > 0; up = up.Parent {
			over = max(over, min(takes, up.Committed(dim)-s.m.Quota(up, dim)))
		}
		if over > 0 {
			out = append(out, api.Amount{Resource: s.m.Dims.Names[dim], Value: over})
		}
	}
	return out.Sorted()
}

// overdrawn lists what of the gang's queue, and of those above it, the pods, which have been placed, break.
func (y *cycle) overdrawn(g *cluster.Gang, pods []*cluster.Pod) []why.Gate {
	q := y.s.m.Queues[g.Queue()]
	if q == nil || q.Spec == nil || q.Unrestricted && g.Evictable && !y.s.m.Tree.Lends {
		return nil
	}
	d := &drawing{y: y, g: g, q: q, takes: cluster.ChargesOf(pods), firm: cluster.ChargesOf(slices.DeleteFunc(slices.Clone(pods), func(p *cluster.Pod) bool { return !p.Firm() }))}
	d.limits()
	d.userLimits()
	d.budgets()
	d.quota()
	d.lent()
	return d.gates
}

// drawing is a gang some of whose members have just been placed.
type drawing struct {
	y           *cycle
	g           *cluster.Gang
	q           *cluster.Queue
	takes, firm quantity.Vector // what those members are booked with, and what of it cannot be asked back
	gates       []why.Gate
}

func (d *drawing) shut(g why.Gate) {
	g.Certificate = -1
	d.gates = append(d.gates, g)
}

func (d *drawing) limits() {
	for up := d.q; up != nil; up = up.Parent {
		for _, limit := range up.Spec.Limits.Sorted() {
			dim := d.y.s.m.Dims.ID(limit.Resource)
			need, used := d.takes.At(dim), up.Used.At(dim)+up.Pledged.At(dim)
			//mutate: gate-queue-limit-of-growth
			if need > 0 && used > limit.Value {
				d.shut(why.Gate{Cause: why.OverQueueLimit, Object: up.Name, Resource: limit.Resource, Need: need, Have: used - need, Limit: limit.Value})
			}
		}
	}
}

func (d *drawing) userLimits() {
	user := d.g.User()
	for _, limit := range d.q.Spec.UserLimits.Sorted() {
		dim := d.y.s.m.Dims.ID(limit.Resource)
		v := d.q.Users[user]
		need, used := d.takes.At(dim), v.At(dim)
		//mutate: gate-user-limit-of-growth
		if need > 0 && used > limit.Value {
			d.shut(why.Gate{Cause: why.OverUserLimit, Object: user, Resource: limit.Resource, Need: need, Have: used - need, Limit: limit.Value})
		}
	}
}

func (d *drawing) budgets() {
	for up := d.q; up != nil; up = up.Parent {
		for i, b := range up.Spec.Budgets {
			spent := d.y.s.spent(up, i, d.y.Now)
			//mutate: gate-budget-of-growth
			if d.takes.At(d.y.s.m.Dims.ID(b.Resource)) > 0 && spent >= b.Seconds {
				d.shut(why.Gate{Cause: why.OverBudget, Object: up.Name, Resource: b.Resource, Have: spent, Limit: b.Seconds})
				_, end := b.Span(d.y.Now)
				d.y.Wake(end)
			}
		}
	}
}

// quota keeps what cannot be asked back within it.
func (d *drawing) quota() {
	s := d.y.s
	for dim, promised := range s.m.Tree.Promised {
		need := d.firm.At(dim)
		//mutate: gate-firm-growth-devices-only -> promised == 0 || need == 0
		if promised == 0 || need == 0 || !s.m.Covers(d.q, dim) {
			continue
		}
		for up := d.q; up != nil; up = up.Parent {
			//mutate: gate-firm-growth-within-quota
			if has := up.Firm.At(dim); has > s.m.Quota(up, dim) {
				d.shut(why.Gate{Cause: why.OverQuota, Object: up.Name, Resource: s.m.Dims.Names[dim], Need: need, Have: has - need, Limit: s.m.Quota(up, dim)})
				break
			}
		}
	}
}

// lent keeps what is borrowed out of what others do not lend.
func (d *drawing) lent() {
	s := d.y.s
	if !s.m.Tree.Lends {
		return
	}
	for dim, promised := range s.m.Tree.Promised {
		need := d.takes.At(dim)
		if promised == 0 || need == 0 || s.m.OfModel(dim) || d.within(dim) {
			continue
		}
		kept := s.keptFrom(d.q, dim)
		capacity, taken := d.y.inUse(dim)
		free := capacity - taken - kept
		//mutate: gate-lent-to-growth
		if kept > 0 && free < 0 {
			d.shut(why.Gate{Cause: why.NotLent, Object: d.q.Name, Resource: s.m.Dims.Names[dim], Need: need, Have: max(0, free+need)})
			continue
		}
		for up := d.q; up != nil; up = up.Parent {
			up.Used.Add(dim, -need)
		}
		s.m.Taken.Add(dim, -need)
		crowds := d.y.crowdsOut(d.g, d.q, dim, need)
		for up := d.q; up != nil; up = up.Parent {
			up.Used.Add(dim, need)
		}
		s.m.Taken.Add(dim, need)
		if crowds {
			d.shut(why.Gate{Cause: why.NotLent, Object: d.q.Name, Resource: s.m.Dims.Names[dim], Need: need})
		}
	}
}

// within says whether the queue and all above it are within quota.
func (d *drawing) within(dim int) bool {
	for up := d.q; up != nil; up = up.Parent {
		if up.Committed(dim) > d.y.s.m.Quota(up, dim) {
			return false
		}
	}
	return true
}
