package engine

import (
	"slices"
	"strings"
	"time"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/quantity"
	"github.com/berth-dev/berth/engine/why"
)

// quota lists what of the gang's queue, and of those above it, the least that its minimum can ask for would break,
// if its GPUs were of the model; "": of any, so that only what holds for all of them counts.
func (y *cycle) quota(g *gang, model string) []why.Gate {
	q := g.payer
	if q != nil && q.easy && g.soft && !y.s.forest.lends {
		return nil
	}
	name := g.queue()
	if name == "" {
		return nil
	}
	//mutate: gate-queue-missing
	if q == nil || q.spec == nil || y.s.isRejected(api.KindQueue, name) {
		return []why.Gate{{Cause: why.QueueMissing, Object: name, Certificate: -1}}
	}
	//mutate: gate-queue-problem
	if problem := q.trouble(y.s); problem != "" {
		return []why.Gate{{Cause: why.InvalidObject, Object: problem, Certificate: -1}}
	}
	//mutate: gate-queue-forbidden
	if !q.spec.Open(g.key) {
		return []why.Gate{{Cause: why.QueueForbidden, Object: name, Certificate: -1}}
	}
	if model == "" && y.s.forest.modelled {
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
	return a.gates
}

// trouble says why the queue, or one above it, cannot be in the tree; "": it can.
func (q *queue) trouble(s *State) string {
	for up := q; up != nil; up = up.parent {
		if up.problem != "" {
			return "queue " + up.name + ": " + up.problem
		}
	}
	return ""
}

// asking is a gang that asks its queue for its minimum.
type asking struct {
	y     *cycle
	g     *gang
	q     *queue
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
	if apart && base == s.cfg.GPU {
		if model != a.model {
			return 0
		}
		return a.g.tree.least(quantity.DimGPU)
	}
	n := a.g.tree.least(s.dims.ID(resource))
	if resource == s.cfg.GPU && len(s.cfg.Rates) > 0 {
		n *= a.y.leastRate(a.model)
	}
	return n
}

// leastRate is what one GPU of the model counts; of any, the least of those that there are.
func (y *cycle) leastRate(model string) int64 {
	if model != "" {
		return y.s.rate(model)
	}
	least := int64(api.MaxRate)
	for _, m := range y.allModels() {
		least = min(least, y.s.rate(m))
	}
	return least
}

// limits are those of the queue and of all above it. What is held for others of the queue counts as used.
func (a *asking) limits() {
	for up := a.q; up != nil; up = up.parent {
		for _, limit := range up.spec.Limits.Sorted() {
			dim := a.y.s.dims.ID(limit.Resource)
			need, used := a.need(limit.Resource), up.used.At(dim)+up.pledged.At(dim)
			if need == 0 || used+need <= limit.Value {
				continue
			}
			gate := why.Gate{Cause: why.OverQueueLimit, Object: up.name, Resource: limit.Resource, Need: need, Have: used, Limit: limit.Value}
			if need+a.g.tree.held(dim) > limit.Value {
				gate.Cause = why.ExceedsQueueMaximum
			}
			a.shut(gate)
		}
	}
}

// userLimits are what one user's workloads may hold in the queue.
func (a *asking) userLimits() {
	user := a.g.user()
	for _, limit := range a.q.spec.UserLimits.Sorted() {
		v := a.q.users[user]
		need, used := a.need(limit.Resource), v.At(a.y.s.dims.ID(limit.Resource))
		//mutate: gate-user-limit
		if need > 0 && used+need > limit.Value {
			a.shut(why.Gate{Cause: why.OverUserLimit, Object: user, Resource: limit.Resource, Need: need, Have: used, Limit: limit.Value})
		}
	}
}

// running is how many workloads of the queue, and of those above it, may run at a time.
func (a *asking) running() {
	if slices.ContainsFunc(a.g.all(), func(p *pod) bool { return p.seat != nil }) {
		return // it is one of them
	}
	for up := a.q; up != nil; up = up.parent {
		if most := up.spec.MaxRunning; most > 0 {
			//mutate: gate-max-running
			if n := up.workloads() + a.awaited(up); n >= most {
				a.shut(why.Gate{Cause: why.QueueBusy, Object: up.name, Have: int64(n), Limit: int64(most)})
			}
		}
	}
}

// awaited counts the other workloads of the queue, and of those below it, that a place is held for and that hold nothing
// yet: others ended for them.
func (a *asking) awaited(q *queue) (n int) {
	s := a.y.s
	for key, holds := range s.holdsOf {
		g := s.awaiting(key)
		if g == nil || g == a.g || g.runs || !slices.ContainsFunc(holds, func(h *hold) bool { return h.on != nil }) {
			continue
		}
		//mutate: gate-max-running-held
		if g.payer.isBelow(q) {
			n++
		}
	}
	return n
}

// workloads counts those of the queue, and of those below it, that hold something.
func (q *queue) workloads() int {
	if q.counted == 0 || q.countedAt != q.epoch {
		seen := make(map[string]bool, len(q.pods))
		for _, p := range q.pods {
			seen[p.WorkloadKey()] = true
		}
		q.counted, q.countedAt = len(seen), q.epoch
	}
	n := q.counted
	for _, c := range q.children {
		n += c.workloads()
	}
	return n
}

// budgets are what the queue and those above it may use in a period.
func (a *asking) budgets() {
	for up := a.q; up != nil; up = up.parent {
		for i, b := range up.spec.Budgets {
			if a.need(b.Resource) == 0 {
				continue
			}
			_, end := b.Span(a.y.now)
			spent := a.y.s.spent(up, i, a.y.now)
			//mutate: gate-budget
			if spent >= b.Seconds {
				a.shut(why.Gate{Cause: why.OverBudget, Object: up.name, Resource: b.Resource, Have: spent, Limit: b.Seconds})
				a.y.wake(end)
			}
		}
	}
}

// spent is what the queue has used of its i-th budget in the period of now.
func (s *State) spent(q *queue, i int, now time.Time) int64 {
	sp := s.spendings[q.name]
	if sp == nil || i >= len(sp.Spent) {
		return 0
	}
	was, _ := q.spec.Budgets[i].Span(sp.At)
	is, _ := q.spec.Budgets[i].Span(now)
	if was.Before(is) { // what is dated ahead, of before the clock went back, counts
		return 0
	}
	return sp.Spent[i]
}

// firm keeps work that may not be evicted within quota, at all levels: what it holds cannot be asked back.
func (a *asking) firm() {
	if a.g.soft {
		return
	}
	s := a.y.s
	for dim, promised := range s.forest.promised {
		if promised == 0 {
			continue
		}
		resource := s.dims.Names[dim]
		need := a.need(resource)
		//mutate: gate-firm-devices-only -> need == 0
		if need == 0 || !s.covers(a.q, dim) {
			continue
		}
		for up := a.q; up != nil; up = up.parent {
			quota, has := s.quota(up, dim), up.firm.At(dim)
			//mutate: gate-firm-within-quota
			if has+need > quota {
				a.shut(why.Gate{Cause: why.OverQuota, Object: up.name, Resource: resource, Need: need, Have: has, Limit: quota})
				return
			}
		}
	}
}

// lent keeps a gang that borrows from what others' queues keep for themselves.
func (a *asking) lent() {
	s := a.y.s
	if !s.forest.lends {
		return
	}
	for dim, promised := range s.forest.promised {
		if promised == 0 || s.ofModel(dim) {
			continue
		}
		resource := s.dims.Names[dim]
		need := a.need(resource)
		if need == 0 || a.hasQuota(dim, need) {
			continue
		}
		kept := s.keptFrom(a.q, dim)
		capacity, taken := a.y.inUse(dim)
		free := capacity - taken - kept
		//mutate: gate-lent
		if kept > 0 && need > free {
			a.shut(why.Gate{Cause: why.NotLent, Object: a.q.name, Resource: resource, Need: need, Have: max(0, free)})
		}
	}
}

// inUse is what there is in all, as queues count it, and what of it is taken now or, where that is more, will be once those
// on their way out are gone and all that is held is taken. In a trial those that were taken off their seats, and will be made again, count as there.
func (y *cycle) inUse(dim int) (capacity, taken int64) {
	more := y.s.nobody.pledged.At(dim) - y.s.nobody.leaving.At(dim)
	for _, q := range y.s.forest.top {
		if q.spec != nil { // one that is only named may not be in the forest yet
			more += q.pledged.At(dim) - q.leaving.At(dim)
		}
	}
	//mutate: gate-lent-pledged
	more = max(0, more)
	capacity, taken = y.s.inAll(dim)
	return capacity, taken + more + y.returning.At(dim)
}

// ofModel says whether the dimension is of one GPU model; how much of that there is in all is not counted.
func (s *State) ofModel(dim int) bool { return strings.HasPrefix(s.dims.Names[dim], s.cfg.GPU+"@") }

// hasQuota says whether the queue and all above it have quota for so much more.
func (a *asking) hasQuota(dim int, need int64) bool {
	for up := a.q; up != nil; up = up.parent {
		if up.committed(dim)+need > a.y.s.quota(up, dim) {
			return false
		}
	}
	return true
}

// keptFrom is the unused quota that queues do not lend to this one: of the siblings of it and of those above it.
func (s *State) keptFrom(q *queue, dim int) int64 {
	var sum int64
	for ; q != nil; q = q.parent {
		siblings := s.forest.top
		if q.parent != nil {
			siblings = q.parent.children
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
func (s *State) kept(q *queue, dim int) int64 {
	var below int64
	for _, c := range q.children {
		below += s.kept(c, dim)
	}
	if !s.valid(q) {
		return below
	}
	name := s.dims.Names[dim]
	if !slices.ContainsFunc(q.spec.Lend, func(a api.Amount) bool { return a.Resource == name }) {
		return below
	}
	return max(below, s.quota(q, dim)-q.committed(dim)-q.spec.Lend.Get(name))
}

// borrows is what the pods, which have been seated, take beyond the quota of their queue, or of one above it.
func (y *cycle) borrows(q *queue, pods []*pod) api.Resources {
	s := y.s
	var out api.Resources
	for dim, promised := range s.forest.promised {
		//mutate: borrows-devices-only -> promised == 0
		if promised == 0 || q != nil && !s.covers(q, dim) {
			continue
		}
		var takes, over int64
		for _, p := range pods {
			for _, d := range p.bill {
				if d.Dim == dim {
					takes += d.Amount
				}
			}
		}
		for up := q; up != nil && takes > 0; up = up.parent {
			over = max(over, min(takes, up.committed(dim)-s.quota(up, dim)))
		}
		if over > 0 {
			out = append(out, api.Amount{Resource: s.dims.Names[dim], Value: over})
		}
	}
	return out.Sorted()
}

// queue returns the name of the queue that the gang is charged to.
func (g *gang) queue() string {
	if g.lone != nil {
		return g.lone.Queue
	}
	if g.spec == nil {
		return ""
	}
	return g.spec.Queue
}

// user returns whose the gang is.
func (g *gang) user() string {
	if g.lone != nil {
		return g.lone.User
	}
	if g.spec == nil {
		return ""
	}
	return g.spec.User
}

// evictable says whether all members of the gang may be evicted for others, its minimum included.
func (g *gang) evictable() bool {
	if g.spec != nil && g.spec.Core {
		return false
	}
	return !slices.ContainsFunc(g.all(), func(p *pod) bool { return !p.Evictable && !p.leaving() })
}

// overdrawn lists what of the gang's queue, and of those above it, the pods, which have been seated, break.
func (y *cycle) overdrawn(g *gang, pods []*pod) []why.Gate {
	q := y.s.queues[g.queue()]
	if q == nil || q.spec == nil || q.easy && g.soft && !y.s.forest.lends {
		return nil
	}
	d := &drawing{y: y, g: g, q: q, takes: bills(pods), firm: bills(slices.DeleteFunc(slices.Clone(pods), func(p *pod) bool { return !p.firm() }))}
	d.limits()
	d.userLimits()
	d.budgets()
	d.quota()
	d.lent()
	return d.gates
}

// bills is what the pods are booked with, together.
func bills(pods []*pod) (sum quantity.Vector) {
	for _, p := range pods {
		for _, d := range p.bill {
			sum.Add(d.Dim, d.Amount)
		}
	}
	return sum
}

// drawing is a gang some of whose members have just been seated.
type drawing struct {
	y           *cycle
	g           *gang
	q           *queue
	takes, firm quantity.Vector // what those members are booked with, and what of it cannot be asked back
	gates       []why.Gate
}

func (d *drawing) shut(g why.Gate) {
	g.Certificate = -1
	d.gates = append(d.gates, g)
}

func (d *drawing) limits() {
	for up := d.q; up != nil; up = up.parent {
		for _, limit := range up.spec.Limits.Sorted() {
			dim := d.y.s.dims.ID(limit.Resource)
			need, used := d.takes.At(dim), up.used.At(dim)+up.pledged.At(dim)
			//mutate: gate-queue-limit-of-growth
			if need > 0 && used > limit.Value {
				d.shut(why.Gate{Cause: why.OverQueueLimit, Object: up.name, Resource: limit.Resource, Need: need, Have: used - need, Limit: limit.Value})
			}
		}
	}
}

func (d *drawing) userLimits() {
	user := d.g.user()
	for _, limit := range d.q.spec.UserLimits.Sorted() {
		dim := d.y.s.dims.ID(limit.Resource)
		v := d.q.users[user]
		need, used := d.takes.At(dim), v.At(dim)
		//mutate: gate-user-limit-of-growth
		if need > 0 && used > limit.Value {
			d.shut(why.Gate{Cause: why.OverUserLimit, Object: user, Resource: limit.Resource, Need: need, Have: used - need, Limit: limit.Value})
		}
	}
}

func (d *drawing) budgets() {
	for up := d.q; up != nil; up = up.parent {
		for i, b := range up.spec.Budgets {
			spent := d.y.s.spent(up, i, d.y.now)
			//mutate: gate-budget-of-growth
			if d.takes.At(d.y.s.dims.ID(b.Resource)) > 0 && spent >= b.Seconds {
				d.shut(why.Gate{Cause: why.OverBudget, Object: up.name, Resource: b.Resource, Have: spent, Limit: b.Seconds})
				_, end := b.Span(d.y.now)
				d.y.wake(end)
			}
		}
	}
}

// quota keeps what cannot be asked back within it.
func (d *drawing) quota() {
	s := d.y.s
	for dim, promised := range s.forest.promised {
		need := d.firm.At(dim)
		//mutate: gate-firm-growth-devices-only -> promised == 0 || need == 0
		if promised == 0 || need == 0 || !s.covers(d.q, dim) {
			continue
		}
		for up := d.q; up != nil; up = up.parent {
			//mutate: gate-firm-growth-within-quota
			if has := up.firm.At(dim); has > s.quota(up, dim) {
				d.shut(why.Gate{Cause: why.OverQuota, Object: up.name, Resource: s.dims.Names[dim], Need: need, Have: has - need, Limit: s.quota(up, dim)})
				break
			}
		}
	}
}

// lent keeps what is borrowed out of what others do not lend.
func (d *drawing) lent() {
	s := d.y.s
	if !s.forest.lends {
		return
	}
	for dim, promised := range s.forest.promised {
		need := d.takes.At(dim)
		if promised == 0 || need == 0 || s.ofModel(dim) || d.within(dim) {
			continue
		}
		kept := s.keptFrom(d.q, dim)
		capacity, taken := d.y.inUse(dim)
		free := capacity - taken - kept
		//mutate: gate-lent-to-growth
		if kept > 0 && free < 0 {
			d.shut(why.Gate{Cause: why.NotLent, Object: d.q.name, Resource: s.dims.Names[dim], Need: need, Have: max(0, free+need)})
		}
	}
}

// within says whether the queue and all above it are within quota.
func (d *drawing) within(dim int) bool {
	for up := d.q; up != nil; up = up.parent {
		if up.committed(dim) > d.y.s.quota(up, dim) {
			return false
		}
	}
	return true
}

// least is the least of a resource that the branch can ask for to have its minimum.
func (b *branch) least(dim int) int64 {
	var each []int64
	n := 0
	if len(b.children) == 0 {
		n = b.min() - b.seated
		for _, p := range b.pods {
			if p.seat == nil {
				each = append(each, p.amount(dim))
			}
		}
	} else {
		n = b.minGroups()
		for _, c := range b.children {
			if c.complete() {
				each = append(each, c.least(dim))
			}
		}
	}
	slices.Sort(each)
	var sum int64
	for _, v := range each[:max(0, min(n, len(each)))] {
		sum += v
	}
	return sum
}

// held is what the branch's members have of a resource.
func (b *branch) held(dim int) int64 {
	var sum int64
	for _, p := range b.pods {
		if p.seat != nil {
			sum += p.amount(dim)
		}
	}
	for _, c := range b.children {
		sum += c.held(dim)
	}
	return sum
}
