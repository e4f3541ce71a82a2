package scheduler

import (
	"maps"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/convert"
)

// bookings are the nodes kept by queues' calendars, as last given.
type bookings struct {
	given map[string]engine.Booking // by name, without version
	stale bool                      // a queue with bookings changed, or the nodes did
}

// rebook gives the engine the bookings whose nodes or times are others now. A booking keeps the nodes it has as long as
// they are there and match.
func (f *feed) rebook() {
	b := &f.bookings
	if !b.stale {
		return
	}
	b.stale = false
	var nodes []*corev1.Node
	want := make(map[string]engine.Booking)
	for _, name := range slices.Sorted(maps.Keys(f.tenancy.queues)) {
		q := f.tenancy.queues[name]
		if len(q.Spec.Bookings) == 0 {
			continue
		}
		if nodes == nil {
			nodes = slices.Collect(maps.Values(f.nodes))
		}
		for _, v := range convert.Bookings(q.Queue, nodes, func(name string) []string { return b.given[name].Nodes }) {
			want[v.Name] = v
		}
	}
	for _, name := range slices.Sorted(maps.Keys(b.given)) {
		if _, ok := want[name]; !ok {
			f.drop(engine.KindBooking, name, f.made.next())
		}
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		v := want[name]
		if old, ok := b.given[name]; !ok || !reflect.DeepEqual(old, v) {
			v.Version = f.made.next()
			f.inbox.put(engine.Change{Booking: &v})
		}
	}
	b.given = want
}

// rebookLater has bookings looked at before the next plan, if there are any.
func (f *feed) rebookLater() {
	if len(f.bookings.given) > 0 {
		f.bookings.stale = true
		f.inbox.stir()
	}
}
