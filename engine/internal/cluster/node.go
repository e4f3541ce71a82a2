package cluster

import (
	"fmt"
	"slices"
	"strings"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/device"
	"github.com/berth-dev/berth/engine/internal/quantity"
)

// Node is a node and what is on it. A node that only its occupants speak of has no spec.
type Node struct {
	// What classes look at, close together.
	Bucket         *Bucket
	Slot           int
	Free           quantity.Vector // allocatable less what occupants and holds take; may be negative by others' doing
	FreeDevices    int64           // devices that are free
	UnknownDevices int64           // GPUs given away to pods that do not say which
	Nominated      []*Pod
	Models         []string        // of its devices, sorted, each once
	Uniform        bool            // its devices are all of one model
	Devices        []device.Device // as in spec; Free: healthy, owned and held by nobody
	Cards          []device.Card   // by device: what of it is given away in parts; nil: all are given whole only
	Offers         *device.Offers  // that claims are met with; nil: none
	GPUsByClaims   bool            // it gives its GPUs through claims alone
	Slices         []Slice         // of its resources, those of which one is a part of a GPU; nil: none
	near           [6]int64        // where free lies, unless there are more resources

	Name    string
	Told    *api.Node       // what was told, also when rejected; nil: nothing
	Spec    *api.Node       // told, where it counts; nil otherwise
	Index   int32           // its number in what others keep by node
	Yield   quantity.Vector // what evictable and terminating occupants would give back
	Pods    []*Pod          // in no order
	Held    []*Hold         // that count here, in no order
	Holders []int32         // by device: how many pods say they hold it, or are to come to it
	foreign []bool          // by device: another node owns it; nil: none
}

func (m *Model) newNode(name string) *Node {
	n := &Node{Name: name}
	n.Free = n.near[:0]
	if last := len(m.vacant) - 1; last >= 0 {
		n.Index, m.vacant = m.vacant[last], m.vacant[:last]
	} else {
		n.Index = int32(m.Room.Nodes)
		m.Room.Nodes++
	}
	m.Nodes[name] = n
	return n
}

// NodeNamed returns the node, making one without a spec if it is not known.
func (m *Model) NodeNamed(name string) *Node {
	if n := m.Nodes[name]; n != nil {
		return n
	}
	return m.newNode(name)
}

// SetNode gives the node a new spec. It returns whose devices do not count because of it.
func (m *Model) SetNode(n *Node, got *api.Node) api.Rejected {
	old := n.Spec
	defer m.rechargeOn(n, old)
	n.Told = got
	if old != nil && old.SameDevices(got) && old.EqualOffers(got) && !m.isVoid(n) {
		n.Spec = got
		m.allocate(n, old, got)
		m.Respecced = append(m.Respecced, n)
		m.regroup(n, old, got)
		m.touched(n)
		m.meetLabels()
		if n.foreign != nil {
			m.reclaim([]*Node{n})
		}
		return api.Rejected{Ref: api.Ref{Kind: api.KindNode, Key: n.Name, Version: got.Version}, Reason: m.Invalid[api.Ref{Kind: api.KindNode, Key: n.Name}]}
	}
	m.unclaim(n)
	m.leaveFar(n)
	if m.isVoid(n) {
		m.regroup(n, old, nil)
		n.Spec, n.Devices, n.Models, n.Cards, n.Offers, n.GPUsByClaims = nil, nil, nil, nil, nil, false
		m.allocate(n, old, nil)
		return api.Rejected{}
	}
	n.Spec = got
	m.allocate(n, old, got)
	m.setDevices(n)
	m.Respecced = append(m.Respecced, n)
	m.regroup(n, old, got)
	m.touched(n)
	m.meetLabels()
	return m.claim(n)
}

