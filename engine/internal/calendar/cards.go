package calendar

import (
	"slices"
	"time"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/cluster"
)

// Backfill on nodes that give parts of GPUs: how much of each card work that starts now must leave for promised gangs. The
// method is that of keptOn and owed (reservation.go): what promised gangs need at a moment, less what will have ended by
// then. It is done card by card here, because what is left of two cards does not add up to one part.
//
// For example, gang a was promised a part of 40 GiB on card 0 of n1 at 16:00. Card 0 has 80 GiB: 60 are in use, of which 30
// end at 15:00, and 20 are free. At 16:00 a needs 40 and 30 will have ended, so that 10 must be left. A pod without a run
// time may have 10 GiB of card 0; one that is over by 16:00 may have all 20.
//
// Memory, compute and the number of pods are kept apart, and each must be left: of what a card has two may be plenty and the
// third used up. A part with all of a card's compute, and a pod that has the card whole, exclude all others, and so need all
// three.
//
// The needs follow from the reservations and from the pods and holds of the node, and are worked out for each question.
// One costs a look at each of these, and at the end of each pod.

// cardNeed is an amount of one card: memory in MiB, compute in thousandths of the card (api.Whole is all of it), and
// sharers, the number of pods that may have a part of it. A pod that has the card to itself needs all of it. Each may be
// negative in a sum: then more ends there than is needed.
type cardNeed struct{ memory, compute, sharers int64 }

// cardNeeds has an entry for each device of a node, in the order of Node.Cards; nil: nothing of any card is needed.
type cardNeeds []cardNeed

// add adds what is kept of the node's cards, so many times: 1 for what is needed, -1 for what ends. It changes the
// receiver where that is not nil, and returns the sum. Nodes that give no parts have no cards, and nothing is added.
func (c cardNeeds) add(n *cluster.Node, kept []cluster.Kept, times int64) cardNeeds {
	if len(kept) == 0 || n.Cards == nil {
		return c
	}
	if c == nil {
		c = make(cardNeeds, len(n.Cards))
	}
	for _, k := range kept {
		card := &n.Cards[k.At]
		x := cardNeed{k.Memory, k.Compute, int64(k.Sharers)}
		// No other pod may be on a card that is taken whole, or with all of its compute: all of it is needed, and every
		// share. A card that is given whole only has no shares, and counts as one of one.
		if k.Whole || k.Compute == api.Whole {
			x = cardNeed{card.Memory, api.Whole, max(1, int64(card.MaxSharers))}
		}
		y := &c[k.At]
		y.memory, y.compute, y.sharers = y.memory+times*x.memory, y.compute+times*x.compute, y.sharers+times*x.sharers
	}
	return c
}

// atLeast raises each amount to that of the other, and returns the result: what must be left at both of two moments is the
// larger of the two needs. It changes the receiver where that is not nil, and never o.
func (c cardNeeds) atLeast(o cardNeeds) cardNeeds {
	if o == nil {
		return c
	}
	if c == nil {
		c = make(cardNeeds, len(o))
	}
	for i, x := range o {
		y := &c[i]
		y.memory, y.compute, y.sharers = max(y.memory, x.memory), max(y.compute, x.compute), max(y.sharers, x.sharers)
	}
	return c
}

// any says whether something of some card must be left. Negative amounts need nothing.
func (c cardNeeds) any() bool {
	return slices.ContainsFunc(c, func(x cardNeed) bool { return x.memory > 0 || x.compute > 0 || x.sharers > 0 })
}

// lacks says whether less than is needed is left of one of the cards that the pod has. The pod must be on the node already,
// so that what it takes is not among what is left. Cards that it does not have are not its doing: others may have taken too
// much of them.
func (c cardNeeds) lacks(p *cluster.Pod) bool {
	for _, k := range p.Host.KeptBy(p) {
		if k.At >= len(c) {
			continue
		}
		x, card := c[k.At], &p.Host.Cards[k.At]
		// A card that is held whole gives nothing, whatever its amounts say.
		if card.Closed && (x.memory > 0 || x.compute > 0 || x.sharers > 0) {
			return true
		}
		if x.memory > 0 && card.Memory-card.UsedMemory < x.memory || x.compute > 0 && api.Whole-card.UsedCompute < x.compute ||
			x.sharers > 0 && int64(card.MaxSharers-card.Sharers) < x.sharers {
			return true
		}
	}
	return false
}

// kept is what a hold must keep of the cards so that the needs are left. A negative amount keeps nothing: what ends later
// cannot be had before.
func (c cardNeeds) kept() (out []cluster.Kept) {
	for i, x := range c {
		if x.memory > 0 || x.compute > 0 || x.sharers > 0 {
			out = append(out, cluster.Kept{At: i, Memory: max(0, x.memory), Compute: max(0, x.compute), Sharers: int32(max(0, x.sharers))})
		}
	}
	return out
}

// owedCards is what promised gangs other than g need of each card of the node at the given time, less what will have ended
// on it by then: the same as owed, by card. nil where nothing of a card is promised. g nil leaves no gang out.
func (c *Calendar) owedCards(n *cluster.Node, g *cluster.Gang, at time.Time) cardNeeds {
	// First what is needed by promised gangs that are there at the time.
	var sum cardNeeds
	for _, r := range c.reserved[n] {
		if r.gang != nil && r.gang != g && r.holdsAt(at) {
			sum = sum.add(n, r.cards[n], 1)
		}
	}
	if sum == nil {
		return nil
	}
	// What ends by then is subtracted. A pod whose end is unknown is never subtracted, so that promises are kept from it.
	for _, p := range n.Pods {
		if g != nil && p.In == g && p.Node == "" {
			continue // it is being placed, and is still there then
		}
		if end := c.endOf(p); !end.IsZero() && !end.After(at) {
			sum = sum.add(n, n.KeptBy(p), -1)
		}
	}
	// So are places that are held for work which will have come and gone. A hold without a gang is scratch of a trial.
	for _, h := range n.Held {
		if h.Gang == "" || g != nil && h.IsFor(g) {
			continue
		}
		if end := c.holdEnd(h); !end.IsZero() && !end.After(at) {
			sum = sum.add(n, h.Keeps(), -1)
		}
	}
	return sum
}
