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

// Preemption candidates: which running workloads a queue has, in which order they keep their allocations, and which of
// them its part (its quota or fair share) does not cover. Every claim asks, and thousands of claims in a cycle may ask
// about the same queue. Three things are therefore kept from cycle to cycle, each derived from the one before:
//
//	list    the running workloads of one queue, sorted          invalidated by Queue.Changes, Tree.Version
//	below   the same with those of all queues below, merged     by a later edition of one of the lists
//	cut     what of below a part does not cover, with sums      by the edition, the parts, the topology, the dimensions
//
// For example, queue a has a quota of 8 GPUs, and a1 and a2 below it run 6 GPUs each. The lists of a1 and a2 are merged
// into the one of a, from which the cut takes the workload that comes last. When a pod of a1 ends, the list of a1 is
// revised in place, that of a is merged anew when a claim next asks, and the cut with it. Lists of other queues stay.
//
// A question costs nothing but comparisons where nothing has changed; for each change a binary search and a move of
// memory; and a merge for each queue above one that changed. Check (check.go) makes all of it anew and compares.

// Candidates keeps the running workloads of all queues, in the order in which they keep their allocations. It lives as
// long as the model. It has scratch memory, so that only one cycle, and one claim at a time, may use it.
type Candidates struct {
	m      *cluster.Model
	ix     *index.Index
	placer *place.Placer

	// lists has an entry for each queue that was ever asked about. It is only looked up, never ranged over.
	lists map[*cluster.Queue]*candidateList
	// editions is the last number that was given to an edition of a list. Each is given once, and to one list.
	editions uint64

	// claims, scans and nodes are scratch memory. What claims and scans write, in units and in nodes, carries the number
	// of the claim or scan, and means nothing to any other. So a claim begins without resetting what the one before
	// left. scans also numbers the passes over units that are no scans: cuts and picks.
	claims uint64
	scans  uint64
	nodes  []candidateNode // by Node.Index
}

// New makes the candidates of the model's queues. The index and the placer must be of the same model.
func New(m *cluster.Model, ix *index.Index, placer *place.Placer) *Candidates {
	return &Candidates{m: m, ix: ix, placer: placer, lists: make(map[*cluster.Queue]*candidateList)}
}