// UnsetNode forgets the node's spec; its occupants stay until they are gone too.
func (m *Model) UnsetNode(n *Node) {
	old := n.Spec
	defer m.rechargeOn(n, old)
	m.unclaim(n)
	m.leaveFar(n)
	m.regroup(n, old, nil)
	n.Told, n.Spec, n.Devices, n.Models, n.Cards, n.Offers, n.GPUsByClaims = nil, nil, nil, nil, nil, nil, false
	m.allocate(n, old, nil)
	m.forgetNode(n)
}

// forgetNode drops a node of which nothing is left.
func (m *Model) forgetNode(n *Node) {
	if n.Told == nil && len(n.Pods) == 0 && len(n.Nominated) == 0 && len(n.Held) == 0 {
		delete(m.Nodes, n.Name)
		m.vacant = append(m.vacant, n.Index)
	}
}

// allocate moves free by the difference of two allocatables.
func (m *Model) allocate(n *Node, old, got *api.Node) {
	m.Presence.count(got, 1) // before what it had, so that what stays is not new
	m.Presence.count(old, -1)
	m.meetCards()
	m.slice(n, old, got)
	m.Images.move(n, old, got)
	m.quarantine(n, old, got)
	//mutate: index-supply
	m.Supply.move(old, got, m.Config.GPU)
	if old != nil {
		for _, a := range old.Allocatable {
			//mutate: index-allocatable
			n.Free.Add(m.Dims.ID(a.Resource), -a.Value)
			m.Capacity.Add(m.Dims.ID(a.Resource), -a.Value)
		}
	}
	if got != nil {
		for _, a := range got.Allocatable {
			n.Free.Add(m.Dims.ID(a.Resource), a.Value)
			m.Capacity.Add(m.Dims.ID(a.Resource), a.Value)
		}
	}
}

// quarantine counts the nodes, and those of them whose hardware is not trusted.
func (m *Model) quarantine(n *Node, old, got *api.Node) {
	if old != nil {
		m.Specced--
	}
	delete(m.Quarantined, n)
	if got == nil {
		return
	}
	m.Specced++
	if got.Quarantine != "" {
		if m.Quarantined == nil {
			m.Quarantined = make(map[*Node]bool)
		}
		m.Quarantined[n] = true
	}
}

// setDevices rebuilds what is known of the node's devices from its spec and its occupants.
func (m *Model) setDevices(n *Node) {
	n.Devices = make([]device.Device, len(n.Spec.Devices))
	n.Holders = make([]int32, len(n.Spec.Devices))
	n.foreign, n.UnknownDevices, n.FreeDevices = nil, 0, 0
	n.Models = ModelsOf(n.Spec)
	n.Uniform = !slices.ContainsFunc(n.Spec.Devices, func(d api.Device) bool { return d.Model != n.Spec.Devices[0].Model })
	n.Cards = cardsOf(n.Spec.Devices)
	for i, d := range n.Spec.Devices {
		n.Devices[i] = device.Device{Model: d.Model, Clique: d.Clique, NUMA: d.NUMA}
		n.freeDevice(i)
	}
	n.Offers = device.NewOffers(n.Spec)
	n.GPUsByClaims = slices.Contains(n.Spec.ByClaims, m.Config.GPU)
	m.joinFar(n)
	for _, p := range n.Pods {
		n.grip(p, 1)
	}
	for _, h := range n.Held {
		n.keep(h, 1)
	}
}

// cardsOf are the devices as far as parts of them can be had; nil where all are given whole only.
func cardsOf(devices []api.Device) []device.Card {
	if !slices.ContainsFunc(devices, func(d api.Device) bool { return d.Parts > 0 }) {
		return nil
	}
	out := make([]device.Card, len(devices))
	for i, d := range devices {
		out[i] = device.Card{Model: d.Model, Memory: d.Memory, MaxSharers: int32(d.Parts)}
	}
	return out
}

