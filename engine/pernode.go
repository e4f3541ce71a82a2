package engine

import (
	"slices"
	"time"

	"github.com/berth-dev/berth/engine/internal/attempt"
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/index"
	"github.com/berth-dev/berth/engine/why"
)

// PerNode counts for every node, as a domain of its own, how many pods like this one would fit there now if it were
// alone in line and in its gang, and what keeps it out. Of several GPU models the first counts. Features that the
// engine does not decide are not looked at. It is false for a pod that is not to be placed. The state is the same
// before and after; the certificate shares memory with later ones: do not write to it.
func (s *State) PerNode(key string, now time.Time) (cert why.Certificate, ok bool) {
	ok = s.alone(key, now, func(y *cycle, p *cluster.Pod) {
		model := slices.Concat(y.attempts.Models(p.In), p.GPU.Models, []string{""})[0]
		c := y.attempts.Kin(p.In, p.In.TurnNow(), attempt.Way{Model: model}).Class(p)
		cert, _ = s.ix.Certify(index.Question{Class: c, Need: 1, Level: cluster.NodeLevel})
	})
	return cert, ok
}

// alone asks about a pod as if it were alone in line and in its gang, and reports whether it is one to be placed.
func (s *State) alone(key string, now time.Time, ask func(*cycle, *cluster.Pod)) bool {
	s.freshen()
	p := s.m.Pods[key]
	if p == nil || p.In == nil {
		return false
	}
	y := s.newCycle(now)
	var waits bool
	y.undone(func() {
		y.expire()
		if waits = p.Waits(); waits {
			y.attempts.Claim(p.In)
			ask(y, p)
		}
	})
	return waits
}
