package openb

import (
	"math/bits"

	"github.com/berth-dev/berth/engine/internal/fragment"
)

// Berth is Berth's own policy: the score of package fragment over the requests that have arrived so far. It is told nothing
// of the workload beforehand.
type Berth struct {
	weights fragment.Weights
	mix     *fragment.Mix
	table   *fragment.Table
	arrived int
	next    int // arrivals at which the prices are made anew
}

// NewBerth begins with an empty history. Of the workload it uses the nodes.
func NewBerth(w *Workload, weights fragment.Weights) *Berth {
	supply := make([]int64, 32)
	for i := range w.Empty {
		supply[model(&w.Empty[i])] += int64(w.Empty[i].GPUs)
	}
	return &Berth{weights: weights, mix: fragment.NewMix(supply), next: 1}
}

// Arrive implements Scorer.
func (b *Berth) Arrive(c *Class) bool {
	b.mix.Add(c.kind())
	b.arrived++
	if b.arrived < b.next {
		return false
	}
	b.next = b.arrived + min(b.arrived, 1000)
	b.table = b.mix.Table(b.weights)
	return true
}

// Score implements Scorer.
func (b *Berth) Score(r *Room, c *Class) (int64, int) {
	k := c.kind()
	cost, card := b.table.Cost(&fragment.Room{CPU: r.CPU, Free: r.Cards[:r.GPUs], Model: model(r)}, &k)
	return -cost, card
}

func (c *Class) kind() fragment.Kind {
	return fragment.Kind{CPU: c.CPU, Cards: c.GPUs, Milli: c.Milli, Models: uint64(c.Models)}
}

func model(r *Room) int { return bits.TrailingZeros32(r.Model) }
