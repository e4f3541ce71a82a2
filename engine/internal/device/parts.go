package device

import (
	"cmp"
	"slices"

	"github.com/berth-dev/berth/engine/internal/api"
)

// Card is a GPU as far as parts of it are given away. Amounts of memory are MiB, amounts of compute thousandths of
// the GPU's.
type Card struct {
	Model      string
	Memory     int64 // MiB
	MaxSharers int32 // how many pods may have a part of it; 0: it is given whole only
	Closed     bool  // held whole, unhealthy, or another node's

	// What is given away, and to how many pods. Others may have given more than there is, so nothing relies on the
	// rest being 0 or more.
	UsedMemory, UsedCompute int64
	Sharers                 int32

	Mark int32 // as Device.Mark
}

// Give takes the part out of the card, or with by = -1 puts it back. It does not ask whether there is room: what
// others did to a card is entered as it is.
func (c *Card) Give(p *api.Part, by int32) {
	c.UsedMemory += int64(by) * p.Of(c.Memory)
	c.UsedCompute += int64(by) * p.Compute
	c.Sharers += by
}

// Idle says whether nothing of the card is given away.
func (c *Card) Idle() bool { return c.Sharers == 0 && c.UsedMemory == 0 && c.UsedCompute == 0 }

// Empty is the card with nothing given away, and healthy.
func (c *Card) Empty() Card { return Card{Model: c.Model, Memory: c.Memory, MaxSharers: c.MaxSharers} }

// Short is what of a card keeps a part from it.
type Short string

const (
	Enough  Short = ""
	Memory  Short = "memory"
	Compute Short = "compute"
	Sharers Short = "pods"  // as many pods as may have a part of it have one
	Closed  Short = "whole" // held whole, unhealthy, given whole only, or of another model
)

// Lacks is what keeps one more such part from the card, memory before compute before the number of pods. A part of
// all compute shares with no other, and no part joins a card whose compute is all given away.
func (c *Card) Lacks(p *api.Part, model string) Short {
	switch {
	case c.Closed || c.MaxSharers == 0 || model != "" && c.Model != model:
		return Closed
	case c.Memory-c.UsedMemory < p.Of(c.Memory):
		return Memory
	case c.UsedCompute >= api.Whole || api.Whole-c.UsedCompute < p.Compute || p.Compute == api.Whole && c.Sharers > 0:
		return Compute
	case c.Sharers >= c.MaxSharers:
		return Sharers
	}
	return Enough
}

// room is how many such parts the card has room for, by the scarcest of memory, compute and sharers. A part takes no
// memory only of a card with next to none. It is above 0 exactly where Lacks says Enough, so that a certificate never names a
// shortage on a card that counts.
func (c *Card) room(p *api.Part, model string) int64 {
	if c.Lacks(p, model) != Enough {
		return 0
	}
	k := int64(c.MaxSharers - c.Sharers)
	if of := p.Of(c.Memory); of > 0 {
		k = min(k, (c.Memory-c.UsedMemory)/of)
	}
	if p.Compute > 0 {
		k = min(k, (api.Whole-c.UsedCompute)/p.Compute)
	}
	return k
}

// PartPods counts the pods with such parts that the cards hold at once, up to most: the largest number n for which
// the cards, each giving a pod one part at most, have n parts for each of p.Cards.
//
// For example, a pod wants a part on each of two cards, and three cards have room for 3, 1 and 1 such parts. Two pods
// can use min(3,2) + 1 + 1 = 4 parts and need 4: they fit. Three can use 3 + 1 + 1 = 5 and need 6: they do not.
//
// That the sum is enough and not only necessary: deal the parts out card by card, to one pod after the other and
// round again. No card has more than n parts to deal, so no pod is dealt two of one card.
func PartPods(cards []Card, p *api.Part, model string, most int64) int64 {
	var buf [few]int64
	return partPods(rooms(cards, p, model, buf[:0]), int64(p.Cards), most)
}

func rooms(cards []Card, p *api.Part, model string, out []int64) []int64 {
	for i := range cards {
		out = append(out, cards[i].room(p, model))
	}
	return out
}

// partPods bisects, because if n pods fit, so do fewer. It costs a look at the cards for each of log(most) steps.
func partPods(rooms []int64, each, most int64) int64 {
	// Invariant: low pods fit; high pods do not, or are not asked for.
	low, high := int64(0), most+1
	for low+1 < high {
		n := low + (high-low)/2
		if supply(rooms, n) >= each*n {
			low = n
		} else {
			high = n
		}
	}
	return low
}

// supply is how many parts n pods can use: of one card no pod uses two.
func supply(rooms []int64, n int64) (sum int64) {
	for _, r := range rooms {
		sum += min(r, n)
	}
	return sum
}

// mostSharers bounds how many pods are counted on the cards of a node: no node has room for more.
const mostSharers = 1 << 16

