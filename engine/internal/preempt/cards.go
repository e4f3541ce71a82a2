package preempt

import (
	"math"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/device"
	"github.com/berth-dev/berth/engine/internal/index"
	"github.com/berth-dev/berth/engine/internal/quantity"
)

// The cards of a node that gives parts, and its devices for claims, as a claim's units would leave them. A part takes
// nothing of the node's GPU count, and what several cards have left adds up to no part: so the scan counts card by card.
//
// For example, two cards of 80 GiB have 30 GiB left each. By sums a part of 40 GiB fits; card by card it does not. A
// unit that gives 10 GiB back on either card makes the room.
//
// The lower bound of the search needs one amount that every unit frees and every pod needs. For a claimant that asks
// for parts it is memory, in MiB. For one that asks for whole GPUs it is the cards that a unit is on: it frees no
// more of them than that, so the bound holds, although two units may share a card.
type cards struct {
	// of is a copy of the node's cards, with what is given away of each; nil: the node gives no parts, or the class
	// asks for no GPU.
	of   []device.Card
	node *cluster.Node
	// whole is, by card, how many pods hold it whole, and places that are held.
	whole []int32
	// shut says, by card, that it stays closed whoever goes: it is unhealthy, or the pod names other GPUs.
	shut []bool
	// blind says that somebody has GPUs and does not say which: then nobody can be given parts, and counts say
	// nothing.
	blind bool
	// claims is what the class asks for through claims, where they are counted; nil: nothing. offers is what they are
	// met with.
	claims *api.Claims
	offers *device.Offers
	// idle is what is free before any unit goes, in the unit of freed.
	idle int64
}

// read enters the node as it is. It reuses the slices, so that a scan allocates nothing.
func (c *cards) read(n *cluster.Node, class *index.Class) {
	*c = cards{of: c.of[:0], whole: c.whole[:0], shut: c.shut[:0], node: n}
	if !class.Shape.HasGPU || n.Cards == nil {
		c.of = nil
		return
	}
	c.of, c.whole = append(c.of, n.Cards...), append(c.whole, n.Holders...)
	c.blind = n.UnknownDevices > 0
	for i := range c.of {
		//mutate: preempt-named
		c.shut = append(c.shut, c.of[i].Closed && c.whole[i] == 0 || !class.Takes(n, i))
		c.of[i].Closed = c.of[i].Closed || c.shut[i]
	}
}

// readOffers enters the node's devices for the claims of the class as they are.
func (c *cards) readOffers(n *cluster.Node, class *index.Class) {
	if c.claims = class.ClaimsOn(n); c.claims != nil && n.Offers != nil {
		c.offers = n.Offers.Copy()
	}
}

// free counts what the pod has as free or, with by = -1, as taken again. A card that is held whole by somebody else
// stays closed.
func (c *cards) free(p *cluster.Pod, by int32) {
	if c.of == nil && c.offers == nil {
		return
	}
	for _, id := range p.HostDevices {
		i := c.node.DeviceIndex(id)
		switch {
		case i < 0:
			//mutate: move-offers
			c.offers.Hold(id, -by)
		case c.of == nil:
		case p.Part != nil && c.of[i].MaxSharers > 0:
			c.of[i].Give(p.Part, -by)
		default:
			c.whole[i] -= by
			c.of[i].Closed = c.shut[i] || c.whole[i] > 0
		}
	}
}

// room counts the pods of the class, up to most, that the cards hold.
func (c *cards) room(class *index.Class, most int64) int64 {
	part := class.Shape.Spec.Part
	if c.claims != nil {
		if most = c.offers.Pods(c.claims, min(most, mostParts)); most == 0 || !class.Shape.HasGPU {
			return most
		}
	}
	switch {
	// A node that gives no parts has room for none.
	case c.of == nil && part != nil:
		return 0
	// Counts by card say nothing here, so the sums of the node stand, and the model decides.
	case c.of == nil || c.blind:
		return most
	// Parts are dealt out card by card, up to a number that no claim which is searched asks for.
	case part != nil:
		return device.PartPods(c.of, part, class.Wants.Model, min(most, mostParts))
	}
	return c.spare(class) / max(1, class.Shape.GPUs)
}

// mostParts is how many pods with parts are counted on a node: a claim of more is not searched.
const mostParts = 1024

// spare is what is free on the cards: MiB for a class that asks for parts, else the number of cards of which nobody
// has anything.
func (c *cards) spare(class *index.Class) (sum int64) {
	for i := range c.of {
		card := &c.of[i]
		switch {
		case card.Closed || class.Wants.Model != "" && card.Model != class.Wants.Model:
		case class.Shape.Spec.Part != nil:
			if card.MaxSharers > 0 {
				sum += max(0, card.Memory-card.UsedMemory)
			}
		case card.Idle():
			sum++
		}
	}
	return sum
}

// pieces is for how many pods of the class what is left of the cards would be enough if it were in one piece, in thousandths, each card's
// rounded up.
func (c *cards) pieces(class *index.Class) (sum int64) {
	part, each := class.Shape.Spec.Part, max(1, class.Shape.GPUs)
	switch {
	case c.claims != nil:
		return c.node.Offers.Pieces(c.claims)
	case c.of == nil && part == nil:
		return max(0, c.node.Free.At(quantity.DimGPU)) * api.Whole / each
	case c.blind:
		return 0
	}
	for i := range c.of {
		card := &c.of[i]
		of := card.Memory // that a pod takes
		if part != nil {
			of, each = part.Of(card.Memory), int64(part.Cards)
		}
		left := card.Memory - card.UsedMemory
		switch {
		case left <= 0 || card.Closed || class.Wants.Model != "" && card.Model != class.Wants.Model:
		case card.MaxSharers > 0:
			sum += (left*api.Whole + of*each - 1) / max(1, of*each)
		case part == nil:
			sum += api.Whole
		}
	}
	return sum
}

// freed is the most that the unit's pods leave on the cards, in the unit of spare.
func (c *cards) freed(u *unit, class *index.Class) (sum int64) {
	for _, p := range u.pods {
		if p.Host != c.node {
			continue
		}
		for _, id := range p.HostDevices {
			i := c.node.DeviceIndex(id)
			switch {
			case i < 0:
			case class.Shape.Spec.Part == nil:
				sum++
			case p.Part != nil && c.of[i].MaxSharers > 0:
				sum += p.Part.Of(c.of[i].Memory)
			default:
				sum += c.of[i].Memory
			}
		}
	}
	return sum
}

// each is the least that a pod of the class takes, in the unit of spare for the leading class; 0 where the two
// classes are counted in different units. The least is right for a bound: a part that is a share of a card takes less
// of a small card.
func (c *cards) each(class, lead *index.Class) int64 {
	part := class.Shape.Spec.Part
	if (part == nil) != (lead.Shape.Spec.Part == nil) {
		return 0
	}
	if part == nil {
		return class.Shape.GPUs
	}
	least := int64(math.MaxInt64)
	for i := range c.of {
		if c.of[i].MaxSharers > 0 {
			least = min(least, part.Of(c.of[i].Memory))
		}
	}
	if least == math.MaxInt64 {
		return 0
	}
	return least * int64(part.Cards)
}
