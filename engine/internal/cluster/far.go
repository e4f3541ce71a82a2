package cluster

import (
	"slices"

	"github.com/berth-dev/berth/engine/internal/api"
)

// Devices of claims that several nodes reach (api.Offer.Reach). Each of these nodes offers the device, and whoever holds it, wherever it is,
// holds it on all of them: a change of its holders changes the room of every node that reaches it. What nodes admit does not add up then,
// see index.Class.Far.

// far is the devices by id, and how many of them each selection selects, by reach.
type far struct {
	devices map[string]*farDevice
	reaches map[string]map[string]int
}

type farDevice struct {
	nodes   []*Node          // that offer it
	holders map[string]int32 // pods and holds, on any node, by what they have of it: the whole, or a share
}

// joinFar enters the node, whose offers were made anew, at the devices that it reaches, and holds there what is held.
func (m *Model) joinFar(n *Node) {
	var fresh []string
	n.Offers.Far(func(o *api.Offer) {
		if m.far.devices == nil {
			m.far = far{devices: make(map[string]*farDevice), reaches: make(map[string]map[string]int)}
		}
		if m.far.devices[o.ID] == nil {
			m.far.devices[o.ID] = &farDevice{holders: make(map[string]int32)}
			fresh = append(fresh, o.ID)
		}
		m.far.devices[o.ID].nodes = append(m.far.devices[o.ID].nodes, n)
		m.far.selects(o, 1)
	})
	if len(fresh) > 0 {
		m.findHolders(fresh)
	}
	n.Offers.Far(func(o *api.Offer) {
		//archtest:any-order each is counted by itself
		for text, by := range m.far.devices[o.ID].holders {
			n.Offers.HoldFar(text, by)
		}
	})
}

// leaveFar takes the node out there.
func (m *Model) leaveFar(n *Node) {
	n.Offers.Far(func(o *api.Offer) {
		d := m.far.devices[o.ID]
		d.nodes = slices.DeleteFunc(d.nodes, func(x *Node) bool { return x == n })
		if m.far.selects(o, -1); len(d.nodes) == 0 {
			delete(m.far.devices, o.ID)
		}
	})
}

// findHolders counts who holds devices that no node offered before.
func (m *Model) findHolders(fresh []string) {
	slices.Sort(fresh)
	count := func(ids []string) {
		for _, id := range ids {
			if _, is := slices.BinarySearch(fresh, api.DeviceOf(id)); is {
				m.far.devices[api.DeviceOf(id)].holders[id]++
			}
		}
	}
	//archtest:any-order holders are counted, which any order does
	for _, n := range m.Nodes {
		for _, p := range n.Pods {
			count(p.HostDevices)
		}
		for _, h := range n.Held {
			count(h.Devices)
		}
	}
}

// holdFar notes, or with by = -1 forgets, that somebody on the node holds those of the devices that several nodes reach.
func (m *Model) holdFar(n *Node, ids []string, by int32) {
	if len(m.far.devices) == 0 {
		return
	}
	for _, id := range ids {
		d := m.far.devices[api.DeviceOf(id)]
		if d == nil {
			continue
		}
		//mutate: index-offers-held-far
		if d.holders[id] += by; d.holders[id] == 0 {
			delete(d.holders, id)
		}
		for _, o := range d.nodes {
			if o.Offers.HoldFar(id, by); o != n {
				m.touched(o)
			}
		}
	}
}

// selects counts the device for its selections. One that draws on counters, or is shared, is of a reach of its own: what it leaves differs.
func (f *far) selects(o *api.Offer, by int) {
	reach := o.Reach
	if len(o.Draws) > 0 || o.Shared {
		reach = "counters of " + o.ID
	}
	for _, s := range o.Selections {
		if f.reaches[s] == nil {
			f.reaches[s] = make(map[string]int)
		}
		if f.reaches[s][reach] += by; f.reaches[s][reach] == 0 {
			delete(f.reaches[s], reach)
		}
		if len(f.reaches[s]) == 0 {
			delete(f.reaches, s)
		}
	}
}

// Far says whether claims can be met with devices that several nodes reach, and whether pods with these claims can be placed one after the
// other, wherever one fits by then: there is no better order. That is so where each asks for one device and all nodes reach the same ones.
// A node has then given away its own devices before it gives one that others could have had too, so whoever finds no place would not have
// found one had others been placed elsewhere.
func (m *Model) Far(c *api.Claims) (is, simple bool) {
	if c == nil || len(m.far.reaches) == 0 {
		return false, true
	}
	reaches := 0
	for _, r := range c.Requests {
		for _, o := range r.Options {
			reaches = max(reaches, len(m.far.reaches[o.Selection]))
		}
	}
	one := c.Requests[0].Options[0]
	return reaches > 0, reaches <= 1 && len(c.Requests) == 1 && len(c.Requests[0].Options) == 1 && len(c.Match) == 0 && one.Count == 1 && !one.Admin
}

// Sharing visits the node, and the others that reach devices which it reaches, each once.
func (m *Model) Sharing(n *Node, visit func(*Node)) {
	visit(n)
	var seen []*Node
	n.Offers.Far(func(o *api.Offer) {
		for _, other := range m.far.devices[o.ID].nodes {
			if other != n && !slices.Contains(seen, other) {
				seen = append(seen, other)
				visit(other)
			}
		}
	})
}
