package launch

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"
)

// Decide says what to do with the machines of the pools. The same world gives the same decisions, whatever the order of its lists.
//
// This is the order:
//  1. machines that are leaving, broken or of a reservation that ends are taken out of the cluster;
//  2. pools get the machines that they always have;
//  3. the engine is asked what starts on what there is, then with more machines, round by round (trial.go);
//  4. pools get their headroom;
//  5. machines that nobody needs are released.
func Decide(w World) Decisions { return newDecider(w).decide() }

func (d *decider) decide() Decisions {
	d.retire()
	d.minimum()
	d.trial = d.newTrial()
	d.place()
	d.headroom()
	d.settle()
	d.shortages()
	return d.decisions()
}

// decider is one decision in the making.
type decider struct {
	w        World
	pools    []*pool // by name
	byName   map[string]*pool
	reserved map[string]*Reservation
	drawn    map[string]int // machines of a reservation, those that are launched now included
	unseen   map[string]int // those of them that its provider had not given when it was asked
	machines []*machine     // by name
	taken    map[string]bool
	ordinals map[string]int         // the next of a need
	placed   map[string]bool        // gangs that start
	stocks   map[string][]*Stockout // those that are not over, by pool
	trial    *trial
	out      []Decision
	wakeAt   time.Time

	offersAll bool // pools that nobody wants machines of are offered, too; for tests
}

// pool is a Pool and its account.
type pool struct {
	Pool
	count   int // machines, those that are launched now included
	staying int // those that are not leaving, broken or draining
	indices map[int]bool
}

// machine is a Machine and what becomes of it.
type machine struct {
	Machine
	gone   bool // leaving, failed, released or drained: nothing is placed on it
	fresh  bool // this decision launches it
	spare  bool // it is released as nobody uses it
	usedBy string
}

func newDecider(w World) *decider {
	d := &decider{w: w, byName: make(map[string]*pool), reserved: make(map[string]*Reservation), drawn: make(map[string]int), unseen: make(map[string]int), stocks: make(map[string][]*Stockout), taken: make(map[string]bool), ordinals: make(map[string]int), placed: make(map[string]bool)}
	for _, p := range w.Pools {
		if len(p.Zones) == 0 {
			p.Zones = []string{""}
		}
		if p.Static != nil {
			p.Min, p.Max = *p.Static, *p.Static
		}
		x := &pool{Pool: p, indices: make(map[int]bool)}
		d.pools, d.byName[p.Name] = append(d.pools, x), x
	}
	slices.SortFunc(d.pools, func(a, b *pool) int { return strings.Compare(a.Name, b.Name) })
	for i := range w.Reservations {
		d.reserved[w.Reservations[i].Name] = &w.Reservations[i]
	}
	for i := range w.Stockouts {
		if s := &w.Stockouts[i]; w.Now.Before(s.Until) {
			d.stocks[s.Pool] = append(d.stocks[s.Pool], s)
		}
	}
	for i := range w.Machines {
		m := &w.Machines[i]
		d.machines = append(d.machines, &machine{Machine: *m})
		d.taken[m.Name] = true
		if m.absent() {
			continue
		}
		d.draw(m)
		if p := d.byName[m.Pool]; p != nil {
			p.count++
			p.indices[m.Index] = true
		}
	}
	slices.SortFunc(d.machines, func(a, b *machine) int { return strings.Compare(a.Name, b.Name) })
	d.out = make([]Decision, 0, len(d.machines))
	return d
}

// absent says that its provider never gave it: it counts for nothing.
func (m *Machine) absent() bool { return m.State == Failed && m.Launched.IsZero() }

// draw counts the machine in the account of the reservation that pays for it.
func (d *decider) draw(m *Machine) {
	if m.From.Capacity != Reserved {
		return
	}
	d.drawn[m.From.Reservation]++
	// One of the very moment may be counted or not: it is taken for one that is not, so that no more are launched than there are.
	if r := d.reserved[m.From.Reservation]; r != nil && !m.Launched.Before(r.Observed) {
		d.unseen[r.Name]++
	}
}

// say adds a decision about a machine that exists.
func (d *decider) say(do Verb, m *machine, code Code, more ...func(*Decision)) {
	x := Decision{Do: do, Machine: m.Name, Pool: m.Pool, Zone: m.Zone, Index: m.Index, From: m.From, For: m.For, Code: code}
	for _, f := range more {
		f(&x)
	}
	d.out = append(d.out, x)
}

func until(t time.Time) func(*Decision) { return func(d *Decision) { d.Until = t } }

func because(text string) func(*Decision) { return func(d *Decision) { d.Error = text } }

// wake has the world looked at again at that time, if it is to come.
func (d *decider) wake(t time.Time) {
	if t.After(d.w.Now) && (d.wakeAt.IsZero() || t.Before(d.wakeAt)) {
		d.wakeAt = t
	}
}

