package quota

import (
	"slices"
	"strings"
	"time"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/quantity"
	"github.com/berth-dev/berth/engine/why"
)

// Gates lists what of the gang's queue, and of those above it, the least that its minimum can ask for would break, if
// its GPUs were of the model and it got the flavors; "" and nil: of any, so that only what holds for all of them
// counts.
//
// For example, queue team has a limit of 16 GPUs and department research, above it, one of 64. A gang of 8 GPUs asks,
// and team holds 12, research 60. Both limits are broken and both are told, since raising one of them would not help:
// 12 + 8 > 16 and 60 + 8 > 64.
//
// Gates is right about every gate that it shuts, because it asks with the least that the gang can take: whatever
// place is found, the gang is charged at least that. It may let a gang pass that no place will do for; Overdrawn asks
// again with what members were really charged. Gates come in a fixed order, that of the calls below and within them
// from the queue up.
func (l *Limits) Gates(g *cluster.Gang, model string, flavors *cluster.Choice) []why.Gate {
	q := g.Payer
	claims := (model != "" || flavors != nil) && l.Settles(g)
	// Most queues ask nothing of work that may be evicted, and one look at the queue is enough.
	if q != nil && q.Unrestricted && g.Evictable && !l.m.Tree.Lends && !claims {
		return nil
	}
	name := g.Queue()
	// Work without a queue has no limits. It can only be in the way of what others do not lend.
	if name == "" {
		a := &asking{Limits: l, g: g, model: model, flavors: flavors}
		a.lent()
		return a.gates
	}
	//mutate: gate-queue-missing
	if q == nil || q.Spec == nil || l.m.IsRejected(api.KindQueue, name) {
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
	//mutate: gate-queue-stopped
	if at := q.StoppedAt(); at != nil && !g.Runs {
		return []why.Gate{{Cause: why.QueueStopped, Object: at.Name, Certificate: -1}}
	}
	// A gang that can get one model only is charged for that model, wherever it is placed.
	if model == "" && l.m.Tree.ByModel {
		if only := l.ask.Models(g); len(only) == 1 {
			model = only[0]
		}
	}
	a := &asking{Limits: l, g: g, q: q, model: model, flavors: flavors}
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

// rights keeps a claimant, with GPUs of the model, within what the claim rests on. It is asked only while preemption
// settles the claim: a place that would take the queue beyond its quota, by the rate of its GPU model, is not the
// claimant's to have.
func (a *asking) rights() {
	for _, r := range a.Rights() {
		reach := r.Reach
		for up := a.q; up != nil && reach >= 0; up, reach = up.Parent, reach-1 {
			for _, dim := range r.Dims {
				resource := a.m.Dims.Names[dim]
				if need, has := a.need(resource), up.Committed(dim); need > 0 && has+need > r.Part(up, dim) {
					a.shut(why.Gate{Cause: why.OverQuota, Object: up.Name, Resource: resource, Need: need, Have: has, Limit: r.Part(up, dim)})
				}
			}
		}
	}
}

// asking is a gang that asks its queue for its minimum: one call of Gates, with the gates that it has found shut so
// far.
type asking struct {
	*Limits
	g       *cluster.Gang
	q       *cluster.Queue // nil: none
	model   string
	flavors *cluster.Choice
	// own is what is held for the gang and counts in its queues already; nil: nothing, or it does not matter to the
	// question.
	own   quantity.Vector
	gates []why.Gate
}

// shut adds the gate, with its numbers as they are told.
func (a *asking) shut(g why.Gate) {
	a.gates = append(a.gates, a.told(g))
}

// told is the gate with its numbers in the units of its resource, as far as they are whole there; accounts count GPUs
// in thousandths. 1,500 thousandths of a GPU stay thousandths (Milli), 2,000 become 2. The numbers of a budget are
// seconds and stay as they are.
func (l *Limits) told(g why.Gate) why.Gate {
	g.Certificate = -1
	if g.Resource == "" || g.Cause == why.OverBudget || !l.m.InParts(l.m.Dims.ID(g.Resource)) {
		return g
	}
	if g.Need%api.Whole != 0 || g.Have%api.Whole != 0 || g.Limit%api.Whole != 0 {
		g.Milli = true
		return g
	}
	g.Need, g.Have, g.Limit = g.Need/api.Whole, g.Have/api.Whole, g.Limit/api.Whole
	return g
}

// Spared is the gates of the gang with the fair share for which victims were spared that preemption found for it in this cycle, if
// it did. The first gate about room on nodes says so, which the victims would have opened.
func (l *Limits) Spared(g *cluster.Gang, gates []why.Gate) []why.Gate {
	over, ok := l.OverShare(g)
	i := slices.IndexFunc(gates, func(g why.Gate) bool {
		switch g.Cause {
		case why.ClusterFull, why.Fragmented, why.TopologyFragmented, why.Stranded, why.PodRules, why.SearchBudget:
			return true
		}
		return false
	})
	if !ok || i < 0 {
		return gates
	}
	gates = slices.Clone(gates) // others have the same
	told := l.told(why.Gate{Resource: l.m.Dims.Names[over.Dim], Need: over.With, Limit: over.Fair})
	gates[i].Share = why.Share{Queue: over.Queue.Name, Resource: told.Resource, Fair: told.Limit, With: told.Need, Milli: told.Milli}
	return gates
}

// need is the least that the gang can ask for of a resource, as accounts count it. Of a GPU model, or a flavor, that
// the gang is not asked about with, that is 0: it may get another one.
func (a *asking) need(resource string) int64 {
	base, model, apart := strings.Cut(resource, "@")
	if apart && base == a.m.Config.GPU {
		if model != api.CountedModel(a.model) {
			return 0
		}
		return a.m.Least(a.g, quantity.DimGPU)
	}
	if _, _, ok := api.FlavorOf(resource); ok {
		//mutate: gate-flavor-limit -> 0
		return a.needIn(a.m.Dims.ID(resource))
	}
	n := a.m.Least(a.g, a.m.Dims.ID(resource))
	if resource == a.m.Config.GPU && len(a.m.Config.Rates) > 0 {
		n *= a.LeastRate(a.model)
	}
	return n
}

// needIn is the least that the gang can ask for of a dimension that is of a flavor; 0 where flavors are not decided.
func (a *asking) needIn(dim int) int64 {
	if a.flavors == nil {
		return 0
	}
	return a.g.Tree.Least(func(p *cluster.Pod) int64 { return a.m.CountsIn(a.flavors, p, dim) })
}

// Borrows says whether the gang's own queue would be beyond its quota of one of the flavors. Queues above it do not
// matter: it is asked only to order flavors.
func (l *Limits) Borrows(g *cluster.Gang, flavors *cluster.Choice) bool {
	a := &asking{Limits: l, g: g, flavors: flavors}
	for _, dim := range flavors.Dims() {
		if need := a.needIn(dim); need > 0 && g.Payer.Committed(dim)+need > l.m.Quota(g.Payer, dim) {
			return true
		}
	}
	return false
}

// LeastRate is what one GPU of the model counts; of any model, the least of those that there are. The least is what a
// bound needs: whichever model the gang gets, it is charged no less.
func (l *Limits) LeastRate(model string) int64 {
	if model != "" {
		return l.m.Rate(model)
	}
	least := int64(api.MaxRate)
	if l.m.HasSlices() {
		least = 1 // of what no model is known
	}
	for _, m := range l.ask.AllModels() {
		least = min(least, l.m.Rate(m))
	}
	return least
}

// limits are those of the queue and of all above it. What is held for others of the queue counts as used: they were
// promised it, and victims ended for it.
func (a *asking) limits() {
	for up := a.q; up != nil; up = up.Parent {
		for _, limit := range up.Spec.Limits.Sorted() {
			dim, most := a.m.Booked(limit)
			need, used := a.need(limit.Resource), up.Used.At(dim)+up.Pledged.At(dim)
			if need == 0 || used+need <= most {
				continue
			}
			gate := why.Gate{Cause: why.OverQueueLimit, Object: up.Name, Resource: limit.Resource, Need: need, Have: used, Limit: most}
			// More than the limit even if nobody else held anything: waiting does not help.
			if need+a.g.Tree.Held(dim) > most {
				gate.Cause = why.ExceedsQueueMaximum
			}
			a.shut(gate)
		}
	}
}

// userLimits are what one user's workloads may hold in the queue. What is held for others of the user counts as used.
// Only the queue itself has such limits.
func (a *asking) userLimits() {
	if len(a.q.Spec.UserLimits) == 0 {
		return
	}
	user := a.g.User()
	v, held := a.q.Users[user], a.pledgedToUser(a.g)
	for _, limit := range a.q.Spec.UserLimits.Sorted() {
		dim, most := a.m.Booked(limit)
		need, used := a.need(limit.Resource), v.At(dim)+held.At(dim)
		//mutate: gate-user-limit
		if need > 0 && used+need > most {
			a.shut(why.Gate{Cause: why.OverUserLimit, Object: user, Resource: limit.Resource, Need: need, Have: used, Limit: most})
		}
	}
}

// pledgedToUser is what is held for other workloads of the gang's user in its queue. The model keeps no such sum, so
// it costs a look at every workload that something is held for.
func (l *Limits) pledgedToUser(g *cluster.Gang) (sum quantity.Vector) {
	l.EachAwaited(func(_ string, w *cluster.Gang, holds []*cluster.Hold) {
		//mutate: gate-user-limit-held
		if w != g && w.Payer == g.Payer && w.User() == g.User() {
			for dim, amount := range l.m.PledgedBy(holds, w.Payer) {
				sum.Add(dim, amount)
			}
		}
	})
	return sum
}

// running is how many workloads of the queue, and of those above it, may run at a time. A gang that runs already is
// one of them. A gang of which all that runs is on its way out begins anew: it counts among those that run still, and
// needs a turn as any other; itself keeps it from being counted twice.
func (a *asking) running() {
	itself := 0
	for _, p := range a.g.All() {
		//mutate: gate-max-running-anew -> p.Host != nil
		if p.Host != nil && !p.Leaving() {
			return // it is one of them
		}
		if p.Host != nil {
			itself = 1
		}
	}
	for up := a.q; up != nil; up = up.Parent {
		if most := up.Spec.MaxRunning; most > 0 {
			//mutate: gate-max-running
			if n := up.Workloads() - itself + a.awaited(up); n >= most {
				a.shut(why.Gate{Cause: why.QueueBusy, Object: up.Name, Have: int64(n), Limit: int64(most)})
			}
		}
	}
}

// awaited counts the other workloads of the queue, and of those below it, that a place is held for and that hold
// nothing yet: others ended for them, and they will run before this one. A workload that is visited for several
// places counts once.
func (a *asking) awaited(q *cluster.Queue) (n int) {
	seen := make(map[*cluster.Gang]bool)
	a.EachAwaited(func(_ string, g *cluster.Gang, holds []*cluster.Hold) {
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

// budgets are what the queue and those above it may use in a period. What is spent is compared with the budget and
// the gang's own future is not added, since nobody knows it. A gate of a budget opens when the period ends, so a
// cycle is asked for then.
func (a *asking) budgets() {
	for up := a.q; up != nil; up = up.Parent {
		for i, b := range up.Spec.Budgets {
			if a.need(b.Resource) == 0 {
				continue
			}
			_, end := b.Span(a.draft.Now)
			spent := a.spent(up, i, a.draft.Now)
			//mutate: gate-budget
			if spent >= b.Seconds {
				a.shut(why.Gate{Cause: why.OverBudget, Object: up.Name, Resource: b.Resource, Have: spent, Limit: b.Seconds})
				a.draft.Wake(end)
			}
		}
	}
}

// spent is what the queue has used of its i-th budget in the period of now, in seconds of the resource. What was
// noted in an earlier period counts as 0: the new period begins with nothing spent.
func (l *Limits) spent(q *cluster.Queue, i int, now time.Time) int64 {
	sp := l.m.Usages[q.Name]
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

// firm keeps work that may not be evicted within quota, at all levels: what it holds cannot be asked back. Only other
// work that may not be evicted counts against it, since what others borrow of the quota can be reclaimed. The first
// queue that is too small ends the question.
func (a *asking) firm() {
	if a.g.Evictable {
		return
	}
	for _, dim := range a.m.Tree.PromisedDims {
		resource := a.m.Dims.Names[dim]
		need := a.need(resource)
		//mutate: gate-firm-devices-only -> need == 0
		if need == 0 || !a.m.Covers(a.q, dim) {
			continue
		}
		for up := a.q; up != nil; up = up.Parent {
			quota, has := a.m.Quota(up, dim), up.Firm.At(dim)
			//mutate: gate-firm-within-quota
			if has+need > quota {
				a.shut(why.Gate{Cause: why.OverQuota, Object: up.Name, Resource: resource, Need: need, Have: has, Limit: quota})
				return
			}
		}
	}
}

// lent keeps a gang that borrows from what others' queues keep for themselves. A gang without a queue has no quota,
// and no queue keeps anything from it; but it may not take the loan that a place held for somebody depends on.
//
// For example, a cluster has 16 GPUs. Queue miser has a quota of 10, uses none of it and lends 2, so that it keeps 8.
// Queue poor has no quota and runs 6 GPUs. It may not start 4 more: 16 - 6 = 10 are free, 8 of them are kept, and 2
// are left to borrow.
func (a *asking) lent() {
	if !a.m.Tree.Lends {
		return
	}
	for _, dim := range a.m.Tree.PromisedDims {
		if a.m.OfModel(dim) || a.m.OfFlavor(dim) {
			continue
		}
		resource := a.m.Dims.Names[dim]
		need := a.need(resource)
		if need == 0 || a.hasQuota(dim, need) {
			continue
		}
		kept := a.keptFrom(a.q, dim)
		capacity, taken := a.inUse(dim)
		free := capacity - taken - kept
		//mutate: gate-lent
		if kept > 0 && need > free {
			a.shut(why.Gate{Cause: why.NotLent, Object: a.g.Queue(), Resource: resource, Need: need, Have: max(0, free)})
		} else if a.crowdsOut(a.g, a.q, dim, need) {
			a.shut(why.Gate{Cause: why.NotLent, Object: a.g.Queue(), Resource: resource, Need: need})
		}
	}
}

// hasQuota says whether the queue and all above it have quota for so much more: then nothing is borrowed, and what
// others keep does not matter.
func (a *asking) hasQuota(dim int, need int64) bool {
	for up := a.q; up != nil; up = up.Parent {
		if up.Committed(dim)+need > a.m.Quota(up, dim) {
			return false
		}
	}
	//mutate: gate-lent-unqueued -> true
	return a.q != nil
}
