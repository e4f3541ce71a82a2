package quota

import (
	"slices"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/cluster"
)

// What queues do not lend. Idle quota is lent to others by default. A queue that says how much it lends keeps the rest of its idle
// quota (kept), so that work of its own can start at once, without a reclaim. Borrowers may then take what is free of the whole cluster
// less what is kept from them (keptFrom); which nodes that is on does not matter, as quota is not of nodes.
//
// All of it is asked of the accounts as they are at that moment, also in a trial, and in amounts as queues count them: GPUs in
// thousandths, times the rate of their model. Nothing is kept of the answers. One costs a look at
// every queue of the tree that is not above the asking one.

// inUse is what there is in all, as queues count it, and what of it is taken: now or, where that is more, once those
// on their way out are gone and everything that is held is taken. In a trial those that were taken off their node,
// and will be made again, count as there (Returning).
//
// Holds are mostly made on room that others are leaving, and then one takes the place of the other: 8 GPUs that leave and 8 that are
// held for the claimant are 8 taken GPUs and not 16. More leaves than is held where work ends by itself. That is not free before it
// is gone, and so does not count as free here.
func (l *Limits) inUse(dim int) (capacity, taken int64) {
	more := l.m.Unqueued.Pledged.At(dim)
	for _, q := range l.m.Tree.Top {
		if q.Spec != nil { // what leaves a queue that does not exist, or none, counts as taken until it is gone
			more += q.Pledged.At(dim) - q.Leaving.At(dim)
		}
	}
	//mutate: gate-lent-pledged
	more = max(0, more)
	capacity, taken = l.m.InAll(dim)
	//mutate: gate-lent-returning
	more += l.Returning(dim)
	return capacity, taken + more
}

// count counts so much more as used by the queue and those above it; nil: by no queue. It is for a question in
// between, and the caller takes the same back at once.
func (l *Limits) count(q *cluster.Queue, dim int, n int64) {
	for ; q != nil; q = q.Parent {
		q.Used.Add(dim, n)
	}
	l.m.Take(dim, n)
}

// crowdsOut says whether so much more for the queue keeps a workload, for which a place is held, from borrowing what it
// needs. Victims ended for that place, and they would be back before it is used: they would be evicted for it
// again and again. It tries the sum out on the accounts and costs, for each workload that something is held for, a
// look at the queues beside it.
//
// For example, 10 GPUs may be borrowed. 8 of them are held for workload w, whose victims are leaving. 4 more for another borrower
// would leave it 6. w could not start once its victims are gone, because its own gate would be shut.
func (l *Limits) crowdsOut(g *cluster.Gang, q *cluster.Queue, dim int, need int64) (crowds bool) {
	l.EachAwaited(func(_ string, w *cluster.Gang, holds []*cluster.Hold) {
		if crowds || w == g || w.Payer == nil || l.m.PledgedBy(holds, w.Payer).At(dim) == 0 || !l.mayBorrow(w.Payer, dim) {
			return
		}
		l.count(q, dim, need)
		//mutate: gate-lent-crowds-out
		crowds = !l.mayBorrow(w.Payer, dim)
		l.count(q, dim, -need)
	})
	return crowds
}

// mayBorrow says whether the queue, with all that is held for it, has quota for what it holds, or takes nothing of
// what others do not lend.
func (l *Limits) mayBorrow(q *cluster.Queue, dim int) bool {
	within := true
	for up := q; up != nil; up = up.Parent {
		within = within && up.Committed(dim) <= l.m.Quota(up, dim)
	}
	if within {
		return true
	}
	kept := l.keptFrom(q, dim)
	capacity, taken := l.inUse(dim)
	return kept == 0 || capacity-taken >= kept
}

// keptFrom is the unused quota that queues do not lend to this one: of the siblings of it and of those above it.
// Those are all queues that are not above it or below it, each counted once with what is below it. nil: nothing is
// kept from work without a queue.
func (l *Limits) keptFrom(q *cluster.Queue, dim int) int64 {
	var sum int64
	for ; q != nil; q = q.Parent {
		siblings := l.m.Tree.Top
		if q.Parent != nil {
			siblings = q.Parent.Children
		}
		for _, o := range siblings {
			if o != q {
				sum += l.kept(o, dim)
			}
		}
	}
	return sum
}

// kept is the unused quota of the queue, or of those below it, that no other queue may have. A queue keeps at least as
// much as those below it keep: its quota is theirs. With a quota of 10, 3 in use and 2 to lend it keeps 10 - 3 - 2 =
// 5; where that is below 0 the queue itself keeps nothing.
//
// For example, a department has a quota of 20, of which 8 are used, and lends 10: it keeps 2. Its teams keep 3 and 4 of their own
// quotas. 7 are kept, for the department cannot lend what its teams do not; if the department lent 0, it would be its own 12.
func (l *Limits) kept(q *cluster.Queue, dim int) int64 {
	var below int64
	for _, c := range q.Children {
		below += l.kept(c, dim)
	}
	if !l.m.Valid(q) {
		return below
	}
	name := l.m.Dims.Names[dim]
	i := slices.IndexFunc(q.Spec.Lend, func(a api.Amount) bool { return a.Resource == name })
	if i < 0 {
		return below
	}
	_, lends := l.m.Booked(q.Spec.Lend[i])
	return max(below, l.m.Quota(q, dim)-q.Committed(dim)-lends)
}
