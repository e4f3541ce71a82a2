package preempt

import (
	"math"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/device"
	"github.com/berth-dev/berth/engine/internal/index"
	"github.com/berth-dev/berth/engine/internal/quantity"
)

// Room for parts of GPUs, and for devices of claims. The scan (scan.go) counts how many pods of a class a node would hold
// with some units gone. For whole GPUs a quotient of sums answers that. It does not for parts: a part takes nothing of the
// node's GPU count, and what is left of two cards does not add up to one part. cards therefore keeps what each card of
// one node would have left, and counts card by card.
//
// For example, two cards of 80 GiB have 30 GiB left each. By sums a part of 40 GiB fits; card by card it does not. A
// unit that gives 10 GiB back on either card makes the room (scenario parts-cheapest).
//
// Devices that pods have through resource claims are counted in the same place, since they overlap as parts do: a copy of
// the node's offers is kept, and pods are met with it one after the other. They are counted only for moves (candidate in
// scan.go says why).
//
// The lower bound of the search (lowerbound.go) needs one amount that every unit frees and every pod needs. For a claimant
// that asks for parts it is memory, in MiB. For one that asks for whole GPUs it is the number of cards that a unit is on:
// the unit frees no more cards than that, so the bound holds, although two units may share a card.
//
// A cards belongs to one node and one class, is filled by read when a scan first meets the node, and is moved by free as
// units count as gone or as there again. It holds as long as the scan: what a trial changes in the model is restored before
// the scan goes on. Reading costs a copy of the cards, a count of whole GPUs a look at each card, and one of parts a bisection
// with a look at each card for each step.

// cards is what the cards of one node, and its devices for claims, would have left.
type cards struct {
	// of is a copy of the node's cards, by the index of the device, with what is given away of each; nil: the node gives
	// no parts, or the class asks for no GPU. Then sums decide.
	of   []device.Card
	node *cluster.Node
	// whole is, by card, how many pods have it whole, places held for some included. It is more than 1 where others gave
	// a card twice.
	whole []int32
	// shut says, by card, that it stays closed whatever is evicted: it is unhealthy or another node's, or the class names other
	// GPUs.
	shut []bool
	// blind says that some pod has GPUs and it is not known which. No part can be given then, and a count by card
	// says nothing.
	blind bool
	// claims is what a pod of the class must be given through claims on this node; nil: nothing, or not counted. offers is
	// the copy that they are met with; nil: the node offers nothing.
	claims *api.Claims
	offers *device.Offers
	// idle is what is free before any unit goes, in the unit of spare.
	idle int64
}

// read enters the node as the model has it, for pods of the class; whatever c was for another node or class is dropped. It
// keeps the memory of the slices, so that a scan allocates nothing once it has met the largest node.
func (c *cards) read(n *cluster.Node, class *index.Class) {
	*c = cards{of: c.of[:0], whole: c.whole[:0], shut: c.shut[:0], node: n}
	if !class.Shape.HasGPU || n.Cards == nil {
		c.of = nil
		return
	}
	c.of, c.whole = append(c.of, n.Cards...), append(c.whole, n.Holders...)
	c.blind = n.UnknownDevices > 0
	for i := range c.of {
		// A card that is closed although no pod has it whole is unhealthy, or another node's. One that is closed because a pod
		// has it may open when that unit goes.
		//mutate: preempt-named
		c.shut = append(c.shut, c.of[i].Closed && c.whole[i] == 0 || !class.Takes(n, i))
		c.of[i].Closed = c.of[i].Closed || c.shut[i]
	}
}

// readOffers enters the node's devices for the claims of the class as the model has them. It is called after read. It copies
// who holds each device, which is dear on nodes that offer partitions, so that only moves ask for it.
func (c *cards) readOffers(n *cluster.Node, class *index.Class) {
	if c.claims = class.ClaimsOn(n); c.claims != nil && n.Offers != nil {
		c.offers = n.Offers.Copy()
	}
}

// free counts what the pod has as free or, with by = -1, as taken again. The pod must be on the node. It is its own
// inverse, in any order. A card that another pod has whole as well stays closed.
func (c *cards) free(p *cluster.Pod, by int32) {
	if c.of == nil && c.offers == nil {
		return
	}
	for _, id := range p.HostDevices {
		i := c.node.DeviceIndex(id)
		switch {
		// What is no device of the node is one of its offers, or is not told any more; Hold passes over the latter.
		case i < 0:
			//mutate: move-offers
			c.offers.Hold(id, -by)
		case c.of == nil: // only claims are counted
		case p.Part != nil && c.of[i].MaxSharers > 0:
			c.of[i].Give(p.Part, -by)
		default:
			c.whole[i] -= by
			c.of[i].Closed = c.shut[i] || c.whole[i] > 0
		}
	}
}

