package engine

import (
	"slices"
	"strings"
	"time"

	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/quantity"
)

// roster is the tenants of a queue, those first that keep their seats longest: by priority, then since when, then by
// key. It is kept from claim to claim and from cycle to cycle: of who comes, changes or goes, note is taken.
type roster struct {
	made    bool
	tenants []*tenant
	by      map[cluster.Workload]*tenant
	of      uint64    // forest.version of the queues
	revised uint64    // when tenants last changed, as editions are numbered
	below   []*tenant // with those of the queues below it
	edition uint64    // of below, or of tenants where there are none below: no other ever has it
	ranked  []*tenant // the same in the order that they have among those beside the queue
	cut     cut
}

// rosterOf returns the queue's roster, making one if there is none.
func (s *State) rosterOf(q *cluster.Queue) *roster {
	r := s.rosters[q]
	if r == nil {
		r = &roster{}
		s.rosters[q] = r
	}
	return r
}

// tenantsOf returns the queue's own tenants.
func (s *State) tenantsOf(q *cluster.Queue) []*tenant {
	r := s.rosterOf(q)
	switch {
	case !r.made || !q.Followed || r.of != s.m.Tree.Version || len(q.Changes) > 8+len(r.tenants)/2:
		s.enroll(q)
	case len(q.Changes) > 0:
		changes := q.Changes
		q.Changes = nil
		seen := make(map[cluster.Workload]bool, len(changes))
		for _, l := range changes {
			if !seen[l] {
				seen[l] = true
				s.revise(q, l)
			}
		}
		q.Changes = changes[:0]
	}
	return r.tenants
}

func (s *State) nextEdition() uint64 {
	s.editions++
	return s.editions
}

// enroll makes the queue's roster.
func (s *State) enroll(q *cluster.Queue) {
	r := s.rosterOf(q)
	*r = roster{made: true, tenants: r.tenants[:0], by: make(map[cluster.Workload]*tenant), of: s.m.Tree.Version, revised: s.nextEdition()}
	q.Followed, q.Changes = true, q.Changes[:0]
	for _, p := range q.Pods {
		if p.Leaving() {
			continue
		}
		l := cluster.WorkloadOf(p)
		t := r.by[l]
		if t == nil {
			t = &tenant{payer: q, Workload: l}
			r.by[l] = t
			r.tenants = append(r.tenants, t)
		}
		t.pods = append(t.pods, p)
	}
	for _, t := range r.tenants {
		s.appraise(t)
	}
	slices.SortFunc(r.tenants, compareTenants)
}

// revise looks again at one tenant, which may have come, changed or gone.
func (s *State) revise(q *cluster.Queue, l cluster.Workload) {
	r := s.rosterOf(q)
	was := r.by[l]
	if was != nil && l.Pod != nil && was.told == l.Pod.Pod && l.Pod.Payer == q && !l.Pod.Leaving() && !s.m.Tree.ByModel {
		return // it left its seat and is back
	}
	is := s.lodgerOf(q, l)
	r.tenants, r.revised = replaceTenant(r.tenants, was, is), s.nextEdition()
	delete(r.by, l)
	if is != nil {
		r.by[l] = is
	}
}

