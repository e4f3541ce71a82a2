package quota

import (
	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/quantity"
	"github.com/berth-dev/berth/engine/why"
)

// Overdrawn lists what of the gang's queue, and of those above it, the pods, which have been placed, break. It is the
// second of the two questions: Gates asks with the least, before any place is known, Overdrawn with what the pods are
// charged where they are. The accounts have the charges already, so it compares what is used with the limit and adds
// nothing.
//
// The two differ where the place decides what is charged. For example, two of three members must start, which ask for 8, 1 and 1 GPUs.
// Gates asks with 2. A place for the first two of them is charged 9, and with a limit of 8 Overdrawn refuses it. What a GPU counts may
// depend on its model too.
//
// Gates come in the order of the calls below, which is that of Gates, so that the first cause that a workload is told does not depend
// on which of the two found it.
func (l *Limits) Overdrawn(g *cluster.Gang, pods []*cluster.Pod) []why.Gate {
	d := l.newDrawing(g, pods)
	if d == nil {
		return nil
	}
	if d.q != nil {
		d.limits()
		d.userLimits()
		d.budgets()
		d.quota()
	}
	d.lent()
	return d.gates
}

// Exceeds says whether the pods, which have been placed, break what they would break together with any other members too: a limit, a
// limit of users, or the quota of work that may not be evicted. What is compared there only grows with each member that gets a place.
// So of a gang that a search places one by one, a yes is an answer about all places that begin with these. A no is none: whether the
// whole minimum may be where it is, Overdrawn says, which also asks about budgets and lending.
func (l *Limits) Exceeds(g *cluster.Gang, pods []*cluster.Pod) bool {
	d := l.newDrawing(g, pods)
	if d == nil || d.q == nil {
		return false
	}
	d.limits()
	d.userLimits()
	d.quota()
	return len(d.gates) > 0
}

// newDrawing adds up what the pods are charged; nil: their queue has no rule that could be broken.
func (l *Limits) newDrawing(g *cluster.Gang, pods []*cluster.Pod) *drawing {
	if g.Queue() == "" {
		return &drawing{Limits: l, g: g, takes: l.m.ChargesAt(pods)}
	}
	q := l.m.Queues[g.Queue()]
	if q == nil || q.Spec == nil || q.Unrestricted && g.Evictable && !l.m.Tree.Lends {
		return nil
	}
	d := &drawing{Limits: l, g: g, q: q, takes: cluster.ChargesOf(pods)}
	for _, p := range pods {
		if p.Firm() {
			for _, c := range p.Charge {
				d.firm.Add(c.Dim, c.Amount)
			}
		}
	}
	return d
}

// drawing is a gang some of whose members have just been placed: one call of Overdrawn or Exceeds.
type drawing struct {
	*Limits
	g           *cluster.Gang
	q           *cluster.Queue  // nil: none
	takes, firm quantity.Vector // what those members are charged, and what of it cannot be asked back
	gates       []why.Gate
}

// shut adds the gate, with its numbers as they are told.
func (d *drawing) shut(g why.Gate) {
	d.gates = append(d.gates, d.told(g))
}

// limits are those of the queue and of all above it. Have is told without the pods, as it was before they were
// placed. Only limits of what the pods take are told: one that others exceed is not of their making. That happens, since a limit can
// be lowered under what runs, and pods that others bound are charged without a question.
func (d *drawing) limits() {
	for up := d.q; up != nil; up = up.Parent {
		for _, limit := range up.Spec.Limits.Sorted() {
			dim, most := d.m.Booked(limit)
			need, used := d.takes.At(dim), up.Used.At(dim)+up.Pledged.At(dim)
			//mutate: gate-queue-limit-of-growth
			if need > 0 && used > most {
				d.shut(why.Gate{Cause: why.OverQueueLimit, Object: up.Name, Resource: limit.Resource, Need: need, Have: used - need, Limit: most})
			}
		}
	}
}

// userLimits are what one user's workloads may hold in the queue.
func (d *drawing) userLimits() {
	if len(d.q.Spec.UserLimits) == 0 {
		return
	}
	user := d.g.User()
	v, held := d.q.Users[user], d.pledgedToUser(d.g)
	for _, limit := range d.q.Spec.UserLimits.Sorted() {
		dim, most := d.m.Booked(limit)
		need, used := d.takes.At(dim), v.At(dim)+held.At(dim)
		//mutate: gate-user-limit-of-growth
		if need > 0 && used > most {
			d.shut(why.Gate{Cause: why.OverUserLimit, Object: user, Resource: limit.Resource, Need: need, Have: used - need, Limit: most})
		}
	}
}

