package fragment

import (
	"testing"

	"pgregory.net/rapid"
)

var a100 = []Profile{
	{Name: "1g", Slices: 1, Slots: 1, Starts: []int{0, 1, 2, 3, 4, 5, 6}},
	{Name: "2g", Slices: 2, Slots: 2, Starts: []int{0, 2, 4}},
	{Name: "3g", Slices: 3, Slots: 4, Starts: []int{0, 4}},
	{Name: "4g", Slices: 4, Slots: 4, Starts: []int{0}},
	{Name: "7g", Slices: 7, Slots: 8, Starts: []int{0}},
}

// most of a profile that fit, every subset of its starts tried.
func mostByTrying(p *Profile, used uint8) int64 {
	best := int64(0)
	for set := range 1 << len(p.Starts) {
		taken, n, ok := used, int64(0), true
		for i, s := range p.Starts {
			if set>>i&1 == 1 {
				ok = ok && taken&p.Mask(s) == 0
				taken |= p.Mask(s)
				n++
			}
		}
		if ok {
			best = max(best, n)
		}
	}
	return best
}

func TestSlotsPlaceLeavesTheMost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		price := rapid.SliceOfN(rapid.Int64Range(0, unit), len(a100), len(a100)).Draw(t, "price")
		slots, used := NewSlots(a100), rapid.Uint8().Draw(t, "used")
		worth := func(used uint8) (sum int64) {
			for i := range a100 {
				sum += price[i] * mostByTrying(&a100[i], used)
			}
			return sum
		}
		for i := range a100 {
			best := int64(-1)
			for _, s := range a100[i].Starts {
				if m := a100[i].Mask(s); used&m == 0 {
					best = max(best, worth(used|m))
				}
			}
			start, loss := slots.Place(used, i, price)
			if start < 0 {
				if best >= 0 {
					t.Fatalf("%s has a place on %08b", a100[i].Name, used)
				}
				continue
			}
			if used&a100[i].Mask(start) != 0 || worth(used)-loss != best || worth(used|a100[i].Mask(start)) != best {
				t.Fatalf("%s at slot %d of %08b leaves %d, not %d", a100[i].Name, start, used, worth(used)-loss, best)
			}
		}
	})
}

func TestSmallInstancesKeepOutOfTheWay(t *testing.T) {
	slots := NewSlots(a100)
	price := slots.Prices(nil, []int64{20, 20, 20, 20, 20}, []int64{1400, 600, 400, 200, 200})
	if start, _ := slots.Place(0, 0, price); start != 6 {
		t.Errorf("a 1g begins at slot %d of an empty card, where it keeps a larger one out", start)
	}
	_, empty := slots.Place(0, 0, price)
	if _, cut := slots.Place(0b0100_0000, 0, price); cut >= empty {
		t.Errorf("a 1g costs %d on a card that is cut up, and %d on an empty one", cut, empty)
	}
}
