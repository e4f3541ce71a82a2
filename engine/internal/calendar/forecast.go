package calendar

import (
	"slices"
	"time"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/why"
)

// Forecasts: when the workloads that wait are expected to start. A forecast plays the line through, workload by workload,
// with the functions by which a plan gives promises (promise.go): each is given the first time and place at which it fits
// beside what runs until then and what was given to those before it. It does so three times, with three guesses at how
// long work runs (Guess), and tells the result as a range.
//
// It is a simulation of the line and not of the future: no workload arrives, nothing fails, and nothing is evicted. It
// decides nothing. It costs a promise for each workload in line, three times, each pass within its own budget
// (forecastLifts); workloads behind the budget are told that it was used up.

// Estimate is when a waiting workload is expected to start. A zero time is unknown.
//
// ForecastVersion is the version of its meaning:
//
//	1  2026-11-15  first
//	2  2026-11-16  cause; what a plan made now leaves waiting is never expected now, and what waits behind another
//	               workload not before it
type Estimate struct {
	Gang     string    `json:"gang"`
	Earliest time.Time `json:"earliest,omitzero"` // if it were first in line and what runs ended soon
	Likely   time.Time `json:"likely,omitzero"`   // in its turn, if all runs as long as half of its like do
	Latest   time.Time `json:"latest,omitzero"`   // in its turn, if all runs as long as nine in ten of its like do
	Because  string    `json:"because"`           // what it waits for, in words
	// Cause is that of the gate which no end of running work opens, so that no time is known: its queue is shut, or it waits
	// behind a workload whose start is unknown. "": there is no such gate.
	Cause why.Cause `json:"cause,omitempty"`
}

// ForecastVersion is the version of Estimate.
const ForecastVersion = 2

// Entry is a workload in line, of which a forecast is made.
type Entry struct {
	Gang *cluster.Gang
	Turn cluster.Turn
	Rank int32 // its priority, or the one that it was promoted to
}

// Forecast makes the estimates of the workloads in line, in that order. imagine makes the calendar of a pass, in which
// nothing has been decided but what is reserved already, and gives it to do with the line; afterwards it rolls the model
// back. The line must be the same in each pass. planned is the calendar of a plan made now: what that plan starts is
// expected now, and nothing else is. Each workload is given the first place that is left in its turn and time, which is kept
// from those after it; for the earliest time it need not wait its turn.
//
// For example, it is noon and a node is in use by work of which one in ten of its like are over at
// 12:30, half at 13:00 and nine in ten at 15:00. Two workloads are in line for the node; half of
// their like take an hour, and nine in ten at most two. The first is likely to start at 13:00, and
// at the latest at 15:00; the second at 14:00, and at the latest at 17:00. At the earliest each
// could start at 12:30.
func Forecast(planned *Calendar, imagine func(by Guess, do func(*Calendar, []Entry))) []Estimate {
	var out []Estimate
	// The first pass also says why: what a workload waits for is much the same whichever guess is
	// right.
	imagine(Likely, func(c *Calendar, line []Entry) {
		p := newPass(c, planned)
		for _, q := range line {
			e := Estimate{Gang: q.Gang.Key}
			e.Likely, e.Cause, e.Because = p.expect(q)
			out = append(out, e)
		}
	})
	imagine(Safely, func(c *Calendar, line []Entry) {
		p := newPass(c, planned)
		for i, q := range line {
			out[i].Latest, _, _ = p.expect(q)
		}
	})
	// The earliest start is that of a workload that is first in line: what each reserves is
	// forgotten before the next. Bookings are kept.
	imagine(Soonest, func(c *Calendar, line []Entry) {
		p := newPass(c, planned)
		bookings := len(c.reservations)
		for i, q := range line {
			out[i].Earliest, _, _ = p.expect(q)
			c.unreserve(bookings)
		}
	})
	for i := range out {
		out[i].order()
	}
	return out
}

// order makes sure that Earliest is not after Likely, nor Likely after Latest. It can happen that they are: places are taken
// in turn, and work that runs for longer may by chance leave a better one. An unknown time stays unknown,
// and orders nothing.
func (e *Estimate) order() {
	if !e.Latest.IsZero() && e.Latest.Before(e.Likely) {
		e.Latest = e.Likely
	}
	if !e.Likely.IsZero() && e.Likely.Before(e.Earliest) {
		e.Earliest = e.Likely
	}
}

// pass is one pass of a forecast down the line. Each workload has its turn once, and what it is given stays reserved for the
// rest of the pass.
type pass struct {
	c *Calendar
	// waiting is what a plan made now leaves waiting, by workload, and certs are the certificates of that plan.
	waiting map[string]*api.Waiting
	certs   []why.Certificate
	// heads is the heads of queues in that plan, by queue.
	heads map[string]Head
	// starts is when the workloads that had their turn start; zero: unknown.
	starts map[string]time.Time
}

// newPass begins a pass on the calendar c with what the plan found.
func newPass(c, planned *Calendar) *pass {
	plan := &planned.draft.Plan
	p := &pass{c: c, certs: plan.Certificates, heads: planned.heads.of, waiting: make(map[string]*api.Waiting, len(plan.Waiting)), starts: make(map[string]time.Time)}
	// The plan's answers are looked up by workload, as a pass goes down the line.
	for i := range plan.Waiting {
		w := &plan.Waiting[i]
		p.waiting[w.Gang] = w
	}
	return p
}