// candidateList is the running workloads of a queue, those first that keep their allocations longest (compareRunning). It
// is kept from claim to claim and from cycle to cycle; the model notes which workloads come, change or go (Queue.Changes),
// and the list is brought up to date when it is next asked for (runningOf).
//
// A list with the queues below it is made of the lists of the children, and a cut of that. Each states the edition that it
// was made of, so that nothing has to be told that something below it changed:
//
//	own list of a   edition 7
//	own list of b   edition 9     b changed last
//	list of both    edition 8     older than 9: it is made again, with edition 10
//	cut of both     made of 8     not 10: it is made again
type candidateList struct {
	// made is false until the list is first asked for.
	made bool
	// all is the list itself.
	all []*running
	// by finds an entry of all.
	by map[cluster.Workload]*running
	// of is the Tree.Version that the list was made at. In another tree the queue may have another payer above it, and
	// the list is made anew.
	of uint64
	// revised is the edition at which all last changed.
	revised uint64
	// below is all with the running workloads of the queues below, in the order of compareBelow; unused where there
	// are none.
	below []*running
	// edition is that of below, or of all where there are no queues below. It is never less than revised after
	// runningBelow.
	edition uint64
	// ranked is the list (below, or all) in the order of compareBelow for the parent, which merges it with those of its
	// other children. It is as of the edition that the parent last merged.
	ranked []*running
	// cut is the last one that was made of the list; its own fields say what it is good for.
	cut cut
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

// runningOf returns the queue's own running workloads, in order. The list is the one that is kept: callers must not
// change it, and it is good until the next change of the model. It must not be asked for while pods are lifted in a
// trial: the model notes no changes then (Model.Trying), and the list would be of the trial.
func (s *Candidates) runningOf(q *cluster.Queue) []*running {
	r := s.candidatesOf(q)
	switch {
	// To bring a list up to date costs a search and a move of memory for each change, to make it anew costs a sort.
	// With changes for half of the list, making it anew is cheaper. Followed is false where the model has dropped the
	// changes because they were too many.
	case !r.made || !q.Followed || r.of != s.m.Tree.Version || len(q.Changes) > 8+len(r.all)/2:
		s.listCandidates(q)
	case len(q.Changes) > 0:
		changes := q.Changes
		q.Changes = nil
		// A gang that starts is noted once for each of its pods, and looked at once. The changes are in no order that
		// matters: revise looks at the workload as it is now.
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

// nextEdition returns a number that no list has had.
func (s *Candidates) nextEdition() uint64 {
	s.editions++
	return s.editions
}

// listCandidates makes the queue's list of candidates from its pods, in no order, and sorts it. From then on the
// model notes changes for it (Queue.Followed). It costs a look at each pod of the queue and a sort of its workloads.
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

// revise brings the list up to date with one workload that has come, changed or gone. It costs a search of the list and a
// move of the memory behind the place, and a division of the gang.
//
// A pod by itself that is the same object as before, in the same queue, was lifted and put back by a trial, and is what it
// was: no edition is spent, so that no list or cut above is made anew. Where a charge follows from the node, by model,
// flavor, slice or part, the node may have changed meanwhile, and the pod is looked at all the same
// (TestCandidatesFollowTheSlicesOfTheirNodes).
func (s *Candidates) revise(q *cluster.Queue, l cluster.Workload) {
	r := s.candidatesOf(q)
	was := r.by[l]
	if was != nil && l.Pod != nil && was.told == l.Pod.Pod && l.Pod.Payer == q && !l.Pod.Leaving() && !s.m.Tree.ByModel && !s.m.Tree.Flavored && !s.m.Varies(l.Pod) {
		return // it left its allocation and is back
	}
	is := s.newRunning(q, l)
	r.all, r.revised = replaceRunning(r.all, was, is), s.nextEdition()
	delete(r.by, l)
	if is != nil {
		r.by[l] = is
	}
}

// newRunning makes the running workload anew from the model; nil where it has no allocations in the queue. Of a gang only
// the members count that are charged to this queue and are not on their way out. Nothing is taken over from the one before
// it, so that units of an earlier claim are never used for a later one.
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

// replaceRunning removes was from the sorted list and inserts is; nil: nothing is removed, or inserted. was must be in the
// list, at the place that its priority, start and key give it: they are those that it was made with, so that it is found
// although the pods have changed since.
func replaceRunning(all []*running, was, is *running) []*running {
	if was != nil {
		i, _ := slices.BinarySearchFunc(all, was, compareRunning)
		for all[i] != was { // equal ones come one after the other
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

// runningBelow returns the running workloads of the queue and of all below it, in the order of compareBelow: those first
// whose minimum the quotas of the queues below it cover. So a workload that borrows from a queue beside it in the same
// department is the first to give up what the department borrows.
//
// Where no list has changed it costs a walk over the queues below. Otherwise it costs a merge of the lists of the children,
// of which only those that changed are covered and sorted again. The list is the one that is kept, as with runningOf.
func (s *Candidates) runningBelow(q *cluster.Queue) []*running {
	own, r := s.runningOf(q), s.candidatesOf(q)
	if len(q.Children) == 0 {
		r.edition = r.revised
		return own
	}
	// The list with those below is made of the queue's own list and of its children's. If none of them has a later
	// edition than this one was made at, it holds. An edition is given once and to one list, so that equal editions
	// mean equal lists.
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
		// coverBelow finds out what the quota of the child covers, which the order goes by. It depends on nothing but the
		// list and the quotas, and a change of quotas is a change of the tree (Tree.Version).
		if below.edition > r.edition {
			below.ranked = append(below.ranked[:0], s.coverBelow(c)...)
			slices.SortFunc(below.ranked, compareBelow(q))
		}
		lists = append(lists, below.ranked)
	}
	// Each list is sorted already. Two at a time are merged, in rounds, which costs n log k for n workloads and k
	// children.
	for len(lists) > 1 {
		lists = append(lists[2:], merge(lists[0], lists[1], compareBelow(q)))
	}
	r.below, r.edition = lists[0], s.nextEdition()
	return r.below
}

// compareBelow is the order of the running workloads of the queue and of those below it: first those that the quotas of
// all queues between cover, and then by compareRunning. No two are equal, since a workload is charged to one queue.
func compareBelow(q *cluster.Queue) func(a, b *running) int {
	return func(a, b *running) int {
		if x, y := a.coveredUpTo(q.Depth), b.coveredUpTo(q.Depth); x != y {
			return cluster.Before(x)
		}
		return compareRunning(a, b)
	}
}

// merge makes one sorted list of two sorted ones, in new memory: the lists that it is made of are kept elsewhere.
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

// cut is the units in a list of candidates that a queue's part (its quota or fair share) does not cover, with the GPUs
// that they would free. It is kept with the list and used again while everything that it was made of is the same: the
// edition, the topology, the dimensions and the parts. That turns thousands of claims by the same right into one walk
// over the list.
//
// One cut is kept for each list. Claims that ask for different resources in turns make it anew each time; most claims of a
// cycle ask for the same.
type cut struct {
	// edition is that of the list of candidates; 0: no cut was made yet, since editions begin at 1.
	edition uint64
	// shape is Topology.Shape, because buckets belong to it.
	shape uint64
	// dims is the dimensions that the claimant asks for, of those that are promised to some queue, or shared.
	dims []int
	// parts is the queue's part of each of dims, in the unit of accounts. Where the part is a fair share, those of all
	// queues below follow, in the order of cover.parts.
	parts []int64
	// over is those of dims of which the queue holds more than its part.
	over []int

	// awaits says that places held for workloads of the queue were counted, which no edition tells: the cut is not
	// used again.
	awaits bool
	// units is what may be asked back, in the order in which find comes upon it, each after those in its spare.
	units []*unit
	// ripe is when the last of the units has run for its minimum run time; zero: no start is known. Until then a claim
	// must look at the units one by one (takeUnit).
	ripe time.Time
	// budgeted says that disruption budgets cover some unit.
	budgeted bool
	// gpus is the whole GPUs of all units. buckets is the same by bucket, one entry for each run of pods in one bucket,
	// so that a bucket may have several; pods on nodes without a bucket are in gpus only.
	gpus    int64
	buckets []bucketGPUs
}

// bucketGPUs is a number of whole GPUs on the nodes of a bucket.
type bucketGPUs struct {
	bucket *cluster.Bucket
	gpus   int64
}

// cutOf returns the cut of what a queue and those below it hold beyond the queue's part of the dims; nil: it holds no more
// than that of any. share says that the parts are fair shares: these differ from cycle to cycle, and the cut also depends
// on the shares of the queues below. The cut is the one that is kept, good until the next call for the same queue.
//
// It costs a few comparisons where the kept cut holds, and otherwise a walk over the list, by fair share with a sort.
func (y *Cycle) cutOf(z *cluster.Queue, dims []int, part func(*cluster.Queue, int) int64, share bool) *cut {
	s := y.Candidates
	// newCover brings the list up to date, and with it the edition that is compared below.
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
	// Everything that the cut depends on is compared. over is compared although it follows from the parts and from what
	// the queue holds, since holds move that and not the edition. Which workloads places are held for is not compared:
	// where there are any, now or when the cut was made, the cut is made anew.
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

// parts appends the queue's part of each of the dims and, where parts are fair shares, those of all queues below it: the
// numbers that a kept cut is compared by. The order is that of the tree, which checkCut relies on.
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

// find lists in x.units what the part does not cover. It adds up what running workloads are charged in the order of the
// list; what does not fit into the part beside those before it is not covered. What can never be evicted is covered before
// everything else, then the minimums, then groups and then members above them. So a workload that starts beyond the part
// uncovers no other, unless it goes before that one by priority and would fit into the part without it.
//
// For example, a queue has a quota of 8 GPUs and runs, by priority: a with 4 GPUs, b with 6, c with 2, d with 4, all
// of them evictable. a is covered (4 of 8), b is not (10), c is (6), d is not (10). The cut is b and d: evicting both
// leaves the queue with 6 GPUs, and it may have 2 more without borrowing.
//
// Members above the minimum come last, whatever the priority of their gang: e with a minimum of 2 and 4 members of 1
// GPU each has its minimum covered before anybody grows, and keeps the other 2 members only as far as the quota
// reaches after that.
//
// pass is a number that no unit has been marked with, by which each unit is listed once. It costs one look at each running
// workload, and two more where gangs have members above their minimum.
func (x *cut) find(v *cover, awaited []awaited, pass uint64) {
	v.firm()
	// take lists a unit once: it may be met as a spare member of a group, and by itself.
	take := func(u *unit) {
		if u.pass != pass {
			u.pass = pass
			x.units = append(x.units, u)
		}
	}
	// elastic says that there is a gang with members above its minimum, so that the second pass is worth it.
	elastic := false
	for _, t := range v.all {
		// Workloads for which places are held are covered as if they ran: by their priority, among those that the
		// queues below cover.
		for len(awaited) > 0 && (awaited[0].priority > t.priority || !v.coveredBelow(t)) {
			v.covers(awaited[0].takes, nil)
			awaited = awaited[1:]
		}
		// A minimum that is not covered takes all that is above it along: a gang never keeps its growth and loses its
		// minimum. stays was covered by firm already and is not counted twice.
		if !v.covers(t.core, t.stays) && v.lacks(t.payer, t.size) {
			for _, u := range t.units {
				take(u)
			}
		}
		// Units above a minimum come first in units, and they alone have a size.
		elastic = elastic || len(t.units) > 0 && t.units[0].size != nil
	}
	for _, g := range awaited {
		v.covers(g.takes, nil)
	}
	// Then what workloads have above their minimum, groups before single members: a replica that serves is worth more than
	// one more worker.
	for _, groups := range []bool{true, false} {
		for _, t := range v.all {
			for i := 0; elastic && i < len(t.units); i++ {
				u := t.units[i]
				if u.size == nil || u.group != groups || v.covers(u.size, nil) || !v.lacks(t.payer, u.size) {
					continue
				}
				for _, o := range u.spare {
					take(o) // what is above the minimum of a group that does not fit does not fit either
				}
				take(u)
			}
		}
	}
}

// awaited is a workload that a place is held for and that has not started. takes is what its places are charged, in the
// unit of accounts.
type awaited struct {
	key      string
	priority int32
	takes    quantity.Vector
}

// awaitedBelow lists the awaited workloads of the queue and of all below it, the highest priority first and then by key:
// their places are covered as if they ran. Otherwise the quota would seem to cover another workload in their stead, which
// would be evicted once they start. It lists none where nothing of the dims is pledged, which is most often so and costs a
// look at the dims; otherwise it costs a look at each hold.
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

// appraiseCut sets ripe, budgeted, gpus and buckets from the units. It costs a look at each of their pods.
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

// Displaced adds to out the pods of the queue's running workloads that must leave so that the nodes become empty, and
// returns the gangs of which nothing stays. A unit with a pod on such a node leaves whole, with the units that go before
// it: where the minimum of a gang has a pod there, all of the gang leaves. Package dismiss asks, for nodes that are booked
// or quarantined. Work that may not be evicted is in no unit, and stays.
func (s *Candidates) Displaced(q *cluster.Queue, on func(*cluster.Node) bool, out map[*cluster.Pod]bool) (gangs []*cluster.Gang) {
	for _, t := range s.runningOf(q) {
		for _, u := range t.units {
			if !slices.ContainsFunc(u.pods, func(p *cluster.Pod) bool { return on(p.Host) }) {
				continue
			}
			// The full slice expression makes append copy, since u.spare is kept.
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
