package preempt

import (
	"slices"
	"strings"
	"time"

	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/index"
	"github.com/berth-dev/berth/engine/internal/place"
	"github.com/berth-dev/berth/engine/internal/quantity"
)

// Candidates is the running workloads of all queues, in the order in which they may be evicted.
type Candidates struct {
	m      *cluster.Model
	ix     *index.Index
	placer *place.Placer

	lists    map[*cluster.Queue]*candidateList
	editions uint64 // of lists

	// Scratch memory of claims and scans. What is in it has the number of the claim or the scan that wrote it, and is of
	// no meaning to any other.
	claims uint64          // made so far
	scans  uint64          // made so far
	nodes  []candidateNode // by Node.Index
}

// New makes the candidates of the model's queues. The index and the placer must be of the same model.
func New(m *cluster.Model, ix *index.Index, placer *place.Placer) *Candidates {
	return &Candidates{m: m, ix: ix, placer: placer, lists: make(map[*cluster.Queue]*candidateList)}
}

// candidateList is the running workloads of a queue, those first that keep their allocations longest: by priority, then since when, then by
// key. It is kept from claim to claim and from cycle to cycle: of who comes, changes or goes, note is taken.
type candidateList struct {
	made    bool
	all     []*running
	by      map[cluster.Workload]*running
	of      uint64     // Tree.Version of the queues
	revised uint64     // when running workloads last changed, as editions are numbered
	below   []*running // with those of the queues below it
	edition uint64     // of below, or of running workloads where there are none below: no other ever has it
	ranked  []*running // the same in the order that they have among those beside the queue
	cut     cut
}

// candidatesOf returns the queue's list of candidates, making one if there is none.
func (s *Candidates) candidatesOf(q *cluster.Queue) *candidateList {
	r := s.lists[q]
	if r == nil {
		r = &candidateList{}
		s.lists[q] = r
	}
	return r
}

// runningOf returns the queue's own running workloads.
func (s *Candidates) runningOf(q *cluster.Queue) []*running {
	r := s.candidatesOf(q)
	switch {
	// Bringing a list up to date costs a search and a move of memory for each change, and making it anew a sort. With changes for
	// half of the list, making it anew is cheaper.
	case !r.made || !q.Followed || r.of != s.m.Tree.Version || len(q.Changes) > 8+len(r.all)/2:
		s.listCandidates(q)
	case len(q.Changes) > 0:
		changes := q.Changes
		q.Changes = nil
		// A gang that starts is noted once for each of its pods, and looked at once.
		seen := make(map[cluster.Workload]bool, len(changes))
		for _, l := range changes {
			if !seen[l] {
				seen[l] = true
				s.revise(q, l)
			}
		}
		q.Changes = changes[:0]
	}
	return r.all
}

func (s *Candidates) nextEdition() uint64 {
	s.editions++
	return s.editions
}

// listCandidates makes the queue's list of candidates.
func (s *Candidates) listCandidates(q *cluster.Queue) {
	r := s.candidatesOf(q)
	*r = candidateList{made: true, all: r.all[:0], by: make(map[cluster.Workload]*running), of: s.m.Tree.Version, revised: s.nextEdition()}
	q.Followed, q.Changes = true, q.Changes[:0]
	for _, p := range q.Pods {
		if p.Leaving() {
			continue
		}
		l := cluster.WorkloadOf(p)
		t := r.by[l]
		if t == nil {
			t = &running{payer: q, Workload: l}
			r.by[l] = t
			r.all = append(r.all, t)
		}
		t.pods = append(t.pods, p)
	}
	for _, t := range r.all {
		s.appraise(t)
	}
	slices.SortFunc(r.all, compareRunning)
}

// revise looks again at one running workload, which may have come, changed or gone.
func (s *Candidates) revise(q *cluster.Queue, l cluster.Workload) {
	r := s.candidatesOf(q)
	was := r.by[l]
	if was != nil && l.Pod != nil && was.told == l.Pod.Pod && l.Pod.Payer == q && !l.Pod.Leaving() && !s.m.Tree.ByModel && !s.m.Tree.Flavored {
		return // it left its allocation and is back
	}
	is := s.newRunning(q, l)
	r.all, r.revised = replaceRunning(r.all, was, is), s.nextEdition()
	delete(r.by, l)
	if is != nil {
		r.by[l] = is
	}
}

// newRunning makes the running workload, nil where it has no allocations in the queue.
func (s *Candidates) newRunning(q *cluster.Queue, l cluster.Workload) *running {
	t := &running{payer: q, Workload: l}
	stays := func(p *cluster.Pod) bool { return p.Payer == q && !p.Leaving() }
	if l.Pod != nil && stays(l.Pod) {
		t.pods = []*cluster.Pod{l.Pod}
	}
	if l.Gang != nil {
		for _, p := range l.Gang.Members {
			if stays(p) {
				t.pods = append(t.pods, p)
			}
		}
	}
	if len(t.pods) == 0 {
		return nil
	}
	s.appraise(t)
	return t
}

