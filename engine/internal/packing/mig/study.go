package mig

import (
	"container/heap"
	"math/rand"

	"github.com/berth-dev/berth/engine/internal/fragment"
)

// A100 has the profiles 1g to 7g of an A100 as NVIDIA's driver places them, over eight memory slots. That the compute slices of
// a card add up to no more than seven follows from the slots.
var A100 = []fragment.Profile{
	{Name: "1g", Slices: 1, Slots: 1, Starts: []int{0, 1, 2, 3, 4, 5, 6}},
	{Name: "2g", Slices: 2, Slots: 2, Starts: []int{0, 2, 4}},
	{Name: "3g", Slices: 3, Slots: 4, Starts: []int{0, 4}},
	{Name: "4g", Slices: 4, Slots: 4, Starts: []int{0}},
	{Name: "7g", Slices: 7, Slots: 8, Starts: []int{0}},
}

// Slices are the compute slices of a card.
const Slices = 7

// Mix is how often each profile of A100 is asked for, in parts of 100.
type Mix struct {
	Name   string
	Weight [5]int64
}

// Mixes are the three of the study.
var Mixes = []Mix{
	{"small", [5]int64{50, 25, 15, 5, 5}},
	{"even", [5]int64{20, 20, 20, 20, 20}},
	{"large", [5]int64{10, 15, 30, 20, 25}},
}

// Policy chooses where a request goes.
type Policy interface {
	// Place returns a card and the slot at which the profile begins on it; a card below 0 refuses. Cards are their slots in use.
	Place(cards []uint8, profile int) (card, start int)
}

// Case is one point of the study.
type Case struct {
	Cards, Arrivals int
	Load            float64 // slices asked for at a time, on average, as a part of all
	Mix             Mix
	Seed            int64
}

// Result counts requests.
type Result struct {
	Arrived int
	Refused int
	Wrongly int // refused while as many slices were free in total as were asked for
}

// Share is the part of the requests, in percent, that was refused while enough slices were free.
func (r Result) Share() float64 { return 100 * float64(r.Wrongly) / float64(r.Arrived) }

// Run plays the case with cards that can be cut anywhere.
func Run(c Case, p Policy) Result {
	cards := make([]uint8, c.Cards)
	return play(c, func(profile int) func() {
		card, start := p.Place(cards, profile)
		if card < 0 {
			return nil
		}
		mask := A100[profile].Mask(start)
		if cards[card]&mask != 0 {
			panic("mig: a policy put two instances into one slot")
		}
		cards[card] |= mask
		return func() { cards[card] &^= mask }
	})
}

// play draws the arrivals, sizes and lives of a seed, which are the same whatever becomes of them. Admit lets a request in and
// returns what its end does, or nil to refuse it.
func play(c Case, admit func(profile int) (leave func())) Result {
	r := rand.New(rand.NewSource(c.Seed))
	rate := c.rate() // requests per mean life
	free, now := c.Cards*Slices, 0.0
	var running endings
	res := Result{Arrived: c.Arrivals}
	for range c.Arrivals {
		now += r.ExpFloat64() / rate
		profile, life := draw(r.Int63n(c.Mix.total()), c.Mix.Weight), r.ExpFloat64()
		for len(running) > 0 && running[0].at <= now {
			e := heap.Pop(&running).(ending)
			e.leave()
			free += A100[e.profile].Slices
		}
		leave := admit(profile)
		if leave == nil {
			res.Refused++
			if free >= A100[profile].Slices {
				res.Wrongly++
			}
			continue
		}
		free -= A100[profile].Slices
		heap.Push(&running, ending{now + life, profile, leave})
	}
	return res
}

// rate is how many requests arrive in a mean life.
func (c Case) rate() float64 {
	slices := int64(0)
	for i, w := range c.Mix.Weight {
		slices += w * int64(A100[i].Slices)
	}
	return c.Load * float64(c.Cards*Slices) * float64(c.Mix.total()) / float64(slices)
}

func (m Mix) total() int64 {
	sum := int64(0)
	for _, w := range m.Weight {
		sum += w
	}
	return sum
}

func draw(n int64, weight [5]int64) int {
	for i, w := range weight {
		if n < w {
			return i
		}
		n -= w
	}
	panic("mig: a draw beyond the weights")
}

// ending is an instance that runs.
type ending struct {
	at      float64
	profile int
	leave   func()
}

type endings []ending

func (e endings) Len() int           { return len(e) }
func (e endings) Less(i, j int) bool { return e[i].at < e[j].at }
func (e endings) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *endings) Push(x any)        { *e = append(*e, x.(ending)) }
func (e *endings) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}
