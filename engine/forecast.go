package engine

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

// forecastLifts bounds the work of a forecast: how many ends of pods may be tried out in each of its three passes.
const forecastLifts = 500_000

// Forecast tells of the first workloads in line when they will start, in the order of the line. It gives each the first
// place that is left in its turn and time, from what is known of how long work runs; what is evicted for others, comes
// later or fails is not foreseen. The state is the same before and after.
func (s *State) Forecast(now time.Time, most int) []Estimate {
	return s.forecast(now, func(line []queued) []queued { return line[:min(len(line), max(0, most))] })
}

// Estimate tells when the workload of the key will start; false: it does not wait for its minimum.
func (s *State) Estimate(key string, now time.Time) (Estimate, bool) {
	all := s.forecast(now, func(line []queued) []queued {
		for i := range line {
			if line[i].gang.Key == key {
				return line[:i+1]
			}
		}
		return nil
	})
	if len(all) == 0 {
		return Estimate{}, false
	}
	return all[len(all)-1], true
}

// forecast estimates the part of the line that is cut. It is made beside a plan: what the plan starts is expected now, and
// nothing else is.
func (s *State) forecast(now time.Time, cut func([]queued) []queued) []Estimate {
	now = now.UTC().Round(0)
	s.freshen()
	planned := s.newCycle(now)
	planned.run()
	var out []Estimate
	s.imagine(now, likely, cut, func(y *cycle, line []queued) {
		p := newProspect(y, planned)
		for i := range line {
			e := Estimate{Gang: line[i].gang.Key}
			e.Likely, e.Cause, e.Because = p.expect(&line[i])
			out = append(out, e)
		}
	})
	s.imagine(now, safely, cut, func(y *cycle, line []queued) {
		p := newProspect(y, planned)
		for i := range line {
			out[i].Latest, _, _ = p.expect(&line[i])
		}
	})
	s.imagine(now, soonest, cut, func(y *cycle, line []queued) {
		p := newProspect(y, planned)
		bookings := len(y.times.reserves)
		for i := range line {
			out[i].Earliest, _, _ = p.expect(&line[i])
			y.unreserve(bookings)
		}
	})
	for i := range out {
		out[i].order()
	}
	return out
}

// order makes sure that an earlier estimate is not after a later one: places are taken in turn, and so what runs for
// longer may by chance leave a better one.
func (e *Estimate) order() {
	if !e.Latest.IsZero() && e.Latest.Before(e.Likely) {
		e.Latest = e.Likely
	}
	if !e.Likely.IsZero() && e.Likely.Before(e.Earliest) {
		e.Earliest = e.Likely
	}
}

// imagine makes a cycle whose run times are guessed so, in which nothing is decided.
func (s *State) imagine(now time.Time, by guess, cut func([]queued) []queued, do func(*cycle, []queued)) {
	y := s.newCycle(now)
	y.times.by, y.times.most = by, forecastLifts
	m, end := s.m.Mark(), s.m.Log.End()
	y.expire()
	y.endOverdue()
	y.keepBookings()
	do(y, cut(y.hopeful()))
	s.m.Rollback(m)
	s.ix.Rewind(end)
	for _, g := range y.dirty {
		s.m.Tally(g)
	}
}

// hopeful lists the gangs that wait for their minimum, in the order of the line as it stands.
func (y *cycle) hopeful() []queued {
	var out []queued
	for {
		q, at, ok := y.line.next()
		if !ok {
			return out
		}
		if !q.gang.Tree.Satisfied() || !y.known(q.gang) {
			out = append(out, *q)
		}
		y.line.moved(at, false)
	}
}

// prospect is one pass of a forecast down the line.
type prospect struct {
	y       *cycle
	waiting map[string]*api.Waiting // what a plan made now leaves waiting, by workload
	certs   []why.Certificate
	heads   map[string]head      // that shut their queues in that plan, by queue
	starts  map[string]time.Time // of workloads that were passed; zero: nobody can tell
}

