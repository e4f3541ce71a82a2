package cluster

import (
	"maps"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/convert"
)

// bookings are the nodes kept by queues' calendars, as last given. They follow from the queues and from which nodes there
// are, with which labels: a change of either makes them stale, and Settle works them out anew.
type bookings struct {
	out   *output
	given map[string]engine.Booking // by name, without version
	stale bool                      // a queue with bookings changed, or the nodes did
}

// give gives the engine the bookings whose nodes or times are others now. A booking keeps the nodes it has as long as
// they are there and match.
func (b *bookings) give(queues map[string]*queue, at *nodes) {
	if !b.stale {
		return
	}
	b.stale = false
	var all []*corev1.Node
	want := make(map[string]engine.Booking)
	for _, name := range slices.Sorted(maps.Keys(queues)) {
		q := queues[name]
		if len(q.Spec.Bookings) == 0 {
			continue
		}
		if all == nil {
			all = at.list()
		}
		for _, v := range convert.Bookings(q.BerthQueue, all, func(name string) []string { return b.given[name].Nodes }) {
			want[v.Name] = v
		}
	}
	for _, name := range slices.Sorted(maps.Keys(b.given)) {
		if _, ok := want[name]; !ok {
			b.out.drop(engine.KindBooking, name, b.out.derived.next())
		}
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		v := want[name]
		if old, ok := b.given[name]; !ok || !reflect.DeepEqual(old, v) {
			v.Version = b.out.derived.next()
			b.out.put(engine.Change{Booking: &v})
		}
	}
	b.given = want
}

// again has bookings looked at before the next plan, if there are any.
func (b *bookings) again() {
	if len(b.given) > 0 {
		b.stale = true
		b.out.wake()
	}
}
