package preempt

import (
	"cmp"
	"slices"
	"time"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/quantity"
)

// What evicting a pod loses, in thousandths of GPU-seconds: the work since the pod last saved it, and the time to
// start again. A part of a GPU counts as its share. A pod without GPUs counts as a thousandth of a GPU, so that no
// work is free. What stays until the next one runs (surge.go) loses no work: it costs the time in which both hold
// GPUs.
//
// For example, a pod with 8 GPUs has run for 65 minutes, saves its work every 20 minutes and takes 2 minutes to
// start. It loses 5 minutes of work and 2 minutes of starting: 8,000 * 420 s = 3,360,000. Evicted five minutes
// earlier, just after it had saved, it would have cost 960,000.

// longest bounds what unsaved work is worth: a pod that never says when it saves may have run for weeks, and its cost
// would outweigh everything. The bound also keeps sums of costs far from overflowing.
const longest = time.Hour

// span is pods of one unit that have run for the same time. Most gangs are one span, so the cost of a gang is one
// product.
type span struct {
	// started is when they started; zero: unknown, and they count as having run for long.
	started time.Time
	// weight is how many thousandths of GPUs they have together.
	weight int64
	// pods is how many they are; their cost is at least as much.
	pods int64
	// gpus is how many GPUs they have as nodes count them: of replicas that are each a quarter of one, four for each GPU.
	gpus int64
}

// spansOf sorts the pods by how long they have run. Only neighbours are joined: pods of a gang mostly started
// together.
func spansOf(pods []*cluster.Pod) []span {
	var out []span
	for _, p := range pods {
		//mutate: cost-parts -> int64(1)
		weight := max(1, p.Weight())
		gpus := p.Amount(quantity.DimGPU)
		if last := len(out) - 1; last >= 0 && out[last].started.Equal(p.Started) {
			out[last].weight += weight
			out[last].pods++
			out[last].gpus += gpus
			continue
		}
		out = append(out, span{p.Started, weight, 1, gpus})
	}
	return out
}

// costOf is what evicting the unit now loses. It grows with time and falls when work is saved, so it is asked for
// anew with each claim.
func (s *Candidates) costOf(u *unit, now time.Time) int64 {
	restart := s.restartOf(u.of.terms)
	var sum int64
	for _, w := range u.spans {
		lost := restart
		//mutate: cost-surge
		if !u.surge {
			lost += unsaved(w.started, u.of.terms.Checkpoint, now)
		}
		sum += w.cost(lost)
	}
	return sum
}

// longestRestart bounds what starting again counts, whatever its author says, for the same two reasons.
const longestRestart = 24 * time.Hour

// restartOf is the time that work on these terms takes to start again.
func (s *Candidates) restartOf(t *api.Terms) time.Duration {
	//mutate: cost-restart-bounded -> cmp.Or(t.Restart, s.m.Config.Restart)
	return min(cmp.Or(t.Restart, s.m.Config.Restart), longestRestart)
}

// cost is what it costs that the pods lose so much time.
func (w *span) cost(lost time.Duration) int64 {
	return max(w.pods, w.weight*int64(lost/time.Second))
}

// unsaved is the work that is lost: since the last checkpoint where there are some, and never more than without.
// Checkpoints are taken to be at whole multiples of their interval after the start.
func unsaved(started time.Time, checkpoint time.Duration, now time.Time) time.Duration {
	if started.IsZero() {
		if checkpoint > 0 {
			return min(checkpoint, longest)
		}
		return longest
	}
	run := max(0, now.Sub(started))
	lost := min(run, longest)
	if checkpoint > 0 {
		lost = min(lost, run%checkpoint)
	}
	return lost
}

// wakeWhenSaved wakes at the first checkpoint from which on the loss, of some of the units, can be below the most that
// it may be, which does not grow. Until then it is not: what a unit loses grows but for its checkpoints, and at the
// first of these it falls by what is unsaved now.
//
// For example, a move loses 300 GPU-minutes and may lose 200. One unit saves 60 of them in a minute, another 90 in
// ten: so the plan is made again in ten minutes.
func (c *claim) wakeWhenSaved(units []*unit, loss int64, most func(at time.Time) int64) {
	now := c.y.Now
	type saving struct {
		at     time.Time
		amount int64
	}
	var all []saving
	for _, u := range units {
		every, restart := u.of.terms.Checkpoint, c.y.Candidates.restartOf(u.of.terms)
		if u.surge || every <= 0 {
			continue // it has nothing to save, or never does
		}
		for _, w := range u.spans {
			if w.started.IsZero() {
				continue // it is not known when it saves
			}
			run := max(0, now.Sub(w.started))
			amount := w.cost(restart+unsaved(w.started, every, now)) - w.cost(restart)
			all = append(all, saving{w.started.Add(run - run%every + every), amount})
		}
	}
	slices.SortFunc(all, func(a, b saving) int { return a.at.Compare(b.at) })
	for _, s := range all {
		//mutate: move-saved-wakes
		if loss -= s.amount; loss < most(s.at) {
			c.y.Wake(s.at)
			return
		}
	}
}
