package engine

import (
	"maps"
	"slices"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/quantity"
)

// Bookings. A booking is room that is kept from a time on, as a promise is: of whole nodes, and for a queue.

// keepBookings lets the nodes of bookings be kept for their queues, and ends others' work there once a booking begins.
func (y *cycle) keepBookings() {
	var over []*pod
	for _, key := range sortedKeys(y.s.bookings) {
		b := y.s.bookings[key]
		if y.s.isRejected(api.KindBooking, key) || !b.To.After(y.now) {
			continue
		}
		r := &reserve{name: b.Name, queue: b.Queue, start: b.From.UTC(), end: b.To.UTC(), needs: make(map[*node]quantity.Vector)}
		for _, name := range b.Nodes {
			if n := y.s.nodes[name]; n != nil && n.shelf != nil {
				r.needs[n] = nil
			}
		}
		y.reserve(r)
		if b.From.After(y.now) {
			y.wake(b.From)
			continue
		}
		y.wake(b.To)
		over = append(over, y.strangers(r)...)
	}
	y.dismissAll(over, api.Booked)
}

// strangers lists the pods that leave when a booking begins: of work on its nodes that is not of the queue, what can be
// evicted and, where a gang would be left under its minimum, all of the gang, which nothing joins before it is gone.
func (y *cycle) strangers(r *reserve) []*pod {
	out := make(map[*pod]bool)
	seen := make(map[*queue]bool)
	for n := range r.needs {
		for _, p := range n.occ {
			if q := p.payer; q != nil && !seen[q] && !q.below(r.queue) {
				seen[q] = true
				for _, t := range y.s.tenantsOf(q) {
					t.leaveNodes(r, out)
					if t.gang != nil && !slices.ContainsFunc(t.pods, func(p *pod) bool { return !out[p] }) {
						y.times.ending = append(y.times.ending, t.gang)
					}
				}
			}
		}
	}
	return slices.Collect(maps.Keys(out))
}

// leaveNodes adds the pods of the tenant that leave the reserve's nodes.
func (t *tenant) leaveNodes(r *reserve, out map[*pod]bool) {
	there := func(p *pod) bool { _, ok := r.needs[p.seat]; return ok }
	for _, u := range t.units {
		if !slices.ContainsFunc(u.pods, there) {
			continue
		}
		for _, v := range append(u.spare[:len(u.spare):len(u.spare)], u) {
			for _, p := range v.pods {
				out[p] = true
			}
		}
	}
}

// below says whether the queue is the named one or under it.
func (q *queue) below(name string) bool {
	for ; q != nil; q = q.parent {
		if q.name == name {
			return true
		}
	}
	return false
}

// bars says whether the booking keeps the stay off its nodes. Until it begins, they are for who is gone by then, or
// can be sent away.
func (r *reserve) bars(w stay, s *State) bool {
	switch {
	case s.queues[w.gang.queue()].below(r.queue):
		return false
	case !r.start.After(w.from):
		return true
	}
	return !w.over(r.start) && !w.soft
}
