package cluster

import (
	"slices"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/device"
)

// What is kept of the GPUs of a node that gives parts, for pods that are to come. A part is of one card: that so much memory is free
// on the node says nothing. Nodes that give GPUs whole only keep counts of them.

// Kept is what is kept of one GPU.
type Kept struct {
	At      int   // which of the node's devices
	Memory  int64 // MiB
	Compute int64 // thousandths
	Sharers int32 // pods that are to come
	Whole   bool  // no part of it is given; the rest is 0
}

// CardsOf are the GPUs that the pod has, or has parts of, on a node that gives parts, as a hold keeps them.
func (n *Node) CardsOf(p *Pod) (out []api.HeldCard) {
	if n.Cards == nil {
		return nil
	}
	for _, id := range p.HostDevices {
		if n.DeviceIndex(id) >= 0 {
			out = append(out, api.HeldCard{ID: id, Part: p.Part})
		}
	}
	return out
}

// Keeps is what the hold keeps of the devices of its node as they are now.
func (h *Hold) Keeps() []Kept {
	if h.Kept != nil || len(h.Cards) == 0 {
		return h.Kept
	}
	out := make([]Kept, 0, len(h.Cards))
	for _, c := range h.Cards {
		if at := h.On.DeviceIndex(c.ID); at >= 0 {
			k := h.On.keptFor(c.Part, at)
			// Nobody joins a card whose compute is all given away, a part of no compute neither: for one that is to come
			// the last thousandth is kept.
			//mutate: index-hold-last-compute
			if k.Compute == 0 && !k.Whole {
				k.Compute = 1
			}
			out = append(out, k)
		}
	}
	return out
}

// KeptBy is what the pod takes of the devices of its node, if that gives parts.
func (n *Node) KeptBy(p *Pod) (out []Kept) {
	for _, c := range n.CardsOf(p) {
		out = append(out, n.keptFor(c.Part, n.DeviceIndex(c.ID)))
	}
	return out
}

// keptFor is what a pod with the part, or with the whole device, takes of it.
func (n *Node) keptFor(part *api.Part, at int) Kept {
	//mutate: index-hold-whole-card
	if part == nil || n.Cards == nil || n.Cards[at].MaxSharers == 0 {
		return Kept{At: at, Whole: true}
	}
	return Kept{At: at, Memory: part.Of(n.Cards[at].Memory), Compute: part.Compute, Sharers: 1}
}

// OffersOf are the devices that the pod has on the node through claims, as a hold keeps them.
func (n *Node) OffersOf(p *Pod) (out []string) {
	for _, id := range p.HostDevices {
		if n.Offers.Has(id) {
			out = append(out, id)
		}
	}
	return out
}

// keep takes what the hold keeps out of the node's devices, or with by = -1 puts it back.
func (n *Node) keep(h *Hold, by int32) {
	for _, id := range h.Devices {
		//mutate: index-offers-kept
		n.Offers.Hold(id, by)
	}
	if n.Cards == nil {
		return
	}
	for _, k := range h.Keeps() {
		if k.At >= len(n.Cards) {
			continue
		}
		if k.Whole {
			n.Holders[k.At] += by
		} else {
			c := &n.Cards[k.At]
			//mutate: index-parts-kept
			c.UsedMemory += int64(by) * k.Memory
			c.UsedCompute += int64(by) * k.Compute
			c.Sharers += by * k.Sharers
		}
		n.freeDevice(k.At)
	}
}

// RoomFor says whether all that the hold keeps is free on the node.
func (m *Model) RoomFor(h *Hold, n *Node) bool {
	if slices.ContainsFunc(h.Requests, func(a api.Amount) bool { return n.Free.At(m.Dims.ID(a.Resource)) < a.Value }) {
		return false
	}
	//mutate: outbid-offers
	if !n.Offers.Free(h.Devices) {
		return false
	}
	cards := slices.Clone(n.Cards)
	for _, c := range h.Cards {
		switch at := n.DeviceIndex(c.ID); {
		case cards == nil:
		case at < 0:
			return false
		case c.Part == nil:
			if !n.Devices[at].Free {
				return false
			}
		default:
			//mutate: outbid-parts
			if cards[at].Lacks(c.Part, "") != device.Enough {
				return false
			}
			cards[at].Give(c.Part, 1)
		}
	}
	return true
}

// partsHeld is what the parts that the hold keeps count in its queue, before the rate of their model.
func (m *Model) partsHeld(h *Hold) (sum int64) {
	//mutate: pledge-claimed
	sum = h.Claimed
	if len(h.Cards) == 0 {
		return sum
	}
	by := m.partsBy(h.payer())
	for _, c := range h.Cards {
		if c.Part != nil {
			sum += c.Part.Charge(h.On.cardMemory(c.ID), by)
		}
	}
	return sum
}

// payer is the name of the queue that pays for the hold, "" for none.
func (h *Hold) payer() string {
	if h.Payer == nil {
		return ""
	}
	return h.Payer.Name
}
