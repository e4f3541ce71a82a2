package preempt

import (
	"time"

	"github.com/berth-dev/berth/engine/internal/cluster"
)

// What evicting a pod loses is counted in thousandths of GPU-seconds: the work since it last saved it, and starting
// again. A part of a GPU counts as its share. A pod without GPUs counts as a thousandth of one, so that no work is free. What stays until the next one runs loses
// no work: it costs the time in which both hold GPUs.

// longest is the most that work which is not known to be saved is worth.
const longest = time.Hour

// span is pods that have run for the same time, and how much they count.
type span struct {
	started time.Time
	weight  int64
	pods    int64
}

// spansOf sorts the pods by how long they have run.
func spansOf(pods []*cluster.Pod) []span {
	var out []span
	for _, p := range pods {
		//mutate: cost-parts -> int64(1)
		weight := max(1, p.Weight())
		if last := len(out) - 1; last >= 0 && out[last].started.Equal(p.Started) {
			out[last].weight += weight
			out[last].pods++
			continue
		}
		out = append(out, span{p.Started, weight, 1})
	}
	return out
}

// costOf is what evicting the unit now loses.
func (s *Candidates) costOf(u *unit, now time.Time) int64 {
	t := u.of.terms
	restart := t.Restart
	if restart <= 0 {
		restart = s.m.Config.Restart
	}
	var sum int64
	for _, w := range u.spans {
		lost := restart
		//mutate: cost-surge
		if !u.surge {
			lost += unsaved(w.started, t.Checkpoint, now)
		}
		sum += max(w.pods, w.weight*int64(lost/time.Second))
	}
	return sum
}

// unsaved is the work that is lost: since the last checkpoint where there are some, and never more than without.
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
