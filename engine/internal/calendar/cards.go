package calendar

import (
	"slices"
	"time"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/cluster"
)

// What promised gangs need of cards, on nodes that give parts of GPUs. It is kept card by card and otherwise as resources are: what
// they need when they start, less what will have ended on the card by then.

// cardNeed is an amount of a card: memory in the unit of the card's, compute in thousandths
// (api.Whole is all), and sharers, which are how many may share it. Who has the card to itself needs
// all of it. Below zero, more ends there than is needed.
type cardNeed struct{ memory, compute, sharers int64 }

// cardNeeds is by device of a node, in the order of Node.Cards; nil: nothing of any.
type cardNeeds []cardNeed

// add counts what is kept of the node's cards so many times more: 1 for what is needed, -1 for what
// ends. It changes the receiver where that is not nil.
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
		// Nobody else may be on a card that is taken whole: all of it is needed, and every share.
		if k.Whole || k.Compute == api.Whole {
			x = cardNeed{card.Memory, api.Whole, max(1, int64(card.MaxSharers))}
		}
		y := &c[k.At]
		y.memory, y.compute, y.sharers = y.memory+times*x.memory, y.compute+times*x.compute, y.sharers+times*x.sharers
	}
	return c
}

// atLeast raises each amount to that of the other: what must be left at both of two moments.
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

// any says whether something of some card is needed.
func (c cardNeeds) any() bool {
	return slices.ContainsFunc(c, func(x cardNeed) bool { return x.memory > 0 || x.compute > 0 || x.sharers > 0 })
}

// lacks says whether less than that is left of a card that the pod, which is on the node, is on.
// Other cards are not its fault. A card that one pod has closed for others has nothing left.
func (c cardNeeds) lacks(p *cluster.Pod) bool {
	for _, k := range p.Host.KeptBy(p) {
		if k.At >= len(c) {
			continue
		}
		x, card := c[k.At], &p.Host.Cards[k.At]
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

// kept is what a hold has to keep for it. What is below zero keeps nothing: what ends later cannot
// be had before.
func (c cardNeeds) kept() (out []cluster.Kept) {
	for i, x := range c {
		if x.memory > 0 || x.compute > 0 || x.sharers > 0 {
			out = append(out, cluster.Kept{At: i, Memory: max(0, x.memory), Compute: max(0, x.compute), Sharers: int32(max(0, x.sharers))})
		}
	}
	return out
}

// owedCards is owed of the node's cards: what promised gangs other than g need of each at the time,
// less what will have ended on it. nil where nothing is promised on them.
func (c *Calendar) owedCards(n *cluster.Node, g *cluster.Gang, at time.Time) cardNeeds {
	var sum cardNeeds
	for _, r := range c.reserved[n] {
		if r.gang != nil && r.gang != g && r.holdsAt(at) {
			sum = sum.add(n, r.cards[n], 1)
		}
	}
	if sum == nil {
		return nil
	}
	// What ends by then pays for what is owed, card by card; see owed.
	for _, p := range n.Pods {
		if g != nil && p.In == g && p.Node == "" {
			continue // it is being placed, and is still there then
		}
		if end := c.endOf(p); !end.IsZero() && !end.After(at) {
			sum = sum.add(n, n.KeptBy(p), -1)
		}
	}
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
