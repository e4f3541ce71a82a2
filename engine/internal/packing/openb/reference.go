package openb

import "math"

// BestFit is the reference policy that leaves the least behind: half of the weight on cores, half on GPUs, each measured
// against the largest node.
type BestFit struct{}

// Arrive implements Scorer.
func (BestFit) Arrive(*Class) bool { return false }

// Score implements Scorer.
func (BestFit) Score(r *Room, c *Class) (int64, int) {
	cpu := float64(r.CPU-c.CPU) / 128000
	gpu := float64(int64(r.Idle())-int64(c.GPUs)*int64(c.Milli)) / 8000
	return int64(100 * (1 - (0.5*cpu + 0.5*gpu))), c.Tightest(r)
}

// FGD is the reference policy of the paper: it descends the gradient of fragmentation, which is the GPU room that a typical
// pod could not use, over the kinds of pods that the workload is known to have.
type FGD struct{ kinds []Kind }

// NewFGD knows the workload from its beginning to its end.
func NewFGD(w *Workload) *FGD { return &FGD{kinds: w.Typical()} }

// Arrive implements Scorer.
func (*FGD) Arrive(*Class) bool { return false }

// Score implements Scorer.
func (f *FGD) Score(r *Room, c *Class) (int64, int) {
	before := f.fragmentation(r)
	if !c.Shared() {
		after := *r
		c.Take(&after, -1)
		return squash(before - f.fragmentation(&after)), -1
	}
	best, card := int64(-1), -1
	for i, free := range r.Cards[:r.GPUs] {
		if free < c.Milli {
			continue
		}
		after := *r
		c.Take(&after, i)
		if s := squash(before - f.fragmentation(&after)); s > best {
			best, card = s, i
		}
	}
	return best, card
}

// squash makes a score from 0 to 100 of a difference in thousandths of a GPU. That it is coarse is part of the policy: many
// nodes are equal, and their order decides.
func squash(gain float64) int64 { return int64(100 / (1 + math.Exp(-gain/1000))) }

// fragmentation is the GPU room of the node, in thousandths, that a typical pod can be expected not to be able to use.
func (f *FGD) fragmentation(r *Room) float64 {
	sum, idle := 0.0, float64(r.Idle())
	for i := range f.kinds {
		k := &f.kinds[i]
		if k.GPUs == 0 || k.Models&r.Model == 0 || k.CPU > r.CPU {
			sum += k.Share * idle
			continue
		}
		n, small := 0, 0
		for _, free := range r.Cards[:r.GPUs] {
			if free >= k.Milli {
				n++
			} else {
				small += free
			}
		}
		if n < k.GPUs {
			sum += k.Share * idle
			continue
		}
		sum += k.Share * float64(small)
	}
	return sum
}