// grip notes, or with by = -1 forgets, which devices the pod holds, or has a part of. A part of a card that is given whole only is
// taken for the whole.
func (n *Node) grip(p *Pod, by int32) {
	gpus := p.gpus()
	for _, id := range p.HostDevices {
		if i := n.DeviceIndex(id); i >= 0 {
			if p.Part != nil && n.Cards != nil && n.Cards[i].MaxSharers > 0 {
				//mutate: index-parts-held
				n.Cards[i].Give(p.Part, by)
				n.freeDevice(i)
				gpus--
				continue
			}
			//mutate: index-devices-held
			n.Holders[i] += by
			n.freeDevice(i)
			gpus--
			continue
		}
		//mutate: index-offers-held
		n.Offers.Hold(id, by)
	}
	if gpus > 0 {
		//mutate: index-devices-unknown
		n.UnknownDevices += int64(by) * gpus
	}
}

// DeviceIndex is which of the node's devices that is; -1: none.
func (n *Node) DeviceIndex(id string) int {
	if n.Spec == nil {
		return -1
	}
	for i := range n.Spec.Devices {
		if n.Spec.Devices[i].ID == id {
			return i
		}
	}
	return -1
}

// freeDevice works out anew whether the i-th device is free.
func (n *Node) freeDevice(i int) {
	free := n.Holders[i] == 0 && !n.Spec.Devices[i].Unhealthy && (n.foreign == nil || !n.foreign[i])
	if n.Cards != nil {
		n.Cards[i].Closed = !free
		//mutate: filter-whole-beside-parts
		free = free && n.Cards[i].Idle()
	}
	switch d := &n.Devices[i]; {
	case free && !d.Free:
		n.FreeDevices++
	case !free && d.Free:
		n.FreeDevices--
	}
	n.Devices[i].Free = free
}

// claim enters the node's devices in the cluster's list. A device belongs to the first node by name that
// lists it; it returns the rejection of one that is not.
func (m *Model) claim(n *Node) api.Rejected {
	var r api.Rejected
	for _, d := range n.Spec.Devices {
		nodes := append(m.Claims[d.ID], n)
		m.Claims[d.ID] = nodes
		if len(nodes) > 1 {
			slices.SortFunc(nodes, compareNodes)
			m.reclaim(nodes)
			loser := nodes[1]
			r = api.Rejected{Ref: api.Ref{Kind: api.KindNode, Key: loser.Name, Version: loser.Spec.Version}, Reason: m.Invalid[api.Ref{Kind: api.KindNode, Key: loser.Name}]}
		}
	}
	return r
}

// unclaim takes the node's devices off the cluster's list.
func (m *Model) unclaim(n *Node) {
	if n.Spec == nil {
		return
	}
	for _, d := range n.Spec.Devices {
		rest := slices.DeleteFunc(m.Claims[d.ID], func(o *Node) bool { return o == n })
		if len(rest) == 0 {
			delete(m.Claims, d.ID)
			continue
		}
		m.Claims[d.ID] = rest
		m.reclaim(rest)
	}
}

// reclaim settles anew which of the nodes own their devices, and rejects those that do not.
func (m *Model) reclaim(nodes []*Node) {
	for _, n := range nodes {
		n.foreign = make([]bool, len(n.Devices))
		clash := ""
		for i, d := range n.Spec.Devices {
			owner := n
			if claimants := m.Claims[d.ID]; len(claimants) > 0 {
				owner = claimants[0]
			}
			//mutate: index-device-on-two-nodes
			if n.foreign[i] = owner != n; n.foreign[i] && clash == "" {
				clash = fmt.Sprintf("device %s is on node %s"+clashWords, d.ID, owner.Name)
			}
			n.freeDevice(i)
		}
		ref := api.Ref{Kind: api.KindNode, Key: n.Name}
		switch {
		case clash != "":
			m.Reject(ref, clash)
		case strings.HasSuffix(m.Invalid[ref], clashWords):
			delete(m.Invalid, ref)
		}
		m.touched(n)
	}
}

// clashWords end the rejection of a node that lists another node's device. All else of such a node counts.
const clashWords = " too, where it counts"