// retire takes out the machines on which nothing new may be placed.
func (d *decider) retire() {
	for _, m := range d.machines {
		p := d.byName[m.Pool]
		switch {
		case m.State == Leaving:
			m.gone = true
		case p == nil:
			m.gone = true
			d.letGo(m, Unneeded)
		case m.State == Failed:
			m.gone = true
			d.say(Release, m, Broken, because(cmp.Or(m.Error, "it failed")))
		case m.State == Launching && p.ReadyWithin > 0 && !d.w.Now.Before(m.Launched.Add(p.ReadyWithin)):
			m.gone = true
			d.say(Release, m, Broken, because("it was not ready within "+p.ReadyWithin.String()))
		case d.ends(m, p):
			m.gone = true
		default:
			if m.State == Launching && p.ReadyWithin > 0 {
				d.wake(m.Launched.Add(p.ReadyWithin))
			}
			if m.Draining {
				m.gone = true
				d.letGo(m, Unneeded)
				continue
			}
			p.staying++
		}
	}
}

// letGo releases a machine that is empty, and drains one that is not.
func (d *decider) letGo(m *machine, code Code, more ...func(*Decision)) {
	if m.State == Ready && m.Idle.IsZero() {
		d.say(Drain, m, code, more...)
		return
	}
	d.say(Release, m, code, more...)
}

// ends says whether the machine's reservation ends so soon that it has to be left, and lets it go.
func (d *decider) ends(m *machine, p *pool) bool {
	r := d.reserved[m.From.Reservation]
	if m.From.Capacity != Reserved || r == nil || r.End.IsZero() {
		return false
	}
	at := r.End.Add(-p.DrainBefore)
	if d.w.Now.Before(at) {
		d.wake(at)
		return false
	}
	if !d.w.Now.Before(r.End) {
		d.say(Release, m, Ends, until(r.End))
	} else {
		d.letGo(m, Ends, until(r.End))
		d.wake(r.End)
	}
	return true
}

// minimum launches what pools always have.
func (d *decider) minimum() {
	for _, p := range d.pools {
		for p.staying < p.Min && d.launchFree(p, Minimum) {
		}
	}
}

// headroom launches what pools keep free.
func (d *decider) headroom() {
	idle := d.free()
	for _, p := range d.pools {
		if p.Headroom == 0 || p.Static != nil {
			continue
		}
		for free := idle[p.Name]; free < p.Headroom && d.launchFree(p, Headroom); free++ {
		}
	}
}

// free counts the machines that nobody uses, by pool.
func (d *decider) free() map[string]int {
	out := make(map[string]int)
	for _, m := range d.machines {
		if !m.gone && m.usedBy == "" && (m.State == Launching || !m.Idle.IsZero()) {
			out[m.Pool]++
		}
	}
	return out
}

// launchFree launches a machine for the pool itself, from the first source and zone that has one.
func (d *decider) launchFree(p *pool, code Code) bool {
	if p.count >= p.Max {
		return false
	}
	for _, from := range p.From {
		for _, zone := range p.Zones {
			if d.left(p, zone, from) > 0 {
				d.launch(p, zone, from, p.nextIndex(), p.Name, code)
				return true
			}
		}
	}
	return false
}

// launch adds a machine to the world.
func (d *decider) launch(p *pool, zone string, from Source, index int, need string, code Code) *machine {
	m := &machine{fresh: true, Machine: Machine{Name: d.name(need), Pool: p.Name, Index: index, Zone: zone, From: from, For: need, State: Launching, Launched: d.w.Now}}
	d.taken[m.Name] = true
	d.draw(&m.Machine)
	p.count++
	p.staying++
	p.indices[index] = true
	d.machines = append(d.machines, m)
	d.say(Launch, m, code)
	return m
}

// nextIndex is the lowest that no machine of the pool has.
func (p *pool) nextIndex() int {
	for i := 0; ; i++ {
		if !p.indices[i] {
			return i
		}
	}
}

// left is how many machines of the pool can be had in the zone from the source, as far as is known.
func (d *decider) left(p *pool, zone string, from Source) int {
	room := p.Max - p.count
	var out time.Time // until the last of its stockouts is over
	for _, s := range d.stocks[p.Name] {
		if s.stops(zone, from) && s.Until.After(out) {
			out = s.Until
		}
	}
	if !out.IsZero() {
		d.wake(out)
		return 0
	}
	if from.Capacity != Reserved {
		return max(0, room)
	}
	return max(0, min(room, d.leftOf(from.Reservation, zone)))
}

// leftOf is how many more machines the reservation has in the zone.
func (d *decider) leftOf(name, zone string) int {
	r := d.reserved[name]
	if r == nil || r.Failed || r.Zone != "" && zone != "" && r.Zone != zone {
		return 0
	}
	if d.w.Now.Before(r.Start) {
		d.wake(r.Start)
		return 0
	}
	if !r.End.IsZero() && !d.w.Now.Before(r.End.Add(-Expiring)) {
		return 0
	}
	left := r.Instances - d.drawn[name]
	if r.Available != nil {
		left = min(left, *r.Available-d.unseen[name])
	}
	return left
}

// decisions sorts what was decided: what makes room first, then by what it is about.
func (d *decider) decisions() Decisions {
	rank := map[Verb]int{Release: 0, Drain: 1, Launch: 2, Keep: 3, Wait: 4}
	slices.SortFunc(d.out, func(a, b Decision) int {
		return cmp.Or(cmp.Compare(rank[a.Do], rank[b.Do]), strings.Compare(a.Machine, b.Machine), strings.Compare(a.For, b.For))
	})
	return Decisions{All: d.out, WakeAt: d.wakeAt}
}

// sortedKeys are the keys of a map in order.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
