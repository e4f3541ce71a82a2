package calendar

import (
	"time"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/quantity"
)

// Bookings. A booking is room that is kept from a time on, as a promise is: of whole nodes, and for a queue.

// KeepBookings lets the nodes of bookings be kept for their queues, and returns the bookings that
// have begun. Bookings are kept before any promise is given, so that promises go around them. One
// whose nodes leave for good has no end. The plan is made again when a booking begins and when it
// ends.
func (c *Calendar) KeepBookings() (begun []*Reservation) {
	for _, key := range cluster.SortedKeys(c.m.Bookings) {
		b := c.m.Bookings[key]
		if c.m.IsRejected(api.KindBooking, key) || !b.To.After(c.now) && !b.Leaves() {
			continue
		}
		r := &Reservation{name: b.Name, queue: b.Queue, start: b.From.UTC(), end: b.To.UTC(), // zero: for good
			needs: make(map[*cluster.Node]quantity.Vector)}
		for _, name := range b.Nodes {
			if n := c.m.Nodes[name]; n != nil && n.Bucket != nil {
				r.needs[n] = nil
			}
		}
		c.reserve(r)
		if b.From.After(c.now) {
			c.draft.Wake(b.From)
			continue
		}
		if !b.Leaves() {
			c.draft.Wake(b.To)
		}
		begun = append(begun, r)
	}
	return begun
}

// Strangers lists the queues with pods on the booking's nodes that are not its own, each once and
// in no order. Without a queue of its own all are strangers.
func (r *Reservation) Strangers() []*cluster.Queue {
	var out []*cluster.Queue
	seen := make(map[*cluster.Queue]bool)
	//archtest:any-order the queues are a set
	for n := range r.needs {
		for _, p := range n.Pods {
			if q := p.Payer; q != nil && !seen[q] && (r.queue == "" || !q.Below(r.queue)) {
				seen[q] = true
				out = append(out, q)
			}
		}
	}
	return out
}

// bars says whether the booking keeps the stay off its nodes. Until it begins, work may be there that is
// over by then, or can be evicted.
//
// For example, nodes are booked for queue q from 18:00 on. Work of q may be there at any time.
// Other work may not be there from 18:00 on; before, it may if it is over by 18:00, or if all of it
// can be evicted then. Where nodes are to leave, nothing is gained by evicting: work may start if it
// saves a checkpoint before, or if its run time is unknown and there is at least an hour.
func (c *Calendar) bars(r *Reservation, w stay) bool {
	switch {
	case r.queue != "" && c.m.Queues[w.gang.Queue()].Below(r.queue):
		return false
	case !r.start.After(w.from):
		return true
	case w.over(r.start):
		return false
	case r.queue != "":
		return !w.soft
	}
	// The nodes go away. That it can be evicted is of no use: what it has done until then would be lost.
	if w.until.IsZero() && r.start.Sub(w.from) >= unsaid {
		return false
	}
	saves := w.gang.Terms().Checkpoint
	return saves <= 0 || saves > r.start.Sub(w.from)
}

// unsaid is how long nodes have to stay for work whose run time is unknown.
const unsaid = time.Hour
