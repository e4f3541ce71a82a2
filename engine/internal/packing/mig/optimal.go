package mig

import (
	"cmp"
	"slices"
)

// Optimal is the least share of requests, in percent, that any policy refuses while enough slices are free, where it moves nothing and does not know
// when instances end: of a few cards, one to three. It may refuse what would fit.
//
// It is the average cost of a Markov decision process, solved by value iteration: a state is how the cards are cut, and of states that only
// differ in the order of cards, or of halves of a card that are alike, there is one. Every sweep bounds the answer from both sides; it ends
// when the bounds are 1 % apart. Three cards are 222,000 states.
func Optimal(c Case) (share float64) {
	p := newProcess(c.Cards)
	rate := c.rate()
	steps := rate + float64(Slices*c.Cards) // events in a mean life, those included in which nothing happens
	value, next := make([]float64, len(p.states)), make([]float64, len(p.states))
	for {
		low, high := 0.0, 0.0
		for s := range p.states {
			st := &p.states[s]
			sum := 0.0
			for profile, w := range c.Mix.Weight {
				best := value[s]
				if st.free >= A100[profile].Slices {
					best++ // refused wrongly
				}
				for _, to := range st.placed[profile] {
					best = min(best, value[to])
				}
				sum += rate * float64(w) / float64(c.Mix.total()) * best
			}
			for _, to := range st.ended {
				sum += value[to]
			}
			sum += float64(Slices*c.Cards-len(st.ended)) * value[s]
			next[s] = sum / steps
			if d := next[s] - value[s]; s == 0 {
				low, high = d, d
			} else {
				low, high = min(low, d), max(high, d)
			}
		}
		first := next[0]
		for s := range next {
			next[s] -= first // values are relative, or they grow for ever
		}
		value, next = next, value
		if high-low <= 0.01*high {
			return 100 * (low + high) / 2 * steps / rate
		}
	}
}

// process is all states of some cards, and how each follows from others.
type process struct{ states []state }

type state struct {
	free   int        // slices
	placed [5][]int32 // by profile, the states after it was placed somewhere
	ended  []int32    // by instance, the state after it has ended
}

// cut is what begins at each slot of a card: a profile of A100, plus one.
type cut [8]uint8

func newProcess(cards int) *process {
	p := &process{}
	number := make(map[[3]cut]int32)
	var all [][3]cut
	numbered := func(of [3]cut) int32 {
		slices.SortFunc(of[:cards], func(a, b cut) int { return slices.Compare(a[:], b[:]) })
		n, ok := number[of]
		if !ok {
			n = int32(len(all))
			number[of], all = n, append(all, of)
		}
		return n
	}
	numbered([3]cut{})
	for at := 0; at < len(all); at++ {
		of, st := all[at], state{free: Slices * cards}
		for i := range cards {
			used := uint8(0)
			for slot, is := range of[i] {
				if is == 0 {
					continue
				}
				used |= A100[is-1].Mask(slot)
				st.free -= A100[is-1].Slices
				after := of
				after[i] = of[i].with(slot, 0)
				st.ended = append(st.ended, numbered(after))
			}
			for profile := range A100 {
				for _, start := range A100[profile].Starts {
					if used&A100[profile].Mask(start) == 0 {
						after := of
						after[i] = of[i].with(start, uint8(profile+1))
						st.placed[profile] = append(st.placed[profile], numbered(after))
					}
				}
			}
		}
		for profile := range st.placed {
			slices.Sort(st.placed[profile])
			st.placed[profile] = slices.Compact(st.placed[profile])
		}
		p.states = append(p.states, st)
	}
	return p
}

// with is the card with something else at a slot, in the form that stands for all that are alike: of two slots that 2g would cover a single
// 1g is in the first, and the first two pairs of slots are in order unless one instance covers both.
func (c cut) with(slot int, is uint8) cut {
	c[slot] = is
	for _, pair := range []int{0, 2, 4} {
		if c[pair] == 0 && c[pair+1] == 1 {
			c[pair], c[pair+1] = 1, 0
		}
	}
	if c[0] <= 2 && cmp.Or(cmp.Compare(c[0], c[2]), cmp.Compare(c[1], c[3])) < 0 {
		c[0], c[1], c[2], c[3] = c[2], c[3], c[0], c[1]
	}
	return c
}
