package preempt

import (
	"slices"

	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/quantity"
)

// What a queue's part covers. A queue holds more than its part (its quota, or its fair share) in the person of particular
// workloads: those that the part is not enough for once all that come before them have been counted. Only these can be
// asked back.

// cover is what a queue's part is enough for, as it is being added up.
type cover struct {
	s     *Candidates
	queue *cluster.Queue
	dims  []int
	over  []int // of dims, where the queue holds more than its part
	part  func(*cluster.Queue, int) int64
	all   []*running
	sum   quantity.Vector
	share bool // the part is a fair share, and all are in the order of rankByShare
}

// newCover has the running workloads of a queue that holds more than its part.
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

// firm adds up what can never be evicted.
func (v *cover) firm() {
	for _, dim := range v.dims {
		if v.queue.Firm.At(dim) == 0 {
			continue
		}
		for _, t := range v.all {
			if n := t.stays.At(dim); n > 0 {
				v.sum.Add(dim, n)
			}
		}
	}
}

// covers adds more, without what of it is counted already, if the part is enough for it.
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

// lacks says whether some of what a workload of the payer holds is of what the queue holds too much of, and can be asked
// back from it.
func (v *cover) lacks(payer *cluster.Queue, some quantity.Vector) bool {
	return slices.ContainsFunc(v.over, func(dim int) bool {
		//mutate: cover-devices-only -> some.At(dim) > 0
		return some.At(dim) > 0 && v.s.m.Covers(payer, dim)
	})
}

// coveredUpTo says whether the quotas of all queues of the running workload that are deeper than that cover its minimum.
func (t *running) coveredUpTo(depth int) bool { return t.covered >= t.payer.Depth-depth }

// sharedUpTo says the same of their fair shares. It is as rankByShare last found it.
func (t *running) sharedUpTo(depth int) bool { return t.shared >= t.payer.Depth-depth }

// coveredBelow says whether the parts of the queues below the cover's own are enough for the running workload's minimum.
func (v *cover) coveredBelow(t *running) bool {
	if v.share {
		return t.sharedUpTo(v.queue.Depth)
	}
	return t.coveredUpTo(v.queue.Depth)
}

// rankByShare returns the running workloads of the queue and of all below it: those first whose minimum the fair shares of the
// queues below it cover, whatever their priority. Where a department has more than its share, a queue in it that is within
// its own share gives nothing up before one that is not: that one would be asked next, and the first have its place back.
//
// Shares differ from cycle to cycle, and so the order is not kept; the cut that is made of it is, while all shares below are
// the same. It costs a sort of what runs in the department.
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

// coverBelow returns the running workloads of the queue and of all below it, having found out which of them its quota covers.
func (s *Candidates) coverBelow(q *cluster.Queue) []*running {
	all := s.runningBelow(q)
	v := &cover{s: s, queue: q, dims: s.m.Tree.PromisedDims, part: s.m.Quota, all: all}
	v.firm()
	for _, t := range all {
		below := t.payer.Depth - q.Depth
		t.covered = min(t.covered, below)
		//mutate: cover-from-below
		if v.covers(t.core, t.stays) && t.covered == below {
			t.covered++
		}
	}
	return all
}
