package engine

import (
	"fmt"
	"slices"
	"strings"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/device"
	"github.com/berth-dev/berth/engine/internal/quantity"
)

// node is a node and what is on it. A node that only its occupants speak of has no spec.
type node struct {
	// What classes look at, close together.
	kind      *nodeKind
	shelf     *shelf
	slot      int
	free      quantity.Vector // allocatable less what occupants and holds take; may be negative by others' doing
	loose     int64           // devices that are free
	blind     int64           // GPUs given away to pods that do not say which
	nominated []*pod
	devices   []device.Device // as in spec; Free: healthy, owned and held by nobody
	near      [6]int64        // where free lies, unless there are more resources

	name    string
	told    *api.Node       // what was told, also when rejected; nil: nothing
	spec    *api.Node       // told, where it counts; nil otherwise
	index   int32           // in State.pulses
	yield   quantity.Vector // what evictable and terminating occupants would give back
	occ     []*pod          // in no order
	held    []*hold         // that count here, in no order
	holders []int32         // by device: how many pods say they hold it
	alien   []bool          // by device: another node owns it; nil: none
}

func (s *State) newNode(name string) *node {
	n := &node{name: name}
	n.free = n.near[:0]
	if last := len(s.vacant) - 1; last >= 0 {
		n.index, s.vacant = s.vacant[last], s.vacant[:last]
		s.pulses[n.index] = pulse{}
	} else {
		n.index = int32(len(s.pulses))
		s.pulses = append(s.pulses, pulse{})
	}
	s.nodes[name] = n
	return n
}

// nodeNamed returns the node, making one without a spec if it is not known.
func (s *State) nodeNamed(name string) *node {
	if n := s.nodes[name]; n != nil {
		return n
	}
	return s.newNode(name)
}

// setNode gives the node a new spec. It returns whose devices do not count because of it.
func (s *State) setNode(n *node, got *api.Node) api.Rejected {
	defer s.rebook(n)
	old := n.spec
	n.told = got
	if old != nil && slices.Equal(old.Devices, got.Devices) && !s.isRejected(api.KindNode, n.name) {
		n.spec = got
		s.allocate(n, old, got)
		s.setKind(n, old)
		s.shelve(n, old, got)
		s.touched(n)
		s.meetLabels()
		if n.alien != nil {
			s.reclaim([]*node{n})
		}
		return api.Rejected{Ref: api.Ref{Kind: api.KindNode, Key: n.name, Version: got.Version}, Reason: s.rejected[api.Ref{Kind: api.KindNode, Key: n.name}]}
	}
	s.unclaim(n)
	if s.isRejected(api.KindNode, n.name) {
		s.shelve(n, old, nil)
		n.spec, n.kind, n.devices = nil, nil, nil
		s.allocate(n, old, nil)
		return api.Rejected{}
	}
	n.spec = got
	s.allocate(n, old, got)
	s.setDevices(n)
	s.setKind(n, old)
	s.shelve(n, old, got)
	s.touched(n)
	s.meetLabels()
	return s.claim(n)
}

// unsetNode forgets the node's spec; its occupants stay until they are gone too.
func (s *State) unsetNode(n *node) {
	defer s.rebook(n)
	s.unclaim(n)
	old := n.spec
	s.shelve(n, old, nil)
	n.told, n.spec, n.kind, n.devices = nil, nil, nil, nil
	s.allocate(n, old, nil)
	s.forgetNode(n)
}

// forgetNode drops a node of which nothing is left.
func (s *State) forgetNode(n *node) {
	if n.told == nil && len(n.occ) == 0 && len(n.nominated) == 0 && !s.holdsOn(n) {
		delete(s.nodes, n.name)
		s.vacant = append(s.vacant, n.index)
	}
}

func (s *State) holdsOn(n *node) bool {
	for _, h := range s.holds {
		if h.on == n {
			return true
		}
	}
	return false
}

// allocate moves free by the difference of two allocatables.
func (s *State) allocate(n *node, old, got *api.Node) {
	s.presence.count(got, 1) // before what it had, so that what stays is not new
	s.presence.count(old, -1)
	if old != nil {
		for _, a := range old.Allocatable {
			//mutate: index-allocatable
			n.free.Add(s.dims.ID(a.Resource), -a.Value)
			s.capacity.Add(s.dims.ID(a.Resource), -a.Value)
		}
	}
	if got != nil {
		for _, a := range got.Allocatable {
			n.free.Add(s.dims.ID(a.Resource), a.Value)
			s.capacity.Add(s.dims.ID(a.Resource), a.Value)
		}
	}
}