// replaceRunning puts the one in the place of the other, in order; nil: nobody.
func replaceRunning(all []*running, was, is *running) []*running {
	if was != nil {
		i, _ := slices.BinarySearchFunc(all, was, compareRunning)
		for all[i] != was { // others of its rank and name
			i++
		}
		all = slices.Delete(all, i, i+1)
	}
	if is != nil {
		i, _ := slices.BinarySearchFunc(all, is, compareRunning)
		all = slices.Insert(all, i, is)
	}
	return all
}

// runningBelow returns the running workloads of the queue and of all below it: those first whose minimum the quotas of the queues
// below it cover. Who borrows from a queue beside it in the same department is the first to give up what the department
// borrows.
func (s *Candidates) runningBelow(q *cluster.Queue) []*running {
	own, r := s.runningOf(q), s.candidatesOf(q)
	if len(q.Children) == 0 {
		r.edition = r.revised
		return own
	}
	// The list with those below is made of the queue's own and of its children's. If none of them has a later edition than it was
	// made of, it holds. An edition is given once and to one list, so that equal editions mean equal lists.
	last := r.revised
	for _, c := range q.Children {
		s.runningBelow(c)
		last = max(last, s.candidatesOf(c).edition)
	}
	if last <= r.edition {
		return r.below
	}
	lists := [][]*running{own}
	for _, c := range q.Children {
		below := s.candidatesOf(c)
		if below.edition > r.edition {
			below.ranked = append(below.ranked[:0], s.coverBelow(c)...)
			slices.SortFunc(below.ranked, compareBelow(q))
		}
		lists = append(lists, below.ranked)
	}
	// The lists are sorted already, each by itself: two at a time are merged, in rounds, which costs n log k for k children.
	for len(lists) > 1 {
		lists = append(lists[2:], merge(lists[0], lists[1], compareBelow(q)))
	}
	r.below, r.edition = lists[0], s.nextEdition()
	return r.below
}

// compareBelow is the order of running workloads of the queue and of those below it.
func compareBelow(q *cluster.Queue) func(a, b *running) int {
	return func(a, b *running) int {
		if x, y := a.coveredUpTo(q.Depth), b.coveredUpTo(q.Depth); x != y {
			return cluster.Before(x)
		}
		return compareRunning(a, b)
	}
}

// merge makes one list of two, in order.
func merge(a, b []*running, compare func(a, b *running) int) []*running {
	out := make([]*running, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		if compare(b[0], a[0]) < 0 {
			a, b = b, a
		}
		out, a = append(out, a[0]), a[1:]
	}
	return append(append(out, a...), b...)
}

// cut is the part of a list of candidates that quota does not cover, and what it would free.
type cut struct {
	edition uint64 // of the list of candidates
	shape   uint64 // of the topology
	dims    []int
	parts   []int64 // what the queue is promised of each; where that is a fair share, followed by those of all below it
	over    []int

	awaits   bool // places held for workloads of the queue were counted
	units    []*unit
	ripe     time.Time // when all of them have run for as long as they must
	budgeted bool
	gpus     int64
	buckets  []bucketGPUs
}

// bucketGPUs is what units have on the nodes of a bucket.
type bucketGPUs struct {
	bucket *cluster.Bucket
	gpus   int64
}

// cutOf returns the units of what a queue holds beyond its part of the dims, nil where it holds no more. share says that the
// parts are fair shares.
func (y *Cycle) cutOf(z *cluster.Queue, dims []int, part func(*cluster.Queue, int) int64, share bool) *cut {
	s := y.Candidates
	v := newCover(s, z, dims, part)
	if len(v.over) == 0 {
		return nil
	}
	//mutate: cut-by-share -> false
	v.share = share && len(z.Children) > 0
	r := s.candidatesOf(z)
	x := &r.cut
	awaited := y.awaitedBelow(z, dims)
	var room [8]int64
	parts := v.parts(room[:0], z)
	if x.edition == r.edition && x.shape == s.m.Topology.Shape && slices.Equal(x.dims, dims) && slices.Equal(x.over, v.over) && !x.awaits && len(awaited) == 0 && slices.Equal(x.parts, parts) {
		return x
	}
	*x = cut{awaits: len(awaited) > 0, edition: r.edition, shape: s.m.Topology.Shape, dims: append(x.dims[:0], dims...), over: v.over, parts: append(x.parts[:0], parts...), units: x.units[:0], buckets: x.buckets[:0]}
	if v.share {
		v.all = s.rankByShare(z, dims, part)
	}
	s.scans++
	x.find(v, awaited, s.scans)
	s.appraiseCut(x)
	return x
}