// expect foresees the start of the workload whose turn it is, and says in words what it waits for. A zero start is unknown;
// cause is then that of the gate which no end of running work opens, if there is one.
func (p *pass) expect(q Entry) (start time.Time, cause why.Cause, because string) {
	own, behind := p.gates(q)
	start, cause, because = p.foresee(q, own, behind)
	p.starts[q.Gang.Key] = start
	p.shut(q, own, start)
	return start, cause, because
}

// gates returns the gates that the plan found shut for the workload (own), but for those that name another workload, and
// the keys of the workloads that it waits behind, in the plan or in this pass. A workload that the plan starts has none of
// its own.
func (p *pass) gates(q Entry) (own []why.Gate, behind []string) {
	if w := p.waiting[q.Gang.Key]; w != nil {
		for _, gate := range w.Gates {
			if gate.NamesWorkload() {
				behind = append(behind, gate.Object)
			} else if gate.Cause != why.MakingRoom { // room that others leave is foreseen like any other
				own = append(own, gate)
			}
		}
	}
	// The plan does not name a head that is only older to a workload that has no room either; this pass waits for it.
	for _, gate := range p.c.Behind(q.Gang, q.Rank) {
		if !slices.Contains(behind, gate.Object) {
			behind = append(behind, gate.Object)
		}
	}
	return own, behind
}

// shut makes the workloads after this one, in its queue, wait behind it. In a strict queue they wait behind every workload
// that holds them up; otherwise behind the one that was the head of the queue in the plan. Of several, they wait for the one
// that starts last, and one whose start is unknown counts as the last.
func (p *pass) shut(q Entry, own []why.Gate, start time.Time) {
	c, queue := p.c, q.Gang.Queue()
	h, ok := p.heads[queue]
	switch {
	case c.Strict(queue):
		// was is the workload behind which they would wait so far. It stays, if it starts later than this one or its start
		// is unknown.
		was, led := c.heads.of[queue]
		if !ok || !c.holdsUp(queue, own) || led && (p.starts[was.Key].IsZero() || !start.IsZero() && start.Before(p.starts[was.Key])) {
			return
		}
		c.Lead(q.Gang, q.Rank, true)
	case ok && h.shut && h.Key == q.Gang.Key:
		c.Lead(q.Gang, q.Rank, true)
	}
}

// foresee finds the start of a workload with the gates, not before the workloads that it waits behind, and reserves its
// place, so that it is kept from those after it. Where there is no start the most specific reason is said: a gate that time
// does not open, a head whose start is unknown, the budget, or that no end of running work helps.
func (p *pass) foresee(q Entry, own []why.Gate, behind []string) (time.Time, why.Cause, string) {
	c, g := p.c, q.Gang
	// Places that are held for the gang are its own.
	m := c.m.Mark()
	c.ask.Claim(g)
	defer c.m.Rollback(m)
	//mutate: forecast-shut-queue
	if i := slices.IndexFunc(own, func(gate why.Gate) bool { return !Passing([]why.Gate{gate}) }); i >= 0 {
		return time.Time{}, own[i].Cause, own[i].Sentence(p.certs)
	}
	// floor is the latest start of those that it waits behind, last the workload that has it.
	floor, last := time.Time{}, ""
	for _, key := range behind {
		// A workload that it waits behind and that had no turn yet in this pass is of another line: its start is unknown.
		at, passed := p.starts[key]
		//mutate: forecast-unknown-head
		if !passed || at.IsZero() {
			return time.Time{}, why.BehindTheHead, "waits behind " + key + ", whose start is unknown"
		}
		if at.After(floor) {
			floor, last = at, key
		}
	}
	// The same search that finds the time of a promise finds the start, from floor on and among all ends of running work.
	//mutate: forecast-not-before-the-head
	c.from = floor
	r := c.foresee(g, q.Turn, c.allReleases(), nil, time.Time{})
	c.from = time.Time{}
	if r != nil {
		r.end = c.believedEnd(g, r.start)
	}
	switch {
	case c.exhausted():
		return time.Time{}, "", "too many workloads are ahead of it to forecast"
	case r == nil && len(c.allReleases()) == 0:
		return time.Time{}, "", "no running workload has a known end"
	case r == nil:
		return time.Time{}, "", "it has no place even once all running workloads with a known end have ended"
	}
	// The plan knows more than a forecast does, such as that members of the gang are missing. What it leaves waiting does
	// not start now, and there is no later time at which that would change by itself.
	//mutate: forecast-not-now
	if w := p.waiting[g.Key]; w != nil && !r.start.After(c.now) {
		return time.Time{}, w.Cause, w.Gates[0].Sentence(p.certs)
	}
	c.reserve(r)
	switch {
	case !r.start.After(c.now):
		return r.start, "", "there is room for it"
	case r.start.Equal(floor):
		return r.start, "", "waits behind " + last
	case slices.ContainsFunc(own, func(gate why.Gate) bool { return !ofRoom(gate.Cause) }) && r.after != "":
		return r.start, "", "its queue may not use more until " + r.after + " ends"
	case r.after != "":
		return r.start, "", "waits for " + r.after + " to end"
	}
	return r.start, "", "waits for room that is kept for others"
}
