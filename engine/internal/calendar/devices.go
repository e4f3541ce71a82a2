package calendar

import (
	"slices"
	"time"

	"github.com/berth-dev/berth/engine/internal/cluster"
)

// What promised gangs need of the devices of claims. They are kept by name: those that the gang gets in the future in which it is
// foreseen to start. A device that several nodes reach is kept wherever it is given away.

// takesPromised is the first reservation that finds its devices taken, or too little left of what
// they share, by the pods, which have been placed; nil: none does.
//
// Devices of claims cannot be counted like GPUs: one may be a part of another, draw on the same
// counters, or be reached from several nodes. So the node's offers are copied, put into the state
// that they will have when the promise is due, and asked whether the promised devices are free
// then.
func (c *Calendar) takesPromised(w stay, pods []*cluster.Pod) *Reservation {
	for _, r := range c.reservations {
		if r.devices == nil || !c.meetsDevices(r, w) {
			continue
		}
		at := later(r.start, w.from)
		//archtest:any-order it asks whether there is one
		for n, ids := range r.devices {
			if c.takesOn(n, ids, w, pods, at) {
				return r
			}
		}
	}
	return nil
}

// meetsDevices says whether the stay is still there when the reservation needs its devices.
func (c *Calendar) meetsDevices(r *Reservation, w stay) bool {
	if r.gang == w.gang || !r.end.IsZero() && !r.end.After(w.from) {
		return false
	}
	//mutate: time-backfill-devices
	return !w.over(later(r.start, w.from))
}

// takesOn says whether the pods are the reason that the devices cannot be had on the node at the
// time. It asks twice: whether they can be had with the pods there, and if not, whether they could
// without them. Pods without devices of this node take none of them, and are not asked about.
func (c *Calendar) takesOn(n *cluster.Node, ids []string, w stay, pods []*cluster.Pod, at time.Time) bool {
	has := func(p *cluster.Pod) bool {
		return slices.ContainsFunc(p.HostDevices, func(id string) bool { return n.Offers.Has(id) })
	}
	if !slices.ContainsFunc(pods, has) {
		return false
	}
	// then is what the node offers at that time. What has ended is released on a copy, and the
	// model stays as it is. A device of another node that shares with this one is far: it draws on
	// the same counters and is no device of this node.
	then := n.Offers.Copy()
	release := func(on *cluster.Node, list []string) {
		for _, id := range list {
			if then.HoldFar(id, -1); on == n {
				then.Hold(id, -1)
			}
		}
	}
	c.m.Sharing(n, func(on *cluster.Node) {
		for _, p := range on.Pods {
			if end := c.endOf(p); !(w.gang != nil && p.In == w.gang && p.Node == "") && !end.IsZero() && !end.After(at) {
				release(on, p.HostDevices)
			}
		}
		for _, h := range on.Held {
			if end := c.holdEnd(h); h.Gang != "" && !end.IsZero() && !end.After(at) {
				release(on, h.Devices)
			}
		}
	})
	if then.Free(ids) {
		return false
	}
	for _, p := range pods {
		release(p.Host, p.HostDevices)
	}
	return then.Free(ids) // else others are to blame as well, and the promise is late whatever the pods do
}

// keptDevices are the devices of the node that the stay must leave, by name; nil: none. An order is
// not needed, and one device may be named twice, by reservations that follow each other.
func (c *Calendar) keptDevices(n *cluster.Node, w stay) (out []string) {
	for _, r := range c.reserved[n] {
		if r.devices != nil && c.meetsDevices(r, w) {
			out = append(out, r.devices[n]...)
		}
	}
	return out
}
