package engine

// Bookings. A booking is room that is kept from a time on, as a promise is: of whole nodes, and for a queue.

// keepBookings lets the nodes of bookings be kept for their queues, and ends others' work there once a booking begins.
func (y *cycle) keepBookings() {
	var over []*pod
	for _, key := range sortedKeys(y.s.bookings) {
		b := y.s.bookings[key]
		if y.s.isRejected(KindBooking, key) || !b.To.After(y.now) {
			continue
		}
		r := &reserve{name: b.Name, queue: b.Queue, start: b.From.UTC(), end: b.To.UTC(), needs: make(map[*node]vector)}
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
	y.dismissAll(over, Booked)
}

// strangers lists the pods on booked nodes that are not of the queue and can be evicted.
func (y *cycle) strangers(r *reserve) []*pod {
	var out []*pod
	for n := range r.needs {
		for _, p := range n.occ {
			if !p.Foreign && !p.leaving() && !p.firm() && !y.s.queueOf(p).below(r.queue) {
				out = append(out, p)
			}
		}
	}
	return out
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