// budgets are what the queue and those above it may use in a period. A budget is in seconds of use and so says nothing about how much
// may run at a time: as long as some of it is left work starts, and what runs when it is used up is not ended. Only the end of the
// period gives it back, so the plan is made again then.
func (d *drawing) budgets() {
	for up := d.q; up != nil; up = up.Parent {
		for i, b := range up.Spec.Budgets {
			spent := d.spent(up, i, d.draft.Now)
			//mutate: gate-budget-of-growth
			if d.takes.At(d.m.Dims.ID(b.Resource)) > 0 && spent >= b.Seconds {
				d.shut(why.Gate{Cause: why.OverBudget, Object: up.Name, Resource: b.Resource, Have: spent, Limit: b.Seconds})
				_, end := b.Span(d.draft.Now)
				d.draft.Wake(end)
			}
		}
	}
}

// quota keeps what cannot be asked back within quota, at all levels: what may be evicted can borrow, because its lender can reclaim
// it, and what may not be evicted would never be given back. Only the firm part of what runs is compared. For example, a queue with a
// quota of 8 GPUs holds 6 firm ones and has borrowed 10: 2 more firm GPUs start, for the 8 are within quota, and 3 do not. For each
// dimension the first queue that is too small is told, from the queue up.
func (d *drawing) quota() {
	for _, dim := range d.m.Tree.PromisedDims {
		need := d.firm.At(dim)
		//mutate: gate-firm-growth-devices-only -> need == 0
		if need == 0 || !d.m.Covers(d.q, dim) {
			continue
		}
		for up := d.q; up != nil; up = up.Parent {
			//mutate: gate-firm-growth-within-quota
			if has := up.Firm.At(dim); has > d.m.Quota(up, dim) {
				d.shut(why.Gate{Cause: why.OverQuota, Object: up.Name, Resource: d.m.Dims.Names[dim], Need: need, Have: has - need, Limit: d.m.Quota(up, dim)})
				break
			}
		}
	}
}

// lent keeps what is borrowed out of what others do not lend. The pods are in the accounts already, so what is left
// may be negative; for crowdsOut, which adds them, they are taken out for the moment of the question.
//
// For example, of 32 GPUs 20 are taken, with the 6 of the pods, and other queues keep 14 that they do not lend. 32 - 20 - 14 = -2: the
// pods take 2 that are kept, and the gate says that they need 6 and have 4. Work within the quotas of its queue and of those above
// borrows nothing and is not asked (within). Parts of a resource by model or flavor are not lent by themselves, so that only the
// resource as a whole counts.
func (d *drawing) lent() {
	if !d.m.Tree.Lends {
		return
	}
	for _, dim := range d.m.Tree.PromisedDims {
		need := d.takes.At(dim)
		if need == 0 || d.m.OfModel(dim) || d.m.OfFlavor(dim) || d.within(dim) {
			continue
		}
		kept := d.keptFrom(d.q, dim)
		capacity, taken := d.inUse(dim)
		free := capacity - taken - kept
		//mutate: gate-lent-to-growth
		if kept > 0 && free < 0 {
			d.shut(why.Gate{Cause: why.NotLent, Object: d.g.Queue(), Resource: d.m.Dims.Names[dim], Need: need, Have: max(0, free+need)})
			continue
		}
		d.count(d.q, dim, -need)
		crowds := d.crowdsOut(d.g, d.q, dim, need)
		d.count(d.q, dim, need)
		if crowds {
			d.shut(why.Gate{Cause: why.NotLent, Object: d.g.Queue(), Resource: d.m.Dims.Names[dim], Need: need})
		}
	}
}

// within says whether the queue and all above it are within quota, with the pods: then they borrow nothing.
func (d *drawing) within(dim int) bool {
	for up := d.q; up != nil; up = up.Parent {
		if up.Committed(dim) > d.m.Quota(up, dim) {
			return false
		}
	}
	//mutate: gate-lent-to-unqueued-growth -> true
	return d.q != nil
}

// Borrowed is what the pods, which have been placed, take beyond the quota of their queue, or of one above it: for
// each dimension, the most of all these queues, and never more than the pods take. A pod of 8 GPUs that takes its
// queue from 12 to 20, with a quota of 16, borrows 4.
func (l *Limits) Borrowed(q *cluster.Queue, pods []*cluster.Pod) api.Resources {
	var out api.Resources
	for _, dim := range l.m.Tree.PromisedDims {
		//mutate: borrows-devices-only -> false
		if q != nil && !l.m.Covers(q, dim) {
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
			over = max(over, min(takes, up.Committed(dim)-l.m.Quota(up, dim)))
		}
		if over > 0 {
			out = append(out, l.m.Told(dim, over))
		}
	}
	return out.Sorted()
}
