package engine

import (
	"maps"
	"slices"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/quantity"
)

// Bookings. A booking is room that is kept from a time on, as a promise is: of whole nodes, and for a queue.

// keepBookings lets the nodes of bookings be kept for their queues, and ends others' work there once a booking begins.
func (y *cycle) keepBookings() {
	var over []*cluster.Pod
	for _, key := range cluster.SortedKeys(y.s.m.Bookings) {
		b := y.s.m.Bookings[key]
		if y.s.m.IsRejected(api.KindBooking, key) || !b.To.After(y.Now) {
			continue
		}
		r := &reserve{name: b.Name, queue: b.Queue, start: b.From.UTC(), end: b.To.UTC(), needs: make(map[*cluster.Node]quantity.Vector)}
		for _, name := range b.Nodes {
			if n := y.s.m.Nodes[name]; n != nil && n.Bucket != nil {
				r.needs[n] = nil
			}
		}
		y.reserve(r)
		if b.From.After(y.Now) {
			y.Wake(b.From)
			continue
		}
		y.Wake(b.To)
		over = append(over, y.strangers(r)...)
	}
	y.dismissAll(over, api.Booked)
}

// strangers lists the pods that leave when a booking begins: of work on its nodes that is not of the queue, what can be
// evicted and, where a gang would be left under its minimum, all of the gang, which nothing joins before it is gone.
func (y *cycle) strangers(r *reserve) []*cluster.Pod {
	out := make(map[*cluster.Pod]bool)
	seen := make(map[*cluster.Queue]bool)
	//archtest:any-order each queue is asked once, for a set of pods and of gangs
	for n := range r.needs {
		for _, p := range n.Pods {
			if q := p.Payer; q != nil && !seen[q] && !q.Below(r.queue) {
				seen[q] = true
				y.times.ending = append(y.times.ending, y.s.candidates.Displaced(q, r.covers, out)...)
			}
		}
	}
	return slices.Collect(maps.Keys(out))
}

// covers says whether the node is one of the reserve's.
func (r *reserve) covers(n *cluster.Node) bool { _, ok := r.needs[n]; return ok }

// bars says whether the booking keeps the stay off its nodes. Until it begins, they are for who is gone by then, or
// can be sent away.
func (r *reserve) bars(w stay, s *State) bool {
	switch {
	case s.m.Queues[w.gang.Queue()].Below(r.queue):
		return false
	case !r.start.After(w.from):
		return true
	}
	return !w.over(r.start) && !w.soft
}
