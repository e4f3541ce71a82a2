package launch

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/berth-dev/berth/engine"
)

// settle keeps or releases every machine that is left.
func (d *decider) settle() {
	kept := d.kept()
	spare := make(map[string][]*machine) // by pool: nobody uses them
	for _, m := range d.machines {
		switch {
		case m.gone || m.fresh:
		case m.usedBy != "":
			d.say(Keep, m, ForGang, func(x *Decision) { x.For = m.usedBy })
		case m.State == Ready && m.Idle.IsZero():
			d.say(Keep, m, InUse)
		case kept[m.Name] != "":
			d.say(Keep, m, Promised, func(x *Decision) { x.For = kept[m.Name] })
		default:
			spare[m.Pool] = append(spare[m.Pool], m)
		}
	}
	for _, p := range d.pools {
		d.settleSpare(p, spare[p.Name], d.trial.waiting)
	}
}

// settleSpare says what becomes of the pool's machines that nobody uses. Those that are ready and were launched first are kept first.
func (d *decider) settleSpare(p *pool, spare []*machine, waiting map[string]bool) {
	slices.SortStableFunc(spare, func(a, b *machine) int {
		return cmp.Or(boolean(b.State == Ready)-boolean(a.State == Ready), a.Index-b.Index)
	})
	least := p.Min - (p.staying - len(spare))
	for i, m := range spare {
		end, code := d.idleEnd(p, m, waiting)
		switch {
		case i < least:
			d.say(Keep, m, Minimum)
		case p.Static != nil:
			d.say(Release, m, OverStatic)
		case i < p.Headroom:
			d.say(Keep, m, Headroom)
		case p.IdleFor < 0 && code == Idle:
			d.say(Keep, m, Idle)
		case d.w.Now.Before(end):
			d.say(Keep, m, NotIdleYet, until(end))
			d.wake(end)
		default:
			d.say(Release, m, code)
			m.gone, m.spare = true, true
		}
	}
}

// idleEnd is when the machine is to be released, and why. One that was launched for a gang that waits, and cannot have all its
// machines, goes at once: nothing stays launched for half a gang.
func (d *decider) idleEnd(p *pool, m *machine, waiting map[string]bool) (time.Time, Code) {
	switch {
	case waiting[m.For]:
		return d.w.Now, Incomplete
	case m.State == Launching && d.placed[m.For]: // it has others
		return d.w.Now, Unneeded
	case m.State == Launching:
		return m.Launched.Add(max(0, p.IdleFor)), Unneeded
	}
	return m.Idle.Add(max(0, p.IdleFor)), Idle
}

// kept are the machines that are kept for later, each with for whom: a promise, a booking that is near, a place that was freed.
func (d *decider) kept() map[string]string {
	out := make(map[string]string)
	machineAt := d.byNode()
	near := func(node string, at time.Time) bool {
		m := machineAt[node]
		if m == nil {
			return false
		}
		p := d.byName[m.Pool]
		return p != nil && at.Before(d.w.Now.Add(max(time.Hour, p.IdleFor, p.ReadyWithin)))
	}
	keep := func(node, whom string, at time.Time) {
		if out[node] == "" && near(node, at) {
			out[node] = whom
		}
	}
	for _, p := range slices.Concat(d.w.Cluster.Promises, d.trial.plan.Promises) {
		for _, node := range p.Nodes {
			keep(node, p.Gang, p.Start)
		}
	}
	for _, b := range d.w.Cluster.Bookings {
		for _, node := range b.Nodes {
			if d.w.Now.Before(b.To) {
				keep(node, "queue "+b.Queue, b.From)
			}
		}
	}
	for _, h := range d.w.Cluster.Holds {
		if m := machineAt[h.Node]; m != nil && m.For == h.Gang {
			continue // held as it was launched for it; whether the gang can be whole is decided here
		}
		if d.w.Now.Before(h.Until) {
			keep(h.Node, h.Gang, d.w.Now)
		}
	}
	return out
}

func boolean(b bool) int {
	if b {
		return 1
	}
	return 0
}

// mostImagined bounds the machines that are imagined to find out what those need that nothing can be launched for.
const mostImagined = 4000

