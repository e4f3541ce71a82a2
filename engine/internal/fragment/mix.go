package fragment

import (
	"cmp"
	"slices"
)

// Kind is what a request asks for, as far as packing goes: Cards cards of a node, Milli thousandths
// of each, and cores. Milli is 1000 where Cards exceeds 1; both are 0 where no GPU is asked for.
// Two requests that are equal in this are one kind.
type Kind struct {
	CPU    int64 // thousandths of a core
	Cards  int
	Milli  int
	Models uint64 // bits of the models that will do
}

// Shares reports whether the kind asks for a part of one card.
func (k *Kind) Shares() bool { return k.Cards == 1 && k.Milli < whole }

// milli is what the kind asks for of all cards, in thousandths of a card.
func (k *Kind) milli() int64 { return int64(k.Cards) * int64(k.Milli) }

// whole is a card, in thousandths: the unit of Milli and of Room.Free.
const whole = 1000

// window is how many requests a Mix remembers before older ones count half: long enough that the rarest kinds which matter
// (one request in a thousand) have been seen a few times.
const window = 1 << 14

// Mix counts the kinds of requests that have been seen. Prices are made of proportions, so that
// only these matter and not how many requests there were.
type Mix struct {
	// supply is how many cards there are of each model, by the number of its bit in Kind.Models.
	supply []int64
	// kinds are in the order in which they were first seen, and counts are theirs.
	kinds  []Kind
	counts []int64
	// at is where a kind is in kinds; nil in a mix that was made of counts, to which nothing can be
	// added.
	at map[Kind]int
	// total is the sum of counts.
	total int64
}

// NewMix is an empty history of a cluster with so many cards of each model, by the number of the model's bit.
func NewMix(supply []int64) *Mix {
	return &Mix{supply: slices.Clone(supply), at: make(map[Kind]int)}
}

// MixOf is the mix in which there are so many requests of each kind, on a cluster with so many cards of each model. Counts are
// below 2^20, cards of a kind below 2^10, its cores below 2^24 thousandths and there are at most 256 kinds, so that no sum is
// too large.
func MixOf(supply []int64, kinds []Kind, counts []int64) *Mix {
	m := &Mix{supply: supply, kinds: kinds, counts: counts}
	for _, n := range counts {
		m.total += n
	}
	return m
}

// Add counts a request. A request asks for what a cluster could give at best; callers drop others,
// because all
// GPUs would count as useless to a request that fits on no node.
func (m *Mix) Add(k Kind) {
	i, ok := m.at[k]
	if !ok {
		i = len(m.kinds)
		m.at[k] = i
		m.kinds = append(m.kinds, k)
		m.counts = append(m.counts, 0)
	}
	m.counts[i]++
	m.total++
	// About one window is left, and the next halving is a window of requests away.
	if m.total >= 2*window {
		m.halve()
	}
}

// halve makes everything seen so far count half, and forgets kinds of which nothing is left. After
// each further window of requests the oldest count half as much again: a mix follows a cluster
// whose work changes, and a kind that is
// never seen again is forgotten after at most 16 halvings.
func (m *Mix) halve() {
	n := 0
	m.total = 0
	clear(m.at)
	for i := range m.kinds {
		if m.counts[i]/2 == 0 {
			continue
		}
		m.kinds[n], m.counts[n] = m.kinds[i], m.counts[i]/2
		m.at[m.kinds[n]] = n
		m.total += m.counts[n]
		n++
	}
	m.kinds, m.counts = m.kinds[:n], m.counts[:n]
}

// typical is a kind with its weight in the mix, in requests.
type typical struct {
	Kind
	weight int64
}

// most bounds how many kinds a node is weighed against, and with it the cost of looking at a node.
const most = 32

// typicals are the heaviest kinds that ask for GPUs, weighed by requests. They make up 19 of 20
// requests for GPUs, or there are as many as are weighed at most. total is the sum of the weights
// of those returned.
//
// Kinds of one weight are put in an order by what they ask for, and not by when they were first
// seen: the prices of two clusters that saw the same requests are then the same.
func (m *Mix) typicals() (out []typical, total int64) {
	for i, k := range m.kinds {
		if k.Cards > 0 {
			out = append(out, typical{k, m.counts[i]})
			total += m.counts[i]
		}
	}
	slices.SortFunc(out, func(a, b typical) int {
		return cmp.Or(cmp.Compare(b.weight, a.weight), cmp.Compare(a.Cards, b.Cards), cmp.Compare(a.Milli, b.Milli), cmp.Compare(a.CPU, b.CPU), cmp.Compare(a.Models, b.Models))
	})
	n, sum := 0, int64(0)
	for n < len(out) && n < most && sum*20 < total*19 {
		sum += out[n].weight
		n++
	}
	return out[:n], sum
}
