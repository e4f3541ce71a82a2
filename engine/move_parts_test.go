package engine_test

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-dev/berth/engine"
)

// cheapestMove is what the cheapest set of pods of one card costs that may be moved so that the wanted pod and all of them have room:
// every subset of those on each card that somebody makes again is tried, and for each every card for every one of them.
func (c *partsCase) cheapestMove() int64 {
	least := int64(math.MaxInt64)
	for _, on := range c.cards {
		for set := range uint(1) << len(on) {
			cost, moved, gone := int64(0), []engine.Pod{c.wants}, make(map[string]bool)
			for i, p := range on {
				if set>>i&1 == 1 {
					cost, moved, gone[p.Key] = cost+c.lossOf(p), append(moved, p), true
				}
			}
			if cost < min(least, c.gain()) && c.packs(c.left(gone), moved) {
				least = cost
			}
		}
	}
	return least
}

// lossOf is what moving the pod costs: too much where nobody makes it again.
func (c *partsCase) lossOf(p engine.Pod) int64 {
	if !c.made[p.Key] {
		return 1 << 50
	}
	return c.loss(p)
}

// gain is what the wanted pod would lose by waiting for an hour.
func (c *partsCase) gain() int64 {
	of := int64(1000)
	if p := c.wants.Part; p != nil {
		of = max(p.Memory*1000/cardMiB, p.Compute)
	}
	return of * 3600
}

// cardLeft is what is left of a card.
type cardLeft struct{ memory, compute, pods int64 }

// left is what is left of all cards without those that are gone, by ID.
func (c *partsCase) left(gone map[string]bool) map[string]*cardLeft {
	out := make(map[string]*cardLeft)
	for id, on := range c.cards {
		l := &cardLeft{memory: cardMiB, compute: 1000, pods: 8}
		for _, p := range on {
			if !gone[p.Key] {
				l.take(p.Part, 1)
			}
		}
		out[id] = l
	}
	return out
}

func (l *cardLeft) take(p *engine.Part, by int64) {
	if p == nil {
		p = &engine.Part{Memory: cardMiB, Compute: 1000}
	}
	l.memory, l.compute, l.pods = l.memory-by*p.Memory, l.compute-by*p.Compute, l.pods-by
}

func (l *cardLeft) fits(p *engine.Part) bool {
	if p == nil {
		return *l == cardLeft{cardMiB, 1000, 8}
	}
	return l.memory >= p.Memory && l.compute >= p.Compute && l.compute > 0 && l.pods > 0
}

// packs says whether all of them have room at once.
func (c *partsCase) packs(left map[string]*cardLeft, pods []engine.Pod) bool {
	if len(pods) == 0 {
		return true
	}
	p := pods[0].Part
	for _, l := range left {
		if l.fits(p) {
			l.take(p, 1)
			ok := c.packs(left, pods[1:])
			if l.take(p, -1); ok {
				return true
			}
		}
	}
	return false
}

// anyMovesCase is a partsCase in which some pods are made again elsewhere, at most eight, and nobody is evicted.
func anyMovesCase(t *rapid.T) partsCase {
	c := anyPartsCase(t)
	c.made = make(map[string]bool)
	c.wants.Priority, c.Pods[len(c.Pods)-1].Priority = 0, 0
	made := 0
	for i := range c.Pods[:len(c.Pods)-1] {
		if p := &c.Pods[i]; made < 100 && pick(t, true, true, false) {
			made++
			p.Owner, c.made[p.Key] = p.Key, true
		}
	}
	return c
}

// Work is moved for a pod that finds too little on every card, where that helps: no dearer set than the cheapest of one card, and never
// in vain, for what the places keep that are held is free of each card once the set is gone.
func TestMovesOfPartsAreTheCheapest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := anyMovesCase(t)
		plan := engine.Schedule(c.Snapshot, c.now, engine.Config{})
		gone, cost := make(map[string]bool), int64(0)
		for _, e := range plan.Evictions {
			for _, p := range c.Pods {
				if p.Key == e.Pod {
					gone[p.Key] = true
					cost += c.loss(p)
				}
			}
		}
		left, held := c.left(gone), 0
		for _, ch := range plan.Changes {
			if ch.Hold == nil {
				continue
			}
			for _, card := range ch.Hold.Cards {
				held++
				if !left[card.ID].fits(card.Part) {
					t.Fatalf("%+v does not fit on card %s\n%s", card.Part, card.ID, engine.Describe(plan))
				}
				left[card.ID].take(card.Part, 1)
			}
		}
		least := c.cheapestMove()
		switch {
		case len(plan.Evictions) == 0:
			if least > 0 && least < math.MaxInt64 {
				t.Fatalf("nothing is moved, and a set of one card costs %d\n%s", least, engine.Describe(plan))
			}
		case held != len(gone)+1:
			t.Fatalf("%d places are held for %d pods\n%s", held, len(gone)+1, engine.Describe(plan))
		case cost > least || cost >= c.gain():
			t.Fatalf("moved for %d, the cheapest set of one card costs %d\n%s", cost, least, engine.Describe(plan))
		}
	})
}

// cardsInUse counts the cards of which somebody has a part.
func (c *partsCase) cardsInUse() (sum int) {
	for _, on := range c.cards {
		if len(on) > 0 {
			sum++
		}
	}
	return sum
}

// follow lets those that the plan moves end and start again where their places are held, one for each pod.
func (c *partsCase) follow(t *rapid.T, plan engine.Plan) {
	for _, ch := range plan.Changes {
		if ch.Hold == nil {
			continue
		}
		i := slices.IndexFunc(c.Pods, func(p engine.Pod) bool { return p.Owner == ch.Hold.Gang })
		p, to := &c.Pods[i], ch.Hold.Cards[0].ID
		c.cards[p.Devices[0]] = slices.DeleteFunc(c.cards[p.Devices[0]], func(o engine.Pod) bool { return o.Key == p.Key })
		if left := c.left(nil)[to]; !left.fits(p.Part) || left.pods == 8 {
			t.Fatalf("%s goes to card %s, of which %+v is left\n%s", p.Key, to, left, engine.Describe(plan))
		}
		p.Node, p.Devices = ch.Hold.Node, []string{to}
		c.cards[to] = append(c.cards[to], *p)
	}
}

// Moves in the background come to rest: each leaves fewer cards in use, and goes to cards that others use.
func TestMovesOfPartsInTheBackgroundEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := anyMovesCase(t)
		c.Pods = c.Pods[:len(c.Pods)-1] // nobody waits
		for {
			was := c.cardsInUse()
			plan := engine.Schedule(c.Snapshot, c.now, engine.Config{Moves: engine.Moves{Background: 1 << 30}})
			if len(plan.Evictions) == 0 {
				return
			}
			if c.follow(t, plan); c.cardsInUse() >= was {
				t.Fatalf("%d cards are in use, as %d were\n%s", c.cardsInUse(), was, engine.Describe(plan))
			}
		}
	})
}
