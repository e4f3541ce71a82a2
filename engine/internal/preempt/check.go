package preempt

import (
	"slices"

	"github.com/berth-dev/berth/engine/internal/cluster"
)

// Check notes where the queue's list of candidates, if it is kept, differs from the workloads that have allocations in the
// queue, or the kept cut from what quota does not cover of them. It counts from the pods of the queue, with code of its own,
// and costs a look at each.
//
// A list that was never asked for, or that is not used again as it is, is passed over: what has not been derived
// cannot be wrong.
func (s *Candidates) Check(a *cluster.Check, q *cluster.Queue) {
	r := s.lists[q]
	if r == nil || !r.made {
		return
	}
	own := s.runningOf(q)
	// held is what the list should say, made from the pods alone.
	held := make(map[cluster.Workload][]*cluster.Pod)
	for _, p := range q.Pods {
		if l := (cluster.Workload{Gang: p.In}); !p.Terminating && !p.Evicting {
			if p.Gang == "" {
				l = cluster.Workload{Pod: p}
			}
			held[l] = append(held[l], p)
		}
	}
	a.Note("queue", q.Name, "candidates", "", int64(len(own)), int64(len(held)))
	for i, t := range own {
		fine := r.by[t.Workload] == t && len(t.pods) == len(held[t.Workload]) && (i == 0 || compareRunning(own[i-1], t) <= 0)
		for _, p := range t.pods {
			fine = fine && slices.Contains(held[t.Workload], p)
		}
		fine = fine && (t.Pod == nil || t.told == t.Pod.Pod) && slices.Equal(t.size, cluster.ChargesOf(held[t.Workload]))
		a.Note("queue", q.Name, "candidate", t.key, bit(fine), 1)
	}
	s.checkCut(a, q)
	if len(q.Children) == 0 || r.below == nil {
		return
	}
	// The list with the queues below has the workloads of all its parts, in order, each once.
	below := s.runningBelow(q)
	n := len(own)
	for _, c := range q.Children {
		n += len(s.runningBelow(c))
	}
	a.Note("queue", q.Name, "candidates below", "", int64(len(below)), int64(n))
	for i, t := range below {
		fine := s.candidatesOf(t.payer).by[t.Workload] == t && (i == 0 || below[i-1] != t && compareBelow(q)(below[i-1], t) <= 0)
		a.Note("queue", q.Name, "candidate below", t.key, bit(fine), 1)
	}
}

// checkCut makes the cut that is kept of the queue's list anew, from the parts that it says it was made of, and
// compares. The parts are those of then: fair shares may have changed since, and then the cut is not used again.
func (s *Candidates) checkCut(a *cluster.Check, q *cluster.Queue) {
	r, all := s.candidatesOf(q), s.runningBelow(q)
	x := &r.cut
	if x.edition != r.edition || x.shape != s.m.Topology.Shape || x.awaits {
		return // it is not used again
	}
	parts, rest := map[*cluster.Queue][]int64{}, x.parts
	v := &cover{s: s, queue: q, dims: x.dims, over: x.over, all: all, share: len(x.parts) > len(x.dims)}
	v.part = func(q *cluster.Queue, dim int) int64 {
		if parts[q] == nil {
			parts[q], rest = rest[:len(x.dims)], rest[len(x.dims):]
		}
		return parts[q][slices.Index(x.dims, dim)]
	}
	v.parts(nil, q) // in the order in which they are kept
	if v.share {
		v.all = s.rankByShare(q, x.dims, v.part)
	}
	again := cut{}
	s.scans++
	again.find(v, nil, s.scans)
	s.appraiseCut(&again)
	a.Note("queue", q.Name, "uncovered", "", bit(slices.Equal(again.units, x.units)), 1)
	a.Note("queue", q.Name, "uncovered", "GPUs", x.gpus, again.gpus)
	a.Note("queue", q.Name, "uncovered", "buckets", bit(slices.Equal(again.buckets, x.buckets)), 1)
	a.Note("queue", q.Name, "uncovered", "ripe", x.ripe.UnixNano(), again.ripe.UnixNano())
}

// bit is 1 for true, for a Check that compares numbers.
func bit(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
