package engine

import (
	"slices"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/why"
)

// Lanes. Those that wait in a queue stand in the same order from cycle to cycle, and most of them are told the same as the
// one before them. So the lanes of queues are kept between cycles, and an answer is kept for the rest of a cycle: a long
// line costs little more than saying of each workload in it why it waits.

// lane is the gangs in line of one queue, or of one user of it where users are treated fairly, in the order of the line.
type lane struct {
	laneKey
	line []queued
}

type laneKey struct {
	queue *queue // nil: of workloads without a queue
	user  string
}

// ask is what tells gangs of a lane apart whose answer is the same; without a class: nothing is known of the gang, or it
// is a special one.
type ask struct {
	class       *class
	need, level int32
	soft        bool // may be evicted whole
	patient     bool // nobody is to be stopped for it
}

// laneOf returns the key of the lane that the gang is in.
func laneOf(g *gang) laneKey {
	key := laneKey{queue: g.payer}
	if q := g.payer; q != nil && q.spec != nil && q.spec.FairUsers {
		key.user = g.user()
	}
	return key
}

// lanes is what is kept of the line between cycles.
type lanes struct {
	made  bool // byKey is what the line says
	byKey map[laneKey]*lane
	edits int // since they were made
}

// makeLanes makes the lanes of the line, unless they are kept.
func (s *State) makeLanes() {
	if s.lanes.made {
		return
	}
	s.lanes = lanes{made: true, byKey: make(map[laneKey]*lane)}
	var last *lane
	for _, g := range s.line {
		if key := laneOf(g); last == nil || last.laneKey != key {
			last = s.laneAt(key)
		}
		last.line = append(last.line, g.queuedAs(g.turn))
		g.lane = last
	}
}

// laneAt returns the lane of the key, making it if there is none.
func (s *State) laneAt(key laneKey) *lane {
	l := s.lanes.byKey[key]
	if l == nil {
		l = &lane{laneKey: key}
		s.lanes.byKey[key] = l
	}
	return l
}

// queuedAs is the gang in line, with the turn.
func (g *gang) queuedAs(t turn) queued {
	return queued{turn: t, gang: g, rank: t.priority, ask: g.ask, special: g.special}
}

// edited notes one more change of the lanes, and says whether they are still worth keeping: it costs less to make them
// anew than to change them often.
func (s *State) edited() bool {
	if s.lanes.edits++; s.lanes.edits > 64+len(s.line)/32 {
		s.lanes = lanes{}
	}
	return s.lanes.made
}

// enlane puts the gang, which is in line at its turn, in its lane, or notes there that it has changed.
func (s *State) enlane(g *gang) {
	if !s.lanes.made || !s.edited() {
		return
	}
	key := laneOf(g)
	//mutate: index-lane-of-another-queue
	if g.lane != nil && g.lane.laneKey != key {
		s.unlane(g)
	}
	if g.lane != nil {
		i, _ := g.lane.find(g.turn)
		//mutate: index-lane-of-changed
		g.lane.line[i] = g.queuedAs(g.turn)
		return
	}
	g.lane = s.laneAt(key)
	i, _ := g.lane.find(g.turn)
	g.lane.line = slices.Insert(g.lane.line, i, g.queuedAs(g.turn))
}

// unlane takes the gang, which is in line at its turn, out of its lane.
func (s *State) unlane(g *gang) {
	l := g.lane
	g.lane = nil
	if !s.lanes.made || l == nil || !s.edited() {
		return
	}
	i, _ := l.find(g.turn)
	l.line = slices.Delete(l.line, i, i+1)
	if len(l.line) == 0 {
		delete(s.lanes.byKey, l.laneKey)
	}
}

// find returns where the gang with the turn is in the lane, or belongs.
func (l *lane) find(t turn) (int, bool) {
	return slices.BinarySearchFunc(l.line, t, func(q queued, t turn) int { return q.turn.compare(t) })
}

// answer is what a gang of a stand was told, for all who ask the same while nothing changes.
type answer struct {
	ask     ask
	at      uint64 // State.standing
	waiting api.Waiting
	passing bool // it waits at gates that open when running work ends
	aged    bool // who was told so has waited for as long as it may be passed
}

