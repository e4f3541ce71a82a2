package mig

import (
	"cmp"
	"math"
	"slices"
)

// Moving plays the case as the engine does by default: a request goes where Worth sends it, and where it has no place the cheapest set
// of instances that are on one card is moved so that it has one, if each of them has a place elsewhere. Moved counts the instances; a
// move ends an instance and starts it again in its next place, and here it takes no time.
//
// What is moved of one card is what lies where the request would begin. It goes to other cards, the largest first, each where Worth sends it,
// and displaces nothing there: no chains.
func Moving(c Case) (res Result, moved int) {
	m := &moving{cards: make([]uint8, c.Cards), on: make([][]*instance, c.Cards), policy: NewWorth(c.Mix)}
	res = play(c, func(profile int) func() {
		card, start := m.policy.Place(m.cards, profile)
		if card < 0 {
			set, to := m.cheapest(profile)
			if set == nil {
				return nil
			}
			for i, in := range set {
				card, start = in.card, to[len(set)].start
				m.take(in)
				in.card, in.start = to[i].card, to[i].start
				m.put(in)
			}
			moved += len(set)
		}
		in := &instance{profile: profile, card: card, start: start}
		m.put(in)
		return func() { m.take(in) }
	})
	return res, moved
}

// moving is the cards, and who is where.
type moving struct {
	cards  []uint8
	on     [][]*instance // by card, as they came
	policy Worth
}

type instance struct{ profile, card, start int }

func (in *instance) mask() uint8 { return A100[in.profile].Mask(in.start) }

func (m *moving) put(in *instance) {
	if m.cards[in.card]&in.mask() != 0 {
		panic("mig: two instances in one slot")
	}
	m.cards[in.card] |= in.mask()
	m.on[in.card] = append(m.on[in.card], in)
}

func (m *moving) take(in *instance) {
	m.cards[in.card] &^= in.mask()
	m.on[in.card] = slices.DeleteFunc(m.on[in.card], func(o *instance) bool { return o == in })
}

// place is where an instance goes.
type place struct{ card, start int }

// cheapest is the set of instances of one card with the fewest slices that can be moved so that the profile has a place, in the order in which
// they are moved, and where each goes, the request last; nil: there is none. Of equal sets it is the first.
func (m *moving) cheapest(profile int) (set []*instance, to []place) {
	least := math.MaxInt
	for card := range m.cards {
		for _, start := range A100[profile].Starts {
			wanted := A100[profile].Mask(start)
			slicesOf := 0
			var in []*instance
			for _, i := range m.on[card] {
				if i.mask()&wanted != 0 {
					in, slicesOf = append(in, i), slicesOf+A100[i.profile].Slices
				}
			}
			if slicesOf >= least {
				continue
			}
			slices.SortStableFunc(in, func(a, b *instance) int { return cmp.Compare(b.profile, a.profile) })
			if at := m.elsewhere(card, in); at != nil {
				set, to, least = in, append(at, place{card, start}), slicesOf
			}
		}
	}
	return set, to
}

// elsewhere is where instances of the card would go, one after the other; nil: one of them has no place on another card.
func (m *moving) elsewhere(card int, set []*instance) (at []place) {
	was := slices.Clone(m.cards)
	defer func() { m.cards = was }()
	m.cards[card] = math.MaxUint8 // nothing more goes there
	for _, in := range set {
		c, s := m.policy.Place(m.cards, in.profile)
		if c < 0 {
			return nil
		}
		m.cards[c] |= A100[in.profile].Mask(s)
		at = append(at, place{c, s})
	}
	return at
}
