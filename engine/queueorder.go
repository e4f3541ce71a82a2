package engine

import (
	"slices"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/calendar"
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/index"
	"github.com/berth-dev/berth/engine/why"
)

// Lanes. Those that wait in a queue stand in the same order from cycle to cycle, and most of them are told the same as the
// one before them. So the queue orders of queues are kept between cycles, and an answer is kept for the rest of a cycle: a long
// line costs little more than saying of each workload in it why it waits.

// queueOrder is the gangs in line of one queue, or of one user of it where users are treated fairly, in the order of the line.
type queueOrder struct {
	orderKey
	line []queued
}

type orderKey struct {
	queue *cluster.Queue // nil: of workloads without a queue
	user  string
}

// ask is what tells gangs of a queue order apart whose answer is the same; without a class: nothing is known of the gang, or it
// is a special one.
type ask struct {
	class       *index.Class
	need, level int32
	soft        bool // may be evicted whole
	patient     bool // nobody is to be stopped for it
}

// orderKeyOf returns the key of the queue order that the gang is in.
func orderKeyOf(g *cluster.Gang) orderKey {
	key := orderKey{queue: g.Payer}
	if q := g.Payer; q != nil && q.Spec != nil && q.Spec.FairUsers {
		key.user = g.User()
	}
	return key
}

// queueOrders is what is kept of the line between cycles.
type queueOrders struct {
	made  bool // byKey is what the line says
	byKey map[orderKey]*queueOrder
	edits int    // since they were made
	of    uint64 // Tree.Version of the queues that they are of
}

// makeOrders makes the queue orders of the line, unless they are kept.
func (s *State) makeOrders() {
	if s.orders.made && s.orders.of == s.m.Tree.Version {
		return
	}
	s.orders = queueOrders{made: true, of: s.m.Tree.Version, byKey: make(map[orderKey]*queueOrder)}
	var last *queueOrder
	for _, g := range s.line {
		if key := orderKeyOf(g); last == nil || last.orderKey != key {
			last = s.orderAt(key)
		}
		e := s.entryOf(g)
		last.line = append(last.line, e.queuedAs(g, e.turn))
		e.order = last
	}
}

// ordersKept says whether there are queue orders of the queues as they are.
func (s *State) ordersKept() bool { return s.orders.made && s.orders.of == s.m.Tree.Version }

// orderAt returns the queue order of the key, making it if there is none.
func (s *State) orderAt(key orderKey) *queueOrder {
	l := s.orders.byKey[key]
	if l == nil {
		l = &queueOrder{orderKey: key}
		s.orders.byKey[key] = l
	}
	return l
}

// queuedAs is the gang in line, with the turn.
func (e *lineEntry) queuedAs(g *cluster.Gang, t cluster.Turn) queued {
	return queued{Turn: t, gang: g, rank: t.Priority, ask: e.ask, special: e.special}
}

// edited notes one more change of the queue orders, and says whether they are still worth keeping: it costs less to make them
// anew than to change them often.
func (s *State) edited() bool {
	if s.orders.edits++; s.orders.edits > 64+len(s.line)/32 {
		s.orders = queueOrders{}
	}
	return s.orders.made
}

// enterOrder puts the gang, which is in line at its turn, in its queue order, or notes there that it has changed.
func (s *State) enterOrder(g *cluster.Gang) {
	if !s.ordersKept() || !s.edited() {
		return
	}
	key, e := orderKeyOf(g), s.entryOf(g)
	//mutate: index-lane-of-another-queue
	if e.order != nil && e.order.orderKey != key {
		s.leaveOrder(g)
	}
	if e.order != nil {
		i, _ := e.order.find(e.turn)
		//mutate: index-lane-of-changed
		e.order.line[i] = e.queuedAs(g, e.turn)
		return
	}
	e.order = s.orderAt(key)
	i, _ := e.order.find(e.turn)
	e.order.line = slices.Insert(e.order.line, i, e.queuedAs(g, e.turn))
}

// leaveOrder takes the gang, which is in line at its turn, out of its queue order.
func (s *State) leaveOrder(g *cluster.Gang) {
	e := s.entryOf(g)
	l := e.order
	e.order = nil
	if !s.ordersKept() || l == nil || !s.edited() {
		return
	}
	i, _ := l.find(e.turn)
	l.line = slices.Delete(l.line, i, i+1)
	if len(l.line) == 0 {
		delete(s.orders.byKey, l.orderKey)
	}
}

