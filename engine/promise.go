package engine

import (
	"cmp"
	"slices"
	"time"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/draft"
	"github.com/berth-dev/berth/engine/internal/index"
	"github.com/berth-dev/berth/engine/internal/quantity"
	"github.com/berth-dev/berth/engine/why"
)

// Promises. A blocked gang that is among the first in line is given a start time: the first end of running work after
// which it has a place. What is tried after it in the cycle may use its place only if it is over by then, so that a
// stream of small work neither waits for the large gang nor starves it. Nothing is taken from the nodes for that:
// whoever found a place where something is promised has it checked, and only then looks again with the promised room
// taken.

// timekeeper is what a cycle knows of times to come.
type timekeeper struct {
	by       guess                       // how run times are guessed
	since    time.Time                   // of the promise that is looked at; zero: none, or a new one
	due      time.Time                   // its start
	ends     map[*cluster.Gang]time.Time // when running gangs end
	ending   []*cluster.Gang             // that have run for as long as they may, or have to leave booked nodes
	releases []release
	counted  draft.Moment    // moment at which releases were listed
	held     []*cluster.Hold // places held for workloads
	heldAt   draft.Moment    // moment at which they were listed

	from  time.Time // a forecast's: the gang that is looked at does not start before; zero: it may now
	lifts int       // ends of pods that were tried out
	most  int       // how many of them may be; 0: promiseLifts

	reserves []*reserve
	reserved map[*cluster.Node][]*reserve // by node, in order
	heads    int                          // blocked gangs that promises can help, so far
	elders   int                          // of those, that were old enough to be promised a start
	blocked  map[string]head              // by queue: who is blocked, and others wait behind
	hopeless map[index.Question]bool      // of a class: no place beside what is promised
	promised map[*cluster.Gang]bool       // that have promises
}

// promiseLifts bounds how many ends of pods are tried out for the promises of one cycle.
const promiseLifts = 200_000

// spentAll says whether no more may be tried out.
func (k *timekeeper) spentAll() bool { return k.lifts > cmp.Or(k.most, promiseLifts) }

// reserve is room that is kept from a time on: for a gang that was promised it, or by a booking.
type reserve struct {
	gang       *cluster.Gang // nil: it is a booking
	name       string
	start, end time.Time // end: when it is given back; zero: nobody knows
	needs      map[*cluster.Node]quantity.Vector
	bills      []futureCharge // of a promised gang: what its queues are charged
	rations    []ration
	after      string // the workload whose end it waits for last; "": none
	queue      string // of a booking: whose work may be there
}

// ration is the most that a queue may use now for the promised gang to be within its limit when it starts.
type ration struct {
	queue *cluster.Queue
	dim   int
	most  int64
}

// futureCharge is what a queue is charged.
type futureCharge struct {
	queue  *cluster.Queue
	dim    int
	amount int64
}

// stay is a gang on places that it looks for, and when it would be there.
type stay struct {
	gang        *cluster.Gang
	from, until time.Time // until: zero: nobody knows
	soft        bool      // all of it can be evicted when the place is needed
}

// stay is the gang if it started at the time.
func (y *cycle) stay(g *cluster.Gang, from time.Time) stay {
	w := stay{gang: g, from: from, soft: !slices.ContainsFunc(g.All(), (*cluster.Pod).Firm)}
	if d := y.s.runTime(g.Terms(), y.times.by); d > 0 {
		w.until = from.Add(d)
	}
	return w
}

// over says whether the stay has left by the time.
func (w stay) over(by time.Time) bool { return !w.until.IsZero() && !w.until.After(by) }

// reserve lets the room be kept for the rest of the cycle.
func (y *cycle) reserve(r *reserve) {
	k := &y.times
	k.reserves = append(k.reserves, r)
	if k.reserved == nil {
		k.reserved = make(map[*cluster.Node][]*reserve)
	}
	for n := range r.needs {
		k.reserved[n] = append(k.reserved[n], r)
	}
}

// holds says whether the reserve has the room at the time.
func (r *reserve) holds(at time.Time) bool {
	return !r.start.After(at) && (r.end.IsZero() || r.end.After(at))
}

