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

// Gates: what the queue of a workload denies it before any node is looked at. Each method of asking is one rule, and adds
// the gates that it finds shut: limits, limits of users, the number of running workloads, budgets, quota for work that may
// not be evicted, and what other queues do not lend.
//
// All rules ask with the least that the gang can take, as accounts count it. GPUs are in thousandths, and where models have
// rates, at the rate of the model that the gang is asked about with, or else at the lowest rate of all models. So a gate that
// is shut stays shut wherever the gang is placed. What the gang really takes is known once it is placed; overdrawn.go asks the same rules again then.
//
// What a queue has is compared in three ways, and each rule says why it takes which:
//
//	Used + Pledged             limits: what runs, what is leaving, and what is held for others, until it is really gone
//	Committed                  quota and lending: what will be held once leavers are gone and holds are taken
//	Firm                       quota for work that may not be evicted: what can never be asked back
//
// For example, queue team has a quota of 8 GPUs and a limit of 16. It runs 12 GPUs, of which 4 may not be evicted and 2 are
// leaving, and 1 is held for a workload that waits for its victims. Used + Pledged is 13: the limit has room for 3 more.
// Committed is 12 - 2 + 1 = 11: the team borrows 3, and whatever it starts is borrowed too. Firm is 4: work that may not be
// evicted may have 4 more.
//
// Nothing is kept. An answer holds for the model and the time at which it was asked; a trial changes both accounts and
// answer. It costs the depth of the queue times its limits (lend.go has the costs of lending).

// Gates lists what of the gang's queue, and of those above it, the least that its minimum can ask for would break, if
// its GPUs were of the model and it got the flavors; "" and nil: of any, so that only what holds for all of them
// counts. nil: no gate is shut.
//
// For example, queue team has a limit of 16 GPUs and department research, above it, one of 64. A gang of 8 GPUs asks,
// and team holds 12, research 60. Both limits are broken and both are told, since raising one of them would not help:
// 12 + 8 > 16 and 60 + 8 > 64.
//
// Gates may let a gang pass that no place will do for; Overdrawn asks again with what members were really charged. Gates
// come in a fixed order, that of the calls below and within them from the queue up. A queue that is missing, invalid,
// forbidden or stopped is the only gate, since it says nothing about the others.
func (l *Limits) Gates(g *cluster.Gang, model string, flavors *cluster.Choice) []why.Gate {
	q := g.Payer
	// claims says that preemption asks whether the gang may have the place that its victims leave (rights).
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

// rights keeps a claimant, with GPUs of the model and flavors, within what the claim rests on. It is asked only while
// preemption settles the claim: a place that would take the queue beyond its quota or share, by the rate of its GPU model, is
// not the claimant's to have. Reach says how far up queues are asked: 0 the gang's own alone, -1 none.
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

// told is the gate with its numbers as people are told them: in the units of the resource, if all of them are whole there, and
// otherwise in thousandths (Milli). Accounts count GPUs in thousandths: 2,000 become 2, and 1,500 beside 2,000 leave both as
// they are. The numbers of a budget are seconds and stay as they are, as do those of a gate without a resource. Gates of
// queues have no certificate.
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

// Spared adds to the gates of the gang that victims were found for it in this cycle and spared, because a queue would have
// had more than its fair share (preempt.OverShare). The first gate about room on nodes says so, which the victims would have
// opened. Where nothing was spared, the gates are returned as they are; otherwise a copy, since other gangs have the same.
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
	gates = slices.Clone(gates)
	told := l.told(why.Gate{Resource: l.m.Dims.Names[over.Dim], Need: over.With, Limit: over.Fair})
	gates[i].Share = why.Share{Queue: over.Queue.Name, Resource: told.Resource, Fair: told.Limit, With: told.Need, Milli: told.Milli}
	return gates
}

// need is the least that the minimum of the gang can ask for of a resource, as accounts count it; 0: nothing. The resource may
// be one GPU model ("nvidia.com/gpu@H100") or flavor. Of a model or flavor with which the gang is not asked about it is 0,
// because the gang may get another one.
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
	// Rates apply to the sum over all models, and not to what is counted by model or flavor.
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

// Borrows says whether the gang's own queue, which it must have, would be beyond its quota of one of the flavors with the
// gang. Queues above it do not matter: it is asked only to order flavors, those without borrowing first.
func (l *Limits) Borrows(g *cluster.Gang, flavors *cluster.Choice) bool {
	a := &asking{Limits: l, g: g, flavors: flavors}
	for _, dim := range flavors.Dims() {
		if need := a.needIn(dim); need > 0 && g.Payer.Committed(dim)+need > l.m.Quota(g.Payer, dim) {
			return true
		}
	}
	return false
}