func newProspect(y *cycle, planned *cycle) *prospect {
	p := &prospect{y: y, certs: planned.Plan.Certificates, heads: planned.times.blocked, waiting: make(map[string]*api.Waiting, len(planned.Plan.Waiting)), starts: make(map[string]time.Time)}
	for i := range planned.Plan.Waiting {
		w := &planned.Plan.Waiting[i]
		p.waiting[w.Gang] = w
	}
	return p
}

// expect foresees the start of the gang whose turn it is, and says what it waits for; cause is of what no end of running
// work changes.
func (p *prospect) expect(q *queued) (start time.Time, cause why.Cause, because string) {
	y, g := p.y, q.gang
	y.rank = q.rank
	own, behind := p.gates(g)
	start, cause, because = p.foresee(q, own, behind)
	p.starts[g.Key] = start
	p.shut(g, own, start)
	return start, cause, because
}

// gates are those that the plan found shut for the gang, without who it waits behind, and the workloads that it waits
// behind.
func (p *prospect) gates(g *cluster.Gang) (own []why.Gate, behind []string) {
	if w := p.waiting[g.Key]; w != nil {
		for _, gate := range w.Gates {
			if gate.NamesWorkload() {
				behind = append(behind, gate.Object)
			} else if gate.Cause != why.MakingRoom { // room that others leave is foreseen like any other
				own = append(own, gate)
			}
		}
	}
	for _, gate := range p.y.behind(g) { // one that is only older is not named to who has no room either
		if !slices.Contains(behind, gate.Object) {
			behind = append(behind, gate.Object)
		}
	}
	return own, behind
}

// shut lets those after the gang, in its queue, wait behind it: under policy strict behind every one that waits for
// running work to end, else behind the head of the queue in the plan.
func (p *prospect) shut(g *cluster.Gang, own []why.Gate, start time.Time) {
	y := p.y
	h, ok := p.heads[g.Queue()]
	switch {
	case y.s.m.Config.Policy == api.Strict:
		was, led := y.times.blocked[g.Queue()]
		if !ok || !passing(own) || led && (p.starts[was.key].IsZero() || !start.IsZero() && start.Before(p.starts[was.key])) {
			return
		}
		y.lead(g, true)
	case ok && h.shut && h.key == g.Key:
		y.lead(g, true)
	}
}

// foresee finds the start of a gang with the gates, not before those that it waits behind, and keeps its place from
// those after it.
func (p *prospect) foresee(q *queued, own []why.Gate, behind []string) (time.Time, why.Cause, string) {
	y, g := p.y, q.gang
	m := y.s.m.Mark()
	y.claim(g)
	defer y.s.m.Rollback(m)
	//mutate: forecast-shut-queue
	if i := slices.IndexFunc(own, func(gate why.Gate) bool { return !passing([]why.Gate{gate}) }); i >= 0 {
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
	y.times.from = floor
	r := y.foresee(g, q.Turn, y.releases(), nil)
	y.times.from = time.Time{}
	switch {
	case y.times.spentAll():
		return time.Time{}, "", "too much is before it in line to be worked out"
	case r == nil && len(y.releases()) == 0:
		return time.Time{}, "", "nothing that runs says when it ends"
	case r == nil:
		return time.Time{}, "", "there is no place for it when all that says when it ends has ended"
	}
	//mutate: forecast-not-now
	if w := p.waiting[g.Key]; w != nil && !r.start.After(y.Now) {
		return time.Time{}, w.Cause, w.Gates[0].Sentence(p.certs)
	}
	y.reserve(r)
	switch {
	case !r.start.After(y.Now):
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

// unreserve forgets all that is kept but the first few.
func (y *cycle) unreserve(first int) {
	k := &y.times
	for _, r := range k.reserves[first:] {
		for n := range r.needs {
			list := k.reserved[n]
			if k.reserved[n] = list[:len(list)-1]; len(list) == 1 {
				delete(k.reserved, n)
			}
		}
	}
	k.reserves = k.reserves[:first]
}
