package engine

import "time"

// What evicting a pod loses is counted in thousandths of GPU-seconds: the work since it last saved it, and starting
// again. A pod without GPUs counts as a thousandth of one, so that no work is free.

// longest is the most that work which is not known to be saved is worth.
const longest = time.Hour

// costOf is what evicting the pod now loses.
func (s *State) costOf(p *pod, now time.Time) int64 {
	t := s.termsOf(p)
	restart := t.Restart
	if restart <= 0 {
		restart = s.cfg.Restart
	}
	weight := int64(1)
	if gpus := p.amount(dimGPU); gpus > 0 {
		weight = 1000 * gpus
	}
	return max(1, weight*int64((unsaved(p.Started, t.Checkpoint, now)+restart)/time.Second))
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