// setDevices rebuilds what is known of the node's devices from its spec and its occupants.
func (s *State) setDevices(n *node) {
	n.devices = make([]device.Device, len(n.spec.Devices))
	n.holders = make([]int32, len(n.spec.Devices))
	n.alien, n.blind, n.loose = nil, 0, 0
	for i, d := range n.spec.Devices {
		n.devices[i] = device.Device{Model: d.Model, Clique: d.Clique, NUMA: d.NUMA}
		n.freeDevice(i)
	}
	for _, p := range n.occ {
		n.grip(p, 1)
	}
}

// grip notes, or with by = -1 forgets, which devices the pod holds.
func (n *node) grip(p *pod, by int32) {
	gpus := p.amount(quantity.DimGPU)
	for _, id := range p.seatDevices {
		if i := n.deviceIndex(id); i >= 0 {
			//mutate: index-devices-held
			n.holders[i] += by
			n.freeDevice(i)
			gpus--
		}
	}
	if gpus > 0 {
		//mutate: index-devices-unknown
		n.blind += int64(by) * gpus
	}
}

func (n *node) deviceIndex(id string) int {
	if n.spec == nil {
		return -1
	}
	for i := range n.spec.Devices {
		if n.spec.Devices[i].ID == id {
			return i
		}
	}
	return -1
}

// freeDevice works out anew whether the i-th device is free.
func (n *node) freeDevice(i int) {
	free := n.holders[i] == 0 && !n.spec.Devices[i].Unhealthy && (n.alien == nil || !n.alien[i])
	switch d := &n.devices[i]; {
	case free && !d.Free:
		n.loose++
	case !free && d.Free:
		n.loose--
	}
	n.devices[i].Free = free
}

// claim enters the node's devices in the cluster's list. A device belongs to the first node by name that
// lists it; it returns the rejection of one that is not.
func (s *State) claim(n *node) api.Rejected {
	var r api.Rejected
	for _, d := range n.spec.Devices {
		nodes := append(s.claims[d.ID], n)
		s.claims[d.ID] = nodes
		if len(nodes) > 1 {
			slices.SortFunc(nodes, compareNodes)
			s.reclaim(nodes)
			loser := nodes[1]
			r = api.Rejected{Ref: api.Ref{Kind: api.KindNode, Key: loser.name, Version: loser.spec.Version}, Reason: s.rejected[api.Ref{Kind: api.KindNode, Key: loser.name}]}
		}
	}
	return r
}

// unclaim takes the node's devices off the cluster's list.
func (s *State) unclaim(n *node) {
	if n.spec == nil {
		return
	}
	for _, d := range n.spec.Devices {
		rest := slices.DeleteFunc(s.claims[d.ID], func(o *node) bool { return o == n })
		if len(rest) == 0 {
			delete(s.claims, d.ID)
			continue
		}
		s.claims[d.ID] = rest
		s.reclaim(rest)
	}
}

// reclaim settles anew which of the nodes own their devices, and rejects those that do not.
func (s *State) reclaim(nodes []*node) {
	for _, n := range nodes {
		n.alien = make([]bool, len(n.devices))
		clash := ""
		for i, d := range n.spec.Devices {
			owner := n
			if claimants := s.claims[d.ID]; len(claimants) > 0 {
				owner = claimants[0]
			}
			//mutate: index-device-on-two-nodes
			if n.alien[i] = owner != n; n.alien[i] && clash == "" {
				clash = fmt.Sprintf(clashWords+"%s is on node %s too, where it counts", d.ID, owner.name)
			}
			n.freeDevice(i)
		}
		ref := api.Ref{Kind: api.KindNode, Key: n.name}
		switch {
		case clash != "":
			s.reject(ref, clash)
		case strings.HasPrefix(s.rejected[ref], clashWords):
			delete(s.rejected, ref)
		}
		s.touched(n)
	}
}

// clashWords begin the rejection of a node that lists another node's device.
const clashWords = "device "

func compareNodes(a, b *node) int {
	if a.name < b.name {
		return -1
	}
	if a.name > b.name {
		return 1
	}
	return 0
}