// sameAnswer tells the gang what another of its lane was told that asks the same, and says whether there was one. What
// is done for some and not for others is over by then: promises are given to the first few.
func (y *cycle) sameAnswer(q *queued, at *stand) bool {
	if !y.repeats || q.ask.class == nil || q.special == y.s.cycles || q.ask.class.dropped || q.gang == y.until {
		return false
	}
	standing := y.s.standing()
	for i := range at.answers {
		a := &at.answers[i]
		if a.ask != q.ask {
			continue
		}
		if a.at != standing || a.passing && !y.pastHeads() || !a.aged && y.aged(q.turn) && !y.isLed(q) {
			return false
		}
		if a.passing {
			y.times.heads++
			y.wakeAged(q.turn)
		}
		a.waiting.Gang = q.key
		y.plan.Waiting = append(y.plan.Waiting, a.waiting)
		return true
	}
	return false
}

// isLed says whether somebody of the queue who goes before it is known to have waited for as long as it may be passed.
func (y *cycle) isLed(q *queued) bool {
	h, ok := y.times.blocked[q.gang.queue()]
	return ok && (h.rank >= q.rank || y.s.cfg.Policy == api.FIFO)
}

// pastHeads says whether no more promises are given to those that have none.
func (y *cycle) pastHeads() bool { return y.s.cfg.Heads >= 0 && y.times.heads >= y.s.cfg.Heads }

// keepAnswer keeps what the gang, whose question is a plain one, was last told, if nothing changed since the standing.
func (y *cycle) keepAnswer(g *gang, p *plain, gates []why.Gate, standing uint64) {
	q, at := y.entry, y.stood
	if q == nil || q.gang != g || !y.repeats || q.special == y.s.cycles || y.s.standing() != standing || !at.alike() {
		return
	}
	terms := g.terms()
	if terms.Delay > 0 || g.done || at.queue == nil && g.queue() != "" {
		return
	}
	g.ask = ask{class: p.class, need: int32(p.need), level: int32(p.level), soft: g.soft, patient: terms.Patient}
	q.ask = g.ask
	a := answer{ask: q.ask, at: standing, waiting: y.plan.Waiting[len(y.plan.Waiting)-1], passing: passing(gates), aged: y.aged(q.turn)}
	if i := slices.IndexFunc(at.answers, func(o answer) bool { return o.ask == a.ask }); i >= 0 {
		at.answers[i] = a
		return
	}
	at.answers = append(at.answers, a)
}

// alike says whether the stand's queue treats all its workloads alike, whose they are and what they are called.
func (s *stand) alike() bool {
	return s.queue == nil || s.queue.spec == nil || s.queue.spec.Namespaces == nil && len(s.queue.spec.UserLimits) == 0
}

// findSpecial finds out whether answers can be repeated in this cycle, and for whom they cannot: those that have a
// promise, for whom something is held, or for whom others are on their way out.
func (y *cycle) findSpecial() {
	s := y.s
	s.cycles++
	y.repeats = !y.trial && len(s.refusals) == 0 && !s.forest.modelled && s.cfg.Policy != api.Strict
	if !y.repeats {
		return
	}
	if len(s.holds) > 0 {
		y.findHeld()
		y.repeats = !y.anyHeld
	}
	for key := range s.holdsOf {
		s.setApart(key)
	}
	for key := range s.promises {
		s.setApart(key)
	}
	for _, e := range s.evictions {
		s.setApart(e.For)
	}
}

// setApart lets the workload of the key have an answer of its own in this cycle.
func (s *State) setApart(key string) {
	if g := s.gangs[key]; g != nil {
		s.setApartGang(g)
	}
	if p := s.pods[key]; p != nil && p.gang != nil {
		s.setApartGang(p.gang)
	}
}

func (s *State) setApartGang(g *gang) {
	g.special = s.cycles
	if !s.lanes.made || g.lane == nil {
		return
	}
	if i, found := g.lane.find(g.turn); found {
		g.lane.line[i].special = s.cycles
	}
}