// isVoid says whether what was told of the node has no effect at all.
func (m *Model) isVoid(n *Node) bool {
	//mutate: node-with-lost-device -> m.IsRejected(api.KindNode, n.Name)
	return m.IsRejected(api.KindNode, n.Name) && !strings.HasSuffix(m.Invalid[api.Ref{Kind: api.KindNode, Key: n.Name}], clashWords)
}

func compareNodes(a, b *Node) int {
	if a.Name < b.Name {
		return -1
	}
	if a.Name > b.Name {
		return 1
	}
	return 0
}

// LessNominated is what is free once nominated pods of the same or higher priority have their room.
func (n *Node) LessNominated(priority int32) quantity.Vector {
	free := append(quantity.Vector(nil), n.Free...)
	for _, p := range n.Nominated {
		//mutate: filter-nominated-priority
		if p.Priority >= priority {
			for _, d := range p.Demands {
				free.Add(d.Dim, -d.Amount)
			}
		}
	}
	return free
}

func (n *Node) DeviceIDs(devices []int) []string {
	out := make([]string, len(devices))
	for i, d := range devices {
		out[i] = n.Spec.Devices[d].ID
	}
	return out
}

// PortTaken returns the first of the ports that a pod on the node has, or one that is nominated there with the priority or
// a higher one; "": none.
func (n *Node) PortTaken(ports []api.Port, priority int32) string {
	for _, want := range n.contended(ports) {
		for _, p := range n.Pods {
			for _, has := range p.Ports {
				if want.Conflicts(has) {
					return want.String()
				}
			}
		}
		for _, p := range n.Nominated {
			for _, has := range p.Ports {
				if p.Priority >= priority && want.Conflicts(has) {
					return want.String()
				}
			}
		}
	}
	return ""
}

// contended returns those of the ports whose number a pod on the node, or nominated to it, has too. It looks once at each
// port of a pod, not at each pair.
func (n *Node) contended(ports []api.Port) []api.Port {
	if len(ports) == 0 {
		return nil
	}
	var has [1 << 16 / 64]uint64
	for _, pods := range [][]*Pod{n.Pods, n.Nominated} {
		for _, p := range pods {
			for _, q := range p.Ports {
				has[uint16(q.Port)/64] |= 1 << (uint16(q.Port) % 64)
			}
		}
	}
	var out []api.Port
	for _, p := range ports {
		if has[uint16(p.Port)/64]&(1<<(uint16(p.Port)%64)) != 0 {
			out = append(out, p)
		}
	}
	return out
}

// GPUsInUse is the GPUs that the node's occupants hold, whole or in part. A card with several parts counts once.
func (n *Node) GPUsInUse() int64 {
	sum := n.SharedCards()
	for _, p := range n.Pods {
		gpus := p.gpus()
		if p.Part != nil {
			for _, id := range p.HostDevices {
				if i := n.DeviceIndex(id); i >= 0 && n.Cards != nil && n.Cards[i].MaxSharers > 0 {
					gpus--
				}
			}
		}
		sum += max(0, gpus)
	}
	return sum
}

// SharedCards counts the GPUs of which occupants have parts.
func (n *Node) SharedCards() (count int64) {
	for i := range n.Cards {
		if n.Cards[i].Sharers > 0 && slices.ContainsFunc(n.Pods, func(p *Pod) bool { return p.Part != nil && slices.Contains(p.HostDevices, n.Spec.Devices[i].ID) }) {
			count++
		}
	}
	return count
}

// FreeByModel counts the node's free GPUs by model; "" where models are not known.
func (n *Node) FreeByModel() map[string]int64 {
	free := n.Free.At(quantity.DimGPU)
	if len(n.Devices) == 0 {
		return map[string]int64{"": free}
	}
	out := make(map[string]int64)
	for _, d := range n.Devices {
		if d.Free {
			out[d.Model]++
		}
	}
	for model := range out {
		out[model] = min(free, out[model]-n.UnknownDevices)
	}
	return out
}
