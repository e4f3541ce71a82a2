package mig

import "github.com/berth-dev/berth/engine/internal/fragment"

// FirstFit takes the first card with a place, and the first place on it.
type FirstFit struct{}

// Place implements Policy.
func (FirstFit) Place(cards []uint8, profile int) (card, start int) {
	for c, used := range cards {
		for _, s := range A100[profile].Starts {
			if used&A100[profile].Mask(s) == 0 {
				return c, s
			}
		}
	}
	return -1, -1
}

// Worth takes the place after which what remains is worth most, by the table of package fragment; among equals the first card.
type Worth struct {
	slots *fragment.Slots
	asked []int64
}

// NewWorth knows the mix.
func NewWorth(m Mix) Worth { return Worth{fragment.NewSlots(A100), m.Weight[:]} }

// Place implements Policy.
func (w Worth) Place(cards []uint8, profile int) (card, start int) {
	var room, price [5]int64
	for _, used := range cards {
		for p, n := range w.slots.Fit(used) {
			room[p] += n
		}
	}
	w.slots.Prices(price[:0], w.asked, room[:])
	card, start = -1, -1
	least := int64(0)
	for c, used := range cards {
		if s, loss := w.slots.Place(used, profile, price[:]); s >= 0 && (card < 0 || loss < least) {
			card, start, least = c, s, loss
		}
	}
	return card, start
}
