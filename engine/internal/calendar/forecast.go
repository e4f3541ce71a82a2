package calendar

import (
	"slices"
	"time"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/why"
)

// Estimate is when a waiting workload is expected to start. A time that nobody can tell is zero.
//
// ForecastVersion goes with what it tells:
//
//	1  2026-11-15  first
//	2  2026-11-16  cause; what a plan made now leaves waiting is never expected now, and what waits behind another
//	               workload not before it
type Estimate struct {
	Gang     string    `json:"gang"`
	Earliest time.Time `json:"earliest,omitzero"` // if it were first in line and what runs ended soon
	Likely   time.Time `json:"likely,omitzero"`   // in its turn, if all runs as long as half of its like do
	Latest   time.Time `json:"latest,omitzero"`   // in its turn, if all runs as long as nine in ten of its like do
	Because  string    `json:"because"`           // what it waits for
	// Cause is of the gate that no end of running work opens, so that there is no time to tell: its queue is shut, or it
	// waits behind a workload of which nobody knows when it starts. "": there is none.
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

// Forecast guesses three times, each in a pass of its own down the line: imagine makes the calendar
// of a pass, in which nothing has been decided but what is reserved already, and gives the line to
// do. planned is the calendar of a plan made now: what that plan starts is expected now, and
// nothing else is. Each workload is given the first place that is left in its turn and time, which
// is kept from those after it; for the earliest time it need not wait its turn.
//
// For example, it is noon and a node is in use by work of which one in ten of its like are over at
// 12:30, half at 13:00 and nine in ten at 15:00. Two workloads are in line for the node; half of
// their like take an hour, and nine in ten at most two. The first is likely to start at 13:00, and
// at the latest at 15:00; the second at 14:00, and at the latest at 17:00. At the earliest each
// could start at 12:30.
//
// It is a simulation of the line and not of the future: nobody arrives, nothing fails, and nobody
// is evicted. It costs what a promise costs for each workload, three times.
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

// order makes sure that an earlier estimate is not after a later one: places are taken in turn, and
// so what runs for longer may by chance leave a better one. A zero time is left as it is, and
// orders nothing.
func (e *Estimate) order() {
	if !e.Latest.IsZero() && e.Latest.Before(e.Likely) {
		e.Latest = e.Likely
	}
	if !e.Likely.IsZero() && e.Likely.Before(e.Earliest) {
		e.Earliest = e.Likely
	}
}

// pass is one pass of a forecast down the line. Each workload has its turn once.
type pass struct {
	c       *Calendar
	waiting map[string]*api.Waiting // what a plan made now leaves waiting, by workload
	certs   []why.Certificate
	heads   map[string]Head      // that shut their queues in that plan, by queue
	starts  map[string]time.Time // of workloads that were passed; zero: nobody can tell
}

// newPass begins a pass with what the plan found.
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

// expect foresees the start of the workload whose turn it is, and says what it waits for; cause is
// of what no end of running work changes. A zero start: nobody can tell.
func (p *pass) expect(q Entry) (start time.Time, cause why.Cause, because string) {
	own, behind := p.gates(q)
	start, cause, because = p.foresee(q, own, behind)
	p.starts[q.Gang.Key] = start
	p.shut(q, own, start)
	return start, cause, because
}

// gates are those that the plan found shut for the workload, without whom it waits behind, and the
// workloads that it waits behind. A workload that the plan starts has neither.
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
	for _, gate := range p.c.Behind(q.Gang, q.Rank) { // one that is only older is not named to who has no room either
		if !slices.Contains(behind, gate.Object) {
			behind = append(behind, gate.Object)
		}
	}
	return own, behind
}

// shut lets those after the workload, in its queue, wait behind it: where nobody is passed behind
// every one that holds those after it up, else behind the head of the queue in the plan. Of
// several, those after wait for the one that starts last, and longest for one of which nobody can
// tell.
func (p *pass) shut(q Entry, own []why.Gate, start time.Time) {
	c, queue := p.c, q.Gang.Queue()
	h, ok := p.heads[queue]
	switch {
	case c.Strict(queue):
		was, led := c.heads.of[queue]
		if !ok || !c.holdsUp(queue, own) || led && (p.starts[was.Key].IsZero() || !start.IsZero() && start.Before(p.starts[was.Key])) {
			return
		}
		c.Lead(q.Gang, q.Rank, true)
	case ok && h.shut && h.Key == q.Gang.Key:
		c.Lead(q.Gang, q.Rank, true)
	}
}

// foresee finds the start of a workload with the gates, not before those that it waits behind, and
// keeps its place from those after it. Why there is none is said as sharply as it is known: a gate
// that time does not open, a head without a time, the budget, or no end that helps.
func (p *pass) foresee(q Entry, own []why.Gate, behind []string) (time.Time, why.Cause, string) {
	c, g := p.c, q.Gang
	m := c.m.Mark()
	c.ask.Claim(g)
	defer c.m.Rollback(m)
	//mutate: forecast-shut-queue
	if i := slices.IndexFunc(own, func(gate why.Gate) bool { return !Passing([]why.Gate{gate}) }); i >= 0 {
		return time.Time{}, own[i].Cause, own[i].Sentence(p.certs)
	}
	floor, last := time.Time{}, ""
	for _, key := range behind {
		at, passed := p.starts[key]
		//mutate: forecast-unknown-head
		if !passed || at.IsZero() {
			return time.Time{}, why.BehindTheHead, "waits behind " + key + ", and nobody can tell when that starts"
		}
		if at.After(floor) {
			floor, last = at, key
		}
	}
	//mutate: forecast-not-before-the-head
	c.from = floor
	r := c.foresee(g, q.Turn, c.allReleases(), nil, time.Time{})
	c.from = time.Time{}
	if r != nil {
		r.end = c.believedEnd(g, r.start)
	}
	switch {
	case c.exhausted():
		return time.Time{}, "", "too much is before it in line to be worked out"
	case r == nil && len(c.allReleases()) == 0:
		return time.Time{}, "", "nothing that runs says when it ends"
	case r == nil:
		return time.Time{}, "", "there is no place for it when all that says when it ends has ended"
	}
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