// room counts the pods of the class, up to most, that the cards and offers have room for at the same time. The caller has
// counted the other resources already: most is what they have room for.
func (c *cards) room(class *index.Class, most int64) int64 {
	part := class.Shape.Spec.Part
	// A pod may ask for GPUs and for devices through claims; it needs both.
	if c.claims != nil {
		if most = c.offers.Pods(c.claims, min(most, mostParts)); most == 0 || !class.Shape.HasGPU {
			return most
		}
	}
	switch {
	// A node that gives no parts has room for none.
	case c.of == nil && part != nil:
		return 0
	// Counts by card say nothing here, so the sums of the node stand, and the model decides. For a class that asks for
	// parts this is too much, which errs on the side that the search allows (scan.go).
	case c.of == nil || c.blind:
		return most
	// Parts are dealt out card by card, up to a number that no claim which is searched asks for.
	case part != nil:
		return device.PartPods(c.of, part, class.Wants.Model, min(most, mostParts))
	}
	return c.spare(class) / max(1, class.Shape.GPUs)
}

// mostParts bounds how many pods with parts or claims are counted on one node. Claims of more pods are not searched.
const mostParts = 1024

// spare is what is free on the cards: MiB for a class that asks for parts, and otherwise the number of cards of which
// nothing is given away. It is an upper bound for parts: it ignores compute, the number of sharers and fragmentation.
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

// pieces is the number of pods of the class, in thousandths, for which what is left of the cards would be enough if it were
// in one piece. It decides whether moving work could help (pieces.go), and is meant to be too large rather than too small:
// each card is rounded up.
//
// For example, a pod asks for a part of 40 GiB, and two cards have 30 GiB left each: 750 + 750 are 1.5 pods. A pod of one
// whole GPU on the same node, of cards of 80 GiB: 375 + 375, less than one pod.
func (c *cards) pieces(class *index.Class) (sum int64) {
	// each is the number of cards that one pod takes something of.
	part, each := class.Shape.Spec.Part, max(1, class.Shape.GPUs)
	switch {
	case c.claims != nil:
		return c.node.Offers.Pieces(c.claims)
	// All GPUs of the node are given whole, and counted by sums.
	case c.of == nil && part == nil:
		return max(0, c.node.Free.At(quantity.DimGPU)) * api.Whole / each
	case c.blind:
		return 0
	}
	for i := range c.of {
		card := &c.of[i]
		of := card.Memory // what a pod takes of this card
		if part != nil {
			of, each = part.Of(card.Memory), int64(part.Cards)
		}
		left := card.Memory - card.UsedMemory
		switch {
		case left <= 0 || card.Closed || class.Wants.Model != "" && card.Model != class.Wants.Model:
		case card.MaxSharers > 0:
			sum += (left*api.Whole + of*each - 1) / max(1, of*each)
		case part == nil: // a card that is given whole only, and is idle
			sum += api.Whole
		}
	}
	return sum
}

// freed is the most that the unit's pods on this node leave on its cards, in the unit of spare. It is an upper bound: a
// pod that shares a card with another unit leaves no idle card, and yet counts as one for a class of whole GPUs.
func (c *cards) freed(u *unit, class *index.Class) (sum int64) {
	for _, p := range u.pods {
		if p.Host != c.node {
			continue
		}
		for _, id := range p.HostDevices {
			i := c.node.DeviceIndex(id)
			switch {
			case i < 0: // through a claim, which leaves no card
			case class.Shape.Spec.Part == nil:
				sum++
			case p.Part != nil && c.of[i].MaxSharers > 0:
				sum += p.Part.Of(c.of[i].Memory)
			default: // it has the card whole
				sum += c.of[i].Memory
			}
		}
	}
	return sum
}

// each is the least that a pod of the class takes on this node, in the unit of spare for lead, the class that the search
// counts by; 0 where the two classes are counted in different units, and where no card of the node gives parts. The least
// is right for a lower bound: a part that is a share of a card takes less of a small card than of a large one.
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
