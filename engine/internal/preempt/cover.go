package preempt

import (
	"slices"

	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/quantity"
)

// What a queue's part covers. A queue holds more than its part (its quota, or its fair share) in the person of
// particular workloads: those that the part is not enough for once all that come before them have been counted. Only
// these can be asked back.
//
// The order decides who they are. First comes what can never be evicted, since it keeps its allocation anyway. Then
// come the minimums of workloads, those first that the queues further down cover, by priority and then by start. A
// workload that does not fit is passed over, and smaller ones after it may still fit (cut.find has an example).
//
// In a tree the same is asked at each level, from the leaves up. A department of 16 GPUs has team x with a quota of 8
// and team y with a quota of 8. x runs 4 GPUs; y runs 8 within its quota and 8 beyond it. The 12 GPUs that the teams
// cover come first in the department, and the last 8 of y do not fit into 16 any more: y gives back what the
// department owes, and x nothing.

// cover is what a queue's part is enough for, as it is being added up. It is made for one question and dropped.
type cover struct {
	s     *Candidates
	queue *cluster.Queue
	// dims is the resources that are compared; of others nothing is covered or lacking.
	dims []int
	// over is those of dims of which the queue holds more than its part. Empty: nothing can be asked back.
	over []int
	// part returns a queue's part of a dimension, as accounts count it.
	part func(*cluster.Queue, int) int64
	// all is the running workloads of the queue and of those below, in the order in which they are covered; nil where
	// over is empty.
	all []*running
	// sum is what has been covered so far. It never exceeds the part, but for what can never be evicted.
	sum quantity.Vector
	// share says that the part is a fair share, and that all are in the order of rankByShare.
	share bool
}

// newCover has the running workloads of a queue that holds more than its part. Where the queue holds no more it makes
// no list, since nothing can be asked back: two comparisons for each dimension are enough for most queues.
func newCover(s *Candidates, z *cluster.Queue, dims []int, part func(*cluster.Queue, int) int64) *cover {
	v := &cover{s: s, queue: z, dims: dims, part: part}
	for _, dim := range dims {
		if z.Committed(dim) > part(z, dim) {
			v.over = append(v.over, dim)
		}
	}
	if len(v.over) == 0 {
		return v
	}
	v.all = s.runningBelow(z)
	return v
}

// firm adds up what can never be evicted. The sum that the model keeps (Queue.Firm) will not do in its place: it goes
// by the ranks of single pods, and of a gang with a core any members can be the minimum that stays.
func (v *cover) firm() {
	for _, t := range v.all {
		if t.stays == nil {
			continue
		}
		for _, dim := range v.dims {
			v.sum.Add(dim, t.stays.At(dim))
		}
	}
}

// covers adds more, without what of it is counted already, if the part is enough for it in every dimension; if not,
// it adds nothing. The part need not be enough for dimensions of which nothing is added.
func (v *cover) covers(more, counted quantity.Vector) bool {
	for _, dim := range v.dims {
		if n := more.At(dim) - counted.At(dim); n > 0 && v.sum.At(dim)+n > v.part(v.queue, dim) {
			return false
		}
	}
	for _, dim := range v.dims {
		if n := more.At(dim) - counted.At(dim); n > 0 {
			v.sum.Add(dim, n)
		}
	}
	return true
}

// lacks says whether a workload of the payer holds anything that the queue holds too much of, and that can be asked
// back from the payer. Without this a pod without GPUs would be evicted because its queue exceeds a quota of GPUs.
func (v *cover) lacks(payer *cluster.Queue, some quantity.Vector) bool {
	return slices.ContainsFunc(v.over, func(dim int) bool {
		//mutate: cover-devices-only -> some.At(dim) > 0
		return some.At(dim) > 0 && v.s.m.Covers(payer, dim)
	})
}

// coveredUpTo says whether the quotas of all queues of the running workload that are deeper than that cover its
// minimum.
func (t *running) coveredUpTo(depth int) bool { return t.covered >= t.payer.Depth-depth }

// sharedUpTo says the same of their fair shares, as rankByShare last found it.
func (t *running) sharedUpTo(depth int) bool { return t.shared >= t.payer.Depth-depth }

// coveredBelow says whether the parts of the queues below the cover's own are enough for the running workload's
// minimum.
func (v *cover) coveredBelow(t *running) bool {
	if v.share {
		return t.sharedUpTo(v.queue.Depth)
	}
	return t.coveredUpTo(v.queue.Depth)
}

// rankByShare returns the running workloads of the queue and of all below it: those first whose minimum the fair
// shares of the queues below it cover, whatever their priority. Where a department has more than its share, a queue
// in it that is within its own share gives nothing up before one that is not. The latter would be asked next, and the
// former would have its place back.
//
// Shares differ from cycle to cycle, so the order is not kept. The cut that is made of it is kept, while all shares
// below are the same. It costs a sort of what runs in the department, once for each level below it.
func (s *Candidates) rankByShare(q *cluster.Queue, dims []int, part func(*cluster.Queue, int) int64) []*running {
	if len(q.Children) == 0 {
		return s.runningOf(q)
	}
	s.runningBelow(q) // what quotas cover
	all := slices.Clone(s.runningOf(q))
	for _, t := range all {
		t.shared = 0
	}
	for _, c := range q.Children {
		below := s.rankByShare(c, dims, part)
		v := &cover{s: s, queue: c, dims: dims, part: part, all: below}
		v.firm()
		for _, t := range below {
			// shared counts up by one for each level that covers the workload, without a gap: at the queue of the
			// workload itself it starts from 0, and at each queue above it goes on only if it has counted all levels
			// in between.
			levels := t.payer.Depth - c.Depth
			if levels == 0 {
				t.shared = 0
			}
			//mutate: cover-share-from-below
			if v.covers(t.core, t.stays) && t.shared == levels {
				t.shared++
			}
		}
		all = append(all, below...)
	}
	byQuota := compareBelow(q)
	slices.SortFunc(all, func(a, b *running) int {
		if x, y := a.sharedUpTo(q.Depth), b.sharedUpTo(q.Depth); x != y {
			return cluster.Before(x)
		}
		return byQuota(a, b)
	})
	return all
}

// coverBelow returns the running workloads of the queue and of all below it, having found out which of them its quota
// covers.
func (s *Candidates) coverBelow(q *cluster.Queue) []*running {
	all := s.runningBelow(q)
	v := &cover{s: s, queue: q, dims: s.m.Tree.PromisedDims, part: s.m.Quota, all: all}
	v.firm()
	for _, t := range all {
		// covered may be left from an earlier time, when more levels covered the workload: what this level and those
		// above said is dropped, and this level is asked again.
		below := t.payer.Depth - q.Depth
		t.covered = min(t.covered, below)
		//mutate: cover-from-below
		if v.covers(t.core, t.stays) && t.covered == below {
			t.covered++
		}
	}
	return all
}