// keptOn is how much of what is free on the node the stay must leave, and for whom; whole says that it may not be
// there at all. At every moment of its stay at which promised gangs start, what they need, less what has ended by
// then, is not its.
func (y *cycle) keptOn(n *cluster.Node, w stay) (kept quantity.Vector, by *reserve, whole bool) {
	reserves := y.times.reserved[n]
	for _, r := range reserves {
		if r.gang == w.gang || !r.end.IsZero() && !r.end.After(w.from) {
			continue
		}
		if r.gang == nil {
			if r.bars(w, y.s) {
				return nil, r, true
			}
			continue
		}
		at := later(r.start, w.from)
		//mutate: time-backfill
		if w.over(at) {
			continue
		}
		more := y.owed(n, w.gang, at)
		for dim, amount := range more {
			if amount > kept.At(dim) {
				kept.Add(dim, amount-kept.At(dim))
				if by == nil {
					by = r
				}
			}
		}
	}
	return kept, by, false
}

// owed is what promised gangs other than g need on the node at the time, less what will have ended there.
func (y *cycle) owed(n *cluster.Node, g *cluster.Gang, at time.Time) quantity.Vector {
	var sum quantity.Vector
	for _, r := range y.times.reserved[n] {
		if r.gang != nil && r.gang != g && r.holds(at) {
			for dim, amount := range r.needs[n] {
				sum.Add(dim, amount)
			}
		}
	}
	for _, p := range n.Pods {
		if g != nil && p.In == g && p.Node == "" {
			continue // it is being placed, and is still there then
		}
		if end := y.endOf(p); !end.IsZero() && !end.After(at) {
			for _, d := range p.Demands {
				sum.Add(d.Dim, -d.Amount)
			}
		}
	}
	for _, h := range y.heldPlaces() {
		if h.On != n || g != nil && h.IsFor(g) {
			continue
		}
		if end := y.holdEnd(h); !end.IsZero() && !end.After(at) {
			for _, a := range h.Requests {
				sum.Add(y.s.m.Dims.ID(a.Resource), -a.Value)
			}
		}
	}
	return sum
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// breaks lists, as gates, the first promise or booking that the pods of the gang, which have been placed, break.
func (y *cycle) breaks(g *cluster.Gang, pods []*cluster.Pod) []why.Gate {
	if len(y.times.reserves) == 0 {
		return nil
	}
	hosts := make([]*cluster.Node, len(pods))
	for i, p := range pods {
		hosts[i] = p.Host
	}
	//mutate: time-begins-when-evicted -> y.stay(g, y.Now)
	w := y.stay(g, y.preempt.Begins(g, hosts...))
	gates := y.breaksOnNodes(w, pods)
	if len(gates) == 0 {
		gates = y.overRation(w, pods)
	}
	if len(gates) > 0 {
		//mutate: time-breaks-wakes
		y.wakeWhenLate(w) // from then on it may be another promise that it breaks first
	}
	return gates
}

// breaksOnNodes is breaks for what is kept on nodes.
func (y *cycle) breaksOnNodes(w stay, pods []*cluster.Pod) []why.Gate {
	for _, p := range pods {
		kept, by, whole := y.keptOn(p.Host, w)
		if whole {
			return []why.Gate{by.gate()}
		}
		for _, d := range p.Demands {
			if by != nil && kept.At(d.Dim) > 0 && p.Host.Free.At(d.Dim) < kept.At(d.Dim) {
				return []why.Gate{by.gate()}
			}
		}
	}
	return nil
}

func (r *reserve) gate() why.Gate {
	if r.gang == nil {
		return why.Gate{Cause: why.KeptByBooking, Object: r.name, Certificate: -1}
	}
	return why.Gate{Cause: why.KeptForPromise, Object: r.name, Certificate: -1}
}

// overRation is breaks for queues' limits: what the pods add to a queue must leave the promised gang within it.
func (y *cycle) overRation(w stay, pods []*cluster.Pod) []why.Gate {
	for _, r := range y.times.reserves {
		for i := range r.rations {
			x := &r.rations[i]
			if r.gang == w.gang || w.over(r.start) {
				continue
			}
			if x.share(pods) > 0 && x.queue.Used.At(x.dim) > x.most {
				return []why.Gate{r.gate()}
			}
		}
	}
	return nil
}

// share is what the pods, which are placed, take of the ration.
func (x *ration) share(pods []*cluster.Pod) int64 {
	var sum int64
	for _, p := range pods {
		for q := p.Payer; q != nil; q = q.Parent {
			if q != x.queue {
				continue
			}
			for _, d := range p.Charge {
				if d.Dim == x.dim {
					sum += d.Amount
				}
			}
		}
	}
	return sum
}

// settleRations lets work that starts and is over in time not count against the rations.
func (y *cycle) settleRations(g *cluster.Gang, pods []*cluster.Pod) {
	for _, r := range y.times.reserves {
		if len(r.rations) == 0 || !y.stay(g, y.Now).over(r.start) {
			continue
		}
		for i := range r.rations {
			r.rations[i].most += r.rations[i].share(pods)
		}
	}
}

// delays has the gang, which found its places since the mark, keep the promises given to others: where it does not, it
// looks again beside them. The gates are those of a promise that it cannot keep.
func (y *cycle) delays(g *cluster.Gang, t cluster.Turn, m cluster.Mark, found *found) []why.Gate {
	if len(y.times.reserves) == 0 {
		return nil
	}
	gates := y.breaks(g, y.allocatedSince(m))
	if len(gates) > 0 {
		y.s.m.Rollback(m)
		if !y.placeBeside(g, t, found) {
			y.s.m.Rollback(m)
			return gates
		}
		if again := y.breaks(g, y.allocatedSince(m)); len(again) > 0 { // its queue's limit is promised, not a node
			y.s.m.Rollback(m)
			return again
		}
	}
	return nil
}

// placeBeside places the gang with all that is promised to others, and that it may not use, taken.
func (y *cycle) placeBeside(g *cluster.Gang, t cluster.Turn, found *found) bool {
	key, alike := y.question(g, t)
	w := y.stay(g, y.preempt.Begins(g))
	alike = alike && w.until.IsZero() && !y.quiet // who leaves early may use more, and so may who has others evicted
	if alike && y.times.hopeless[key] {
		return false
	}
	holds := y.keepOff(w)
	y.quietly(func() { *found = y.place(g, t) })
	if found.ok {
		for _, h := range holds {
			y.s.m.IgnoreHold(h)
		}
		return true
	}
	if alike {
		if y.times.hopeless == nil {
			y.times.hopeless = make(map[index.Question]bool)
		}
		y.times.hopeless[key] = true // and stays so: room only gets less
	}
	return false
}

// question tells apart gangs that ask the same of the nodes, where members are alike and one GPU model is looked for.
func (y *cycle) question(g *cluster.Gang, t cluster.Turn) (index.Question, bool) {
	p, alike := g.Alike()
	models := y.models(g)
	if !alike || len(models) != 1 || g.Tree.Allocated > 0 || len(y.kept) > 0 {
		return index.Question{}, false
	}
	o := y.order(g, y.kin(g, t, models[0]).Class(p))
	key := index.Question{Class: o.Class, Need: len(o.Pods), Level: y.s.m.Level(o.Layout.Required)}
	if o.Layout.Segment > 0 {
		key.Segment, key.SegmentLevel = o.Layout.Segment, y.s.m.Level(o.Layout.SegmentLevel)
	}
	return key, true
}

// keepOff lets what the stay must leave be taken from the nodes, until rolled back.
func (y *cycle) keepOff(w stay) []*cluster.Hold {
	var out []*cluster.Hold
	//archtest:any-order each node is judged by itself
	for n := range y.times.reserved {
		kept, _, whole := y.keptOn(n, w)
		if whole {
			kept = n.Free
		}
		h := &cluster.Hold{Hold: &api.Hold{Node: n.Name}}
		for dim, amount := range kept {
			if amount > 0 {
				h.Requests = append(h.Requests, api.Amount{Resource: y.s.m.Dims.Names[dim], Value: amount})
			}
		}
		if len(h.Requests) > 0 {
			y.s.m.PutHold(h, n)
			out = append(out, h)
		}
	}
	return out
}

// quietly does something whose proofs are nobody's business.
func (y *cycle) quietly(do func()) {
	quiet, steps, budget := y.quiet, y.steps, y.budget
	y.quiet, y.budget = true, min(budget, trialBudget)
	do()
	y.quiet, y.steps, y.budget = quiet, steps, budget
}

// trialBudget bounds the search steps of one look into the future.
const trialBudget = 2000

// passing says whether a gang waits at gates that open when running work ends, and at no others.
func passing(gates []why.Gate) bool {
	return !slices.ContainsFunc(gates, func(g why.Gate) bool {
		switch g.Cause {
		case why.ClusterFull, why.Fragmented, why.TopologyFragmented, why.Stranded, why.SearchBudget, why.OverQueueLimit, why.OverUserLimit,
			why.QueueBusy, why.OverQuota, why.NotLent, why.KeptForPromise, why.KeptByBooking:
			return false
		}
		return true
	})
}

// promise gives the gang, which is blocked by the gates, a start time if it is among the first in line, must be
// promised one, or has one. It says whether it has one now.
func (y *cycle) promise(g *cluster.Gang, t cluster.Turn, gates []why.Gate, must bool) bool {
	old := y.standing(g)
	if y.trial || !passing(gates) {
		if old != nil {
			y.Forget(api.KindPromise, old.Gang, old.Version)
		}
		return false
	}
	y.times.heads++
	if heads := y.s.m.Config.Heads; old == nil && !must && heads >= 0 && y.times.heads > heads {
		y.wakeAged(t)
		return false
	}
	m := y.s.m.Mark()
	y.claim(g)
	defer y.s.m.Rollback(m)
	var r *reserve
	if old != nil {
		r = y.stillHolds(g, t, gates, old)
	}
	if r == nil {
		r = y.foresee(g, t, y.releases(), nil)
	}
	switch {
	case r != nil:
		y.stand(r, old)
		return true
	case old == nil:
	case y.times.spentAll(): // it stands, unseen
		y.Plan.Promises = append(y.Plan.Promises, *old)
		return true
	default:
		y.Forget(api.KindPromise, old.Gang, old.Version)
	}
	return false
}

// standing returns the promise that the gang was given, nil if there is none.
func (y *cycle) standing(g *cluster.Gang) *api.Promise {
	if len(y.s.m.Promises) == 0 || !y.times.promised[g] || y.s.m.IsRejected(api.KindPromise, g.Key) {
		return nil
	}
	return y.s.m.Promises[g.Key]
}

// stillHolds looks whether the gang can start when and where it was promised, or there sooner. Only what runs there is
// looked at, unless it waits for its queue rather than for room. What is overdue there is over by then; see workEnd.
func (y *cycle) stillHolds(g *cluster.Gang, t cluster.Turn, gates []why.Gate, old *api.Promise) *reserve {
	by := later(old.Start.UTC(), y.Now)
	y.lookFrom(old.Since.UTC(), by)
	defer y.lookFrom(time.Time{}, time.Time{})
	var nodes []*cluster.Node
	for _, name := range old.Nodes {
		n := y.s.m.Nodes[name]
		if n == nil || n.Bucket == nil {
			return nil
		}
		nodes = append(nodes, n)
	}
	slices.SortFunc(nodes, cluster.ComparePlaces)
	releases := y.releasesOn(nodes, by)
	if slices.ContainsFunc(gates, func(g why.Gate) bool { return !ofRoom(g.Cause) }) {
		releases = y.releases()
		end, _ := slices.BinarySearchFunc(releases, by, func(r release, by time.Time) int {
			if r.at.After(by) {
				return 1
			}
			return -1
		})
		releases = releases[:end]
	}
	r := y.foresee(g, t, releases, nodes)
	if r == nil || r.start.After(by) {
		return nil
	}
	if r.start.After(old.Start) { // it is due, and only what is overdue is in its way
		r.start = old.Start.UTC()
		r.end = y.believedEnd(g, r.start)
	}
	return r
}

// believedEnd is when the gang that is to start at the time gives its room back; zero: nobody knows. One that should have
// started by now is believed to start a while later, as work that is overdue is to end: so what is promised after it does
// not move with every moment.
func (y *cycle) believedEnd(g *cluster.Gang, start time.Time) time.Time {
	d := y.s.runTime(g.Terms(), y.times.by)
	if d == 0 {
		return time.Time{}
	}
	if !start.After(y.Now) {
		start = overdue(start, y.Now)
		y.Wake(start)
	}
	return start.Add(d)
}

// lookFrom lets work be judged as a promise of that time, which is due then, sees it.
func (y *cycle) lookFrom(since, due time.Time) {
	y.times.since, y.times.due = since, due
	clear(y.times.ends)
}

// ofRoom says whether a cause is about nodes and what is promised on them.
func ofRoom(c why.Cause) bool {
	switch c {
	case why.ClusterFull, why.Fragmented, why.TopologyFragmented, why.Stranded, why.SearchBudget, why.KeptForPromise, why.KeptByBooking:
		return true
	}
	return false
}

// stand enters the promise in the plan, and in memory if it is new or changed, and protects it in this cycle.
func (y *cycle) stand(r *reserve, old *api.Promise) {
	var p api.Promise
	if old != nil && old.Start.Equal(r.start) {
		p = *old
	} else {
		p = api.Promise{Gang: r.name, Version: y.NextVersion(), Since: y.Now, Start: r.start}
		if old != nil {
			p.Since = old.Since
		}
		for n := range r.needs {
			p.Nodes = append(p.Nodes, n.Name)
		}
		slices.Sort(p.Nodes)
		y.Remember(api.Change{Promise: &p})
	}
	y.Plan.Promises = append(y.Plan.Promises, p)
	y.reserve(r)
	if r.start.After(y.Now) {
		y.Wake(r.start)
	}
}

// keptPromise drops the promise of a gang that starts with the allocations since the mark.
func (y *cycle) keptPromise(g *cluster.Gang, m cluster.Mark) {
	if len(y.times.reserves) > 0 {
		y.settleRations(g, y.allocatedSince(m))
	}
	if p := y.standing(g); p != nil {
		y.Forget(api.KindPromise, p.Gang, p.Version)
	}
}

// expirePromises drops the promises of gangs that have started or are gone.
func (y *cycle) expirePromises() {
	if len(y.s.m.Promises) == 0 {
		return
	}
	y.times.promised = make(map[*cluster.Gang]bool, len(y.s.m.Promises))
	for _, key := range cluster.SortedKeys(y.s.m.Promises) {
		if g := y.s.m.Gangs[key]; g != nil {
			y.times.promised[g] = true
		}
		if p := y.s.m.Pods[key]; p != nil && p.In != nil {
			y.times.promised[p.In] = true
		}
		if !y.hopes(key) {
			y.Forget(api.KindPromise, key, y.s.m.Promises[key].Version)
		}
	}
}

// hopes says whether a workload of the key waits for its minimum.
func (y *cycle) hopes(key string) bool {
	if g := y.s.m.Gangs[key]; g != nil && g.Wants() && !(y.known(g) && g.Tree.Satisfied()) {
		return true
	}
	p := y.s.m.Pods[key]
	return p != nil && p.In != nil && p.In.Lone == p && p.Waits()
}

// foresee finds the first time at which the gang has a place, as the releases go, and what it takes there. Nodes that
// are named are taken first. nil: at none.
func (y *cycle) foresee(g *cluster.Gang, t cluster.Turn, releases []release, first []*cluster.Node) *reserve {
	m := y.s.m.Mark()
	defer y.s.m.Rollback(m)
	used := y.usedOf(g)
	x := &future{y: y, g: g, turn: t, releases: y.withMoments(releases)}
	at, ok := x.firstFit()
	if !ok {
		return nil
	}
	//mutate: time-promise-wakes
	y.wakeAtFirst(x.releases[:len(x.marks)])
	holds := y.s.m.Mark()
	w := y.stay(g, at)
	y.keepOff(w)
	y.charge(w, 1)
	defer y.charge(w, -1)
	seats := y.s.m.Mark()
	if len(y.kept) == 0 {
		y.kept = first
		defer func() { y.kept = nil }()
	}
	var found found
	y.quietly(func() { found = y.place(g, t) })
	if !found.ok {
		y.s.m.Rollback(holds)
		return nil
	}
	r := &reserve{gang: g, name: g.Key, start: at, end: y.believedEnd(g, at), needs: make(map[*cluster.Node]quantity.Vector)}
	for _, p := range y.allocatedSince(seats) {
		v := r.needs[p.Host]
		for _, d := range p.Demands {
			v.Add(d.Dim, d.Amount)
		}
		if g.Whole && v.At(quantity.DimGPU) > 0 {
			v.Add(quantity.DimGPU, p.Host.Spec.Allocatable.Get(y.s.m.Config.GPU)-v.At(quantity.DimGPU))
		}
		r.needs[p.Host] = v
	}
	r.bills = billsOf(y.allocatedSince(seats))
	r.rations = y.rations(g, used)
	r.after = y.lastToEnd(x)
	return r
}

// wakeAtFirst wakes when the first of the releases that are yet to come is due: what has not ended by then ends later than
// was thought, and so does what waits for it.
func (y *cycle) wakeAtFirst(releases []release) {
	if i := slices.IndexFunc(releases, func(r release) bool { return r.at.After(y.Now) }); i >= 0 {
		y.Wake(releases[i].at)
	}
}

// billsOf adds up what the pods, which are placed, are booked with, by queue.
func billsOf(pods []*cluster.Pod) []futureCharge {
	var out []futureCharge
	for _, p := range pods {
		for q := p.Payer; q != nil; q = q.Parent {
			for _, d := range p.Charge {
				i := slices.IndexFunc(out, func(b futureCharge) bool { return b.queue == q && b.dim == d.Dim })
				if i < 0 {
					i = len(out)
					out = append(out, futureCharge{queue: q, dim: d.Dim})
				}
				out[i].amount += d.Amount
			}
		}
	}
	return out
}

// charge lets queues be charged, or no longer, for the promised gangs that are there at any time of the stay, and what they
// take count as taken.
func (y *cycle) charge(w stay, times int64) {
	for _, r := range y.times.reserves {
		if r.gang == w.gang || w.over(r.start) || !r.end.IsZero() && !r.end.After(w.from) {
			continue
		}
		for _, b := range r.bills {
			b.queue.Used.Add(b.dim, times*b.amount)
		}
		//mutate: time-charge-taken
		y.takeAll(r, times)
	}
}

// takeAll lets what the promised gang needs on nodes count as taken.
func (y *cycle) takeAll(r *reserve, times int64) {
	if r.gang == nil {
		return
	}
	//archtest:any-order sums are the same in any order
	for _, needs := range r.needs {
		for dim, amount := range needs {
			y.s.m.Taken.Add(dim, times*amount)
		}
	}
}

// wakeWhenLate wakes when the stay, from now, would first be in the way of a promise that it is over before now.
func (y *cycle) wakeWhenLate(w stay) {
	for _, r := range y.times.reserves {
		if r.gang != w.gang && w.over(r.start) {
			y.Wake(y.Now.Add(r.start.Sub(w.until) + 1))
		}
	}
}

// lastToEnd names the workload whose end brought the future about, the first of several by name; "": none had to.
func (y *cycle) lastToEnd(x *future) string {
	first := ""
	if k := len(x.marks); k > 0 {
		first = x.releases[k-1].who
		for _, p := range x.releases[k-1].pods {
			if key := p.WorkloadKey(); first == "" || key < first {
				first = key
			}
		}
	}
	return first
}

// usedOf is what the queues that the gang is charged to use, the lowest first.
func (y *cycle) usedOf(g *cluster.Gang) []quantity.Vector {
	var out []quantity.Vector
	for q := y.s.m.Queues[g.Queue()]; q != nil; q = q.Parent {
		out = append(out, slices.Clone(q.Used))
	}
	return out
}

// rations works out, with the gang placed when it starts, by how much its queues may use more than they did.
func (y *cycle) rations(g *cluster.Gang, used []quantity.Vector) []ration {
	var out []ration
	i := 0
	for q := y.s.m.Queues[g.Queue()]; q != nil; q = q.Parent {
		if q.Spec != nil {
			for _, limit := range q.Spec.Limits {
				dim := y.s.m.Dims.ID(limit.Resource)
				out = append(out, ration{q, dim, used[i].At(dim) + limit.Value - q.Used.At(dim)})
			}
		}
		i++
	}
	return out
}

// withMoments adds the times at which kept room is given back.
func (y *cycle) withMoments(releases []release) []release {
	late := y.times.from.After(y.Now)
	if len(y.times.reserves) == 0 && !late {
		return releases
	}
	out := slices.Clone(releases)
	if late {
		out = append(out, release{at: y.times.from})
	}
	for _, r := range y.times.reserves {
		if r.end.After(y.Now) {
			out = append(out, release{at: r.end, who: r.name})
		}
	}
	slices.SortStableFunc(out, func(a, b release) int { return a.at.Compare(b.at) })
	return out
}

// firstFit lifts what ends, in order, until the gang fits, and returns that time. More room never makes a gang fit
// less, so it goes ahead in growing steps and then halves the way back.
func (x *future) firstFit() (time.Time, bool) {
	n := len(x.releases)
	if x.fits(0) {
		return x.y.Now, true
	}
	low, high := 0, 1
	for high < n && !x.fits(high) {
		low, high = high, 2*high
	}
	if high >= n {
		if high = n; high == low || !x.fits(n) {
			return time.Time{}, false
		}
	}
	for low+1 < high {
		if mid := (low + high) / 2; x.fits(mid) {
			high = mid
		} else {
			low = mid
		}
	}
	x.to(high)
	return x.at(high), true
}

// future is the state with the first few releases done.
type future struct {
	y        *cycle
	g        *cluster.Gang
	turn     cluster.Turn
	releases []release
	marks    []cluster.Mark // before each release that is done
}

// at is the time after k releases.
func (x *future) at(k int) time.Time {
	if k == 0 {
		return x.y.Now
	}
	return later(x.releases[k-1].at, x.y.Now)
}

// to goes to the time after k releases. The gang's own members stay.
func (x *future) to(k int) {
	s := x.y.s
	if k < len(x.marks) {
		s.m.Rollback(x.marks[k])
		x.marks = x.marks[:k]
	}
	for i := len(x.marks); i < k; i++ {
		x.marks = append(x.marks, s.m.Mark())
		for _, p := range x.releases[i].pods {
			if p.Host != nil && (p.In == nil || p.In != x.g) {
				s.m.Remove(p)
			}
		}
		for _, h := range x.releases[i].holds {
			if h.On != nil {
				s.m.IgnoreHold(h)
			}
		}
		x.y.times.lifts += len(x.releases[i].pods)
	}
}

// fits says whether the gang has a place after k releases.
func (x *future) fits(k int) bool {
	y := x.y
	if y.times.spentAll() || x.at(k).Before(y.times.from) {
		return false
	}
	x.to(k)
	m := y.s.m.Mark()
	w := y.stay(x.g, x.at(k))
	if k == 0 {
		y.wakeWhenLate(w)
	}
	y.keepOff(w)
	ok := y.lentFrom(w)
	y.charge(w, 1)
	ok = ok && y.wouldFit(x.g, x.turn)
	y.charge(w, -1)
	y.s.m.Rollback(m)
	return ok
}

// lentFrom says whether the gang may borrow when its stay begins, of what queues keep for those that come later too. All
// other gates only shut when those have come.
func (y *cycle) lentFrom(w stay) bool {
	//mutate: time-lent-from -> true
	if !y.s.m.Tree.Lends {
		return true
	}
	w.until = w.from.Add(1)
	y.charge(w, 1)
	gates, _ := y.gates(w.gang)
	y.charge(w, -1)
	return len(gates) == 0
}

// wouldFit says whether all gates are open to the gang and there is a place for it.
func (y *cycle) wouldFit(g *cluster.Gang, t cluster.Turn) bool {
	if gates, _ := y.gates(g); len(gates) > 0 {
		return false
	}
	apart := y.modelsApart(g)
	for _, model := range y.models(g) {
		if apart && len(y.quota(g, model)) > 0 {
			continue
		}
		k := y.kin(g, t, model)
		p, alike := g.Alike()
		if alike {
			if _, ok := y.s.placer.ChooseScope(y.order(g, k.Class(p))); ok {
				return true
			}
			continue
		}
		ok := false
		m := y.s.m.Mark()
		y.quietly(func() { ok = y.search(g, k, nil).ok })
		y.s.m.Rollback(m)
		if ok {
			return true
		}
	}
	return false
}