// find returns where the gang with the turn is in the queue order, or belongs.
func (l *queueOrder) find(t cluster.Turn) (int, bool) {
	return slices.BinarySearchFunc(l.line, t, func(q queued, t cluster.Turn) int { return q.Turn.Compare(t) })
}

// answer is what a gang of a queue entry was told, for all who ask the same while nothing changes.
type answer struct {
	ask     ask
	at      uint64 // Model.Standing
	waiting api.Waiting
	passing bool // it waits at gates that open when running work ends
	aged    bool // who was told so has waited for as long as it may be passed
}

// sameAnswer tells the gang what another of its queue order was told that asks the same, and says whether there was one. What
// is done for some and not for others is over by then: promises are given to the first few.
func (y *cycle) sameAnswer(q *queued, at *queueEntry) bool {
	if !y.repeats || q.ask.class == nil || q.special == y.s.cycles || q.ask.class.Dropped || q.gang == y.until {
		return false
	}
	standing := y.s.m.Standing()
	for i := range at.answers {
		a := &at.answers[i]
		if a.ask != q.ask {
			continue
		}
		if a.at != standing || a.passing && !y.times.PastHeads() || !a.aged && y.times.Aged(q.Turn) && !y.times.Led(q.gang.Queue(), q.rank) {
			return false
		}
		if a.passing {
			y.times.Blocked()
			y.times.WakeAged(q.Turn)
		}
		a.waiting.Gang = q.Key
		y.Plan.Waiting = append(y.Plan.Waiting, a.waiting)
		return true
	}
	return false
}

// keepAnswer keeps what the gang, whose question is a plain one, was last told, if nothing changed since the standing.
func (y *cycle) keepAnswer(g *cluster.Gang, p *plain, gates []why.Gate, standing uint64) {
	q, at := y.entry, y.stood
	if q == nil || q.gang != g || !y.repeats || q.special == y.s.cycles || y.s.m.Standing() != standing || !at.alike() {
		return
	}
	terms := g.Terms()
	if terms.Delay > 0 || g.Done || at.queue == nil && g.Queue() != "" {
		return
	}
	e := y.s.entryOf(g)
	e.ask = ask{class: p.class, need: int32(p.need), level: int32(p.level), soft: g.Evictable, patient: terms.Patient}
	q.ask = e.ask
	a := answer{ask: q.ask, at: standing, waiting: y.Plan.Waiting[len(y.Plan.Waiting)-1], passing: calendar.Passing(gates), aged: y.times.Aged(q.Turn)}
	if i := slices.IndexFunc(at.answers, func(o answer) bool { return o.ask == a.ask }); i >= 0 {
		at.answers[i] = a
		return
	}
	at.answers = append(at.answers, a)
}

// alike says whether the queue entry's queue treats all its workloads alike, whose they are and what they are called.
func (s *queueEntry) alike() bool {
	return s.queue == nil || s.queue.Spec == nil || s.queue.Spec.Namespaces == nil && len(s.queue.Spec.UserLimits) == 0
}

// findSpecial finds out whether answers can be repeated in this cycle, and for whom they cannot: those that have a
// promise, for whom something is held, or for whom others are on their way out.
func (y *cycle) findSpecial() {
	s := y.s
	s.cycles++
	y.repeats = !y.trial && len(s.m.Refusals) == 0 && !s.m.Tree.ByModel && s.m.Config.Policy != api.Strict
	if !y.repeats {
		return
	}
	if len(s.m.Holds) > 0 {
		y.repeats = !s.m.HoldsForOwners()
	}
	//archtest:any-order each is marked by itself
	for key := range s.m.HoldsOf {
		s.setApart(key)
	}
	//archtest:any-order each is marked by itself
	for key := range s.m.Promises {
		s.setApart(key)
	}
	//archtest:any-order each is marked by itself
	for _, e := range s.m.Evictions {
		s.setApart(e.For)
	}
}

// setApart lets the workload of the key have an answer of its own in this cycle.
func (s *State) setApart(key string) {
	if g := s.m.Gangs[key]; g != nil {
		s.setApartGang(g)
	}
	if p := s.m.Pods[key]; p != nil && p.In != nil {
		s.setApartGang(p.In)
	}
}

func (s *State) setApartGang(g *cluster.Gang) {
	e := s.entryOf(g)
	e.special = s.cycles
	if !s.ordersKept() || e.order == nil {
		return
	}
	if i, found := e.order.find(e.turn); found {
		e.order.line[i].special = s.cycles
	}
}