// shortages says of those that wait how many machines they lack: they would start if pools could have as many as they like.
func (d *decider) shortages() {
	if len(d.trial.waiting) == 0 {
		return
	}
	have := make(map[string]int) // by pool
	why := make(map[string]string)
	left := mostImagined
	spare := make(map[[2]string]int) // by pool and zone: machines that nobody uses
	for _, m := range d.machines {
		if m.usedBy == "" && (!m.gone || m.spare) && (m.State == Launching || !m.Idle.IsZero()) {
			spare[[2]string{m.Pool, m.Zone}]++
		}
	}
	var changes []engine.Change
	wanted := d.trial.wanted()
	for _, p := range d.pools {
		sources := p.From[:min(1, len(p.From))]
		if wanted[p] { // somebody tells them apart
			sources = p.From
		}
		n := min(d.trial.demand[p.Name], left/max(1, len(p.Zones)*len(sources)))
		if p.Static != nil || len(p.From) == 0 || n <= 0 {
			continue
		}
		left -= n * len(p.Zones) * len(sources)
		have[p.Name], why[p.Name] = d.canHave(p, spare)
		for i := range len(sources) * len(p.Zones) {
			zone, from, index := p.Zones[i%len(p.Zones)], sources[i/len(p.Zones)], 0
			for range n {
				for p.indices[index] {
					index++
				}
				changes = append(changes, d.trial.imagine(fmt.Sprintf("~%02d-%s-%06d", i, p.Name, index), &offer{pool: p, zone: zone, from: from, index: index}))
				index++
			}
		}
	}
	d.trial.state.Apply(changes...)
	at := d.byNode()
	for _, s := range d.trial.next(d.w.Now) {
		need := make(map[string]int)
		for _, node := range nodesOf(s) {
			if o := d.trial.offers[node]; o != nil {
				need[o.pool.Name]++
			} else if m := at[node]; m != nil && m.usedBy == "" {
				need[m.Pool]++
			}
		}
		names := sortedKeys(need)
		isShort := func(name string) bool { return have[name] < need[name] }
		if slices.ContainsFunc(names, isShort) { // of the others the gang could have what it needs
			names = slices.DeleteFunc(names, func(name string) bool { return !isShort(name) })
		}
		for _, name := range names {
			d.out = append(d.out, Decision{Do: Wait, Pool: name, For: s.Gang, Code: Shortage, Need: need[name], Have: min(have[name], need[name]-1), Error: why[name]})
		}
	}
}

// canHave is how many more machines of the pool could be launched in its best zone, and what keeps it from more.
func (d *decider) canHave(p *pool, spare map[[2]string]int) (most int, because string) {
	var said []string
	for _, zone := range p.Zones {
		n, got := spare[[2]string{p.Name, zone}], 0
		for _, from := range p.From {
			n += d.left(p, zone, from)
			for _, s := range d.stocks[p.Name] {
				if s.stops(zone, from) {
					got = max(got, s.Got)
					said = append(said, s.Error+in(zone))
				}
			}
		}
		most = max(most, n, got)
	}
	slices.Sort(said)
	said = slices.Compact(said)
	switch {
	case len(said) > 0:
		return most, strings.Join(said, ", ")
	case p.count >= p.Max:
		return most, fmt.Sprintf("pool %s has its maximum of %s", p.Name, machines(p.Max))
	}
	return most, strings.Join(d.silent(p), ", ")
}

// silent is what keeps the pool's reservations from giving more.
func (d *decider) silent(p *pool) (out []string) {
	for _, from := range p.From {
		r := d.reserved[from.Reservation]
		switch {
		case from.Capacity != Reserved:
		case r == nil:
			out = append(out, "there is no "+from.String())
		case r.Failed:
			out = append(out, from.String()+" gives nothing")
		case d.w.Now.Before(r.Start):
			out = append(out, from.String()+" starts at "+r.Start.UTC().Format("2006-01-02 15:04"))
		case !r.End.IsZero() && !d.w.Now.Before(r.End.Add(-Expiring)):
			out = append(out, from.String()+" ends at "+r.End.UTC().Format("2006-01-02 15:04"))
		default:
			out = append(out, fmt.Sprintf("%s has %d of %s left", from, max(0, d.leftOf(r.Name, "")), machines(r.Instances)))
		}
	}
	return out
}

func in(zone string) string {
	if zone == "" {
		return ""
	}
	return " in " + zone
}