// LeastRate is what one GPU of the model counts in accounts of all GPUs; of model "", the least of all models that nodes
// have. The least is what a bound needs: whichever model the gang gets, it is charged no less. Models without a rate, and
// slices whose model is not known, count 1.
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

// limits shuts the limits of the queue, and of all above it, that the gang would exceed. What is held for other workloads of
// the queue counts as used: they were promised it, and victims ended for it. What is leaving counts until it is gone, since a
// limit is on what is held at any time.
//
// Where the gang would exceed a limit even if it were alone, waiting does not help, and the cause says so
// (ExceedsQueueMaximum). What the gang itself holds, as one that is being repaired does, counts with that.
func (a *asking) limits() {
	for up := a.q; up != nil; up = up.Parent {
		for _, limit := range up.Spec.Limits.Sorted() {
			dim, most := a.m.Booked(limit)
			need, used := a.need(limit.Resource), up.Used.At(dim)+up.Pledged.At(dim)
			if need == 0 || used+need <= most {
				continue
			}
			gate := why.Gate{Cause: why.OverQueueLimit, Object: up.Name, Resource: limit.Resource, Need: need, Have: used, Limit: most}
			if need+a.g.Tree.Held(dim) > most {
				gate.Cause = why.ExceedsQueueMaximum
			}
			a.shut(gate)
		}
	}
}

// userLimits shuts the limits on what one user's workloads may hold in the queue. What is held for others of the user counts
// as used. Only the queue itself has such limits, not those above it.
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

// running shuts the limits on how many workloads of the queue, and of those above it, run at a time. A gang that runs already
// is one of them, and adds none. A gang of which all that runs is on its way out begins anew (scenario
// max-running-begins-anew): it counts among those that run still, and needs a turn as any other; itself keeps it from being
// counted twice.
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

// awaited counts the other workloads of the queue, and of those below it, that a place is held for and that do not run yet:
// others ended for them, and they will run before this one (scenario held-counts-as-running). A workload that is visited for
// several places counts once. It costs a look at every hold.
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

// budgets shuts the budgets of the queue, and of those above it, that are used up in their period. What is spent is compared
// with the budget, in seconds of the resource; what the gang will use is not added, since its run time is not certain. A
// gate of a budget opens when the period ends, so the next cycle is due then.
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

// spent is what the queue has used of its i-th budget in the period that now is in, in seconds of the resource, as of the last
// plan that noted it (package queue). What was noted in an earlier period counts as 0. What was noted in a later one counts:
// the clock went back, and the work was done all the same.
func (l *Limits) spent(q *cluster.Queue, i int, now time.Time) int64 {
	sp := l.m.Usages[q.Name]
	if sp == nil || i >= len(sp.Spent) {
		return 0
	}
	was, _ := q.Spec.Budgets[i].Span(sp.At)
	is, _ := q.Spec.Budgets[i].Span(now)
	if was.Before(is) {
		return 0
	}
	return sp.Spent[i]
}

// firm keeps work that may not be evicted within quota, at all levels, because what it holds cannot be reclaimed. Only other
// work that may not be evicted counts against it, since what others borrow of the quota can be. Resources of which no queue
// has quota, and those that the queue is not answerable for (Covers), are not asked. The first queue that is too small is the
// only gate.
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

// lent keeps a gang that would borrow away from what other queues keep for themselves. A gang without a queue has no quota,
// and no queue keeps anything from it; but it may not take what a workload for which a place is held depends on borrowing
// (scenario loan-kept-from-no-queue). GPU models and flavors have no capacity of their own in accounts, and are left out.
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
		// Where nothing is kept, what is free is a question of nodes and not of quota.
		//mutate: gate-lent
		if kept > 0 && need > free {
			a.shut(why.Gate{Cause: why.NotLent, Object: a.g.Queue(), Resource: resource, Need: need, Have: max(0, free)})
		} else if a.crowdsOut(a.g, a.q, dim, need) {
			a.shut(why.Gate{Cause: why.NotLent, Object: a.g.Queue(), Resource: resource, Need: need})
		}
	}
}

// hasQuota says whether the queue and all above it have quota for so much more: then nothing is borrowed, and what others keep
// does not matter. A gang without a queue has none.
func (a *asking) hasQuota(dim int, need int64) bool {
	for up := a.q; up != nil; up = up.Parent {
		if up.Committed(dim)+need > a.m.Quota(up, dim) {
			return false
		}
	}
	//mutate: gate-lent-unqueued -> true
	return a.q != nil
}