// ChooseParts appends the cards for one pod to dst, as ascending indices, or returns nil when it does not fit. As
// many pods like it fit afterwards as PartPods said before, less this one. Among such choices it takes cards in use
// before empty ones, then those with the least memory left, then those with the least compute left; of a part that is
// to be spread the other way round.
//
// Let n pods fit. A card with room for n or more (critical) can give the n-1 others a part each, whether it is chosen
// or not, so it may be chosen freely. A card with less room gives the others one part less if it is chosen. The
// others need each*(n-1) parts; what the cards have beyond that, with one part of each critical card gone, is spare,
// and only so many of the smaller cards may be chosen.
//
// In the example of PartPods n is 2, and the card with room 3 is critical: spare is 4 - 1 - 2 = 1. The pod gets the
// large card and one of the small ones. With both small ones it would leave the other pod only one card.
func ChooseParts(cards []Card, p *api.Part, model string, dst []int) []int {
	var buf, at [few]int64
	room := rooms(cards, p, model, buf[:0])
	each := int64(p.Cards)
	pods := partPods(room, each, mostSharers)
	if pods == 0 {
		return nil
	}
	order, critical := at[:0], int64(0)
	for i, r := range room {
		if r > 0 {
			order = append(order, int64(i))
		}
		if r >= pods {
			critical++
		}
	}
	slices.SortFunc(order, func(a, b int64) int { return compareCards(&cards[a], &cards[b], p, a, b) })
	// spare and the critical cards are always enough for this pod: supply is at least each*pods, so spare is at least
	// each less critical.
	spare := supply(room, pods) - critical - each*(pods-1)
	from := len(dst)
	for _, i := range order {
		if room[i] < pods {
			if spare == 0 {
				continue
			}
			spare--
		}
		if dst = append(dst, int(i)); len(dst)-from == p.Cards {
			break
		}
	}
	slices.Sort(dst[from:])
	return dst
}

// compareCards is the order in which cards are chosen for the part. It ends in the index. Cards that are empty come last, since an empty one
// is also what a pod wants that takes it whole; to spread parts is to turn all of that round but the index, which decides nothing but
// that equal states give equal choices.
func compareCards(x, y *Card, p *api.Part, a, b int64) int {
	idle := func(c *Card) int {
		if c.Sharers > 0 {
			return 0
		}
		return 1
	}
	fuller := cmp.Or(cmp.Compare(idle(x), idle(y)), cmp.Compare(x.memoryLeft(p), y.memoryLeft(p)), cmp.Compare(y.UsedCompute, x.UsedCompute))
	//mutate: parts-spread
	if p.Spread {
		fuller = -fuller
	}
	return cmp.Or(fuller, cmp.Compare(a, b))
}

// memoryLeft is what of the card's memory is left once the part is given; negative where it has no room.
func (c *Card) memoryLeft(p *api.Part) int64 { return c.Memory - c.UsedMemory - p.Of(c.Memory) }

// Snugness says how well one pod's parts lie on the cards, from 0 to 1<<11: cards in use before empty ones, then the
// less is left of the first card the better. 0 where the pod does not fit.
func Snugness(cards []Card, p *api.Part, model string) int64 {
	var buf [few]int
	packed := *p
	packed.Spread = false // that is about the cards of a node, and not about which node
	at := ChooseParts(cards, &packed, model, buf[:0])
	if at == nil {
		return 0
	}
	c := &cards[at[0]]
	snug := api.Whole - c.memoryLeft(p)*api.Whole/c.Memory
	if !slices.ContainsFunc(at, func(i int) bool { return cards[i].Sharers == 0 }) {
		snug += 1 << 10
	}
	return snug
}

// EachParts visits the ways to have one pod's parts on the cards, as ascending indices, until visit says to stop. Of
// cards that are alike it visits the first ones. The slice is good until visit returns. There may be as many ways as
// there are subsets of p.Cards cards, which is why alike ones are passed over. Cards are alike if nothing that is kept of them
// differs, what is given away included: of two halves on unlike cards, one way each. As in Each, only neighbours are passed over.
func EachParts(cards []Card, p *api.Part, model string, visit func([]int) bool) {
	var at []int
	for i := range cards {
		if cards[i].Lacks(p, model) == Enough {
			at = append(at, i)
		}
	}
	var taken []int
	var from func(k int) bool
	from = func(k int) bool {
		if len(taken) == p.Cards {
			return visit(taken)
		}
		if len(at)-k < p.Cards-len(taken) {
			return true
		}
		taken = append(taken, at[k])
		ok := from(k + 1)
		taken = taken[:len(taken)-1]
		if !ok {
			return false
		}
		// What was left out once is left out for good: to take a like card instead would be the same way again.
		next := k + 1
		for next < len(at) && cards[at[next]] == cards[at[k]] {
			next++
		}
		return from(next)
	}
	from(0)
}