// parts adds the queue's part of each of the dims, and of all queues below it where parts are fair shares.
func (v *cover) parts(to []int64, q *cluster.Queue) []int64 {
	for _, dim := range v.dims {
		to = append(to, v.part(q, dim))
	}
	if v.share {
		for _, c := range q.Children {
			to = v.parts(to, c)
		}
	}
	return to
}

// find lists the units: of the list of candidates, in order, what does not fit in the part beside those before. What can never be
// evicted is covered before everything else, then what running workloads need at the least, then their members above that. So
// whoever starts beyond the part takes nobody else's cover with it, unless it goes before that one by priority and would
// fit in the part without it.
func (x *cut) find(v *cover, awaited []awaited, pass uint64) {
	v.firm()
	take := func(u *unit) {
		if u.pass != pass {
			u.pass = pass
			x.units = append(x.units, u)
		}
	}
	elastic := false
	for _, t := range v.all {
		for len(awaited) > 0 && (awaited[0].priority > t.priority || !v.coveredBelow(t)) {
			v.covers(awaited[0].takes, nil)
			awaited = awaited[1:]
		}
		if !v.covers(t.core, t.stays) && v.lacks(t.payer, t.size) {
			for _, u := range t.units {
				take(u)
			}
		}
		elastic = elastic || len(t.units) > 0 && t.units[0].size != nil
	}
	for _, g := range awaited {
		v.covers(g.takes, nil)
	}
	for _, t := range v.all {
		for i := 0; elastic && i < len(t.units); i++ {
			if u := t.units[i]; u.size != nil && !v.covers(u.size, nil) && v.lacks(t.payer, u.size) {
				take(u)
			}
		}
	}
}

// awaited is a workload that a place is held for, and has not started.
type awaited struct {
	key      string
	priority int32
	takes    quantity.Vector
}

// awaitedBelow lists those of the queue and of all below it, by priority: their places are covered as if they ran.
func (y *Cycle) awaitedBelow(z *cluster.Queue, dims []int) (out []awaited) {
	//mutate: cover-awaited
	if !slices.ContainsFunc(dims, func(dim int) bool { return z.Pledged.At(dim) > 0 }) {
		return nil
	}
	y.EachAwaited(func(key string, g *cluster.Gang, holds []*cluster.Hold) {
		if !g.Payer.IsBelow(z) {
			return
		}
		if takes := y.m.PledgedBy(holds, g.Payer); takes != nil {
			out = append(out, awaited{key: key, priority: g.TurnNow().Priority, takes: takes})
		}
	})
	slices.SortStableFunc(out, func(a, b awaited) int { // what is held since this cycle stays in order
		if a.priority != b.priority {
			return cluster.Before(a.priority > b.priority)
		}
		return strings.Compare(a.key, b.key)
	})
	return out
}

// appraiseCut adds up what the units of the cut would free, and finds out from when on all may be evicted.
func (s *Candidates) appraiseCut(x *cut) {
	x.ripe, x.budgeted, x.gpus = time.Time{}, false, 0
	for _, u := range x.units {
		least := s.minRun(u.of.payer)
		x.budgeted = x.budgeted || u.budgeted
		for _, p := range u.pods {
			if at := p.Started.Add(least); !p.Started.IsZero() && at.After(x.ripe) {
				x.ripe = at
			}
			gpus := p.Amount(quantity.DimGPU)
			x.gpus += gpus
			if sh := p.Host.Bucket; gpus > 0 && sh != nil {
				if last := len(x.buckets) - 1; last >= 0 && x.buckets[last].bucket == sh {
					x.buckets[last].gpus += gpus
				} else {
					x.buckets = append(x.buckets, bucketGPUs{sh, gpus})
				}
			}
		}
	}
}

// Displaced adds the pods of the queue's running workloads that leave when the nodes are to be empty, and returns the gangs
// of which nothing stays. Where what is left of a gang is on those nodes, all of the gang leaves.
func (s *Candidates) Displaced(q *cluster.Queue, on func(*cluster.Node) bool, out map[*cluster.Pod]bool) (gangs []*cluster.Gang) {
	for _, t := range s.runningOf(q) {
		for _, u := range t.units {
			if !slices.ContainsFunc(u.pods, func(p *cluster.Pod) bool { return on(p.Host) }) {
				continue
			}
			for _, v := range append(u.spare[:len(u.spare):len(u.spare)], u) {
				for _, p := range v.pods {
					out[p] = true
				}
			}
		}
		if t.Gang != nil && !slices.ContainsFunc(t.pods, func(p *cluster.Pod) bool { return !out[p] }) {
			gangs = append(gangs, t.Gang)
		}
	}
	return gangs
}
