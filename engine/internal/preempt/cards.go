package preempt

import (
	"math"

	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/device"
	"github.com/berth-dev/berth/engine/internal/index"
)

// The cards of a node that gives parts, as a claim's units would leave them. A part takes nothing of the node's GPU count, and
// what several cards have left adds up to no part: so the scan counts card by card.
//
// The lower bound of the search needs one amount that every unit frees and every pod needs. For a claimant that asks for parts that is
// memory, and for one that asks for whole GPUs the cards that a unit is on: it frees no more of them.
type cards struct {
	of    []device.Card // nil: the node gives no parts, or the class asks for no GPU
	node  *cluster.Node
	whole []int32 // by card: pods that hold it whole, and places held
	shut  []bool  // by card: it is closed whoever goes
	blind bool    // somebody has GPUs and does not say which: nobody gets parts
	idle  int64   // that is free before any unit goes, in the unit of freed
}

// read enters the node as it is.
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

// free counts what the pod has as free or, with by = -1, as taken again.
func (c *cards) free(p *cluster.Pod, by int32) {
	if c.of == nil {
		return
	}
	for _, id := range p.HostDevices {
		i := c.node.DeviceIndex(id)
		switch {
		case i < 0:
		case p.Part != nil && c.of[i].Seats > 0:
			c.of[i].Give(p.Part, -by)
		default:
			c.whole[i] -= by
			c.of[i].Closed = c.shut[i] || c.whole[i] > 0
		}
	}
}

// room is how many pods of the class, up to most, the cards hold.
func (c *cards) room(class *index.Class, most int64) int64 {
	part := class.Shape.Spec.Part
	switch {
	case c.of == nil && part != nil:
		return 0
	case c.of == nil || c.blind:
		return most // the state decides
	case part != nil:
		return device.PartPods(c.of, part, class.Wants.Model, min(most, mostParts))
	}
	return c.spare(class) / max(1, class.Shape.GPUs)
}

// mostParts is how many pods with parts are counted on a node: a claim of more is not searched.
const mostParts = 1024

// spare is what is free on the cards: MiB for a class that asks for parts, else cards of which nobody has anything.
func (c *cards) spare(class *index.Class) (sum int64) {
	for i := range c.of {
		card := &c.of[i]
		switch {
		case card.Closed || class.Wants.Model != "" && card.Model != class.Wants.Model:
		case class.Shape.Spec.Part != nil:
			if card.Seats > 0 {
				sum += max(0, card.Memory-card.UsedMemory)
			}
		case card.Idle():
			sum++
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
			case p.Part != nil && c.of[i].Seats > 0:
				sum += p.Part.Of(c.of[i].Memory)
			default:
				sum += c.of[i].Memory
			}
		}
	}
	return sum
}

// each is the least that a pod of the class takes, in the unit of spare for the leading class.
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
		if c.of[i].Seats > 0 {
			least = min(least, part.Of(c.of[i].Memory))
		}
	}
	if least == math.MaxInt64 {
		return 0
	}
	return least * int64(part.Cards)
}
