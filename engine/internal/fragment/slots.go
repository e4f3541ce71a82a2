package fragment

// Profile is a size of MIG instances: how many compute slices and memory slots it covers, and at
// which slots it may begin. On an A100, which has 8 memory slots, 3g has 3 slices and 4 slots, and
// begins at slot 0 or 4.
type Profile struct {
	Name   string
	Slices int
	Slots  int
	Starts []int // ascending
}

// Mask has the bits of the slots that an instance covers which begins there, slot 0 at the lowest
// bit. The slots must be on the card: bits above the eighth are cut off.
func (p *Profile) Mask(start int) uint8 { return uint8((1<<p.Slots - 1) << start) }

// count is how many instances fit beside what is in use. The starts of a profile are as far apart
// as it is long, or the profile is one slot long: taking the first that is free never costs
// another.
func (p *Profile) count(used uint8) int64 {
	n := int64(0)
	for _, s := range p.Starts {
		if m := p.Mask(s); used&m == 0 {
			used |= m
			n++
		}
	}
	return n
}

// Slots has, for a model of card, how many instances of each profile fit beside what is in use. It
// does not change. It is a table of all 256 states of a card, because eight slots have no more. The
// MIG study (engine/internal/packing/mig) places by it; the engine does not yet.
//
// A card is worth what still fits on it: how many instances of each profile, at the profile's
// price. A profile is dear if it is asked for often and hardly a card has a place for it, so small
// instances gather on cards that are already cut up, in slots where large ones do not begin.
//
// For example, 1g is to be placed on an empty A100, and 1g, 2g, 3g and 7g have a price. At slot 0
// it costs a place for 7g, one of 3g, one of 2g and one of 1g. At slot 6 it costs the place for 7g,
// that of 3g at 4, and one of 1g, but none of 2g, since 2g begins at 0, 2 and 4 and is two slots
// long. So it goes to slot 6.
type Slots struct {
	// profiles are in the caller's order, by which fit, prices and requests are too.
	profiles []Profile
	// fit is by slots in use, one bit for each, and then by profile.
	fit [256][]int64
}

// NewSlots makes the table of a model's profiles. It costs 256 counts for each profile, once for a
// model.
func NewSlots(profiles []Profile) *Slots {
	t := &Slots{profiles: profiles}
	for used := range t.fit {
		for i := range profiles {
			t.fit[used] = append(t.fit[used], profiles[i].count(uint8(used)))
		}
	}
	return t
}

// Fit is how many instances of each profile fit on a card, each as if alone. The caller adds them
// up over cards, and does not change the slice.
func (t *Slots) Fit(used uint8) []int64 { return t.fit[used] }

// Prices appends to dst what a place for each profile is worth where so many are asked for, in any
// unit, and so many fit on all cards together. It is requests per place, times the slices of an
// instance: that many slices are lost with each place. One is added to the places so that a
// profile without any has a price, too, the highest.
func (t *Slots) Prices(dst, asked, room []int64) []int64 {
	for i := range t.profiles {
		dst = append(dst, asked[i]*int64(t.profiles[i].Slices)*unit/(room[i]+1))
	}
	return dst
}

// Place is the slot at which a profile begins at the least loss on a card, and the loss; -1 where
// it has no place. Among equals it is the first. The loss is the price of every place that is gone
// afterwards, of this profile and of all others.
func (t *Slots) Place(used uint8, profile int, price []int64) (start int, loss int64) {
	p := &t.profiles[profile]
	start = -1
	for _, s := range p.Starts {
		m := p.Mask(s)
		if used&m != 0 {
			continue
		}
		l := int64(0)
		for i, n := range t.fit[used] {
			l += price[i] * (n - t.fit[used|m][i])
		}
		if start < 0 || l < loss {
			start, loss = s, l
		}
	}
	return start, loss
}
