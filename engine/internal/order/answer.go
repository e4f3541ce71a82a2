package order

import (
	"slices"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/cluster"
)

// Answer is what a gang was told. It is repeated to all gangs of its queue entry that ask the same while nothing changes: a
// line of a thousand like workloads costs one attempt and a thousand comparisons.
type Answer struct {
	ask Ask
	// at is Model.Standing when it was given: the same number again means the same model, also
	// after something was tried and rolled back.
	at      uint64
	Waiting api.Waiting
	// Passing says that it waits at gates that open when running work ends.
	Passing bool
	// Aged says that the gang that was given the answer has waited for as long as it may be passed.
	Aged bool
	// Stay is how that gang would stay once it starts. One that stays for less may have another answer, because it may be
	// over before a promised start.
	Stay cluster.Stay
}

// Repeat finds out whether answers can be repeated in this cycle, and for whom they cannot: those
// that have a promise, for whom something is held, or for whom others are on their way out. It is
// called once, before Fill.
func (c *Selection) Repeat() {
	m := c.l.m
	// Refusals keep single gangs from nodes; models and flavors make a queue's quota a matter of
	// which are tried; under policy strict each answer decides whether the next is asked. None of
	// these is in an Ask.
	c.repeats = len(m.Refusals) == 0 && !m.Tree.ByModel && !m.Tree.Flavored && c.policy != api.Strict
	if !c.repeats {
		return
	}
	// A hold under a key that no workload has is for what an owner creates again. Any pod by itself
	// may be meant, and so no two ask the same.
	if len(m.Holds) > 0 {
		c.repeats = !m.HoldsForOwners()
	}
	//archtest:any-order each workload is by itself
	for key := range m.HoldsOf {
		c.l.setApart(key)
	}
	//archtest:any-order each workload is by itself
	for key := range m.Promises {
		c.l.setApart(key)
	}
	//archtest:any-order each workload is by itself
	for _, e := range m.Evictions {
		c.l.setApart(e.For)
	}
}

// repeatable says whether others of its queue entry that ask what the gang does are told the same.
// The question must be one that still stands: its class in use, and the gang of it.
func (c *Selection) repeatable(q *Queued) bool {
	return c.repeats && q.special != c.l.cycles && q.ask.class != nil && !q.ask.class.Dropped && c.asksStill(q)
}

// outlived says whether the question is about a class that its gang is not of any more, where the other is its question now:
// rules between pods came or went meanwhile, images of its pods did, or its queue packs nodes otherwise. Whether there is a place
// depends on the first alone, and then its answer is given to no other (asksStill).
func (a Ask) outlived(now Ask) bool {
	return a.class != nil && now.class != nil && (a.class.Dropped || a.class.Stance != now.class.Stance || a.class.Images != now.class.Images || a.class.Packing != now.class.Packing)
}

// asksStill says whether the gang's members are of the class that its question is about: rules between pods of others may have
// come or gone since.
func (c *Selection) asksStill(q *Queued) bool {
	// Without rules between pods a class does not change under its gang.
	if !c.l.m.HasRules() && q.ask.class.Stance == nil {
		return true
	}
	first, alike := q.Gang.Alike()
	return alike && first != nil && first.Stance() == q.ask.class.Stance
}

// Given returns the answer that another gang of the queue entry was given to the question of the gang whose turn it is; nil:
// there is none that holds. Questions of a queue are few, so they are searched one by one.
func (c *Selection) Given() *Answer {
	if !c.repeatable(c.turn) {
		return nil
	}
	for i := range c.in.answers {
		if a := &c.in.answers[i]; a.ask == c.turn.ask {
			// There is one answer to a question. It will be replaced by the one that is given now.
			if a.at != c.l.m.Standing() {
				return nil
			}
			return a
		}
	}
	return nil
}

// Keep keeps the answer that the gang, whose question is a plain one, was given, if it is its turn
// and nothing changed since the standing. answer makes it, and is not called if it is not kept.
func (c *Selection) Keep(g *cluster.Gang, standing uint64, answer func() Answer) {
	// Only the gang whose turn it is gets an answer in its name, and only if nothing was done for
	// it meanwhile: an answer that came with a change is not one for others.
	q, in := c.turn, c.in
	if q == nil || q.Gang != g || !c.repeats || q.special == c.l.cycles || c.l.m.Standing() != standing || !in.alike() {
		return
	}
	// What is said of these depends on more than the question: on times that are their own, on
	// growth, or on the name of a queue that does not exist.
	terms := g.Terms()
	if terms.Delay > 0 || g.Done || in.queue == nil && g.Queue() != "" {
		return
	}
	e := c.l.Entry(g)
	e.ask = Ask{class: e.Plain.Class, need: int32(e.Plain.Need), level: int32(e.Plain.Level), soft: g.Evictable, patient: terms.Patient}
	q.ask = e.ask
	a := answer()
	a.ask, a.at = q.ask, standing
	if i := slices.IndexFunc(in.answers, func(o Answer) bool { return o.ask == a.ask }); i >= 0 {
		in.answers[i] = a
		return
	}
	in.answers = append(in.answers, a)
}

// alike says whether the queue entry's queue treats all its workloads alike, whatever their
// namespace and user, and which workload is before them.
func (s *queueEntry) alike() bool {
	return s.queue == nil || s.queue.Spec == nil || s.queue.Spec.Namespaces == nil && len(s.queue.Spec.UserLimits) == 0 && !s.queue.Spec.Strict
}
