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

// coveredUpTo says whether all queues of the running workload that are deeper than that cover its minimum.
func (t *running) coveredUpTo(depth int) bool { return t.covered >= t.payer.Depth-depth }

// coverBelow returns the running workloads of the queue and of all below it, having found out which of them its quota covers.
func (s *Candidates) coverBelow(q *cluster.Queue) []*running {
	all := s.runningBelow(q)
	var buf [4]int
	dims := buf[:0]
	for dim, promised := range s.m.Tree.Promised {
		if promised > 0 {
			dims = append(dims, dim)
		}
	}
	v := &cover{s: s, queue: q, dims: dims, part: s.m.Quota, all: all}
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