// lodgerOf makes the tenant, nil where it has no seats in the queue.
func (s *State) lodgerOf(q *cluster.Queue, l cluster.Workload) *tenant {
	t := &tenant{payer: q, Workload: l}
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

// replaceTenant puts the one in the place of the other, in order; nil: nobody.
func replaceTenant(all []*tenant, was, is *tenant) []*tenant {
	if was != nil {
		i, _ := slices.BinarySearchFunc(all, was, compareTenants)
		for all[i] != was { // others of its rank and name
			i++
		}
		all = slices.Delete(all, i, i+1)
	}
	if is != nil {
		i, _ := slices.BinarySearchFunc(all, is, compareTenants)
		all = slices.Insert(all, i, is)
	}
	return all
}

// tenantsBelow returns the tenants of the queue and of all below it: those first whose minimum the quotas of the queues
// below it cover. Who borrows from a queue beside it in the same department is the first to give up what the department
// borrows.
func (s *State) tenantsBelow(q *cluster.Queue) []*tenant {
	own, r := s.tenantsOf(q), s.rosterOf(q)
	if len(q.Children) == 0 {
		r.edition = r.revised
		return own
	}
	last := r.revised
	for _, c := range q.Children {
		s.tenantsBelow(c)
		last = max(last, s.rosterOf(c).edition)
	}
	if last <= r.edition {
		return r.below
	}
	lists := [][]*tenant{own}
	for _, c := range q.Children {
		below := s.rosterOf(c)
		if below.edition > r.edition {
			below.ranked = append(below.ranked[:0], s.coverBelow(c)...)
			slices.SortFunc(below.ranked, compareBelow(q))
		}
		lists = append(lists, below.ranked)
	}
	for len(lists) > 1 {
		lists = append(lists[2:], merge(lists[0], lists[1], compareBelow(q)))
	}
	r.below, r.edition = lists[0], s.nextEdition()
	return r.below
}

// compareBelow is the order of tenants of the queue and of those below it.
func compareBelow(q *cluster.Queue) func(a, b *tenant) int {
	return func(a, b *tenant) int {
		if x, y := a.coveredUpTo(q.Depth), b.coveredUpTo(q.Depth); x != y {
			return cluster.Before(x)
		}
		return compareTenants(a, b)
	}
}

// merge makes one list of two, in order.
func merge(a, b []*tenant, compare func(a, b *tenant) int) []*tenant {
	out := make([]*tenant, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		if compare(b[0], a[0]) < 0 {
			a, b = b, a
		}
		out, a = append(out, a[0]), a[1:]
	}
	return append(append(out, a...), b...)
}

// cut is the part of a roster that quota does not cover, and what it would free.
type cut struct {
	edition uint64 // of the roster
	shape   uint64 // of the topology
	dims    []int
	parts   []int64 // what the queue is promised of each
	over    []int

	awaits   bool // places held for workloads of the queue were counted
	units    []*unit
	ripe     time.Time // when all of them have run for as long as they must
	budgeted bool
	gpus     int64
	shelves  []shelfGPUs
}

// shelfGPUs is what units have on the nodes of a shelf.
type shelfGPUs struct {
	shelf *cluster.Bucket
	gpus  int64
}

// cutOf returns the units of what a queue holds beyond its part of the dims, nil where it holds no more.
func (s *State) cutOf(z *cluster.Queue, dims []int, part func(*cluster.Queue, int) int64) *cut {
	v := newCover(s, z, dims, part)
	if len(v.over) == 0 {
		return nil
	}
	r := s.rosterOf(z)
	x := &r.cut
	awaited := s.awaitedBelow(z, dims)
	kept := x.edition == r.edition && x.shape == s.m.Topology.Shape && slices.Equal(x.dims, dims) && slices.Equal(x.over, v.over) && !x.awaits && len(awaited) == 0
	for i, dim := range dims {
		kept = kept && x.parts[i] == part(z, dim)
	}
	if kept {
		return x
	}
	*x = cut{awaits: len(awaited) > 0, edition: r.edition, shape: s.m.Topology.Shape, dims: append(x.dims[:0], dims...), over: v.over, parts: x.parts[:0], units: x.units[:0], shelves: x.shelves[:0]}
	for _, dim := range dims {
		x.parts = append(x.parts, part(z, dim))
	}
	s.passes++
	x.find(v, awaited, s.passes)
	s.appraiseCut(x)
	return x
}

// find lists the units: of the roster, in order, what does not fit in the part beside those before. What can never be
// evicted is covered before everything else, then what tenants need at the least, then their members above that. So
// whoever starts beyond the part takes nobody else's cover with it, unless it goes before that one by priority and would
// fit in the part without it.
func (x *cut) find(v *cover, awaited []guest, pass uint64) {
	v.firm()
	take := func(u *unit) {
		if u.pass != pass {
			u.pass = pass
			x.units = append(x.units, u)
		}
	}
	elastic := false
	for _, t := range v.all {
		for len(awaited) > 0 && (awaited[0].priority > t.priority || !t.coveredUpTo(v.queue.Depth)) {
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

// guest is a workload that a place is held for, and has not started.
type guest struct {
	key      string
	priority int32
	takes    quantity.Vector
}

// awaitedBelow lists those of the queue and of all below it, by priority: their places are covered as if they ran.
func (s *State) awaitedBelow(z *cluster.Queue, dims []int) (out []guest) {
	//mutate: cover-awaited
	if !slices.ContainsFunc(dims, func(dim int) bool { return z.Pledged.At(dim) > 0 }) {
		return nil
	}
	s.eachAwaited(func(key string, g *cluster.Gang, holds []*cluster.Hold) {
		if !g.Payer.IsBelow(z) {
			return
		}
		if takes := s.m.PledgedBy(holds, g.Payer); takes != nil {
			out = append(out, guest{key: key, priority: g.TurnNow().Priority, takes: takes})
		}
	})
	slices.SortFunc(out, func(a, b guest) int {
		if a.priority != b.priority {
			return cluster.Before(a.priority > b.priority)
		}
		return strings.Compare(a.key, b.key)
	})
	return out
}

// appraiseCut adds up what the units of the cut would free, and finds out from when on all may be evicted.
func (s *State) appraiseCut(x *cut) {
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
				if last := len(x.shelves) - 1; last >= 0 && x.shelves[last].shelf == sh {
					x.shelves[last].gpus += gpus
				} else {
					x.shelves = append(x.shelves, shelfGPUs{sh, gpus})
				}
			}
		}
	}
}

// eachAwaited visits the workloads that places are held for, with those places, in no order; those of this cycle by
// themselves.
func (s *State) eachAwaited(visit func(key string, g *cluster.Gang, holds []*cluster.Hold)) {
	for key, holds := range s.m.HoldsOf {
		if g := s.m.Awaiting(key); g != nil {
			visit(key, g, holds)
		}
	}
	for i, h := range s.newHolds {
		if g := s.m.Awaiting(h.Gang); g != nil {
			visit(h.Gang, g, s.newHolds[i:i+1])
		}
	}
}
